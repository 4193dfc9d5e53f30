//! Compares the events of a cell with its state: the last event of each task must give the task's present state.

use omega_cellstate::{Cell, Event, EventKind};
use omega_core::{TaskId, TaskState};

/// Size in bytes of a history of events that no test exceeds.
pub const BYTES: usize = 1 << 20;

/// The state of a task after an event; `None` if the event does not change it.
fn state(event: &Event) -> Option<TaskState> {
    let machine = event.machine.unwrap_or_default();
    Some(match &event.kind {
        EventKind::Placed { .. } | EventKind::Adopted => TaskState::Placed(machine),
        EventKind::Started => TaskState::Running(machine),
        EventKind::Finished => TaskState::Finished,
        EventKind::Failed => TaskState::Failed,
        EventKind::Killed => TaskState::Killed,
        EventKind::Requeued | EventKind::Lost | EventKind::Moved | EventKind::GangTimedOut => {
            TaskState::Pending
        }
        EventKind::Released { .. } | EventKind::Evicted { .. } => TaskState::Pending,
        _ => return None,
    })
}

/// The state of a task by its events. If a job was killed, one event is for all its unfinished tasks.
fn told(cell: &Cell, id: TaskId) -> TaskState {
    let of_task = |event: &&Event| event.index.is_none_or(|index| index == id.index);
    let states: Vec<TaskState> =
        cell.job_events(id.job).filter(of_task).filter_map(state).collect();
    let last = states.iter().find(|state| **state != TaskState::Killed);
    match (states.first(), last) {
        (Some(TaskState::Killed), Some(before)) if before.ended() => *before,
        (first, _) => first.copied().unwrap_or(TaskState::Pending),
    }
}

/// Compares events with the state.
///
/// # Errors
/// The first task with another state, or a machine whose events are out of order.
pub fn check(cell: &Cell) -> Result<(), String> {
    for (job, _) in cell.jobs() {
        for (id, state) in cell.tasks(job) {
            let told = told(cell, id);
            if told != state {
                return Err(format!("the events of task {id} tell {told:?}, it is {state:?}"));
            }
        }
    }
    for machine in cell.machines() {
        let numbers: Vec<u64> = cell.machine_events(machine.id).map(|event| event.number).collect();
        if !numbers.is_sorted_by(|newer, older| newer > older) || numbers.is_empty() {
            return Err(format!("the events of machine {} are {numbers:?}", machine.id));
        }
    }
    Ok(())
}
