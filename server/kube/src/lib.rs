//! The core of a scheduler for a live Kubernetes API server.
//!
//! ```text
//!  API server ──events──▶ adapter ──commands──▶ cell ◀──views, commits──▶ workers
//!      ▲                   │   ▲                                            │
//!      └── bindings, gets ─┘   └──────────────── accepted claims ───────────┘
//! ```
//!
//! The cell is kept only in memory, because it can be rebuilt from the API server. Workers decide in parallel and
//! commit to the cell. Only an accepted claim becomes a binding, so workers cannot overcommit a node.
//!
//! In reading order: [`adapter`] (the state machine, without I/O), [`workers`].

pub mod adapter;
pub mod client;
pub mod explain;
pub mod profiles;
pub mod run;
pub mod watch;
pub mod workers;
