//! What a machine reports as used, and what else was so at that moment.
//!
//! A report alone says too little: it grows old, and tasks that were placed after it are not in it. So
//! the cell notes with it the time, which is that of the last `Expire`, and what was claimed of the
//! machine then. No outcome of a command depends on any of it: schedulers read it, and nobody else.

use omega_core::Amounts;
use omega_core::limits::AMOUNT_MAX;

/// The last report of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// What its tasks really use.
    pub used: Amounts,
    /// What was claimed of it when the report came: whatever is claimed beyond that came later, and is
    /// not in use yet as far as the report knows.
    pub claimed: Amounts,
    /// The cell's time when it came, in milliseconds.
    pub at_ms: u64,
}

impl LoadReport {
    /// How old it is at a time of the cell.
    #[must_use]
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }
}

/// What is claimed of a machine: what is claimable without what is free. What is less than nothing, or more than any
/// machine has (tasks that were adopted may claim that), counts as the bound.
pub(crate) fn claimed(claimable: &[i64], free: &[i64]) -> Amounts {
    let amounts = claimable.iter().zip(free);
    Amounts::new(
        amounts.map(|(all, free)| (all.saturating_sub(*free).max(0) as u64).min(AMOUNT_MAX)),
    )
}
