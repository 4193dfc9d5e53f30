//! The description of a task for its supervisor, and the files in which the supervisor reports.

use crate::exit::Exit;
use omega_core::{HealthCheck, RestartPolicy};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A task that is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Id of the task, which is also the name of its folder. It consists of letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// The program.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment of the program. Only `PATH` and `HOME` are added to it.
    pub env: Vec<(String, String)>,
    /// Working directory of the program; `None` means the task's own directory.
    pub working_dir: Option<PathBuf>,
    /// User that the processes run as; `None` means the agent's user.
    pub user: Option<String>,
    /// Limits of the task.
    pub limits: Limits,
    /// Grace period: the time from the stop until the task is killed, in milliseconds.
    pub grace_ms: u32,
    /// Restarts of the program on this machine.
    pub restart: RestartPolicy,
    /// Whether the program should run without end, so that its end is a failure even if it exits with 0.
    pub stays_up: bool,
    /// Health check of the program, if it has one.
    pub health: Option<HealthCheck>,
    /// Opaque data of the agent, which the driver returns when it finds the task again.
    pub note: String,
}

/// Limits of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Control group of the task, if the agent uses control groups.
    pub cgroup: Option<PathBuf>,
    /// Processor time in thousandths of a core; 0 means no limit.
    pub cpu_millis: u64,
    /// Bytes of memory; 0 means no limit.
    pub memory_bytes: u64,
    /// Numbers of the task's exclusive cores.
    pub cores: Vec<u32>,
    /// Maximum number of processes and threads; 0 means no limit.
    pub pids: u64,
    /// Maximum bytes of a log file. There are two files each for stdout and stderr.
    pub log_bytes: u64,
}

/// Content of the file that identifies the process of a task's supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SupervisorFile {
    /// Pid of the supervisor.
    pub(crate) pid: i32,
    /// Start of the process, in clock ticks since the machine booted. Pid and start together identify a process.
    pub(crate) start_ticks: u64,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusFile {
    /// Number of restarts of the program on this machine so far.
    pub restarts: u32,
    /// Whether the program runs.
    pub running: bool,
    /// Whether the health check has succeeded in this run. Without a health check it equals `running`.
    pub ready: bool,
    /// Whether the task was stopped.
    pub ending: bool,
    /// The end of the previous run; `None` before the first restart.
    #[serde(default)]
    pub last: Option<Exit>,
}

/// The end of a task, with the number of restarts before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitFile {
    pub(crate) exit: Exit,
    pub(crate) restarts: u32,
}

pub(crate) const SPEC: &str = "spec.json";
pub(crate) const SUPERVISOR: &str = "supervisor.json";
pub(crate) const STATUS: &str = "status.json";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const REPORTED: &str = "reported";
pub(crate) const LOCK: &str = "lock";
pub(crate) const LOGS: &str = "logs";
pub(crate) const WORK: &str = "work";

/// Replaces a file atomically, so that readers get either the old content or the new one.
pub(crate) fn write<T: Serialize>(folder: &Path, name: &str, value: &T) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}.new"));
    let mut file = File::create(&unfinished)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(unfinished, folder.join(name))
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> io::Result<Option<T>> {
    match fs::read(folder.join(name)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}
