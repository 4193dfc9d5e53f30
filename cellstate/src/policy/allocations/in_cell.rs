//! Counting of resizes and optional allocations.

use super::{AllocationCounts, Allocations};
use crate::cell::Cell;
use crate::commit::{Review, Step};
use crate::policy::CellPolicy;
use omega_core::Item;

impl CellPolicy for Allocations {
    fn settle(cell: &mut Cell, review: &Review<'_>, (): ()) {
        cell.count_allocations(review);
    }
}

impl Cell {
    /// Counts of resizes and of optional allocations since this process started.
    #[must_use]
    pub fn allocation_counts(&self) -> AllocationCounts {
        self.policies.allocations.counts
    }

    /// Counts the resizes and optional allocations of a transaction.
    fn count_allocations(&mut self, review: &Review<'_>) {
        let counts = &mut self.policies.allocations.counts;
        let refused = review.conflicts.iter();
        let refused = refused.filter(|conflict| matches!(conflict.item, Item::Resize(_))).count();
        counts.resizes_refused += refused as u64;
        counts.resized += (review.txn.resizes.len() - refused) as u64;
        let mut more = AllocationCounts::default();
        for step in review.steps {
            let Step::Placed { task, .. } = step else { continue };
            let Some((job, record)) = self.jobs.task(*task) else { continue };
            let Some(optional) = &job.need(record).optional else { continue };
            let part = job.part(task.index);
            let has_devices = optional.devices.is_none() || !part.chosen.is_empty();
            if has_devices && *part.request == *optional.request {
                more.optional_met += 1
            } else {
                more.optional_missed += 1
            }
        }
        let counts = &mut self.policies.allocations.counts;
        counts.optional_met += more.optional_met;
        counts.optional_missed += more.optional_missed;
    }
}
