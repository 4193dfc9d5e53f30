//! Progress of the workers: the cell's changes that they have seen, and the tasks that they cannot place.

use super::message::IdleState;
use super::window::Window;
use omega_core::Version;

/// See the head of the file.
pub(super) struct Watch {
    window: Window,
    /// State of each worker.
    idle: Vec<IdleState>,
    /// A version of the cell that includes all changes so far.
    changed: Version,
}

impl Watch {
    /// Creates a watch over this many workers, with a window of this size (see [`Window::new`]).
    pub(super) fn new(window: usize, workers: usize) -> Watch {
        let idle = vec![IdleState::default(); workers];
        Watch { window: Window::new(window, workers), idle, changed: Version(0) }
    }

    /// The number of workers.
    pub(super) fn workers(&self) -> usize {
        self.idle.len()
    }

    /// Counts arrivals or ends of tasks.
    pub(super) fn tasks_changed(&mut self, tasks: u64) {
        self.window.changed(tasks);
    }

    /// Records the cell's version after changes, and the number of commands without an answer.
    pub(super) fn changed(&mut self, version: Version, on_the_way: usize) {
        self.changed = version;
        if on_the_way == 0 {
            self.window.applied(version);
        }
    }

    /// Records a version that all workers must see before they can have tried everything.
    pub(super) fn must_see(&mut self, version: Version) {
        self.changed = self.changed.max(version);
    }

    /// Records the version that a worker has seen.
    pub(super) fn seen(&mut self, worker: usize, version: Version) {
        self.window.seen(worker, version);
    }

    /// Records that a worker has no job to try.
    pub(super) fn idle(&mut self, worker: usize, state: IdleState) {
        self.window.seen(worker, state.version);
        self.idle[worker] = state;
    }

    /// Whether the clock may advance while this many tasks have no machine.
    pub(super) fn may_go_on(&mut self, pending: usize) -> bool {
        let unplaceable: usize = self.idle.iter().map(|idle| idle.unplaceable).sum();
        self.window.is_open(pending.saturating_sub(unplaceable))
    }

    /// Whether every worker has tried all jobs as of the last change.
    pub(super) fn have_caught_up(&self) -> bool {
        self.idle.iter().all(|idle| idle.version >= self.changed)
    }

    /// Whether no pending task would be placed if the run continued. Jobs that failed many times are retried up to a
    /// second later, and the run's end waits for that.
    pub(super) fn are_settled(&self) -> bool {
        self.idle.iter().all(|idle| idle.settled)
    }

    /// Whether to wake the workers although the feeder continues. If so, records that they were woken.
    pub(super) fn is_worth_a_wake(&mut self) -> bool {
        self.window.is_worth_a_wake()
    }

    /// Whether there are changes for which the workers were not woken. If so, records that they were woken.
    pub(super) fn owes_a_wake(&mut self) -> bool {
        self.window.owes_a_wake()
    }
}
