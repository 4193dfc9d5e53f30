//! Tasks that the cell has ordered, and that are not started yet.
//!
//! ```text
//!   directive to start ▶ ready ── one at a time, in this order ──▶ started
//!                          ▲ │ the task cannot start yet
//!                          │ ▼
//!                        waiting
//! ```
//!
//! A start takes milliseconds, and a cell may order thousands at once. So the runner starts one task at a time, and
//! follows all directives that have arrived before it starts the next. A task that is stopped leaves the queue, and is
//! never started. A task is at most once in the queue, because the cell stops a run before it orders the next one.

use omega_client::agent::Task;
use std::collections::BTreeMap;

/// The tasks to start, by their name in the driver. See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct StartQueue {
    /// Tasks to start now, by their number in the order of starts.
    ready: BTreeMap<u64, (String, Task)>,
    /// Numbers of the ready tasks.
    numbers: BTreeMap<String, u64>,
    /// Tasks to start later: after their earlier run on this machine has ended, after the delay that follows a failure
    /// or loss, or once their exclusive cores are free.
    waiting: BTreeMap<String, Task>,
    next_number: u64,
}

impl StartQueue {
    /// Adds a task to start after all other ready tasks.
    pub(crate) fn push(&mut self, name: String, task: Task) {
        self.remove(&name);
        self.numbers.insert(name.clone(), self.next_number);
        self.ready.insert(self.next_number, (name, task));
        self.next_number += 1;
    }

    /// Takes the task to start next.
    pub(crate) fn pop(&mut self) -> Option<(String, Task)> {
        let (_, (name, task)) = self.ready.pop_first()?;
        self.numbers.remove(&name);
        Some((name, task))
    }

    /// Adds a task that cannot start yet.
    pub(crate) fn wait(&mut self, name: String, task: Task) {
        self.waiting.insert(name, task);
    }

    /// Makes the waiting tasks ready that can start now.
    pub(crate) fn make_ready(&mut self, can_start: impl Fn(&str, &Task) -> bool) {
        let due = self.waiting.extract_if(.., |name, task| can_start(name, task));
        let due: Vec<(String, Task)> = due.collect();
        due.into_iter().for_each(|(name, task)| self.push(name, task));
    }

    /// Removes a task. Returns whether it was in the queue.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let number = self.numbers.remove(name);
        let ready = number.and_then(|number| self.ready.remove(&number));
        self.waiting.remove(name).is_some() || ready.is_some()
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Task> {
        match self.numbers.get(name) {
            Some(number) => self.ready.get_mut(number).map(|(_, task)| task),
            None => self.waiting.get_mut(name),
        }
    }

    /// Whether a task is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty()
    }
}
