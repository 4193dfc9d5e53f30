//! The core of a scheduler for a live Kubernetes API server.
//!
//! ```text
//!  API server ──events──▶ adapter ──commands──▶ cell ◀──views, commits──▶ workers
//!      ▲                   │   ▲                                            │
//!      └── bindings, gets ─┘   └──────────────── accepted claims ───────────┘
//! ```
//!
//! The API server is the truth, so the cell lives in memory. Workers decide in parallel on the cell and commit there;
//! only an accepted claim becomes a binding, so workers cannot overcommit a node between them.
//!
//! In reading order: [`adapter`] (the step machine, without I/O), [`workers`].

pub mod adapter;
pub mod client;
pub mod explain;
pub mod profiles;
pub mod run;
pub mod watch;
pub mod workers;
