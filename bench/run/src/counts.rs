//! Counts of the tasks of a run, by their state.

use super::Progress;
use super::ends::{Ending, Since};
use super::message::Committed;
use omega_core::{TaskId, Version};
use std::collections::HashMap;

/// Counts of a run's tasks.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Tasks that the whole workload has.
    pub(crate) tasks: u64,
    /// Tasks that have arrived.
    pub(crate) submitted: u64,
    pub(crate) placed_at_start: usize,
    pub(crate) placements: u64,
    pub(crate) finished: u64,
    /// Tasks that became pending again because their machine was removed.
    pub(crate) lost: u64,
    /// Rejected claims.
    pub(crate) conflicts: u64,
    pub(crate) evictions: Evictions,
}

impl Counts {
    /// Counts an answered transaction.
    pub(super) fn committed(&mut self, committed: &Committed) {
        self.placements += committed.placed.len() as u64;
        self.conflicts += committed.refused as u64;
        self.evictions.note(&committed.evicted, committed.version);
    }

    /// Number of tasks without a machine.
    pub(crate) fn pending(&self) -> usize {
        let placed = self.placements + self.placed_at_start as u64;
        (self.submitted + self.lost + self.evictions.total()).saturating_sub(placed) as usize
    }

    /// Number of tasks that have arrived and neither run nor have finished.
    pub(super) fn unfinished(&self, running: usize) -> usize {
        (self.submitted.saturating_sub(self.finished) as usize).saturating_sub(running)
    }

    /// The progress of the run.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            submitted: self.submitted,
            tasks: self.tasks,
            placements: self.placements,
            pending: self.pending() as u64,
        }
    }
}

/// The evictions of a run.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    of: HashMap<TaskId, Evicted>,
    total: u64,
}

/// Evictions of one task.
#[derive(Clone, Copy, Debug, Default)]
struct Evicted {
    /// Version of the cell at the last eviction.
    last: Version,
    /// Number of evictions.
    times: u32,
}

impl Evictions {
    fn note(&mut self, tasks: &[TaskId], version: Version) {
        self.total += tasks.len() as u64;
        for task in tasks {
            let known = self.of.entry(*task).or_default();
            known.last = known.last.max(version);
            known.times += 1;
        }
    }

    /// The number of evictions.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The number of tasks that were evicted more than once.
    pub(crate) fn repeated(&self) -> usize {
        self.of.values().filter(|evicted| evicted.times > 1).count()
    }

    /// Removes from a list of placed tasks those that were evicted after their placement.
    pub(super) fn still_there(&self, (placed, mut tasks): Since) -> Ending {
        if !self.of.is_empty() {
            let is_there = |task: &TaskId| self.of.get(task).is_none_or(|one| one.last <= placed);
            tasks.retain(|(task, _)| is_there(task));
        }
        tasks
    }
}
