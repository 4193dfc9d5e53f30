//! Measurement of plugins: their time, and the machines that they reject.
//!
//! The library reads no clock, so the meter has one. A reading costs as much as a filter for one
//! block, so the meter chooses which searches to measure: one in some dozens is enough, and a
//! profile without a meter pays one comparison.

use crate::queue::Nanos;

/// Kind of a plugin call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A filter.
    Filter,
    /// Scoring of machines.
    Score,
}

/// Measures plugins. Several threads may call it at once, because they share the search of large
/// cells.
pub trait Meter: Send + Sync {
    /// Whether the next search is measured: every 61st, so that alternating sorts of calls are all
    /// measured.
    fn samples(&self) -> bool;

    /// The time, if it is measured.
    fn now(&self) -> Nanos;

    /// A filter rejected machines of a block that earlier filters accept. Called for measured
    /// searches.
    fn refused(&self, _filter: &'static str, _machines: u32) {}

    /// Time of a plugin for a block, or of a relative score for all feasible machines.
    fn took(&self, work: Work, plugin: &'static str, nanos: Nanos);
}
