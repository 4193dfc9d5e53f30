//! The shipped cell under simulation: its state machine, checks, views, placer and plugins.

mod accounting;
mod cell;
mod change;
mod error;
mod feed;
mod groups;
mod jobs;
mod offer;
mod placer;
mod rows;
mod sampled;
mod start;
mod usage;

pub use accounting::TenantUse;
pub use cell::{Described, ShippedCell};
pub use error::ShippedError;
pub use feed::{Feed, HeldJobs, StreamedJobs};
pub use placer::{BuiltIn, PlacerSettings};
pub use rows::Rows;
pub use start::Start;
