//! Tasks that wait for a permit, and the handle that allows or rejects them.
//!
//! A permit plugin may let a task wait, for example for the rest of its group, for a volume, or for a person's
//! decision. Meanwhile the scheduler continues. The thread that allows or rejects the task has a clone of the handle.
//! The scheduler handles allowed and rejected tasks at the beginning of each step, and after each placement decision.

use crate::framework::events::Events;
use crate::queue::Nanos;
use omega_core::{MachineId, TaskId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names of plugins.
type Names = SmallVec<[&'static str; 2]>;

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    /// Id of the task.
    pub task: TaskId,
    /// The machine that is kept for the task.
    pub machine: MachineId,
    /// Earliest timeout of the plugins that let the task wait, in the scheduler's time.
    pub until: Nanos,
    /// The plugins that have not allowed the task yet. If there are none, the task waits for other tasks of its gang.
    pub plugins: Names,
}

/// State of a task that waits for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The task still waits.
    Waits,
    /// All plugins have allowed it.
    Allowed,
    /// Rejected or timed out. Has the name of the plugin that rejected the task or let it wait.
    Refused(&'static str),
}

#[derive(Debug)]
struct Wait {
    task: WaitingTask,
    refused: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Shared {
    tasks: BTreeMap<TaskId, Wait>,
    /// Whether a task was allowed or rejected since the scheduler last checked.
    answered: bool,
    /// Earliest timeout of any wait.
    earliest: Nanos,
    raised: Events,
}

/// A handle to the tasks of one scheduler that wait for a permit. Clones refer to the same tasks.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// The waiting tasks. No other lock is taken while this lock is held.
    shared: Arc<Mutex<Shared>>,
}

impl Waiting {
    /// The waiting tasks, ascending by id.
    #[must_use]
    pub fn list(&self) -> Vec<WaitingTask> {
        self.shared().tasks.values().map(|wait| wait.task.clone()).collect()
    }

    /// Allows a task on behalf of a plugin. The task continues once all plugins that let it wait have allowed it.
    /// Returns whether the task waited for this plugin.
    pub fn allow(&self, task: TaskId, plugin: &str) -> bool {
        let mut shared = self.shared();
        let Some(wait) = shared.tasks.get_mut(&task) else { return false };
        let plugins = &mut wait.task.plugins;
        let before = plugins.len();
        plugins.retain(|name| *name != plugin);
        let waited = plugins.len() < before;
        shared.answered |= waited;
        waited
    }

    /// Rejects a task and undoes its claim, whichever plugin the task waits for. `by` is the name of the rejecting
    /// plugin. Returns whether the task was waiting.
    pub fn refuse(&self, task: TaskId, by: &'static str) -> bool {
        let mut shared = self.shared();
        let Some(wait) = shared.tasks.get_mut(&task) else { return false };
        wait.refused.get_or_insert(by);
        shared.answered = true;
        true
    }

    /// Wakes jobs of the scheduler by an external event: [`Events::EXTERNAL`], or any other event that its plugins wake
    /// on.
    pub fn raise(&self, events: Events) {
        self.shared().raised |= events;
    }

    /// Whether this is the last handle. Then the scheduler has been dropped.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Events raised since the last call.
    pub(crate) fn take_raised(&self) -> Events {
        std::mem::take(&mut self.shared().raised)
    }

    /// Adds a task.
    pub(crate) fn insert(&self, task: WaitingTask) {
        let mut shared = self.shared();
        shared.earliest = shared.earliest.min(task.until);
        shared.tasks.insert(task.task, Wait { task, refused: None });
    }

    /// Removes a task.
    pub(crate) fn remove(&self, task: TaskId) {
        self.shared().tasks.remove(&task);
    }

    /// Whether a task was allowed or rejected since the last call, or has timed out.
    pub(crate) fn any_answer(&self, now: Nanos) -> bool {
        let mut shared = self.shared();
        if shared.earliest <= now {
            let times = shared.tasks.values().map(|wait| wait.task.until);
            let earliest = times.min().unwrap_or(Nanos::MAX);
            shared.answered |= earliest <= now;
            shared.earliest = earliest;
        }
        std::mem::take(&mut shared.answered)
    }

    /// Makes the next [`Waiting::any_answer`] return true, because some allowed or rejected tasks have not been
    /// handled.
    pub(crate) fn look_again(&self) {
        self.shared().answered = true;
    }

    /// Returns the outcome of a task. A task that does not wait counts as allowed.
    pub(crate) fn answer(&self, task: TaskId, now: Nanos) -> Answer {
        let shared = self.shared();
        let Some(wait) = shared.tasks.get(&task) else { return Answer::Allowed };
        match (wait.refused, wait.task.plugins.first()) {
            (Some(by), _) => Answer::Refused(by),
            (None, None) => Answer::Allowed,
            (None, Some(plugin)) if wait.task.until <= now => Answer::Refused(plugin),
            (None, Some(_)) => Answer::Waits,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Each change is a single operation, so the data is consistent even if a thread panicked.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
