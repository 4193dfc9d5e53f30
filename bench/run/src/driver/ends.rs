//! Ends of running tasks, ordered by time.

use omega_core::{MachineId, TaskId, Version};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Tasks that end together.
pub(crate) type Ending = Vec<(TaskId, MachineId)>;

/// Tasks that end, with the version of their placement. Tasks that were evicted after that version do not end.
pub(crate) type Since = (Version, Ending);

/// Future ends. Tasks that end at one time are stored together. As most jobs have many tasks with one run time, there
/// is little to sort.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// The time of each end, with the number of the list of its tasks.
    times: BinaryHeap<Reverse<(u64, u64)>>,
    /// The lists of tasks, numbered from `first`; a list is empty once its tasks have ended.
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

    /// Removes and returns the tasks that end first, if their end is not later than now.
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
