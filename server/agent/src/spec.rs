//! The description of a task for its supervisor, and the files by which the supervisor reports.

use crate::driver::{DriverError, Exit};
use omega_core::{HealthCheck, RestartPolicy};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A task to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its name, which is the name of its folder: letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, to which only `PATH` and `HOME` are added.
    pub env: Vec<(String, String)>,
    /// Its working directory; `None`: the task's folder.
    pub working_dir: Option<PathBuf>,
    /// User of its processes; `None`: the agent's.
    pub user: Option<String>,
    /// Its limits.
    pub limits: Limits,
    /// Time from stop to kill, in milliseconds.
    pub grace_ms: u32,
    /// Restarts in place.
    pub restart: RestartPolicy,
    /// Whether it is to stay up, so that its end is a failure whatever its exit code.
    pub stays_up: bool,
    /// Its health check.
    pub health: Option<HealthCheck>,
    /// The agent's data, returned when the task is found again.
    pub note: String,
}

/// Limits of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Its cgroup, where the agent has any.
    pub cgroup: Option<PathBuf>,
    /// Thousandths of a core; 0: no limit.
    pub cpu_millis: u64,
    /// Bytes of memory; 0: no limit.
    pub memory_bytes: u64,
    /// Numbers of its exclusive cores.
    pub cores: Vec<u32>,
    /// Number of processes and threads; 0: no limit.
    pub pids: u64,
    /// Maximum bytes of a log file. There are two files each for stdout and stderr.
    pub log_bytes: u64,
}

/// The supervisor of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SupervisorFile {
    /// Its process.
    pub(crate) pid: i32,
    /// Its start, in clock ticks since the boot of the machine. Together with the pid it identifies
    /// a process.
    pub(crate) start_ticks: u64,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusFile {
    /// Number of restarts in place so far.
    pub restarts: u32,
    /// Whether the program runs.
    pub running: bool,
    /// Whether its health check has succeeded in this run; without one, the same as `running`.
    pub ready: bool,
    /// Whether it was stopped.
    pub ending: bool,
    /// The end of the run before this one, after a restart.
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

/// Replaces a file atomically: readers see the old or the new content.
pub(crate) fn write<T: Serialize>(folder: &Path, name: &str, value: &T) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}.new"));
    let mut file = File::create(&unfinished)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(unfinished, folder.join(name))
}

/// Reads a file, if it exists.
pub(crate) fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> io::Result<Option<T>> {
    match fs::read(folder.join(name)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

impl TaskSpec {
    /// Checks that the id can be the name of a folder.
    pub(crate) fn check(&self) -> Result<(), DriverError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = self.id.chars().all(is_plain) && !self.id.starts_with('.');
        match is_name && (1..=200).contains(&self.id.len()) {
            true => Ok(()),
            false => Err(DriverError::Refused(format!(
                "the id {:?} is no name of a folder: use letters, digits, \"-\", \"_\" and \".\"",
                self.id
            ))),
        }
    }
}
