//! Delays of jobs whose tasks could not be placed.

use super::Nanos;

/// Delays of jobs whose tasks could not be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Wait after the first failure. It doubles with each further failure.
    pub backoff_min: Nanos,
    /// Maximum backoff.
    pub backoff_max: Nanos,
    /// Time after which a sleeping job is retried without an event.
    pub sleep_max: Nanos,
}

impl Default for Backoff {
    /// By default, the backoff is from a millisecond (about a thousand decisions) to a second, and a job sleeps at most
    /// five minutes, as in kube-scheduler.
    fn default() -> Backoff {
        const SECOND: Nanos = 1_000_000_000;
        Backoff { backoff_min: SECOND / 1000, backoff_max: SECOND, sleep_max: 300 * SECOND }
    }
}

impl Backoff {
    /// Backoff after a number of failures.
    pub(super) fn after_failures(self, failures: u32) -> Nanos {
        self.backoff_min.saturating_mul(1 << failures.min(20)).min(self.backoff_max)
    }

    /// Returns the backoff of a gang that has timed out `times` times before. The first backoff is twice the longest
    /// backoff of other jobs, so that other jobs can use the freed room. The backoff doubles with each timeout, up to
    /// 32 times the first one.
    pub(super) fn after_release(self, times: u32) -> Nanos {
        self.backoff_max.saturating_mul(2 << times.min(5))
    }
}
