//! Counts of the tasks of a run, by their state.

use crate::Progress;
use crate::driver::ends::{Ending, Since};
use crate::driver::message::Committed;
use omega_core::{MachineId, TaskId, Version};
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

/// The evictions of a run, and the moves of the rebalancer.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    of: HashMap<TaskId, Evicted>,
    total: u64,
}

/// Evictions and moves of one task.
#[derive(Clone, Copy, Debug, Default)]
struct Evicted {
    /// Version of the cell at the last eviction, or at the last move that restarted the task.
    last: Version,
    /// Number of evictions.
    times: u32,
    /// The last move that did not restart the task: the version of the cell, and the new machine.
    moved: Option<(Version, MachineId)>,
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

    /// Records that a move restarted a task.
    pub(super) fn restarted(&mut self, task: TaskId, version: Version) {
        let known = self.of.entry(task).or_default();
        known.last = known.last.max(version);
    }

    /// Records that a task moved to a machine and keeps the time of its end.
    pub(super) fn moved(&mut self, task: TaskId, version: Version, to: MachineId) {
        self.of.entry(task).or_default().moved = Some((version, to));
    }

    /// The number of evictions.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The number of tasks that were evicted more than once.
    pub(crate) fn repeated(&self) -> usize {
        self.of.values().filter(|evicted| evicted.times > 1).count()
    }

    /// Removes from a list of placed tasks those that were evicted or restarted after their placement, and updates the
    /// machines of those that moved.
    pub(super) fn still_there(&self, (placed, mut tasks): Since) -> Ending {
        if !self.of.is_empty() {
            tasks.retain_mut(|(task, machine)| {
                let Some(known) = self.of.get(task) else { return true };
                if let Some((_, to)) = known.moved.filter(|(version, _)| *version > placed) {
                    *machine = to;
                }
                known.last <= placed
            });
        }
        tasks
    }
}
