//! The client library: everything that a program needs to use a cell over the network.
//!
//! ```text
//!   your scheduler ── CellHandle ──▶ RemoteCell ─┐
//!                                                ├── gRPC ──▶ any replica ──▶ the leader
//!   your tool ───── proto::*_client, ApiError ───┘
//! ```
//!
//! [`RemoteCell`] is the cell's handle for schedulers. Like a cell in the scheduler's process, it implements
//! [`omega_cellstate::CellHandle`], so a scheduler runs unchanged with either of the two. For jobs, machines, members
//! and everything else, call the generated clients in [`proto`]. [`convert`] converts their messages to the types of
//! `omega-core`, and [`ApiError`] has codes for their failures.
//!
//! ```no_run
//! use omega_cellstate::{CellHandle, View};
//! use omega_client::{Address, RemoteCell};
//!
//! let cell = RemoteCell::connect(&Address::plain(["127.0.0.1:7600"]))?;
//! let (me, number) = cell.register("mine".into())?;
//! let mut view = View::new(me, number);
//! view.sync(&cell)?;
//! println!("{} machines", view.rows());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The calls of [`RemoteCell`] and [`application`] block. In an async program, make them in
//! `tokio::task::spawn_blocking`: in a task, they would also stop the other tasks of the thread.
//!
//! In reading order: `proto/omega/v1/`, [`convert`], [`error`], [`connect`], `remote/`, [`agent`], [`application`],
//! [`restart`].

pub mod agent;
pub mod application;
pub mod connect;
pub mod convert;
pub mod error;
mod mismatch;
mod own_runtime;
mod pause;
pub mod proto;
mod remote;
pub mod restart;
pub mod rollback;

pub use connect::{Address, Tls};
pub use error::{ApiError, ErrorCode};
pub use pause::before_another_try;
pub use remote::{LeaseSettings, RemoteCell};
