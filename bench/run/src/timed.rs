//! A replicated cell that measures commit times.

use hdrhistogram::Histogram;
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_core::{Commit, SchedulerId, Text, Transaction, Version};
use omega_store::replica::ReplicatedCell;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Latency of commits, from request to reply. Clones share the measurements.
#[derive(Clone, Debug)]
pub struct Took {
    /// Latencies in nanoseconds. The lock is held only to add or read a value.
    all: Arc<Mutex<Histogram<u64>>>,
}

impl Took {
    /// Percentile of commit times in microseconds, to two digits.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.all.lock().value_at_percentile(percent) as f64 / 1000.0
    }

    fn note(&self, began: Instant, commits: usize) {
        self.all.lock().saturating_record_n(began.elapsed().as_nanos() as u64, commits as u64);
    }
}

impl Default for Took {
    /// Creates an empty histogram.
    fn default() -> Took {
        // The histogram ranges from a nanosecond to a minute, to two digits.
        let all = Histogram::new_with_bounds(1, 60_000_000_000, 2);
        Took { all: Arc::new(Mutex::new(all.expect("the bounds are valid"))) }
    }
}

/// A cell handle that measures the latency of each commit. Clones share the cell.
#[derive(Clone, Debug)]
pub struct TimedCell {
    /// The cell, for all calls except commits.
    pub cell: ReplicatedCell,
    /// Latency of the cell's commits.
    pub took: Took,
}

impl CellHandle for TimedCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(&self, since: Version, of: &Interest, delta: &mut Delta) -> Result<(), HandleError> {
        self.cell.sync(since, of, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        let began = Instant::now();
        let answer = self.cell.commit(txn);
        self.took.note(began, 1);
        answer
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        let began = Instant::now();
        let answers = self.cell.commit_all(txns);
        self.took.note(began, txns.len());
        answers
    }
}
