//! Sizes of the machines, and their zones.

use omega_core::{KindId, Machine, Text};

/// Thousandths of a core in the largest machine.
pub(super) const CPU_MILLIS: u64 = 64_000;

/// Bytes of memory in the largest machine.
pub(super) const MEMORY_BYTES: u64 = 256 << 30;

/// Bytes of disk in every machine.
pub(super) const DISK_BYTES: u64 = 16 << 40;

/// Number of zones; racks are distributed round-robin.
pub(super) const ZONES: usize = 4;

/// The name of a zone.
pub(super) fn zone(number: usize) -> Text {
    format!("z{number}").into()
}

/// Total thousandths of a core of the machines.
pub(super) fn cpu_of(machines: &[Machine]) -> u64 {
    machines.iter().map(|machine| machine.capacity.get(KindId::CPU)).sum()
}
