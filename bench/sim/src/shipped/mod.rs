//! The cell that is shipped, simulated: its state machine, its judge, its views, and the placer and plugins of its
//! schedulers. What a simulation says of it is said of the code that runs.

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
pub use cell::{ShippedCell, ShippedError};
pub use feed::{Feed, HeldJobs, StreamedJobs};
pub use placer::{PlacerSettings, Taste};
pub use rows::Rows;
pub use start::Start;
