//! The machines of each job's tasks, for plugins that keep the tasks of a job apart or together.
//!
//! The cell counts tasks only for rules that relate tasks to each other. This index exists only in views, and counts
//! the tasks of every received job by machine. Each change of a task and each claim updates it, so a decision need not
//! count tasks.
//!
//! Invariant: a job's count in a row is the number of its tasks there at the last sync, plus the view's claims, minus
//! its evictions.

use crate::delta::{Delta, TaskDelta};
use crate::state::map::FastMap;
use crate::view::{BLOCK, Block, View};
use omega_core::{JobId, MachineId, TaskId};
use std::collections::BTreeMap;

/// The counts of all jobs. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Number of tasks by job and row. In the middle of a change, a number may be negative.
    counts: FastMap<JobId, BTreeMap<u32, i32>>,
    /// The machine of each placed task.
    of_task: FastMap<TaskId, MachineId>,
}

impl Places {
    /// Applies a delta.
    pub(super) fn apply(&mut self, delta: &Delta) {
        if delta.full {
            *self = Places::default();
        }
        delta.tasks.iter().for_each(|task| self.set_task(task));
        let ended = delta.jobs.iter().filter(|change| change.job.is_none());
        let known = |id: &JobId| self.counts.contains_key(id);
        let ended: Vec<JobId> = ended.map(|change| change.id).filter(known).collect();
        if !ended.is_empty() {
            self.of_task.retain(|task, _| !ended.contains(&task.job));
            self.counts.retain(|job, _| !ended.contains(job));
        }
    }

    fn set_task(&mut self, task: &TaskDelta) {
        if let Some(machine) = self.of_task.remove(&task.id) {
            self.add(task.id.job, machine.slot, -1);
        }
        if let Some(machine) = task.state.machine() {
            self.of_task.insert(task.id, machine);
            self.add(task.id.job, machine.slot, 1);
        }
    }

    /// Adds tasks of a job to a row.
    pub(super) fn add(&mut self, job: JobId, row: u32, more: i32) {
        let rows = self.counts.entry(job).or_default();
        let count = rows.entry(row).or_default();
        *count += more;
        if *count == 0 {
            rows.remove(&row);
        }
        if rows.is_empty() {
            self.counts.remove(&job);
        }
    }

    /// Records that a claim was accepted, so that the next sync does not count its task a second time.
    pub(super) fn placed(&mut self, task: TaskId, machine: MachineId) {
        if let Some(before) = self.of_task.insert(task, machine) {
            self.add(task.job, before.slot, -1);
        }
    }

    /// Records that an eviction was accepted. The evicted task is no longer counted.
    pub(super) fn evicted(&mut self, task: TaskId) {
        self.of_task.remove(&task);
    }
}

/// The places of a job's tasks. See [`View::places_of`].
#[derive(Clone, Copy, Debug)]
pub struct JobPlaces<'a>(Option<&'a BTreeMap<u32, i32>>);

impl JobPlaces<'_> {
    /// Whether no task of the job is placed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The number of tasks on the machine in a row.
    #[must_use]
    pub fn on(&self, row: usize) -> u32 {
        let count = self.0.and_then(|rows| rows.get(&(row as u32)));
        count.map_or(0, |count| (*count).max(0) as u32)
    }

    /// The number of tasks on each machine of a block.
    #[must_use]
    pub fn of_block(&self, block: Block<'_>) -> [u32; BLOCK] {
        let mut counts = [0; BLOCK];
        let first = block.first_row() as u32;
        let here = self.0.into_iter().flat_map(|rows| rows.range(first..first + BLOCK as u32));
        for (row, count) in here {
            counts[(row - first) as usize] = (*count).max(0) as u32;
        }
        counts
    }

    /// The rows of machines with tasks of the job, ascending, each with the number of tasks.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let rows = self.0.into_iter().flatten();
        rows.map(|(row, count)| (*row as usize, (*count).max(0) as u32))
    }
}

impl View {
    /// Makes the view keep the places of the tasks of all jobs that it receives. If it has received jobs already, the
    /// next sync is a full one.
    pub fn keep_job_places(&mut self) {
        if self.indexes.keep_job_places() {
            self.session.start_over();
        }
    }

    /// The places of a job's tasks; empty unless [`View::keep_job_places`] was called.
    #[must_use]
    pub fn places_of(&self, job: JobId) -> JobPlaces<'_> {
        JobPlaces(self.indexes.job_places().and_then(|places| places.counts.get(&job)))
    }
}
