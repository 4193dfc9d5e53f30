//! Measurement of plugins: their time, and the number of machines that they reject.
//!
//! The library reads no clock, so the meter provides the time. Reading a clock costs as much as a filter for one block,
//! so the meter chooses which searches to measure: one in some dozens is enough. In a profile without a meter, a
//! decision costs one comparison more.

use crate::queue::Nanos;

/// Kind of a plugin call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A filter.
    Filter,
    /// Scoring of machines.
    Score,
}

/// Measures plugins. Several threads may call a meter at once, because large cells are searched on several threads.
pub trait Meter: Send + Sync {
    /// Whether the next search is measured. The interval should be an odd number, so that searches of alternating kinds
    /// are all measured.
    fn samples(&self) -> bool;

    /// The present time. Called for measured searches.
    fn now(&self) -> Nanos;

    /// Records that a filter rejected machines of a block that earlier filters had accepted. Called for measured
    /// searches.
    fn refused(&self, _filter: &'static str, _machines: u32) {}

    /// Records the time of a plugin for a block, or of a relative score for all feasible machines.
    fn took(&self, work: Work, plugin: &'static str, nanos: Nanos);
}
