//! Where the tasks of each job run, for plugins that keep the tasks of a job apart or together.
//!
//! Rules count tasks for whoever has such a rule, in the cell. This counts, in the view alone, the
//! tasks of every job that it hears of, by machine: kept up with each change of a task and each
//! claim, so that no decision counts tasks.
//!
//! Invariant: a job's count of a row is the number of its tasks that run there as of the last sync,
//! with the view's claims on it and without what they evict.

use super::{BLOCK, Block, View};
use crate::delta::{Delta, TaskDelta};
use crate::map::FastMap;
use omega_core::{JobId, MachineId, TaskId};
use std::collections::BTreeMap;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Below 0 only between two halves of one change.
    counts: FastMap<JobId, BTreeMap<u32, i32>>,
    /// Where tasks run that the cell has placed.
    of_task: FastMap<TaskId, MachineId>,
}

impl Places {
    /// Takes in what a delta tells.
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

    /// Counts tasks of a job on a row.
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

    /// Notes that a counted claim was taken: the next sync tells the same again.
    pub(super) fn placed(&mut self, task: TaskId, machine: MachineId) {
        if let Some(before) = self.of_task.insert(task, machine) {
            self.add(task.job, before.slot, -1);
        }
    }

    /// Notes that an eviction was taken, whose task is not counted any more.
    pub(super) fn evicted(&mut self, task: TaskId) {
        self.of_task.remove(&task);
    }
}

/// Where the tasks of a job run. See [`View::places_of`].
#[derive(Clone, Copy, Debug)]
pub struct JobPlaces<'a>(Option<&'a BTreeMap<u32, i32>>);

impl JobPlaces<'_> {
    /// Whether none runs anywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many run on the machine in a row.
    #[must_use]
    pub fn on(&self, row: usize) -> u32 {
        let count = self.0.and_then(|rows| rows.get(&(row as u32)));
        count.map_or(0, |count| (*count).max(0) as u32)
    }

    /// How many run on each machine of a block.
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

    /// The rows of machines where some run, ascending, each with how many.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let rows = self.0.into_iter().flatten();
        rows.map(|(row, count)| (*row as usize, (*count).max(0) as u32))
    }
}

impl View {
    /// Has the places of every job's tasks ready, of jobs that it hears of. If it has heard of some
    /// already, it hears of everything again with the next sync.
    pub fn keep_job_places(&mut self) {
        if self.job_places.is_none() {
            self.job_places = Some(Box::default());
            self.version = omega_core::Version(0);
        }
    }

    /// Where the tasks of a job run; nowhere unless [`View::keep_job_places`] was called.
    #[must_use]
    pub fn places_of(&self, job: JobId) -> JobPlaces<'_> {
        JobPlaces(self.job_places.as_deref().and_then(|places| places.counts.get(&job)))
    }
}
