//! Progress of the workers: the cell's changes that they have seen, and the tasks that they cannot place.

use crate::driver::message::IdleState;
use crate::driver::window::Window;
use omega_core::Version;

/// Length of a gap between the workload's events above which, with [`crate::Pace::Fastest`], waiting jobs are tried
/// again before the gap. Before shorter gaps, this would make the feeder and the workers wait for each other too often.
/// So a job may wait up to this much longer than with [`crate::Pace::InTurns`].
pub(crate) const GAP_MS: u64 = 10_000;

/// Longest wait of a job between an event that may help it and its next attempt (`Patience::backoff_max`). The attempt
/// is due by the schedulers' clock, which shows real time, while the workload's clock passes hours in an instant. So
/// the feeder advances the schedulers' clock past this wait before the workload continues; otherwise a machine could
/// stay idle until the next arrival.
pub(crate) const RETRY_MS: u64 = 1000;

/// The progress of all workers. See the module documentation.
pub(crate) struct Watch {
    window: Window,
    /// State of each worker.
    idle: Vec<IdleState>,
    /// A version of the cell that includes all changes so far.
    changed: Version,
    /// The workload's time at which all jobs had last been tried.
    tried_ms: u64,
    /// Whether time was skipped since a worker last reported its state.
    has_skipped: bool,
}

impl Watch {
    /// Creates a watch over this many workers, with a window of this size (see [`Window::new`]).
    pub(crate) fn new(window: usize, workers: usize) -> Watch {
        let idle = vec![IdleState::default(); workers];
        let window = Window::new(window, workers);
        Watch { window, idle, changed: Version(0), tried_ms: 0, has_skipped: false }
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.idle.len()
    }

    /// Counts arrivals or ends of tasks.
    pub(crate) fn tasks_changed(&mut self, tasks: u64) {
        self.window.changed(tasks);
    }

    /// Records the cell's version after changes, and the number of commands without an answer.
    pub(crate) fn changed(&mut self, version: Version, on_the_way: usize) {
        self.changed = version;
        if on_the_way == 0 {
            self.window.applied(version);
        }
    }

    /// Records a version that every worker must see before it counts as having tried all jobs.
    pub(crate) fn must_see(&mut self, version: Version) {
        self.changed = self.changed.max(version);
    }

    /// Records the version that a worker has seen.
    pub(crate) fn seen(&mut self, worker: usize, version: Version) {
        self.window.seen(worker, version);
    }

    /// Records that a worker has no job to try.
    pub(crate) fn idle(&mut self, worker: usize, state: IdleState) {
        self.window.seen(worker, state.version);
        self.idle[worker] = state;
        self.has_skipped = false;
    }

    /// Records that all jobs have been tried at this time of the workload.
    pub(crate) fn tried_all(&mut self, now_ms: u64) {
        self.tried_ms = now_ms;
    }

    /// The workload's time at which all jobs had last been tried.
    pub(crate) fn tried_ms(&self) -> u64 {
        self.tried_ms
    }

    /// Whether time may be skipped without waiting for a message. If so, records the skip, so that the workers can act
    /// before more time is skipped.
    pub(crate) fn may_skip(&mut self) -> bool {
        !std::mem::replace(&mut self.has_skipped, true)
    }

    /// Whether the clock may advance while this many tasks have no machine.
    pub(crate) fn may_go_on(&mut self, pending: usize) -> bool {
        let unplaceable: usize = self.idle.iter().map(|idle| idle.unplaceable).sum();
        self.window.is_open(pending.saturating_sub(unplaceable))
    }

    /// Returns whether there are pending tasks that found no machine.
    pub(crate) fn has_unplaceable(&self) -> bool {
        self.idle.iter().any(|idle| idle.unplaceable > 0)
    }

    /// Whether every worker has tried all jobs as of the last change.
    pub(crate) fn have_caught_up(&self) -> bool {
        self.idle.iter().all(|idle| idle.version >= self.changed)
    }

    /// Whether no pending task would be placed if the run continued. Jobs that failed many times, whose retries come up
    /// to [`RETRY_MS`] later, have then been retried.
    pub(crate) fn are_settled(&self) -> bool {
        self.idle.iter().all(|idle| idle.settled)
    }

    /// Whether to wake the workers although the feeder continues. If so, records that they were woken.
    pub(crate) fn is_worth_a_wake(&mut self) -> bool {
        self.window.is_worth_a_wake()
    }

    /// Whether there are changes for which the workers were not woken. If so, records that they were woken.
    pub(crate) fn owes_a_wake(&mut self) -> bool {
        self.window.owes_a_wake()
    }
}
