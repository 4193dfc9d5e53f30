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
//! A gate precedes every service. It determines the caller (from a certificate), checks the caller's role and takes a
//! slot. docs/security.md describes all of it.
//!
//! In reading order: `host.rs`, `service.rs`, `calls/`, `leases/`, `agents/`, `updates/`, `peers/`, `access/`,
//! `overload/`, `tls.rs`, `connection.rs`, `server.rs`, `observe/`, `web/`.

mod access;
pub mod agents;
#[cfg(test)]
mod bounds_tests;
mod calls;
mod cell_clock;
mod connection;
mod host;
mod leases;
mod observe;
mod outdated;
mod overload;
mod peers;
mod replies;
mod server;
mod service;
mod tls;
mod updates;
mod web;

pub use access::audit_queue::AuditLog;
pub use access::identity::{Caller, IdentityError, Role};
pub use access::{audit, identity, roles};
pub use agents::Agents;
pub use agents::monitor::MonitorSettings;
pub use calls::cell::Cells;
pub use calls::commit_log::SlowCommit;
pub use calls::explain::{Explainer, ExplanationText, Question, ReadOnlyHandle};
pub use calls::jobs::Jobs;
pub use calls::machines::Machines;
pub use calls::scheduling::Scheduling;
pub use calls::tasks::Tasks;
pub use calls::tenants::Tenants;
pub use calls::traces::{TraceSettings, Traces};
pub use connection::ListenerSecurity;
pub use host::{Host, Pending, Try};
pub use leases::Leases;
pub use observe::metrics::Metrics;
pub use observe::openmetrics;
pub use overload::limits::{Deadlines, HEADER_BYTES_MIN, Limits};
pub use peers::{
    Dial, Dialer, FRAME_BYTES_MAX, PeerContacts, PeerListener, Peers, ReplicaIdentity,
};
pub use server::{Extras, ListenerConfig, serve_clients, serve_peers};
pub use tls::{Certificates, TlsBytes, TlsError, TlsFiles, check_key, read_key};
pub use web::{MakeText, Web, serve_metrics, serve_web};
