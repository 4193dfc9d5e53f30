//! Passes of the rebalancer during a run, at equal intervals of the workload's time.

use crate::RunError;
use crate::cell::RunCell;
use crate::options::Rebalancing;
use crate::report::RebalancingReport;
use omega_cellstate::{Cell, CellHandle, CommitHook, HandleError};
use omega_core::{Commit, MachineId, TaskId, Transaction, Version};
use omega_schedulers::rebalance::objective::MACHINE;
use omega_schedulers::rebalance::{Fate, Move, Rebalancer, Settings};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Instant;

/// The rebalancer of a run.
pub(crate) struct Passes {
    every_ms: u64,
    next_ms: u64,
    rebalancer: Rebalancer,
    /// Number of passes so far.
    passes: u64,
    moves: u64,
    /// Number of planned moves that were not made, because of conflicts.
    rejected: u64,
    /// Sums over all passes of the weighted costs before and after.
    before: i128,
    after: i128,
    seconds: f64,
}

/// A move that the cell has accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) task: TaskId,
    /// The new machine.
    pub(crate) to: MachineId,
    /// The cell's version after the move.
    pub(crate) version: Version,
}

impl Passes {
    /// Registers the rebalancer.
    pub(super) fn new(
        cell: &RunCell,
        options: &Rebalancing,
        seed: u64,
    ) -> Result<Passes, RunError> {
        let settings = Settings { seed, ..Settings::new(options.objectives.clone()) };
        let rebalancer = Rebalancer::new(cell, settings).map_err(failed)?;
        let every_ms = options.every_ms.max(1);
        Ok(Passes {
            every_ms,
            next_ms: every_ms,
            rebalancer,
            passes: 0,
            moves: 0,
            rejected: 0,
            before: 0,
            after: 0,
            seconds: 0.0,
        })
    }

    /// Whether the next pass begins at this time or before.
    pub(super) fn is_due(&self, at_ms: u64) -> bool {
        self.next_ms <= at_ms
    }

    /// Plans moves and makes them. Returns the moves that the cell has accepted. The next pass begins one interval
    /// after `now_ms`, or later.
    pub(super) fn pass(&mut self, cell: &RunCell, now_ms: u64) -> Result<Vec<Moved>, RunError> {
        self.next_ms = (now_ms / self.every_ms + 1) * self.every_ms;
        let began = Instant::now();
        // For each task of a complete commit, the cell's version after the commit.
        let versions: Mutex<HashMap<TaskId, Version>> = Mutex::default();
        let noting = CommitHook::new(cell, |cell: &RunCell, txns: &[&Transaction]| {
            let answers = cell.commit_all(txns);
            note(&mut versions.lock(), txns, &answers);
            answers
        });
        let plan = self.rebalancer.plan(cell, &mut || true).map_err(failed)?;
        let before = plan.before.total(&plan.objectives);
        let (mut moved, mut gain) = (Vec::new(), 0);
        for wave in &plan.waves {
            let fates = self.rebalancer.apply_plan_wave(&noting, wave).map_err(failed)?;
            for (step, fate) in wave.iter().zip(fates) {
                if fate == Fate::Moved {
                    // If the cell did not answer, the version is the present one.
                    let present = || cell.read(Cell::version);
                    let version = |m: &Move| versions.lock().get(&m.task).copied();
                    let accepted = |m: &Move| {
                        let version = version(m).unwrap_or_else(present);
                        Moved { task: m.task, to: m.to, version }
                    };
                    moved.extend(step.moves.iter().map(accepted));
                    gain += step.gain;
                } else {
                    self.rejected += step.moves.len() as u64;
                }
            }
        }
        self.passes += 1;
        self.moves += moved.len() as u64;
        self.before += before;
        self.after += before - gain;
        self.seconds += began.elapsed().as_secs_f64();
        Ok(moved)
    }

    /// The figures of all passes.
    pub(super) fn report(&self) -> RebalancingReport {
        let mean = |sum: i128| sum as f64 / self.passes.max(1) as f64 / MACHINE as f64;
        RebalancingReport {
            every_s: self.every_ms as f64 / 1000.0,
            passes: self.passes,
            moves: self.moves,
            rejected: self.rejected,
            cost_before: mean(self.before),
            cost_after: mean(self.after),
            planning_s: self.seconds,
        }
    }
}

/// Adds the tasks of complete commits to `versions`, each with the cell's version after the commit.
fn note(
    versions: &mut HashMap<TaskId, Version>,
    txns: &[&Transaction],
    answers: &[Result<Commit, HandleError>],
) {
    for (txn, answer) in txns.iter().zip(answers) {
        if let Ok(commit) = answer
            && commit.is_complete()
        {
            versions.extend(txn.claims.iter().map(|claim| (claim.task, commit.version)));
        }
    }
}

fn failed(why: HandleError) -> RunError {
    RunError::Scheduler { name: "rebalance".into(), why }
}
