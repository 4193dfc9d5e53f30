//! Summary of the cell: sums, and the allocation of each machine.

use omega_cellstate::StateCounts;
use omega_core::{JobId, Kinds, Machine, MachineId, TaskState, Text, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The summary of a cell.
#[derive(Debug)]
pub(crate) struct Summary {
    /// Version of the cell at the end of the summary.
    pub(crate) version: Version,
    /// The id of the next job.
    pub(crate) next_job: JobId,
    /// Resource kinds of the cell.
    pub(crate) kinds: Kinds,
    /// Every registered machine, by row.
    pub(crate) machines: Vec<MachineSummary>,
    /// Claimable amount of each resource kind, over all machines.
    pub(crate) claimable: Vec<u64>,
    /// Claimed amount of each resource kind, over all machines.
    pub(crate) claimed: Vec<u64>,
    /// Known jobs.
    pub(crate) jobs: u64,
    /// Tasks of the known jobs.
    pub(crate) tasks: Counts,
    /// Pending tasks by scheduler.
    pub(crate) waiting: BTreeMap<Text, Waiting>,
    /// Cluster resources that the pending tasks would claim, by kind.
    pub(crate) waiting_of_cell: Vec<u64>,
}

/// A machine.
#[derive(Debug)]
pub(crate) struct MachineSummary {
    /// Id of the machine.
    pub(crate) id: MachineId,
    /// The machine as registered.
    pub(crate) machine: Arc<Machine>,
    /// Whether the machine is drained.
    pub(crate) draining: bool,
    /// Whether the machine's agent sends no heartbeats.
    pub(crate) unreachable: bool,
    /// Claimable amount of each resource kind.
    pub(crate) claimable: Box<[u64]>,
    /// Claimed amount of each resource kind.
    pub(crate) claimed: Box<[u64]>,
}

/// Numbers of tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) placed: u64,
    pub(crate) running: u64,
    pub(crate) finished: u64,
    pub(crate) failed: u64,
    pub(crate) killed: u64,
}

impl Counts {
    /// Counts a task.
    pub(crate) fn add(&mut self, state: TaskState) {
        *match state {
            TaskState::Pending => &mut self.pending,
            TaskState::Placed(_) => &mut self.placed,
            TaskState::Running(_) => &mut self.running,
            TaskState::Finished => &mut self.finished,
            TaskState::Failed => &mut self.failed,
            TaskState::Killed => &mut self.killed,
        } += 1;
    }

    /// Adds the tasks of a job.
    pub(crate) fn add_job(&mut self, job: StateCounts) {
        self.pending += u64::from(job.pending);
        self.placed += u64::from(job.placed);
        self.running += u64::from(job.running);
        self.finished += u64::from(job.finished);
        self.failed += u64::from(job.failed);
        self.killed += u64::from(job.killed);
    }
}

/// Pending tasks of one scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Number of jobs with pending tasks.
    pub(crate) jobs: u64,
    /// Number of pending tasks.
    pub(crate) tasks: u64,
    /// The first job with pending tasks, and its name.
    pub(crate) oldest: Option<(JobId, Text)>,
}

impl Waiting {
    /// Adds the pending tasks of another scheduler.
    pub(crate) fn add(&mut self, other: &Waiting) {
        self.jobs += other.jobs;
        self.tasks += other.tasks;
        let both = self.oldest.iter().chain(&other.oldest);
        self.oldest = both.min_by_key(|(id, _)| *id).cloned();
    }
}
