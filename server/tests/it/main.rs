//! The only integration test binary: `omega` as a process with arguments and files.
//!
//! - `kit/`: fixtures of the tests.
//! - `offline/`: commands without a served cell.
//! - `cell/`: served cells: replicas, disks, members, and the web page.
//! - `callers/`: callers: their rights, and the limits on their requests.
//! - `work/`: work on a served cell: jobs, programs, agents, applications and schedulers.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod callers;
mod cell;
mod kit;
mod offline;
mod work;
