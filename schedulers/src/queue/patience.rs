//! Time for which jobs wait that failed.

use super::Nanos;

/// Time for which jobs wait that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The first wait after a failure; it doubles with each further one.
    pub backoff_min: Nanos,
    /// Maximum backoff.
    pub backoff_max: Nanos,
    /// After so long a sleeping job is tried again, even if nothing happened that may help it.
    pub sleep_max: Nanos,
}

impl Default for Patience {
    /// From a millisecond, which is some thousand decisions of others, to a second, which a person
    /// waits gladly; and five minutes of sleep, after which kube-scheduler looks again, too.
    fn default() -> Patience {
        const SECOND: Nanos = 1_000_000_000;
        Patience { backoff_min: SECOND / 1000, backoff_max: SECOND, sleep_max: 300 * SECOND }
    }
}

impl Patience {
    /// The wait after so many failures before this one.
    pub(super) fn backoff(self, failures: u32) -> Nanos {
        self.backoff_min.saturating_mul(1 << failures.min(20)).min(self.backoff_max)
    }

    /// The wait of a gang that was released after holding places, after so many times before: twice what
    /// anyone else waits at most, so that whoever wants the room has had it; and doubling up to 32 times
    /// that.
    pub(super) fn after_release(self, times: u32) -> Nanos {
        self.backoff_max.saturating_mul(2 << times.min(5))
    }
}
