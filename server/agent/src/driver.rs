//! The interface of a driver, which starts and stops tasks, and reports their events.
//!
//! A driver of your own (for example, for virtual machines) implements [`Driver`]. Its calls must return at
//! once; [`Driver::poll`] returns the events.

use crate::exit::Exit;
use crate::spec::TaskSpec;
use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A driver, which runs tasks on this machine.
pub trait Driver: Send + fmt::Debug {
    /// Name of the driver, for messages.
    fn name(&self) -> &'static str;

    /// Finds the tasks that an earlier process started, and whose ends were not confirmed ([`Driver::confirm_end`]). If
    /// such a task has ended, its [`Event::Ended`] follows.
    ///
    /// # Errors
    /// The driver's state cannot be read.
    fn find(&mut self) -> Result<Vec<FoundTask>, DriverError>;

    /// Starts a task. [`Event::Started`] follows once the task runs.
    ///
    /// # Errors
    /// The task cannot be started. It counts as failed after [`DriverError::Refused`]; otherwise it is lost, and placed
    /// again.
    fn start(&mut self, spec: &TaskSpec) -> Result<(), DriverError>;

    /// Stops a task, and kills it after its grace period. [`Event::Ended`] follows.
    fn stop(&mut self, task: &str);

    /// Kills a task with all its processes.
    fn kill(&mut self, task: &str);

    /// Records that the end of a task need not be reported again, because the cell has recorded it, or because the cell
    /// had stopped the task. From then on, [`Driver::find`] leaves the task out. Drivers whose tasks end with the agent
    /// need no such record.
    fn confirm_end(&mut self, _task: &str) {}

    /// Changes the limits of a running task.
    ///
    /// # Errors
    /// The limits cannot be changed.
    fn resize(&mut self, task: &str, cpu_millis: u64, memory_bytes: u64)
    -> Result<(), DriverError>;

    /// Keeps tasks without exclusive cores off these cores, which are all exclusive cores that tasks have. Drivers
    /// without this method let tasks share them.
    fn keep_off(&mut self, _cores: &BTreeSet<u32>) {}

    /// Returns the events since the last call.
    fn poll(&mut self) -> Vec<Event>;

    /// Returns a file descriptor that is readable when [`Driver::poll`] has events. If there is none, the agent polls
    /// at short intervals.
    fn readable(&self) -> Option<OwnedFd> {
        None
    }

    /// Returns the space of the disk that has the tasks' files, after removing files that are no longer needed. `None`
    /// means that it cannot be measured. While the disk is full, the machine gets no new tasks.
    fn disk_space(&mut self) -> Option<DiskSpace> {
        None
    }

    /// Returns the usage of all tasks since the last call, including tasks that have ended since.
    fn usage(&mut self) -> Usage;

    /// Folder of the logs of a task of this owner; `None` if the driver has none, or no longer keeps them.
    fn logs(&self, task: &str, owner: &str) -> Option<PathBuf>;
}

/// A task that was started before this process began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTask {
    /// Description of the task.
    pub spec: TaskSpec,
    /// Whether [`Event::Started`] of the task was due before this process began. If not, the event follows once the
    /// task runs.
    pub is_started: bool,
    /// Whether the task was stopped and has not ended yet.
    pub is_ending: bool,
    /// Number of restarts of the task's program so far.
    pub restarts: u32,
}

/// An event of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The task runs. If it has a health check, the check has succeeded.
    Started(String),
    /// The task's program has ended in this way, and was restarted. The number counts all restarts so far.
    Restarted(String, Exit, u32),
    /// The task has ended in this way, and none of its processes is left.
    Ended(String, Exit),
}

/// Resources that tasks use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Average processor use of all tasks since the last call, in thousandths of a core.
    pub cpu_millis: u64,
    /// Bytes of memory of all tasks.
    pub memory_bytes: u64,
    /// Usage of each task. A driver that cannot measure single tasks leaves the list empty.
    pub tasks: Vec<TaskUsage>,
}

/// Resources that a task uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskUsage {
    /// Id of the task in the driver.
    pub task: String,
    /// Processor time since the last call, in microseconds.
    pub cpu_us: u64,
    /// Bytes of memory; 0 if the task has ended.
    pub memory_bytes: u64,
}

/// Space of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Size of the disk in bytes.
    pub total_bytes: u64,
    /// Number of bytes that can still be written.
    pub free_bytes: u64,
    /// Whether further files can be created.
    pub has_free_files: bool,
}

/// Error of a driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// A file cannot be read or written. Check the file, and the rights of the agent.
    #[error("{path}: {why}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// The machine cannot run the task, for this reason. The task may run on another machine.
    #[error("{0}")]
    Machine(String),
    /// The task cannot be run, for this reason. Correct the job.
    #[error("{0}")]
    Refused(String),
}

impl DriverError {
    /// Whether a file cannot be written because the disk is full, or because a quota is used up.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let DriverError::File { why, .. } = self else { return false };
        matches!(why.kind(), StorageFull | QuotaExceeded)
    }
}
