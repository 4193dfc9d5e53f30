//! Load reports: the measured use of machines.
//!
//! A report grows old, and does not include tasks placed after it. So the cell stores with it its time (that of the
//! last `Expire`) and the machine's claims at that time. Only schedulers read reports; no outcome of a command depends
//! on them.

use omega_core::Amounts;
use omega_core::limits::AMOUNT_MAX;

/// The last load report of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// The measured use of its tasks.
    pub used: Amounts,
    /// The claims on the machine when the report arrived. Claims beyond these are newer, and not part of `used`.
    pub claimed: Amounts,
    /// The cell's time in milliseconds when it arrived.
    pub at_ms: u64,
}

impl LoadReport {
    /// The age of the report at a time of the cell.
    #[must_use]
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }
}

/// The claims on a machine: the claimable amounts minus the free ones, clamped to the range from 0 to the bound of a
/// machine, which adopted tasks can exceed.
pub(crate) fn claimed(claimable: &[i64], free: &[i64]) -> Amounts {
    let amounts = claimable.iter().zip(free);
    Amounts::new(
        amounts.map(|(all, free)| (all.saturating_sub(*free).max(0) as u64).min(AMOUNT_MAX)),
    )
}
