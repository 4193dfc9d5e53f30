//! Options of a synthetic workload.

/// Options of a synthetic workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynthOptions {
    /// Number of machines: 1 to [`MACHINES_MAX`](omega_core::limits::MACHINES_MAX).
    pub machines: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// Length of the workload in hours: 1 to 8,760.
    pub span_hours: u32,
    /// Mean requested share of the cell's CPU, in percent: 1 to 100.
    pub utilisation_percent: u32,
}

impl Default for SynthOptions {
    /// A day on 10,000 machines. Tasks request 78 % of the CPU, the highest share among the cells of the Omega paper.
    fn default() -> SynthOptions {
        SynthOptions { machines: 10_000, seed: 1, span_hours: 24, utilisation_percent: 78 }
    }
}
