//! Placed tasks of gangs that wait for more of their tasks. They start together when their gang is complete.
//!
//! A gang that is larger than a transaction is placed by several transactions. Until it is complete, it holds its
//! machines. If its timeout is over, its tasks become pending again.

use crate::driver::ends::Since;
use omega_cellstate::Cell;
use omega_core::{Job, JobId, TaskId, Version};
use std::collections::{BTreeMap, BTreeSet};

/// The waiting gangs. See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct WaitingGangs {
    /// Jobs whose gang may wait.
    may_wait: BTreeSet<JobId>,
    waiting: BTreeMap<JobId, PlacedTasks>,
}

/// Tasks of a gang that are placed and not started.
#[derive(Debug, Default)]
struct PlacedTasks {
    /// Time of the last commit that placed some of them.
    at_ms: u64,
    /// For each task, the cell's version after its placement.
    tasks: BTreeMap<TaskId, Version>,
}

impl WaitingGangs {
    /// Records a job.
    pub(crate) fn add_job(&mut self, id: JobId, job: &Job) {
        if job.gang_min.is_some() && job.gang_timeout_ms.is_some() {
            self.may_wait.insert(id);
        }
    }

    /// Whether no gang waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds tasks that were placed at this time, if their gang may wait. Returns the other tasks.
    pub(crate) fn add(&mut self, at_ms: u64, (version, tasks): Since) -> Since {
        let WaitingGangs { may_wait, waiting } = self;
        if may_wait.is_empty() || !tasks.iter().any(|(task, _)| may_wait.contains(&task.job)) {
            return (version, tasks);
        }
        let (gangs, others): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|(task, _)| may_wait.contains(&task.job));
        for (task, _) in gangs {
            let placed = waiting.entry(task.job).or_default();
            placed.at_ms = placed.at_ms.max(at_ms);
            placed.tasks.insert(task, version);
        }
        (version, others)
    }

    /// Removes the gangs that no longer wait. Returns the tasks of those that are complete, with the time at which they
    /// start; a gang that gave up has no placed tasks.
    pub(crate) fn take_complete(&mut self, cell: &Cell) -> Vec<(u64, Since)> {
        let mut complete = Vec::new();
        for (_, placed) in self.waiting.extract_if(.., |job, _| cell.gang_wait(*job).is_none()) {
            let mut by_version: BTreeMap<Version, Vec<_>> = BTreeMap::new();
            for (task, version) in placed.tasks {
                if let Some(machine) = cell.task(task).and_then(|task| task.machine()) {
                    by_version.entry(version).or_default().push((task, machine));
                }
            }
            complete.extend(by_version.into_iter().map(|tasks| (placed.at_ms, tasks)));
        }
        complete
    }
}
