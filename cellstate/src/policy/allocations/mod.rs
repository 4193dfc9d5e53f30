//! Allocations that differ from the request: resized tasks, and tasks with optional resources.

mod in_cell;

use super::{Ledger, Policy};
use omega_core::{Job, TaskGroup, Transaction};

/// Counts of resizes and of optional allocations since this process started. They are not part of the cell's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// Accepted resizes.
    pub resized: u64,
    /// Rejected resizes.
    pub resizes_refused: u64,
    /// Tasks that were placed with their optional resources.
    pub optional_met: u64,
    /// Tasks that were placed without their optional resources.
    pub optional_missed: u64,
}

/// The counters of allocations. The allocations themselves are stored with the jobs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocations {
    counts: AllocationCounts,
}

impl Ledger for Allocations {
    fn is_counting(&self) -> bool {
        false
    }
}

impl Policy for Allocations {
    type Columns = ();
    type Mirror = ();
    type Note = ();

    fn concerns(_: &Job, group: &TaskGroup) -> bool {
        group.optional.is_some()
    }

    fn concerns_transaction(txn: &Transaction) -> bool {
        !txn.resizes.is_empty()
    }
}
