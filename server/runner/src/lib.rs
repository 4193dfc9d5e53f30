//! Runs the tasks of a machine through a driver, as the cell directs.
//!
//! ```text
//!   cell ── directives ──▶ Runner ── start, stop, kill, resize ──▶ Driver
//!        ◀── reports ─────        ◀── events, usage, logs ───────
//! ```
//!
//! `omega agent` runs tasks through `omega_agent::ProcessDriver`, as processes and containers. Implement
//! [`Driver`](omega_agent::Driver) to run tasks in another way, such as in virtual machines, and give the driver to a
//! [`Runner`]; `examples/own_driver.rs` is such an agent, in one file.
//!
//! In reading order: [`runner`](Runner), `task_spec.rs` (the description of a task for the driver), `environment.rs`,
//! `core_pool.rs`, `start_queue.rs`, `start_delays.rs`, `disk.rs`, `load_reports.rs`, `note.rs`.

mod core_pool;
mod disk;
mod environment;
mod load_reports;
mod note;
mod runner;
mod start_delays;
mod start_queue;
mod task_spec;
mod uses;

pub use runner::{Runner, RunnerError, RunnerSettings};
