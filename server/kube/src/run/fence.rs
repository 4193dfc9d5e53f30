//! The fence in front of writes: a process writes only while it knows that no other may lead.
//!
//! A process that was paused finds its time over before it sends the next request, whatever it had decided.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The time until which this process may write.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// This process may never write again: another one leads.
    Never,
    /// Until then, unless the lease is renewed.
    Then(Instant),
    /// Always: there is no leader election.
    Always,
}

/// The fence. Clones share it.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Mutex<Until>>);

impl Fence {
    /// Returns the fence of a process without leader election.
    #[must_use]
    pub fn open() -> Fence {
        Fence(Arc::new(Mutex::new(Until::Always)))
    }

    /// Returns the fence of a process that does not lead yet.
    #[must_use]
    pub fn closed() -> Fence {
        Fence(Arc::new(Mutex::new(Until::Never)))
    }

    /// Opens it until then.
    pub fn open_until(&self, then: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Until::Then(then);
    }

    /// Closes it.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Until::Never;
    }

    /// Whether a request may be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Until::Never => false,
            Until::Then(then) => Instant::now() < then,
            Until::Always => true,
        }
    }
}
