//! The cell that is shipped, simulated: its state machine, its judge, its views, and the placer and plugins of its
//! schedulers. What a simulation says of it is said of the code that runs.

mod cell;
mod change;
mod feed;
mod ledger;
mod offer;
mod rows;
mod sampled;
mod seat;
mod start;

pub use cell::{ShippedCell, ShippedError};
pub use feed::{Feed, HeldJobs, StreamedJobs};
pub use ledger::Got;
pub use rows::Rows;
pub use seat::{SeatSettings, Taste};
pub use start::Start;
