//! Tasks as processes of a machine.
//!
//! ```text
//!   agent ── Driver ──▶ ProcessDriver ── spawns ──▶ supervisor (one per task) ── spawns ──▶ the program
//!                            │  ▲                      │ logs with rotation, restarts, health checks
//!                            ▼  │                      ▼
//!                       signals, folder of the task: spec.json, supervisor.json, status.json, exit.json, lock
//! ```
//!
//! The supervisor is a process of its own, so that a task outlives its agent. An agent that is restarted or upgraded
//! finds each supervisor by its lock, which only one process can have. Agent and supervisor exchange data only by
//! signals and by files in the folder of the task.
//!
//! In reading order: [`driver`], [`spec`], [`process`], `running.rs`, `supervisor.rs`, `launch.rs`, `tree.rs`,
//! `strays.rs`, `probe.rs`, [`logs`], [`cgroup`], [`machine`].

pub mod cgroup;
pub mod driver;
mod exit;
mod happened;
mod launch;
pub mod logs;
pub mod machine;
mod probe;
pub mod process;
mod running;
pub mod spec;
mod strays;
mod supervisor;
mod tree;
mod users;

pub use driver::{Driver, DriverError, Event, FoundTask, Usage};
pub use exit::Exit;
pub use launch::CANNOT_START;
pub use process::{ProcessDriver, ProcessSettings};
pub use spec::{Limits, TaskSpec};

use std::io;
use std::path::Path;

/// Runs a stage of a task. The stage `supervise` returns when the task has ended. The stages `launch` and `probe`
/// replace this process with the program or with the health check's command. `folder` is the folder of the task. Call
/// this function before the process has threads. After an error, the process should exit with [`CANNOT_START`].
///
/// # Errors
/// The stage cannot be run, or the program cannot be started.
pub fn exec(stage: &str, folder: &Path) -> io::Result<()> {
    match stage {
        "supervise" => supervisor::run(folder),
        "launch" => launch::program(folder),
        "probe" => launch::probe(folder),
        other => Err(io::Error::other(format!(
            "there is no stage {other:?}: it must be supervise, launch or probe"
        ))),
    }
}
