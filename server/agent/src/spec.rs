//! The description of a task for its supervisor.

use crate::task_files::files;
use omega_core::{HealthCheck, Mount, RestartPolicy};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// A task that is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Id of the task, which is also the name of its folder. It consists of letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// The program. If it is empty, the entry point of the container's image runs.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment of the program. Added to it are `OMEGA_TASK_FOLDER`, and defaults of `PATH` and `HOME`.
    pub env: Vec<(String, String)>,
    /// Container of the program; `None` runs the program on the machine itself.
    pub container: Option<Container>,
    /// Working directory of the program; `None` means the task's own directory, or the directory that the image names.
    pub working_dir: Option<PathBuf>,
    /// User that the processes run as; `None` means the agent's user, or the user that the image names.
    pub user: Option<String>,
    /// Limits of the task.
    pub limits: Limits,
    /// Grace period: the time from the stop until the task is killed, in milliseconds.
    pub grace_ms: u32,
    /// Restarts of the program on this machine. The delay before the first one is at least 100 ms, even if a shorter one
    /// is given.
    pub restart: RestartPolicy,
    /// Whether the program should run without end, so that its end is a failure even if it exits with 0.
    pub stays_up: bool,
    /// Health check of the program, if it has one.
    pub health: Option<HealthCheck>,
    /// Owner of the task, such as its job. A task with the same id and another owner does not get this task's log.
    #[serde(default)]
    pub owner: String,
    /// Opaque data of the agent, which the driver returns when it finds the task again.
    pub note: String,
}

/// The container of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Image of the container.
    pub image: String,
    /// Files and folders of the machine that the container has.
    pub mounts: Vec<Mount>,
}

/// Limits of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Control group of the task. Without one, the task has no limits on processor time, memory and processes.
    pub cgroup: Option<PathBuf>,
    /// Processor time in thousandths of a core; 0 means no limit.
    pub cpu_millis: u64,
    /// Bytes of memory; 0 means no limit.
    pub memory_bytes: u64,
    /// Numbers of the task's exclusive cores.
    pub cores: Vec<u32>,
    /// Maximum number of processes and threads; 0 means no limit.
    pub pids: u64,
    /// Maximum number of open files of each process, as a soft limit; 0 means the agent's limit.
    pub open_files: u64,
    /// Maximum bytes of a log file. There are two files each for stdout and stderr.
    pub log_bytes: u64,
}

/// Environment variable set in all processes of a task. The agent finds leftover processes by it.
pub(crate) const FOLDER_VARIABLE: &str = "OMEGA_TASK_FOLDER";

const SPEC: &str = "spec.json";

/// Maximum size of a description in bytes: many times that of the largest job.
const SPEC_BYTES: u64 = 4 << 20;

pub(crate) const LOGS: &str = "logs";
pub(crate) const WORK: &str = "work";

/// Writes the description. Readers get either the old one or the new one.
pub(crate) fn write(folder: &Path, spec: &TaskSpec) -> io::Result<()> {
    files::replace(&folder.join(SPEC), &serde_json::to_vec(spec)?).map(drop)
}

/// Reads the description; `None` if it does not exist.
pub(crate) fn read(folder: &Path) -> io::Result<Option<TaskSpec>> {
    match files::read(&folder.join(SPEC), SPEC_BYTES) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}
