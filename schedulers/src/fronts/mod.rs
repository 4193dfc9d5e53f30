//! Common parts of the frontends. A frontend is a scheduler that decides the requests of its clients.
//!
//! Offers and asks are two protocols over one thing: a view of the whole cell, jobs that name the front as
//! their scheduler, and transactions that the cell judges. Neither has a rule of its own for what fits, and
//! neither is known to the cell: beside them, schedulers of any kind place on the same machines.

mod desk;
#[cfg(test)]
pub(crate) mod kit;
#[cfg(test)]
mod race;
mod roster;

pub(crate) use desk::{Desk, Reply};
pub(crate) use roster::{Entry, Left, Mark};
