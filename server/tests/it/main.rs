//! The one integration binary: `omega` as its users meet it, a process with arguments and files.
//!
//! - `commands.rs`: what people ask of a cell that is served, and `quickstart.rs` to the letter.
//! - `runs.rs`: every kind of input and every way to run it, and what must hold of each result.
//! - `traces.rs`: the published traces; skipped where they are not at hand.
//! - `bad_input.rs`: what is at fault is told in one line, and costs no file.
//! - `contexts.rs`: cells by name, and how lists are sorted, filtered and printed.
//! - `durable.rs`: cells on a disk, in one replica and in three, and `omega log`.
//! - `explain.rs`: what is said of jobs that wait.
//! - `rebalance.rs`: better machines for what runs.
//! - `backups.rs`: backups under load, what becomes of them, and what is refused.
//! - `served.rs`: cells that are served, and replicas that are killed.
//! - `fire.rs`: what clients are told while replicas are killed, paused and cut off, or asked for too much.
//! - `clocks.rs`: clocks that jump by hours below a server, its agents and its schedulers.
//! - `secure.rs`: who may call what over certificates; `certificates.rs` makes them.
//! - `revoked.rs`: certificates that are revoked while the cell is served.
//! - `tenants.rs`: what each role sees and changes of its own jobs and of others.
//! - `web.rs`: what the web page is made of, and who gets it; `browser.rs` looks at it with a browser, and is
//!   skipped without one; `http.rs` asks.
//! - `container.rs`: a server in a root that nobody can write to, but for the folder of its cell.
//! - `audit.rs`: audit logs, and `omega audit verify`.
//! - `events.rs`: what processes tell operators on standard error.
//! - `members.rs`: replicas that come, move and leave.
//! - `metrics.rs`: what Prometheus is told, and that documentation and dashboard name it.
//! - `spans.rs`: which commits a collector of traces is told of, and what.
//! - `top.rs`: what `omega top` prints.
//! - `txn.rs`: transactions by hand, and what a cell remembers of transactions.
//! - `upgrades.rs`: what a newer version wrote is refused by every verb, and replicas of two versions say why they
//!   do not hear each other.
//! - `requests.rs`: messages that mean nothing, and callers who want everything.
//! - `floods.rs`: headers without end, and a thousand watches at once.
//! - `bad_requests.rs`: transactions, settings and systems that cannot be, and where each bad input is tried.
//! - `limits.rs`: what clients may ask for at once, where an operator said it.
//! - `programs.rs`: real processes of agents of this machine, which die and come back.
//! - `agents.rs`: jobs on simulated machines, and what becomes of them when agents, schedulers and leaders
//!   are killed.
//! - `grace.rs`: what is told to stop has its time, and who waits for its room.
//! - `application.rs`: applications that ask for containers, and recover what they had.
//! - `standby.rs`: schedulers that are killed, stopped or ended, and those that go on for them.
//! - `outputs.rs`: files, pipes and terminals that results go to.
//! - `power_cuts.rs`: disks that fail, are full and lose their power, by a library below the servers.
//! - `peaks.rs`: calendars of peaks by hand, and a keeper beside a scheduler.
//!
//! `process.rs` starts the process, `outcome.rs` reads its result.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod agents;
mod application;
mod audit;
mod backups;
mod bad_choices;
mod bad_disks;
mod bad_input;
mod bad_requests;
mod browser;
mod certificates;
mod clocks;
mod commands;
mod container;
mod contexts;
mod cores;
mod durable;
mod events;
mod evicting;
mod explain;
mod fire;
mod floods;
mod grace;
mod http;
mod limits;
mod members;
mod metrics;
mod outcome;
mod outputs;
mod peaks;
mod power_cuts;
mod process;
mod programs;
mod quickstart;
mod rebalance;
mod requests;
mod resources;
mod revoked;
mod runs;
mod secure;
mod served;
mod spans;
mod standby;
mod tenants;
mod top;
mod traces;
mod txn;
mod upgrades;
mod web;
mod workflows;
