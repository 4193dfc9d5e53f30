//! The test kit, shared by the tests of several crates.
//!
//! ```text
//!   random ──commands──▶ Cell ──┐
//!      ▲        │               ├── compare: equal results, equal states
//!      │        └─────▶ Reference ──┘
//!      └── reads the reference model, for mostly valid commands
//! ```
//!
//! - [`mod@reference`]: a slow and simple cell, written from the documentation of `omega-core` alone.
//! - [`random`]: random commands, valid and invalid.
//! - [`compare`]: comparison of the public state of a cell and of its reference model.
//! - [`events`]: the events of a cell against its state.
//! - [`history`]: histories of a cell and its reference model, and their shortening on failure.
//! - [`cluster`]: whole cells of replicas in one thread, with all kinds of faults.
//! - [`faulty`]: a cell behind a faulty connection.
//! - [`disk`]: disks, in memory or real, that fail and lose data on demand.
//! - [`durable`]: one durable replica under load.
//! - [`fire`]: cells of real processes, whose replicas are killed, paused and partitioned.
//! - [`fuzz`]: random bytes for every decoder.
//! - [`retries`]: requests to a replicated cell that are repeated until they are carried out.
//! - [`log_reference`]: a naive log, and random work for logs.
//! - [`ports`]: ports for processes that tests start.
//! - [`roadef`]: a checker of the machine reassignment contest, and random instances of it.
//! - [`script`]: a small language for behaviour over several steps.
//! - [`trio`]: three durable replicas under load, round by round.

pub mod clock;
pub mod cluster;
pub mod compare;
pub mod disk;
#[cfg(doctest)]
mod documents;
pub mod durable;
pub mod events;
pub mod faulty;
pub mod fire;
pub mod fuzz;
pub mod history;
pub mod log_reference;
pub mod ports;
pub mod random;
pub mod reference;
pub mod retries;
pub mod roadef;
pub mod script;
pub mod trio;
