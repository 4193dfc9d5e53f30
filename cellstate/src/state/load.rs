//! Load reports: the measured use of machines.
//!
//! A report becomes stale, and does not include tasks that are placed later. So the cell stores two values with each
//! report: the cell's time at its arrival, which the last `Expire` set, and the machine's claims at that time. Only
//! schedulers read reports; no outcome of a command depends on them.

use omega_core::Amounts;
use omega_core::limits::AMOUNT_MAX;

/// The last load report of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// Measured use of the machine by its tasks.
    pub used: Amounts,
    /// Claims on the machine when the report arrived. Claims beyond this amount belong to newer tasks, which `used`
    /// does not include.
    pub claimed: Amounts,
    /// The cell's time in milliseconds when the report arrived.
    pub at_ms: u64,
}

impl LoadReport {
    /// The age of the report at the cell's time `now_ms`, in milliseconds.
    #[must_use]
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }
}

/// The claims on a machine: the claimable amounts minus the free ones. The result is clamped to the range from 0 to the
/// largest amount that a machine may have, because adopted tasks can exceed a machine.
pub fn claimed(claimable: &[i64], free: &[i64]) -> Amounts {
    let amounts = claimable.iter().zip(free);
    Amounts::new(
        amounts.map(|(all, free)| (all.saturating_sub(*free).max(0) as u64).min(AMOUNT_MAX)),
    )
}
