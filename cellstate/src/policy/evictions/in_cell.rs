//! Evictions in the cell: their limit and counts.

use super::{EvictionCounts, Evictions};
use crate::cell::{Cell, Change};
use crate::commit::Review;
use crate::policy::CellPolicy;
use crate::policy::set::Listed;
use omega_core::{Conflict, Item};

impl CellPolicy for Evictions {
    fn check_all(cell: &Cell, review: &Review<'_>, note: &mut u32, late: &mut Vec<Conflict>) {
        *note = cell.late_evictions(review, late);
    }

    fn settle(cell: &mut Cell, review: &Review<'_>, reclaimed: u32) {
        if review.steps.is_empty() {
            return;
        }
        let stayed = review.conflicts.iter().filter(|c| matches!(c.item, Item::Eviction(_)));
        let taken = review.txn.evictions.len() - stayed.count();
        cell.count_evictions(taken as u32, reclaimed);
    }
}

impl Cell {
    /// The number of evictions that the limit allows now; `None` if there is no limit.
    #[must_use]
    pub fn evictions_left(&self) -> Option<u32> {
        let cap = self.policy.eviction_cap?;
        Some(u64::from(cap.count).saturating_sub(self.policies.evictions.log.sum) as u32)
    }

    /// Counts of evictions since this process started.
    #[must_use]
    pub fn eviction_counts(&self) -> EvictionCounts {
        self.policies.evictions.counts
    }

    /// Counts accepted evictions. `reclaimed` is the number of those that only a tenant's guarantee allows.
    fn count_evictions(&mut self, taken: u32, reclaimed: u32) {
        let Evictions { log, counts } = &mut self.policies.evictions;
        counts.by_guarantee += u64::from(reclaimed);
        counts.by_precedence += u64::from(taken - reclaimed);
        if self.policy.eviction_cap.is_some() && taken > 0 {
            log.add(self.now_ms, taken);
        }
    }

    /// The times of evictions within the span of the limit, ascending, each with the number of evictions.
    pub(crate) fn counted_evictions(&self) -> impl Iterator<Item = (u64, u32)> {
        self.policies.evictions.log.iter()
    }

    /// Removes evictions that are older than the span of the limit. Returns whether there were any.
    pub(crate) fn refill_evictions(&mut self) -> bool {
        self.policies.evictions.log.prune(self.now_ms, self.policy.eviction_cap)
    }

    /// Logs that the cell may accept evictions that it rejected before.
    pub(crate) fn log_evictions(&mut self) {
        self.log.push(Change::Policy(Evictions::BIT));
    }
}
