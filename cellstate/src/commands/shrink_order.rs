//! The order in which the surplus tasks of a group end.

use omega_core::TaskState;

/// Chooses `count` of a group's tasks to end: pending tasks first, then placed tasks that have not started, then
/// running tasks, and the newest first among equals. Ended tasks are ignored.
///
/// [`Command::ResizeGroup`](omega_core::Command::ResizeGroup) ends tasks in this order.
///
/// ```
/// use omega_core::{MachineId, TaskState};
///
/// let machine = MachineId::first(0);
/// let (running, placed) = (TaskState::Running(machine), TaskState::Placed(machine));
/// let states = [TaskState::Pending, running, placed, running, placed];
/// assert_eq!(omega_cellstate::shrink_order((0..).zip(states), 4), [0, 4, 2, 3]);
/// ```
pub fn shrink_order(tasks: impl IntoIterator<Item = (u32, TaskState)>, count: u32) -> Vec<u32> {
    let place = |(index, state): (u32, TaskState)| match state {
        TaskState::Pending => Some((2, index)),
        TaskState::Placed(_) => Some((1, index)),
        TaskState::Running(_) => Some((0, index)),
        _ => None,
    };
    let mut order: Vec<(u8, u32)> = tasks.into_iter().filter_map(place).collect();
    order.sort_unstable_by(|one, other| other.cmp(one));
    order.into_iter().take(count as usize).map(|(_, index)| index).collect()
}
