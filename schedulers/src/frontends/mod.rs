//! Common parts of the frontends. A frontend is a scheduler that places tasks as its clients request.
//!
//! There are two protocols: offers as in Mesos, and resource requests as in YARN. Both frontends work on a view of the
//! whole cell, place jobs that name the frontend as their scheduler, and submit transactions that the cell checks.
//! Neither frontend has its own feasibility rules or a special role in the cell, so a frontend can share the machines
//! with any other scheduler.

#[cfg(test)]
pub(crate) mod fixtures;
pub mod mesos;
#[cfg(test)]
mod race;
mod session;
mod task_index;
pub mod yarn;

pub(crate) use session::{Reply, Session};
pub(crate) use task_index::{Entry, Left, Mark};
