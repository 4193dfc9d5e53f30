//! The shipped cell under simulation: its state machine, checks, views, placer and plugins.

mod accounting;
mod cell;
mod change;
mod feed;
mod offer;
mod placer;
mod rows;
mod sampled;
mod start;

pub use accounting::Got;
pub use cell::{Described, ShippedCell, ShippedError};
pub use feed::{Feed, HeldJobs, StreamedJobs};
pub use placer::{PlacerSettings, Taste};
pub use rows::Rows;
pub use start::Start;
