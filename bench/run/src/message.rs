//! Messages to the driver of the workload: of workers, and of the thread that sends commands.

use super::kept::{Answer, KeepError};
use omega_core::{MachineId, TaskId, Text, Version};

/// Message of a worker, or of the command thread, to the driver.
#[derive(Debug)]
pub(crate) enum Message {
    /// A worker's transaction was answered.
    Committed(Committed),
    /// A worker has tried all jobs of a version.
    Idle { worker: usize, state: IdleState },
    /// A worker has seen a version, and its jobs wait for time to pass.
    Synced { worker: usize, version: Version },
    /// Commands of the feeder were answered.
    Done(Done),
    /// Messages of one worker, in their order.
    Several(Vec<Message>),
}

/// A transaction that was decided at one version and answered at another.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) worker: usize,
    pub(crate) base: Version,
    pub(crate) version: Version,
    /// The placed tasks.
    pub(crate) placed: Vec<(TaskId, MachineId)>,
    /// The evicted tasks.
    pub(crate) evicted: Vec<TaskId>,
    /// The number of rejected claims.
    pub(crate) refused: usize,
}

/// State of a worker that has nothing to try at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdleState {
    /// Newest cell version that it has seen.
    pub(crate) version: Version,
    /// Number of its tasks that find no machine.
    pub(crate) unplaceable: usize,
    /// Whether it has tried them again since room last became free.
    pub(crate) settled: bool,
}

/// Purpose of a command.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// To submit the job of this name.
    Submit(Text),
    /// Reports that a task has ended.
    End,
    /// To forget jobs that have ended.
    Expire,
}

/// Commands that were answered, in order; or that were not all answered.
#[derive(Debug)]
pub(crate) struct Done {
    pub(super) purposes: Vec<Purpose>,
    pub(super) answers: Result<Vec<Answer>, KeepError>,
}
