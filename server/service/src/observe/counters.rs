//! Counters of each scheduler's transactions.
//!
//! Each replica counts the transactions that it answers, so the sum over all replicas covers the cell. The leader alone
//! could count applied transactions, but not transactions that are rejected before they get into the log.

use omega_core::{Commit, Item, SchedulerId, Version};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Counters of all schedulers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// The lock is taken to count a group of transactions, or to copy all counters. There is at most one entry for each
    /// registered scheduler.
    all: Mutex<BTreeMap<SchedulerId, SchedulerCounters>>,
}

/// Counters of one scheduler since this replica started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedulerCounters {
    /// Transactions that were accepted in full.
    pub(crate) taken: u64,
    /// Transactions that were rejected in part or in full.
    pub(crate) conflicted: u64,
    /// Claims in accepted and rejected transactions.
    pub(crate) claims: u64,
    /// Accepted claims.
    pub(crate) placements: u64,
    /// Tasks that were evicted.
    pub(crate) evictions: u64,
    /// Sum, over all transactions, of the number of versions between the decision's view and the result.
    pub(crate) behind: u64,
    /// Rejected items by reason.
    pub(crate) conflicts: BTreeMap<&'static str, u64>,
}

/// A transaction that was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedTransaction<'a> {
    pub(crate) scheduler: SchedulerId,
    /// Number of claims in the transaction.
    pub(crate) claims: usize,
    /// Number of evictions in the transaction.
    pub(crate) evictions: usize,
    /// Version on which the transaction is based.
    pub(crate) base: Version,
    pub(crate) commit: &'a Commit,
}

impl SchedulerCounters {
    fn count(
        &mut self,
        CheckedTransaction { claims, evictions, base, commit, .. }: CheckedTransaction<'_>,
    ) {
        let is_claim = |item: Item| matches!(item, Item::Claim(_));
        let refused = commit.conflicts.iter().filter(|conflict| is_claim(conflict.item)).count();
        if commit.is_complete() {
            self.taken += 1
        } else {
            self.conflicted += 1
        }
        self.claims += claims as u64;
        self.placements += claims.saturating_sub(refused) as u64;
        let is_eviction = |item: Item| matches!(item, Item::Eviction(_));
        let stayed = commit.conflicts.iter().filter(|conflict| is_eviction(conflict.item)).count();
        self.evictions += evictions.saturating_sub(stayed) as u64;
        // A transaction with the base 0 was built by hand and not decided on a view, so it cannot be stale.
        if base > Version(0) {
            self.behind += commit.version.0.saturating_sub(base.0);
        }
        for conflict in &commit.conflicts {
            let reason = omega_client::convert::reason_name(conflict.reason);
            *self.conflicts.entry(reason).or_default() += 1;
        }
    }

    /// Adds the counters of another worker of the same scheduler.
    pub(crate) fn add(&mut self, other: &SchedulerCounters) {
        self.taken += other.taken;
        self.conflicted += other.conflicted;
        self.claims += other.claims;
        self.placements += other.placements;
        self.evictions += other.evictions;
        self.behind += other.behind;
        for (reason, items) in &other.conflicts {
            *self.conflicts.entry(reason).or_default() += items;
        }
    }
}

impl Counters {
    /// Counts checked transactions. They should be grouped by scheduler, because each change of scheduler costs a
    /// look-up.
    pub(crate) fn count<'a>(&self, group: impl Iterator<Item = CheckedTransaction<'a>>) {
        let mut group = group.peekable();
        let mut all = self.all.lock();
        while let Some(scheduler) = group.peek().map(|checked| checked.scheduler) {
            let tally = all.entry(scheduler).or_default();
            while let Some(checked) = group.next_if(|checked| checked.scheduler == scheduler) {
                tally.count(checked);
            }
        }
    }

    /// The counters of all schedulers.
    pub(crate) fn all(&self) -> BTreeMap<SchedulerId, SchedulerCounters> {
        self.all.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Conflict, KindId, Reason};

    /// Transactions give the same sums whether they are counted together, singly, or mixed.
    #[test]
    fn placements_are_claims_without_those_that_were_refused() {
        let refused = |item| Conflict { item, reason: Reason::NoRoom(KindId(0)) };
        let commit = |conflicts| Commit { version: Version(9), conflicts };
        let taken = commit(vec![]);
        let conflicted = commit(vec![refused(Item::Eviction(0)), refused(Item::Claim(1))]);
        let checked = |scheduler, commit| {
            let (scheduler, base) = (SchedulerId(scheduler), Version(7));
            CheckedTransaction { scheduler, claims: 3, evictions: 2, base, commit }
        };
        let group =
            [checked(1, &taken), checked(2, &taken), checked(1, &conflicted), checked(1, &taken)];
        let (together, single) = (Counters::default(), Counters::default());
        together.count(group.into_iter());
        group.into_iter().for_each(|one| single.count([one].into_iter()));
        assert_eq!(together.all(), single.all());
        let tally = &together.all()[&SchedulerId(1)];
        assert_eq!((tally.taken, tally.conflicted), (2, 1));
        assert_eq!((tally.claims, tally.placements), (9, 8));
        assert_eq!(tally.behind, 6);
        assert_eq!(tally.conflicts["NO_ROOM"], 2);
        assert_eq!(together.all()[&SchedulerId(2)].taken, 1);
    }
}
