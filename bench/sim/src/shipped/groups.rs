//! Running tasks in groups: the tasks that started together, in the order in which they end.

use crate::engine::Taken;
use omega_core::{MachineId, TaskId};
use std::collections::VecDeque;

/// A running task.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningTask {
    pub(super) id: TaskId,
    pub(super) machine: MachineId,
    /// Run time of the task; `u64::MAX` if it never ends.
    pub(super) run_ms: u64,
}

/// Tasks of a job that started together.
pub(super) struct Group {
    pub(super) job: usize,
    pub(super) scheduler: usize,
    /// The tasks in the order in which they end.
    tasks: VecDeque<RunningTask>,
    elapsed_ms: u64,
    /// Time from the start of the group to the next end of a task; `u64::MAX` if no task will end.
    next_ms: u64,
}

impl Group {
    /// Creates a group of tasks that start now. They may be in any order.
    pub(super) fn new(job: usize, scheduler: usize, mut tasks: Vec<RunningTask>) -> Group {
        tasks.sort_by_key(|task| task.run_ms);
        let mut group =
            Group { job, scheduler, tasks: tasks.into(), elapsed_ms: 0, next_ms: u64::MAX };
        group.look_ahead();
        group
    }

    /// Updates the time of the next end.
    pub(super) fn look_ahead(&mut self) {
        self.next_ms = self.tasks.front().map_or(u64::MAX, |task| task.run_ms);
    }

    /// Advances the time to the next end.
    pub(super) fn advance(&mut self) {
        self.elapsed_ms = self.elapsed_ms.max(self.next_ms);
    }

    /// Removes and returns a task that has ended.
    pub(super) fn pop_ended(&mut self) -> Option<RunningTask> {
        let elapsed_ms = self.elapsed_ms;
        self.tasks.pop_front_if(|task| task.run_ms <= elapsed_ms)
    }

    /// Milliseconds from the start of the group to the next end; `None` if no task will end.
    pub(super) fn next_ms(&self) -> Option<u64> {
        (self.next_ms < u64::MAX).then_some(self.next_ms)
    }

    /// Milliseconds from now to the next end; `None` if no task will end.
    pub(super) fn until_next_ms(&self) -> Option<u64> {
        self.next_ms().map(|next_ms| next_ms - self.elapsed_ms)
    }

    /// Whether no task is left.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The tasks on a machine.
    pub(super) fn on(&self, machine: MachineId) -> impl Iterator<Item = TaskId> {
        self.tasks.iter().filter(move |task| task.machine == machine).map(|task| task.id)
    }

    /// Removes the tasks on a machine.
    pub(super) fn remove_on(&mut self, machine: MachineId) {
        self.tasks.retain(|task| task.machine != machine);
    }
}

/// All groups by number. Numbers of freed groups are used again.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    free: Vec<u32>,
}

impl Groups {
    /// Adds a group, and returns its number.
    pub(super) fn add(&mut self, group: Group) -> Taken {
        let Some(number) = self.free.pop() else {
            self.groups.push(group);
            return Taken(self.groups.len() as u32 - 1);
        };
        self.groups[number as usize] = group;
        Taken(number)
    }

    /// Frees the number of a group, which has no tasks.
    pub(super) fn free(&mut self, number: Taken) {
        self.free.push(number.0);
    }

    /// The group with this number.
    pub(super) fn get(&self, number: Taken) -> &Group {
        &self.groups[number.0 as usize]
    }

    /// The group with this number.
    pub(super) fn get_mut(&mut self, number: Taken) -> &mut Group {
        &mut self.groups[number.0 as usize]
    }

    /// All groups with their numbers, including freed ones.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Taken, &mut Group)> {
        (0..).map(Taken).zip(&mut self.groups)
    }
}
