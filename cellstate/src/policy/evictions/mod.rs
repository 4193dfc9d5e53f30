//! Evictions: which claims may preempt which tasks (`review.rs`), and the limit on evictions in a span of time.
//!
//! The limit uses a *sliding window log*: the times of recent evictions, each with a number of evictions. The log is
//! exact, whereas a token bucket or a counter per minute can allow almost twice the limit within such a span. The log
//! is short, because the cell's time changes only with [`Expire`](omega_core::Command::Expire). If there is an `Expire`
//! every 100 ms, a minute has at most six hundred entries.
//!
//! Invariant: times ascend, counts are above 0, and `sum` is the sum of the counts.

mod in_cell;
mod review;

use super::{Columns, Ledger, Policy, Restoring, RowsAgain};
use crate::snapshot::{SnapshotState, SnapshotStateError};
use omega_core::{EvictionCap, Job, TaskGroup, Transaction};
use std::collections::VecDeque;

/// The policy of evictions.
#[derive(Clone, Debug, Default)]
pub struct Evictions {
    log: EvictionLog,
    counts: EvictionCounts,
}

impl Ledger for Evictions {
    fn is_counting(&self) -> bool {
        false
    }
}

impl Policy for Evictions {
    type Columns = EvictionColumns;
    type Mirror = ();
    /// Number of the transaction's evictions that only a tenant's guarantee allows.
    type Note = u32;

    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        false
    }

    fn concerns_transaction(txn: &Transaction) -> bool {
        !txn.evictions.is_empty()
    }

    fn write_change(&self, columns: &mut EvictionColumns, _: usize) {
        columns.refilled = true;
    }

    fn is_near_an_edge(&self, _: u64) -> bool {
        !self.log.taken.is_empty()
    }

    fn capture(&self, snapshot: &mut SnapshotState) {
        snapshot.evicted = self.log.iter().collect();
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        let snapshot = restoring.snapshot;
        let cap = snapshot.policy.eviction_cap;
        self.log = EvictionLog::restore(&snapshot.evicted, snapshot.now_ms, cap)?;
        Ok(())
    }
}

/// The sliding window log. See the module documentation.
#[derive(Clone, Debug, Default)]
struct EvictionLog {
    taken: VecDeque<(u64, u32)>,
    sum: u64,
}

/// Counts of evictions since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionCounts {
    /// Evictions for tasks of higher precedence.
    pub by_precedence: u64,
    /// Evictions that reclaim a tenant's guarantee.
    pub by_guarantee: u64,
}

impl EvictionLog {
    /// The times of recent evictions in ascending order, each with the number of evictions.
    fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.taken.iter().copied()
    }

    fn add(&mut self, now_ms: u64, count: u32) {
        match self.taken.back_mut() {
            Some((at, known)) if *at == now_ms => *known += count,
            _ => self.taken.push_back((now_ms, count)),
        }
        self.sum += u64::from(count);
    }

    /// Removes entries that are older than the span of the limit. Returns whether there were any.
    fn prune(&mut self, now_ms: u64, cap: Option<EvictionCap>) -> bool {
        let before = self.sum;
        let over =
            |at: u64| cap.is_none_or(|cap| at.saturating_add(u64::from(cap.per_ms)) <= now_ms);
        while let Some((_, count)) = self.taken.pop_front_if(|(at, _)| over(*at)) {
            self.sum -= u64::from(count);
        }
        self.sum < before
    }

    /// Restores the log from a snapshot.
    ///
    /// # Errors
    /// No cell with this time and limit could have the log.
    fn restore(
        list: &[(u64, u32)],
        now_ms: u64,
        cap: Option<EvictionCap>,
    ) -> Result<EvictionLog, SnapshotStateError> {
        let mut log = EvictionLog::default();
        for (at, count) in list {
            let later = log.taken.back().is_none_or(|(before, _)| before < at);
            if !later || *at > now_ms || *count == 0 {
                return Err(SnapshotStateError::Evictions);
            }
            log.add(*at, *count);
        }
        let whole = !log.prune(now_ms, cap);
        if whole { Ok(log) } else { Err(SnapshotStateError::Evictions) }
    }
}

/// The columns of evictions in a delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionColumns {
    /// Whether evictions that would have been rejected before may be accepted now.
    pub refilled: bool,
}

impl Columns for EvictionColumns {
    fn clear(&mut self) {
        self.refilled = false;
    }

    fn append(&mut self, later: &EvictionColumns, _: &RowsAgain<'_>) {
        self.refilled |= later.refilled;
    }
}
