//! The cell of the reference simulator, down to its arithmetic and its quirks.
//!
//! Amounts are floats that are added and subtracted; a claim is random first fit with Java's
//! generator. It serves for the comparison with published figures, digit by digit; the shipped cell
//! places otherwise.

mod cell;
mod java_random;
mod offer;
mod pool;

pub use cell::{CellPlacer, ReferenceCell, ReferenceJob, Request};
pub use java_random::JavaRandom;
pub use offer::Offer;
