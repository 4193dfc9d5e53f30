//! Retries of jobs that found no machine, where the clock of the workload is faster than that of the schedulers.
//!
//! A scheduler retries a job at most [`RETRY_MS`] after an event that may help it. The schedulers' clock shows real time, in
//! which hours of the workload pass in an instant. So the feeder skips the wait of such jobs before the workload's clock
//! passes the time of their retry: a machine must not stay idle until the next arrival.

/// Longest wait of a job between an event that may help it and its next attempt (`Patience::backoff_max`).
pub(super) const RETRY_MS: u64 = 1000;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// The workload's time at which all jobs had last been tried.
    tried_ms: u64,
    /// Whether time was skipped since a worker last told its state.
    skipped: bool,
}

impl Retries {
    /// Records that all jobs have been tried at this time of the workload.
    pub(super) fn tried(&mut self, now_ms: u64) {
        self.tried_ms = now_ms;
    }

    /// Whether the workload's clock may advance to this time: no job would have been retried before it.
    pub(super) fn may_go_on(&self, at_ms: u64) -> bool {
        at_ms <= self.tried_ms.saturating_add(RETRY_MS)
    }

    /// Whether to skip time now, without waiting for a message. Records it, so that the workers can act before more time is
    /// skipped.
    pub(super) fn skip(&mut self) -> bool {
        !std::mem::replace(&mut self.skipped, true)
    }

    /// Records that a worker has told its state.
    pub(super) fn told(&mut self) {
        self.skipped = false;
    }
}
