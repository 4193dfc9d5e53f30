//! Ends of running tasks, by time.

use omega_core::{MachineId, TaskId, Version};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Tasks that end together.
pub(crate) type Ending = Vec<(TaskId, MachineId)>;

/// Ends of tasks, with the version of their placement: tasks that were evicted since do not end.
pub(crate) type Since = (Version, Ending);

/// The ends to come. Tasks with one end are stored together: most jobs are many tasks with the same
/// run time, so there is little to sort.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// The time of each end, with the number of its tasks' list.
    times: BinaryHeap<Reverse<(u64, u64)>>,
    /// The lists, by number from `first` on; empty once they have ended.
    lists: VecDeque<Since>,
    first: u64,
}

impl Ends {
    /// Adds tasks that end together.
    pub(crate) fn add(&mut self, at_ms: u64, tasks: Since) {
        let number = self.first + self.lists.len() as u64;
        self.times.push(Reverse((at_ms, number)));
        self.lists.push_back(tasks);
    }

    /// The time of the next end.
    pub(crate) fn next(&self) -> Option<u64> {
        self.times.peek().map(|Reverse((at_ms, _))| *at_ms)
    }

    /// Removes tasks that have ended by now, those that ended first.
    pub(crate) fn pop(&mut self, now_ms: u64) -> Option<Since> {
        let Reverse((_, number)) = *self.times.peek().filter(|end| end.0.0 <= now_ms)?;
        self.times.pop();
        let tasks = std::mem::take(&mut self.lists[(number - self.first) as usize]);
        while self.lists.front().is_some_and(|(_, tasks)| tasks.is_empty()) {
            self.lists.pop_front();
            self.first += 1;
        }
        Some(tasks)
    }
}
