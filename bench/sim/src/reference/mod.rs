//! The cell of the reference simulator, reproduced exactly, with its arithmetic and its peculiarities.
//!
//! Amounts are floats that are added and subtracted; placement is random first fit with Java's generator. So published
//! figures are reproduced digit by digit. The shipped cell places tasks differently.

mod cell;
mod java_random;
mod offer;
mod pool;
mod row;

pub use cell::{CellPlacer, ReferenceCell, ReferenceJob};
pub use java_random::JavaRandom;
pub use offer::Offer;
pub use row::Request;
