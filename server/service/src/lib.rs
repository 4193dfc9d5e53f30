//! The server of a cell: gRPC services for clients and peers.
//!
//! ```text
//!                      ┌── scheduling ──┐
//!   clients ── gRPC ──▶│  jobs          │──▶ Host ──▶ ReplicatedCell ──▶ Replica
//!                      │  machines ...  │     │                            │  ▲
//!                      └────────────────┘     └──▶ or a cell in memory     ▼  │
//!   peers ─── gRPC ──────────────────────────────────────── PeerListener / Peers
//! ```
//!
//! Schedulers are clients of the services like any other. The services access the cell only through [`Host`], the one
//! place where async calls meet the synchronous cell.
//!
//! A gate precedes every service. It determines the caller (`identity.rs`, from a certificate), checks the caller's
//! role (`roles.rs`, one table; `grants.rs` and `reach.rs` for rules that depend on the content), and takes a slot
//! (`limits.rs`). docs/security.md describes all of it.
//!
//! In reading order: `host.rs`, `service.rs`, `leases/`, `scheduling.rs`, `deltas.rs`, `snapshots.rs`, `commits.rs`,
//! `commit_log.rs`, `transactions.rs`, `traces.rs`, `jobs.rs`, `jobs_watch.rs`, `explain.rs`, `machines.rs`,
//! `tasks.rs`, `tenants.rs`, `cell.rs`, `backup.rs`, `statistics.rs`, `summary.rs`, `submit_index.rs`, `counters.rs`,
//! `agents/`, `updates/`, `responses.rs`, `names.rs`, `history.rs`, `peers/`, `identity.rs`, `roles.rs`, `grants.rs`,
//! `reach.rs`, `limits.rs`, `turns.rs`, `slowdown.rs`, `audit.rs`, `gate.rs`, `bodies.rs`, `held.rs`, `tls.rs`,
//! `slots.rs`, `connection.rs`, `server.rs`, `openmetrics.rs`, `metrics.rs`, `web/`.

pub mod agents;
pub mod audit;
mod backup;
mod bodies;
#[cfg(test)]
mod bounds;
mod cell;
mod commit_log;
mod commits;
mod connection;
mod counters;
mod deltas;
mod explain;
mod gate;
mod grants;
mod held;
mod history;
mod host;
pub mod identity;
mod jobs;
mod jobs_watch;
mod leases;
mod limits;
mod machines;
mod metrics;
mod names;
mod observer;
pub mod openmetrics;
mod peers;
mod reach;
mod refs;
mod responses;
pub mod roles;
mod scheduling;
mod server;
mod service;
mod slots;
mod slowdown;
mod snapshots;
mod statistics;
mod submit_index;
mod summarize;
mod summary;
mod tasks;
mod tenant_tasks;
mod tenants;
mod tls;
mod traces;
mod transactions;
mod turns;
mod updates;
mod web;

pub use agents::Agents;
pub use agents::monitor::MonitorSettings;
pub use audit::AuditLog;
pub use cell::Cells;
pub use commit_log::SlowCommit;
pub use connection::Door;
pub use explain::{Explainer, Onlooker, Question, Words};
pub use host::{Host, Pending, Try};
pub use identity::{Caller, IdentityError, Role};
pub use jobs::Jobs;
pub use leases::Leases;
pub use limits::{Deadlines, HEADER_BYTES_MIN, Limits};
pub use machines::Machines;
pub use metrics::Metrics;
pub use peers::{Dial, Dialer, FRAME_BYTES_MAX, PeerListener, Peers, PeersHeard, Whoami};
pub use scheduling::Scheduling;
pub use server::{Entrance, Extras, serve_clients, serve_peers};
pub use tasks::Tasks;
pub use tenants::Tenants;
pub use tls::{Certificates, TlsBytes, TlsError, TlsFiles, check_key, read_key};
pub use traces::{TraceSettings, Traces};
pub use web::{MakeText, Web, serve_metrics, serve_web};
