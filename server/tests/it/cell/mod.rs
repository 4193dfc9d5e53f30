//! Served cells: replicas, disks, members, and the web page.
//!
//! - `durable.rs`: cells on a disk, in one replica and in three, and `omega log`.
//! - `backups.rs`: backups under load, restored cells, and rejected restores.
//! - `served.rs`: cells that are served, and replicas that are killed.
//! - `fire.rs`: linearizability while replicas are killed, paused, partitioned or overloaded.
//! - `clocks.rs`: clocks of a server, its agents and its schedulers that jump by hours.
//! - `web.rs`: the web page, and access to it; `browser.rs` opens it in a browser, and is skipped
//!   without one.
//! - `container.rs`: a server in a read-only root, except for the folder of its cell.
//! - `events.rs`: messages of processes to operators on standard error.
//! - `members.rs`: replicas that join, move and leave.
//! - `metrics.rs`: metrics, and that documentation and dashboard name them.
//! - `spans.rs`: traces of commits.
//! - `top.rs`: the output of `omega top`.
//! - `upgrades.rs`: every verb rejects files of a newer version, and replicas of two versions
//!   report why they cannot communicate.
//! - `power_cuts.rs`: failing and full disks, and power cuts, by an interposed library.
//! - `bad_disks.rs`: full and read-only file systems.
//! - `dev.rs`: `omega dev`.

pub(crate) mod backups;
pub(crate) mod bad_disks;
pub(crate) mod browser;
pub(crate) mod clocks;
pub(crate) mod container;
pub(crate) mod dev;
pub(crate) mod durable;
pub(crate) mod events;
pub(crate) mod fire;
pub(crate) mod members;
pub(crate) mod metrics;
pub(crate) mod power_cuts;
pub(crate) mod served;
pub(crate) mod spans;
pub(crate) mod top;
pub(crate) mod upgrades;
pub(crate) mod web;
