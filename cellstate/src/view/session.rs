//! The identity of a view, and the version of the cell that it has reached.

use crate::delta::{Delta, Interest};
use omega_core::{SchedulerId, TransactionId, Version};

/// The scheduler of a view, and the version that the view has reached. See the module documentation.
#[derive(Debug)]
pub(super) struct Session {
    scheduler: SchedulerId,
    /// The number of the next transaction.
    next_number: u64,
    interest: Interest,
    version: Version,
    /// The cell's time at the version.
    now_ms: u64,
    /// The lineage of the view's tracker numbers. See [`Delta::lineage`].
    lineage: Version,
}

impl Session {
    /// A session before its first sync.
    pub(super) fn new(scheduler: SchedulerId, next_number: u64) -> Session {
        Session {
            scheduler,
            next_number,
            interest: Interest::Machines,
            version: Version(0),
            now_ms: 0,
            lineage: Version(0),
        }
    }

    /// A session before its first sync, which continues this session's transaction numbers.
    pub(super) fn anew(&self) -> Session {
        Session::new(self.scheduler, self.next_number)
    }

    pub(super) fn scheduler(&self) -> SchedulerId {
        self.scheduler
    }

    /// The id of the next transaction. Each call uses up a number.
    pub(super) fn next_transaction(&mut self) -> TransactionId {
        let number = self.next_number;
        self.next_number += 1;
        TransactionId { scheduler: self.scheduler, number }
    }

    pub(super) fn interest(&self) -> &Interest {
        &self.interest
    }

    pub(super) fn set_interest(&mut self, interest: Interest) {
        self.interest = interest;
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(super) fn lineage(&self) -> Version {
        self.lineage
    }

    /// Checks that a delta starts at the version of the view.
    ///
    /// # Panics
    /// The delta starts at another version. Applying it would make the view wrong.
    pub(super) fn check(&self, delta: &Delta) {
        if !delta.full {
            assert_eq!(delta.from, self.version, "a delta starts where the view is");
            assert_eq!(delta.lineage, self.lineage, "a delta goes on with the view's numbers");
        }
    }

    /// Advances to the version at which a delta ends.
    pub(super) fn advance(&mut self, delta: &Delta) {
        self.version = delta.to;
        self.now_ms = delta.now_ms;
        self.lineage = delta.lineage;
    }

    /// Goes back to version 0, so that the next sync is a full one.
    pub(super) fn start_over(&mut self) {
        self.version = Version(0);
    }
}
