//! A cell that others reach over the network.
//!
//! ```text
//!                      ┌── scheduling ──┐
//!   clients ── gRPC ──▶│  jobs          │──▶ Host ──▶ ReplicatedCell ──▶ Replica
//!                      │  machines ...  │     │                            │  ▲
//!                      └────────────────┘     └──▶ or a cell in memory     ▼  │
//!   peers ─── gRPC ──────────────────────────────────────── PeerListener / Peers
//! ```
//!
//! The services know no scheduler: a scheduler is a client like any other. What they ask of the cell goes
//! through [`Host`], the only place where calls that await meet a cell that does not.
//!
//! In reading order: `host.rs`, `service.rs`, `scheduling.rs`, `jobs.rs`, `machines.rs`, `tasks.rs`,
//! `tenants.rs`, `cell.rs`, `agents/`, `describe.rs`, `peers.rs`, `server.rs`, `metrics.rs`, `web.rs`.

pub mod agents;
mod cell;
mod describe;
mod host;
mod jobs;
mod machines;
mod metrics;
mod peers;
mod scheduling;
mod server;
mod service;
mod tasks;
mod tenants;
mod web;

pub use agents::Agents;
pub use agents::monitor::MonitorSettings;
pub use cell::Cells;
pub use host::{Host, Pending, Try};
pub use jobs::Jobs;
pub use machines::Machines;
pub use metrics::Metrics;
pub use peers::{FRAME_BYTES_MAX, PeerListener, Peers, Whoami};
pub use scheduling::Scheduling;
pub use server::{serve_clients, serve_peers};
pub use tasks::Tasks;
pub use tenants::Tenants;
pub use web::serve_web;
