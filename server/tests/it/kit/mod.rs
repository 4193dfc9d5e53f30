//! The kit of these tests: fixtures that several files use.
//!
//! - `process.rs`: processes and their output; `outcome.rs`: results of runs.
//! - `cell.rs`: served cells; `calls.rs`: calls of a cell; `wait.rs`: waits.
//! - `agents.rs`: simulated machines; `programs.rs`: real programs.
//! - `callers.rs`: cells with and without certificates; `certificates.rs` makes certificates.
//! - `http.rs`: HTTP requests.

pub(crate) mod agents;
pub(crate) mod callers;
pub(crate) mod calls;
pub(crate) mod cell;
pub(crate) mod certificates;
pub(crate) mod http;
pub(crate) mod outcome;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod wait;
