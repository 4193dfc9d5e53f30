//! Tasks as processes of a machine.
//!
//! ```text
//!   agent ── Driver ──▶ ProcessDriver ── spawns ──▶ supervisor (one per task) ── spawns ──▶ the program
//!                            │  ▲                      │ logs with rotation, restarts, health checks
//!                            ▼  │                      ▼
//!                       signals, folder of the task: spec.json, supervisor.json, status.json, exit.json, lock
//! ```
//!
//! The supervisor is a process of its own, so that a task outlives its agent: an agent that is restarted or upgraded
//! finds supervisors by the locks that they hold, which no other process can. All that the two tell each other is in
//! the folder of the task.
//!
//! In reading order: [`driver`], [`spec`], [`process`], `supervisor.rs`, `launch.rs`, `tree.rs`, `probe.rs`, [`logs`],
//! [`cgroup`], [`machine`].

pub mod cgroup;
pub mod driver;
mod launch;
pub mod logs;
pub mod machine;
mod probe;
pub mod process;
pub mod spec;
mod supervisor;
mod tree;
mod users;

pub use driver::{Driver, DriverError, Event, Exit, FoundTask, Usage};
pub use launch::CANNOT_START;
pub use process::{ProcessDriver, ProcessSettings};
pub use spec::{Limits, TaskSpec};

use std::io;
use std::path::Path;

/// Runs a stage of a task: `supervise`, or `launch` and `probe`, which become the program. The folder is the task's.
/// To be called before the process has threads. After an error the process is to end with [`CANNOT_START`].
///
/// # Errors
/// If the stage cannot be run, or the program cannot be started.
pub fn exec(stage: &str, folder: &Path) -> io::Result<()> {
    match stage {
        "supervise" => supervisor::run(folder),
        "launch" => launch::program(folder),
        "probe" => launch::probe(folder),
        other => Err(io::Error::other(format!("there is no stage {other:?}"))),
    }
}
