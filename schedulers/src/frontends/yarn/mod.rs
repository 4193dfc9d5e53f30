//! Asks: for applications that say what they want, and where, and are told with each heartbeat what they got.
//!
//! This is the protocol of Hadoop's resource manager (YARN, SoCC 2013). An *application* asks for containers:
//! so many of a size, at a priority, on a machine, in a rack, or anywhere. With each heartbeat it may ask for
//! more or less, give containers back and refuse machines; the answer has the containers that it got since,
//! those that have ended, and how much is free. A [`Frontend`] places them, as a scheduler of the cell like any
//! other.
//!
//! ```text
//!   application ── heartbeat: asks, releases, refusals ──▶ Frontend ◀── sync ── cell ◀── other schedulers
//!       ◀── allocated, completed, headroom ──────────────    └──── commit ──▶ ▲──────────┘
//! ```
//!
//! **A container is a task.** An application is a job that names the front as its scheduler; a size is one of
//! its groups, with all that a group may say; a container is a task of it. A task without a container waits,
//! as any task does. Where fewer wait than containers are asked for, the answer says how many are missing,
//! and the job's owner makes the group larger. So containers are in the cell, are judged by its rules, and
//! are there when the front or the application is started again.
//!
//! **Asks are totals.** As in YARN, an ask replaces what was asked before at the same place: the count anywhere
//! is how many containers are wanted, those of machines and racks say where they had better be. Unlike there,
//! what was allocated and not told yet is taken off what an application asks for meanwhile, so nobody is
//! ever given more than was asked for.
//!
//! **Locality is waited for.** While a machine that was asked for has no room, and others have, the application
//! lets the others pass for some rounds, and takes a machine of a rack that it asked for; after some rounds
//! more any other (delay scheduling, EuroSys 2010). A round in which there was no room anywhere does not
//! count. An ask that forbids it is never relaxed.
//!
//! **Who is served.** Queues are tenants. The queue with the lowest weighted dominant share is next, in it the
//! application with the lowest dominant share, for one container; then shares are compared again.
//!
//! Invariants:
//! - An application is never given more containers of a priority and size than it asked for.
//! - Each container is told once as allocated, and once as completed.
//! - A heartbeat that returns an error has changed nothing.
//!
//! No clock is read: time comes in with the step and with the heartbeat.
//!
//! In reading order: `messages.rs`, `table.rs`, `places.rs`, `frontend.rs`, `heartbeat.rs`, `fair.rs`, `place.rs`.

mod fair;
mod frontend;
mod heartbeat;
mod messages;
mod place;
mod places;
#[cfg(test)]
mod random;
mod table;
#[cfg(test)]
mod tests;

pub use frontend::Frontend;
pub use messages::{
    Answer, Ask, Completed, Container, Counters, Heartbeat, HeartbeatError, How, JoinError,
    Locality, Missing, Place, Priority, Relax, Settings,
};

/// Maximum number of applications of a frontend: the default of YARN's resource manager.
pub const APPLICATIONS_MAX: usize = 10_000;

/// Machines, racks and groups that one application may request or blacklist at a time: more than
/// there are blocks of a large file, or machines in most cells.
pub const LINES_MAX: usize = 1 << 16;
