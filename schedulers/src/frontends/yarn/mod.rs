//! Resource requests: for applications that request containers at preferred locations. The answer to each heartbeat
//! lists the containers that the application got.
//!
//! This is the protocol of Hadoop's resource manager (YARN, SoCC 2013). An *application* requests containers: each
//! request is for a number of containers of one size and priority, on a machine, in a rack, or anywhere. Each heartbeat
//! may change the requests, release containers and blacklist machines; the answer has the new containers, the ended
//! ones, and the free resources. A [`Frontend`] is an ordinary scheduler of the cell that places the containers.
//!
//! ```text
//!   application ── heartbeat: requests, releases, ... ───▶ Frontend ◀── sync ── cell ◀── other schedulers
//!       ◀── allocated, completed, headroom ──────────────    └──── commit ──▶ ▲──────────┘
//! ```
//!
//! **A container is a task.** An application is a job that names the frontend as its scheduler; a container size is one
//! of its task groups; a container is a task of that group. A task without a container is pending. If a request exceeds
//! the number of pending tasks, the answer has the difference, and the owner of the job may resize the group. So
//! containers are in the cell, obey its rules, and remain when the frontend or the application restarts.
//!
//! **Requests are totals.** As in YARN, a request replaces the previous one for the same location: the count for
//! anywhere is the total number of containers, and the counts for machines and racks are preferences. Unlike in YARN,
//! containers that were allocated and not yet reported are subtracted from new requests, so an application never gets
//! more than it requested.
//!
//! **Waiting for locality.** While only machines that were not requested have room, the application waits for some
//! rounds. Then it accepts any machine of a requested rack, and after some more rounds any machine (delay scheduling,
//! EuroSys 2010). Rounds without room on any machine do not count. A request may forbid other locations.
//!
//! **Order.** Queues are tenants. The next container goes to the queue with the lowest weighted dominant share, and
//! within it to the application with the lowest dominant share; then shares are compared again.
//!
//! Invariants:
//! - An application never gets more containers of a priority and size than it requested.
//! - Each container is reported once as allocated, and once as completed.
//! - A heartbeat that returns an error has changed nothing.
//!
//! The frontend reads no clock: the caller passes the time to each step and heartbeat.
//!
//! In reading order: `messages.rs`, `table.rs`, `places.rs`, `frontend.rs`, `heartbeat.rs`, `turns.rs`, `fair.rs`, `place.rs`.

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
mod turns;

pub use frontend::Frontend;
pub use messages::{
    Answer, Ask, Completed, Container, Counters, Heartbeat, HeartbeatError, How, JoinError,
    Locality, Missing, Place, Priority, Relax, Settings,
};

/// Maximum number of applications of a frontend: the default of YARN's resource manager.
pub const APPLICATIONS_MAX: usize = 10_000;

/// Maximum number of machines, racks and groups that one application may request or blacklist at a time. This suffices:
/// most cells have fewer machines, and an application that reads even a large file needs fewer requests, one for each
/// block of the file.
pub const LINES_MAX: usize = 1 << 16;
