//! The only integration test binary: `omega` as a process with arguments and files.
//!
//! - `commands.rs`: commands for a served cell; `quickstart.rs`: the commands of the quickstart
//!   page.
//! - `apply.rs`: jobs in files, and services that are updated from one version to the next.
//! - `runs.rs`: every kind of input and run, and the invariants of each result.
//! - `traces.rs`: the published traces; skipped if they are not on this computer.
//! - `bad_input.rs`: one-line errors for bad input, without changed files.
//! - `contexts.rs`: cells by name, and how lists are sorted, filtered and printed.
//! - `durable.rs`: cells on a disk, in one replica and in three, and `omega log`.
//! - `explain.rs`: explanations of pending jobs.
//! - `rebalance.rs`: better machines for running tasks.
//! - `backups.rs`: backups under load, restored cells, and rejected restores.
//! - `served.rs`: cells that are served, and replicas that are killed.
//! - `fire.rs`: linearizability while replicas are killed, paused, partitioned or overloaded.
//! - `clocks.rs`: clocks of a server, its agents and its schedulers that jump by hours.
//! - `secure.rs`: the calls that each role's certificate allows; `certificates.rs` makes the certificates.
//! - `revoked.rs`: certificates that are revoked while the cell is served.
//! - `tenants.rs`: the jobs that each role may read and change, of its own and of others.
//! - `web.rs`: the web page, and access to it; `browser.rs` opens it in a browser, and is skipped
//!   without one; `http.rs` sends requests.
//! - `container.rs`: a server in a read-only root, except for the folder of its cell.
//! - `audit.rs`: audit logs, and `omega audit verify`.
//! - `events.rs`: messages of processes to operators on standard error.
//! - `members.rs`: replicas that join, move and leave.
//! - `metrics.rs`: metrics, and that documentation and dashboard name them.
//! - `spans.rs`: traces of commits.
//! - `top.rs`: the output of `omega top`.
//! - `txn.rs`: transactions by hand, and recorded results of transactions.
//! - `updates.rs`: services that are updated under load, rolled back, and evacuated; `update_faults.rs`: updates while
//!   leaders and agents are killed.
//! - `upgrades.rs`: every verb rejects files of a newer version, and replicas of two versions
//!   report why they cannot communicate.
//! - `requests.rs`: invalid messages, and callers with excessive requests.
//! - `floods.rs`: endless headers, and a thousand watches at the same time.
//! - `idle.rs`: connections without calls.
//! - `bad_requests.rs`: invalid transactions and settings, exhausted systems, and a list of the
//!   tests of bad input.
//! - `limits.rs`: limits on requests, set by an operator.
//! - `programs.rs`: real programs, with agents that are killed and restarted.
//! - `podman.rs`: programs in containers; skipped where Podman cannot run any.
//! - `ports.rs`: ports that the cell chooses for programs.
//! - `agents.rs`: jobs on simulated machines, while agents, schedulers and leaders are killed.
//! - `grace.rs`: grace periods of stopped tasks, and tasks that wait for their resources.
//! - `application.rs`: applications that request containers, and recover them.
//! - `standby.rs`: schedulers that are killed, paused or stopped, and their standbys.
//! - `outputs.rs`: files, pipes and terminals as outputs; `pipes.rs`: pipes and devices as inputs.
//! - `power_cuts.rs`: failing and full disks, and power cuts, by an interposed library.
//! - `peaks.rs`: peak calendars by command, and a peak controller with a scheduler.
//!
//! `process.rs` starts the process, `outcome.rs` reads its result.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod agents;
mod application;
mod apply;
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
mod dev;
mod durable;
mod events;
mod evicting;
mod explain;
mod fire;
mod floods;
mod grace;
mod http;
mod idle;
mod limits;
mod members;
mod metrics;
mod outcome;
mod outputs;
mod peaks;
mod pipes;
mod podman;
mod ports;
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
mod supervisors;
mod tenants;
mod top;
mod traces;
mod txn;
mod update_faults;
mod updates;
mod upgrades;
mod verb_help;
mod web;
mod workflows;
