//! A virtual machine of the trace, and the units of its times.

use omega_core::{JobKind, Text};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Length of a step of the trace's clock.
pub(super) const STEP_MS: u64 = 300_000;

/// A virtual machine.
pub(super) struct Vm {
    pub(super) line: u64,
    pub(super) at_ms: u64,
    pub(super) batch: u64,
    /// Cores in thousandths, and bytes of memory.
    pub(super) size: [u64; 2],
    pub(super) run_ms: Option<u64>,
    pub(super) kind: JobKind,
    pub(super) tenant: Text,
}

/// A pseudo-random number from 1 to `bound`, determined by the seed and the virtual machine.
pub(super) fn draw(seed: u64, id: u64, bound: u64) -> u64 {
    let mut chance = Pcg64::seed_from_u64(seed ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    1 + ((u128::from(chance.next_u64()) * u128::from(bound)) >> 64) as u64
}
