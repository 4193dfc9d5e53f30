//! The cell of the reference simulator, down to its arithmetic and its quirks.
//!
//! Amounts are floats that are added and taken off again; a claim is random first fit with Java's generator. It is
//! not how we place (that is the shipped cell's matter), but what published figures were made with, so that ours can be
//! compared with them, digit by digit.

mod cell;
mod java_random;
mod offer;
mod pool;

pub use cell::{CellPlacer, ReferenceCell, ReferenceJob, Request};
pub use java_random::JavaRandom;
pub use offer::Offer;
