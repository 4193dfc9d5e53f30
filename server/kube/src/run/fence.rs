//! The fence for writes: a process writes only while no other process can be the leader.
//!
//! The fence is checked right before each request is sent. So if a process is paused until its lease has expired, it
//! sends nothing afterwards, whatever it decided before.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The time until which this process may write.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// This process may not write, because it is not the leader.
    Never,
    /// This process may write until this time. A renewal of the lease sets a later time.
    Then(Instant),
    /// This process may always write, because there is no leader election.
    Always,
}

impl Until {
    fn is_open(self) -> bool {
        match self {
            Until::Never => false,
            Until::Then(then) => Instant::now() < then,
            Until::Always => true,
        }
    }
}

/// The fence. Clones share its state.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Mutex<Until>>);

impl Fence {
    /// Returns the fence of a process without leader election.
    #[must_use]
    pub fn open() -> Fence {
        Fence(Arc::new(Mutex::new(Until::Always)))
    }

    /// Returns the fence of a process that is not the leader yet.
    #[must_use]
    pub fn closed() -> Fence {
        Fence(Arc::new(Mutex::new(Until::Never)))
    }

    /// Opens the fence until this time.
    pub fn open_until(&self, then: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Until::Then(then);
    }

    /// Keeps an open fence open until this time. Returns `false` if the fence has closed, and does not open it again.
    #[must_use]
    pub fn extend_until(&self, then: Instant) -> bool {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !until.is_open() {
            return false;
        }
        *until = Until::Then(then);
        true
    }

    /// Closes the fence.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Until::Never;
    }

    /// Whether a request may be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_closed_fence_is_not_extended() {
        let later = Instant::now() + Duration::from_secs(3600);
        let fence = Fence::closed();
        assert!(!fence.extend_until(later) && !fence.is_open());
        fence.open_until(later);
        assert!(fence.extend_until(later) && fence.is_open());
        fence.open_until(Instant::now());
        assert!(!fence.extend_until(later) && !fence.is_open(), "its time was over");
    }
}
