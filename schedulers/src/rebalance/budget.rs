//! Bounds of a pass: total moves, moves of each job, and disruption budgets.
//!
//! The bounds on moves hold for the whole pass. A disruption budget limits how many of its tasks may be down at the
//! same time, so the budget holds for each wave: the next wave begins when the moved tasks run again.

use crate::preemption::Budget as Disruption;
use foldhash::fast::FixedState;
use omega_core::{Job, JobId, TaskId};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Bounds of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of moves.
    pub moves: usize,
    /// Maximum number of moves of each job.
    pub moves_per_job: u32,
    /// Maximum number of waves.
    pub waves: usize,
    /// Maximum number of examined pairs of a task and a machine. Unlike a time limit, this bound gives the same plan
    /// each time for the same cell.
    pub steps: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { moves: 1000, moves_per_job: u32::MAX, waves: 32, steps: u64::MAX }
    }
}

/// Positions of the disruption budgets that protect a task, in the list of all budgets.
pub(super) type Protectors = SmallVec<[u16; 2]>;

/// The moves and disruptions that are still allowed.
#[derive(Debug)]
pub(super) struct Left {
    moves: usize,
    per_job: u32,
    jobs: HashMap<JobId, u32, FixedState>,
    disruptions: Vec<Disruption>,
    /// For each disruption budget, the number of its tasks that move in this wave.
    down: Vec<u32>,
}

/// A used-up bound, which forbids a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spent {
    Moves,
    OfJob,
    /// A disruption budget, which allows more moves in the next wave.
    Disruption,
}

impl Left {
    pub(super) fn new(bounds: &Bounds, disruptions: Vec<Disruption>) -> Left {
        let down = vec![0; disruptions.len()];
        let per_job = bounds.moves_per_job;
        Left { moves: bounds.moves, per_job, jobs: HashMap::default(), disruptions, down }
    }

    /// The disruption budgets that protect tasks of a group.
    pub(super) fn protectors(&self, job: &Job, group: usize) -> Protectors {
        let all = (0..).zip(&self.disruptions);
        all.filter(|(_, budget)| budget.tasks.includes(job, group)).map(|(at, _)| at).collect()
    }

    /// Whether all moves are used up.
    pub(super) fn is_spent(&self) -> bool {
        self.moves == 0
    }

    /// Checks whether these tasks, each with the budgets that protect it, may move together.
    pub(super) fn allows<'a>(
        &self,
        tasks: impl Iterator<Item = (TaskId, &'a Protectors)> + Clone,
    ) -> Result<(), Spent> {
        if tasks.clone().count() > self.moves {
            return Err(Spent::Moves);
        }
        for (task, protectors) in tasks.clone() {
            let of_job = tasks.clone().filter(|(other, _)| other.job == task.job).count();
            if u64::from(self.moved_of(task.job)) + of_job as u64 > u64::from(self.per_job) {
                return Err(Spent::OfJob);
            }
            for budget in protectors {
                let at = usize::from(*budget);
                let more = tasks.clone().filter(|(_, others)| others.contains(budget)).count();
                if self.down[at] as usize + more > self.disruptions[at].allowed as usize {
                    return Err(Spent::Disruption);
                }
            }
        }
        Ok(())
    }

    /// Counts a move, and returns how many tasks of its job have moved.
    pub(super) fn spend(&mut self, task: TaskId, protectors: &Protectors) -> u32 {
        self.moves -= 1;
        protectors.iter().for_each(|budget| self.down[usize::from(*budget)] += 1);
        let moved = self.jobs.entry(task.job).or_default();
        *moved += 1;
        *moved
    }

    /// Number of tasks of a job that have moved.
    pub(super) fn moved_of(&self, job: JobId) -> u32 {
        self.jobs.get(&job).copied().unwrap_or(0)
    }

    /// Begins a wave: no task is down.
    pub(super) fn next_wave(&mut self) {
        self.down.fill(0);
    }
}
