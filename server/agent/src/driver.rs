//! The interface of a driver, which starts and stops tasks, and reports their events.
//!
//! Your own driver (for virtual machines or a container runtime) implements [`Driver`]. Its calls
//! return at once; [`Driver::poll`] returns the events.

use crate::spec::TaskSpec;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Runs tasks on this machine.
pub trait Driver: Send + fmt::Debug {
    /// Name, for messages.
    fn name(&self) -> &'static str;

    /// Finds the tasks that run since before this process began.
    ///
    /// # Errors
    /// If the driver's state cannot be read.
    fn find(&mut self) -> Result<Vec<FoundTask>, DriverError>;

    /// Starts a task. [`Event::Started`] follows once it runs.
    ///
    /// # Errors
    /// If it cannot be started. It has failed then.
    fn start(&mut self, spec: &TaskSpec) -> Result<(), DriverError>;

    /// Stops a task, and kills it after its grace. [`Event::Ended`] follows.
    fn stop(&mut self, task: &str);

    /// Kills a task with all its processes.
    fn kill(&mut self, task: &str);

    /// Changes the limits of a running task.
    ///
    /// # Errors
    /// If the limits cannot be changed.
    fn resize(&mut self, task: &str, cpu_millis: u64, memory_bytes: u64)
    -> Result<(), DriverError>;

    /// Returns the events since the last call.
    fn poll(&mut self) -> Vec<Event>;

    /// Returns the present usage of all tasks.
    fn usage(&mut self) -> Usage;

    /// Folder of the logs of a task, while the driver keeps them.
    fn logs(&self, task: &str) -> Option<PathBuf>;
}

/// A task that runs since before this process began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTask {
    /// Its description.
    pub spec: TaskSpec,
    /// Whether it was stopped and has not ended yet.
    pub is_ending: bool,
    /// Number of restarts of its program so far.
    pub restarts: u32,
}

/// An event of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The task runs, and its health check, if it has one, has succeeded.
    Started(String),
    /// Its program has ended like this, and was started again; the number counts such restarts.
    Restarted(String, Exit, u32),
    /// The task has ended, and none of its processes is left.
    Ended(String, Exit),
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The program exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// The program used more memory than it may, and the kernel killed it.
    OutOfMemory,
    /// Its health check failed.
    Unhealthy,
    /// The program was stopped and has ended.
    Stopped,
    /// The program could not be started.
    NotStarted(String),
    /// Its supervisor ended without a report, and the rest of the task was killed.
    Lost,
}

impl Exit {
    /// Whether the task ended successfully.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Exit::Code(0))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::OutOfMemory => f.write_str("out of memory"),
            Exit::Unhealthy => f.write_str("unhealthy"),
            Exit::Stopped => f.write_str("stopped"),
            Exit::NotStarted(why) => write!(f, "not started: {why}"),
            Exit::Lost => f.write_str("supervisor lost"),
        }
    }
}

/// Use of the machine by tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time per time, in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory.
    pub memory_bytes: u64,
}

/// Error of a driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// Remedy: look at the file and the rights of the agent.
    #[error("{path}: {why}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// Remedy: correct the job.
    #[error("{0}")]
    Refused(String),
}
