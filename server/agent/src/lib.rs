//! Runs tasks as processes of this machine, on the machine itself or in containers.
//!
//! ```text
//!   agent ── Driver ──▶ ProcessDriver ── spawns ──▶ supervisor (one per task) ── spawns ──▶ the program
//!                            │  ▲                      │ logs with rotation, restarts, health checks
//!                            ▼  │                      ▼
//!                       signals, folder of the task: spec.json, journal.jsonl, logs, work
//! ```
//!
//! The supervisor is a process of its own, so that a task outlives its agent. An agent that is restarted or upgraded
//! finds each supervisor by the journal of its task. Agent and supervisor exchange data only by signals and by files in
//! the folder of the task.
//!
//! In reading order: [`driver`], [`spec`], `task_files/` (safe access to files, the journal), [`process`],
//! `running.rs`, `watch.rs`, `supervisor.rs`, `inbox.rs`, `output.rs`, `start_pipe.rs`, `launch.rs`, `limits.rs`,
//! [`container`], `tree.rs`, `strays.rs`, `removal.rs`, `probe.rs`, [`logs`], [`cgroup`], [`machine`].

pub mod cgroup;
pub mod container;
pub mod driver;
mod exit;
mod inbox;
mod launch;
mod limits;
pub mod logs;
pub mod machine;
mod output;
mod probe;
pub mod process;
mod removal;
mod running;
pub mod spec;
mod start_pipe;
mod strays;
mod supervisor;
mod supervisor_event;
mod task_files;
mod tree;
mod users;
mod watch;

pub use driver::{DiskSpace, Driver, DriverError, Event, FoundTask, TaskUsage, Usage};
pub use exit::Exit;
pub use launch::CANNOT_START;
pub use process::{ProcessDriver, ProcessSettings};
pub use spec::{Container, Limits, TaskSpec};
pub use strays::supervised_folders;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Release and commit of this build. A supervisor of another build may not understand the agent's files.
#[must_use]
pub fn build() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), option_env!("OMEGA_COMMIT").unwrap_or("unknown"))
}

/// Runs a stage of a task as a program: see [`exec`]. `args` are the name of the stage and the folder of the task. With
/// `--build`, the program only prints [`build`].
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let done = match &*args.collect::<Vec<_>>() {
        [word] if word == "--build" => writeln!(io::stdout(), "{}", build()),
        [stage, folder] => exec(&stage.to_string_lossy(), Path::new(folder)),
        _ => Err(io::Error::other(
            "the arguments must be a stage and a folder: do not start this program by hand, \
             because omega agent starts it",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("omega agent: {why}");
            ExitCode::from(CANNOT_START)
        }
    }
}

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
