//! The integration tests across crates, in one binary.
//!
//! - `cell/`: the cell and its views, compared with naive models.
//! - `scheduling/`: the loop of schedulers, and their decisions.
//! - `plugins/`: plugins and profiles.
//! - `rebalancing/`: rebalancing and machine reassignment.
//! - `storage/`: logs, snapshots and directories of replicas on disks that fail.
//! - `replicas/`: replicated cells, and cells behind a socket.
//! - `repository/`: the rules of the repository: its files, dependencies and documents.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod cell;
mod plugins;
mod rebalancing;
mod replicas;
mod repository;
mod scheduling;
mod storage;
