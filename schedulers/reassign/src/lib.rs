//! Machine reassignment: finds better machines for running tasks, under rules of capacity, spread and dependencies. The
//! best assignment has the least cost of load, imbalance and moves.
//!
//! [`Instance`] is the problem as plain data, [`contest`] reads and writes it in the format of the ROADEF/EURO
//! challenge 2012, [`Problem`] holds it as columns, and [`search`] improves the initial assignment:
//!
//! ```text
//!   Instance ─▶ Problem ─▶ State: running sums, O(kinds) a change ─▶ Walk: annealing ─▶ search: walks on all cores
//! ```
//!
//! The crate reads no clock and no files: the caller implements [`Watch`], which tells the search how much of the time
//! is spent.

mod chain;
mod changes;
pub mod contest;
mod descent;
mod instance;
mod problem;
mod proposals;
mod rearrange;
mod rules;
mod search;
mod state;
mod tables;
mod walk;

pub use instance::{
    Balance, Instance, Job, Kind, Machine, MoveLimits, MoveWeights, Sharing, Task, Transience,
};
pub use problem::{Problem, ProblemError};
pub use search::{Budget, Found, Settings, Watch, search};
pub use state::{Costs, State};
