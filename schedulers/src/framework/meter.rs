//! Measurement of plugins: their time, and the number of machines that they reject.
//!
//! The library reads no clock, so the meter provides the time. Reading a clock costs as much as running a filter on one
//! block. So the meter chooses which searches to measure; one search in a few dozen is enough. Without a meter, the
//! measurement costs one comparison per decision.

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
    /// Whether to measure the next search. A meter that measures every n-th search should have an odd n: if two kinds
    /// of searches alternate, an even n would always measure the same kind.
    fn samples(&self) -> bool;

    /// The present time. Called for measured searches.
    fn now(&self) -> Nanos;

    /// Records the number of machines of a block that a filter rejected and all earlier filters accepted. Called for
    /// measured searches.
    fn refused(&self, _filter: &'static str, _machines: u32) {}

    /// Records the run time of a plugin: of a filter or score for one block, or of a relative score for all feasible
    /// machines.
    fn took(&self, work: Work, plugin: &'static str, nanos: Nanos);
}
