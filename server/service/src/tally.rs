//! What became of the transactions of each scheduler.
//!
//! It is counted where a transaction is answered, so each replica counts those that came through it: the
//! sum over the replicas is that of the cell. The replica that leads could count what it applies, but not
//! what is refused before it gets into the log.

use omega_core::{Commit, Item, SchedulerId};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Of every scheduler.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// Held for an addition, or a copy. At most as many as the cell lets register.
    all: Mutex<BTreeMap<SchedulerId, Tally>>,
}

/// Of one scheduler, since this replica started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Transactions that were taken whole.
    pub(crate) taken: u64,
    /// Transactions that were refused in part or wholly.
    pub(crate) conflicted: u64,
    /// Claims in both.
    pub(crate) claims: u64,
    /// Those of them that were taken.
    pub(crate) placements: u64,
    /// Items that were refused, by the reason.
    pub(crate) conflicts: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Adds what another worker of the same scheduler did.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.taken += other.taken;
        self.conflicted += other.conflicted;
        self.claims += other.claims;
        self.placements += other.placements;
        for (reason, items) in &other.conflicts {
            *self.conflicts.entry(reason).or_default() += items;
        }
    }
}

impl Tallies {
    /// A transaction with so many claims was judged.
    pub(crate) fn judged(&self, scheduler: SchedulerId, claims: usize, commit: &Commit) {
        let is_claim = |item: Item| matches!(item, Item::Claim(_));
        let refused = commit.conflicts.iter().filter(|conflict| is_claim(conflict.item)).count();
        let mut all = self.all.lock();
        let tally = all.entry(scheduler).or_default();
        match commit.is_complete() {
            true => tally.taken += 1,
            false => tally.conflicted += 1,
        }
        tally.claims += claims as u64;
        tally.placements += claims.saturating_sub(refused) as u64;
        for conflict in &commit.conflicts {
            let reason = omega_client::convert::reason_name(conflict.reason);
            *tally.conflicts.entry(reason).or_default() += 1;
        }
    }

    /// What was counted of each.
    pub(crate) fn all(&self) -> BTreeMap<SchedulerId, Tally> {
        self.all.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Conflict, KindId, Reason, Version};

    #[test]
    fn placements_are_claims_without_those_that_were_refused() {
        let tallies = Tallies::default();
        let refused = |item| Conflict { item, reason: Reason::NoRoom(KindId(0)) };
        let commit = |conflicts| Commit { version: Version(1), conflicts };
        tallies.judged(SchedulerId(1), 3, &commit(vec![]));
        tallies.judged(
            SchedulerId(1),
            3,
            &commit(vec![refused(Item::Eviction(0)), refused(Item::Claim(1))]),
        );
        let tally = &tallies.all()[&SchedulerId(1)];
        assert_eq!((tally.taken, tally.conflicted), (1, 1));
        assert_eq!((tally.claims, tally.placements), (6, 5));
        assert_eq!(tally.conflicts["NO_ROOM"], 2);
    }
}
