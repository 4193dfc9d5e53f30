//! Progress of the workers: the cell's changes that they have seen, and the tasks that they cannot place.

use crate::driver::message::IdleState;
use crate::driver::window::Window;
use omega_core::Version;
use omega_workload::{Arrival, RunTime};
use std::collections::VecDeque;

/// Length of a gap between the workload's events above which, with [`crate::Pace::Fastest`], all waiting jobs are tried
/// again before the gap.
pub(crate) const GAP_MS: u64 = 10_000;

/// Longest wait of a job between an event that may help it and its next attempt (`Backoff::backoff_max`). Before a
/// longer gap between the workload's events, the feeder advances the schedulers' clock past this wait; otherwise a
/// machine could stay idle until the next arrival.
pub(crate) const RETRY_MS: u64 = 1000;

/// Part of the mean run time of tasks by which the workload's clock may be ahead of the workers: while they are behind,
/// what they could use is idle, and younger jobs arrive.
const LEAD_PART: u64 = 50;

/// Longest lead (see [`Watch::is_near`]).
const LEAD_MAX_MS: u64 = 30_000;

/// Time by which the workload's clock may be ahead of the workers.
fn lead_ms(arrivals: &[Arrival]) -> u64 {
    let (mut tasks, mut total_ms) = (0, 0);
    for Arrival { job, run, .. } in arrivals {
        let runs: (u64, u64) = match run {
            RunTime::Forever => (0, 0),
            RunTime::Same(ms) => (job.task_count(), job.task_count().saturating_mul(*ms)),
            RunTime::Each(each) => {
                let known = || each.iter().flatten();
                (known().count() as u64, known().fold(0, |sum: u64, ms| sum.saturating_add(*ms)))
            }
        };
        (tasks, total_ms) = (tasks + runs.0, runs.1.saturating_add(total_ms));
    }
    let mean_ms: Option<u64> = total_ms.checked_div(tasks);
    mean_ms.map_or(LEAD_MAX_MS, |mean_ms| (mean_ms / LEAD_PART).min(LEAD_MAX_MS))
}

/// The progress of all workers. See the module documentation.
pub(crate) struct Watch {
    window: Window,
    /// State of each worker.
    idle: Vec<IdleState>,
    /// A version of the cell that includes all changes so far.
    changed: Version,
    /// The workload's time at which all jobs had last been tried.
    tried_ms: u64,
    /// Times of the workload at which tasks arrived, with the number of tasks that had arrived by then. Times before
    /// the lead are forgotten.
    arrived: VecDeque<(u64, u64)>,
    /// Number of tasks that had arrived before the times in `arrived`.
    arrived_before: u64,
    lead_ms: u64,
    /// The workload's time at which the workers were last woken while the feeder went on.
    woken_ms: u64,
    /// Whether time was skipped since a worker last reported its state.
    has_skipped: bool,
    /// Whether tasks were evicted or commands answered since the workers were last woken.
    is_stirred: bool,
}

impl Watch {
    /// Creates a watch over this many workers, with a window of this size (see [`Window::new`]), for a workload with
    /// these arrivals.
    pub(crate) fn new(window: usize, workers: usize, arrivals: &[Arrival]) -> Watch {
        Watch {
            window: Window::new(window, workers),
            idle: vec![IdleState::default(); workers],
            changed: Version(0),
            tried_ms: 0,
            arrived: VecDeque::new(),
            arrived_before: 0,
            lead_ms: lead_ms(arrivals),
            woken_ms: 0,
            has_skipped: false,
            is_stirred: false,
        }
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.idle.len()
    }

    /// Counts arrivals or ends of tasks.
    pub(crate) fn tasks_changed(&mut self, tasks: u64) {
        self.window.changed(tasks);
    }

    /// Records the cell's version after changes up to this time of the workload, and the number of commands without an
    /// answer.
    pub(crate) fn changed(&mut self, version: Version, at_ms: u64, on_the_way: usize) {
        self.changed = version;
        match on_the_way {
            0 => self.window.applied(version, at_ms),
            _ => self.window.sent(at_ms),
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

    /// Newest version that every worker has seen.
    pub(crate) fn version_seen_by_all(&self) -> Version {
        self.window.version_seen_by_all()
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

    /// Records that this many tasks have arrived by this time of the workload.
    pub(crate) fn arrived(&mut self, at_ms: u64, tasks: u64) {
        if self.arrived.back().is_none_or(|(_, before)| *before < tasks) {
            self.arrived.push_back((at_ms, tasks));
        }
    }

    /// Whether an event at this time of the workload is not too far ahead of the workers: they have seen all changes
    /// before the lead, and as many tasks were tried as had arrived before it. `tasks` have arrived, and `pending` of
    /// these have no machine.
    pub(crate) fn is_near(&mut self, at_ms: u64, tasks: u64, pending: usize) -> bool {
        let from_ms = at_ms.saturating_sub(self.lead_ms);
        while let Some((_, tasks)) = self.arrived.pop_front_if(|(at_ms, _)| *at_ms < from_ms) {
            self.arrived_before = tasks;
        }
        let untried = pending.saturating_sub(self.unplaceable()) as u64;
        tasks.saturating_sub(untried) >= self.arrived_before
            && self.window.unseen_ms().is_none_or(|unseen_ms| unseen_ms >= from_ms)
    }

    /// Length of a gap between events before which jobs are retried that a change may help.
    pub(crate) fn gap_ms(&self) -> u64 {
        self.lead_ms.max(RETRY_MS)
    }

    /// Number of pending tasks that found no machine.
    fn unplaceable(&self) -> usize {
        self.idle.iter().map(|idle| idle.unplaceable).sum()
    }

    /// Whether time may be skipped without waiting for a message. If so, records the skip, so that the workers can act
    /// before more time is skipped.
    pub(crate) fn may_skip(&mut self) -> bool {
        !std::mem::replace(&mut self.has_skipped, true)
    }

    /// Whether the clock may advance while this many tasks have no machine.
    pub(crate) fn may_go_on(&mut self, pending: usize) -> bool {
        let unplaceable = self.unplaceable();
        self.window.is_open(pending.saturating_sub(unplaceable))
    }

    /// Returns whether there are pending tasks that found no machine.
    pub(crate) fn has_unplaceable(&self) -> bool {
        self.idle.iter().any(|idle| idle.unplaceable > 0)
    }

    /// Whether every worker has tried all jobs as of the last change.
    pub(crate) fn have_caught_up(&self) -> bool {
        self.have_nothing_to_try() && self.idle.iter().all(|idle| idle.has_tried_all)
    }

    /// Whether every worker had no job to try after the last change.
    pub(crate) fn have_nothing_to_try(&self) -> bool {
        self.idle.iter().all(|idle| idle.version >= self.changed)
    }

    /// Whether some worker will retry a job because of a change after the job's last attempt.
    pub(crate) fn owes_retry(&self) -> bool {
        self.idle.iter().any(|idle| idle.owes_retry)
    }

    /// Whether no pending task would be placed if the run continued. Jobs that failed many times, whose retries come up
    /// to [`RETRY_MS`] later, have then been retried.
    pub(crate) fn are_settled(&self) -> bool {
        self.idle.iter().all(|idle| idle.settled)
    }

    /// Whether to wake the workers although the feeder continues. If so, records that they were woken.
    pub(crate) fn is_worth_a_wake(&mut self, now_ms: u64) -> bool {
        // Within the lead, workers see changes while the feeder goes on.
        let is_late = now_ms >= self.woken_ms.saturating_add(self.lead_ms / 2);
        let is_worth_it = self.window.is_worth_a_wake() || (is_late && self.window.owes_a_wake());
        if is_late || is_worth_it {
            self.woken_ms = now_ms;
        }
        is_worth_it
    }

    /// Whether there are changes for which the workers were not woken. If so, records that they were woken.
    pub(crate) fn owes_a_wake(&mut self) -> bool {
        self.window.owes_a_wake()
    }

    /// Records that tasks were evicted or moved, or that commands were answered.
    pub(crate) fn stir(&mut self) {
        self.is_stirred = true;
    }

    /// Whether [`Watch::stir`] was called since the last call of this function.
    pub(crate) fn was_stirred(&mut self) -> bool {
        std::mem::take(&mut self.is_stirred)
    }
}
