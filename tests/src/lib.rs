//! The test kit: what the tests of several crates share.
//!
//! ```text
//!   random ──commands──▶ Cell ──┐
//!      ▲        │               ├── compare: equal answers, equal states
//!      │        └─────▶ Reference ──┘
//!      └── looks at the reference, to ask for what makes sense
//! ```
//!
//! - [`mod@reference`]: a slow, obviously right cell, written from the documents of `omega-core` alone.
//! - [`random`]: commands by the dice, the sensible and the senseless.
//! - [`compare`]: everything that is public of a cell and of its reference, side by side.
//! - [`history`]: runs a history on both, and makes one that fails short.
//! - [`clock`]: clocks of processes that are wrong and jump.
//! - [`cluster`]: whole cells of replicas in one thread, with all that can go wrong.
//! - [`faulty`]: a cell behind a connection that breaks.
//! - [`disk`]: a disk in memory that fails, forgets and rots on demand.
//! - [`durable`]: one durable replica under load.
//! - [`fire`]: cells of real processes, whose replicas are killed, paused and cut off.
//! - [`fuzz`]: bytes from anywhere for everything that reads bytes.
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
pub mod faulty;
pub mod fire;
pub mod fuzz;
pub mod history;
pub mod log_reference;
pub mod ports;
pub mod random;
pub mod reference;
pub mod roadef;
pub mod script;
pub mod trio;
