//! Messages to the feeder, from workers and from the thread that sends commands.

use crate::backend::{Answer, BackendError};
use omega_core::{MachineId, TaskId, Text, Version};

/// Message to the feeder, from a worker or from the thread that sends commands.
#[derive(Debug)]
pub(crate) enum Message {
    /// A worker's transaction was answered.
    Committed(Committed),
    /// A worker has no job to try at present.
    Idle { worker: usize, state: IdleState },
    /// Commands of the feeder were answered.
    Done(Done),
    /// Messages of one worker, in the order in which it sent them.
    Several(Vec<Message>),
}

/// An answered transaction, decided at the version `base` and answered at `version`.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) worker: usize,
    pub(crate) base: Version,
    pub(crate) version: Version,
    /// The workload's time of the answer.
    pub(crate) at_ms: u64,
    /// The placed tasks.
    pub(crate) placed: Vec<(TaskId, MachineId)>,
    /// The evicted tasks.
    pub(crate) evicted: Vec<TaskId>,
    /// The number of rejected claims.
    pub(crate) refused: usize,
}

/// State of a worker that has no job to try at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdleState {
    /// Newest version of the cell that the worker has seen.
    pub(crate) version: Version,
    /// Number of the worker's tasks for which no machine is feasible.
    pub(crate) unplaceable: usize,
    /// Whether the worker has tried all its jobs as of this version. Otherwise, some job waits for its next attempt,
    /// for example after a conflict.
    pub(crate) has_tried_all: bool,
    /// Whether an event may help an unplaceable task that has not been tried since.
    pub(crate) owes_retry: bool,
    /// Whether the worker has tried its unplaceable tasks again since resources last became free.
    pub(crate) settled: bool,
}

/// Purpose of a command.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Submits the job with this name.
    Submit(Text),
    /// Reports that a task has ended.
    End,
    /// Removes ended jobs.
    Expire,
}

/// Answers to commands, in order, or the error if some were not answered.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) purposes: Vec<Purpose>,
    pub(crate) answers: Result<Vec<Answer>, BackendError>,
}
