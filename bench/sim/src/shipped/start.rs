//! Start and end of a run: preparation of the shipped cell, and reasons why tasks are pending.

use super::cell::ShippedCell;
use super::error::ShippedError;
use super::jobs::PresentJob;
use crate::engine::{Access, Cell, Running};
use omega_core::{Amounts, Command, Text};
use std::collections::BTreeMap;

/// Initial state of a cell apart from its machines, and extent of the measurements. Empty by default.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Limits and guarantees of tenants.
    pub quotas: Vec<(Text, Amounts)>,
    /// Draining machines, by their positions in the workload.
    pub draining: Vec<u32>,
    /// Arrival time, in milliseconds, up to which the running tasks of jobs run from the start.
    pub running_until_ms: u64,
    /// Time up to which the mean use of the cell is computed, in seconds; `None` for the whole run.
    pub used_until_s: Option<f64>,
    /// Whether pending tasks are explained at the end.
    pub explain: bool,
}

impl ShippedCell<'_> {
    /// Sets quotas, and drains machines.
    ///
    /// # Errors
    /// If the cell rejects a quota.
    pub fn prepare(&mut self, start: &Start) -> Result<(), ShippedError> {
        for (tenant, limit) in &start.quotas {
            let quota = Command::SetQuota { tenant: tenant.clone(), limit: Some(limit.clone()) };
            let refused = |why| ShippedError::Quota { tenant: tenant.to_string(), why };
            self.cell.apply(quota).map_err(refused)?;
        }
        for position in &start.draining {
            let id = self.machines[*position as usize];
            let drained = self.cell.apply(Command::DrainMachine { id, draining: true });
            drained.expect("a machine that was registered can be drained");
        }
        Ok(())
    }

    /// Adopts the running tasks of these jobs before the run begins, so that no other task gets their room. The jobs
    /// arrive later, or are placed by [`ShippedCell::place_first`]. `jobs` must be in ascending order.
    pub fn adopt_first(&mut self, jobs: &[u32]) {
        for &job in jobs {
            let run = self.submit_running(job as usize).run;
            // The number of a run that never ends may be freed before the job arrives.
            let run = run.filter(|run| self.runs_for(*run).is_some());
            self.early.insert(job as usize, run);
        }
    }

    /// Lets a scheduler place these jobs, which never end, before the run begins. `jobs` must be in ascending order.
    /// Returns the jobs that have pending tasks after that. They must arrive in the event loop as other jobs do.
    pub fn place_first(&mut self, scheduler: usize, jobs: &[u32]) -> Vec<u32> {
        let mut lacking = Vec::new();
        for &job in jobs {
            let number = job as usize;
            self.arrive(number);
            let tasks = self.pending(number).unwrap_or(0) as u32;
            self.attempt(scheduler, number, tasks, Access::Live);
            if self.pending(number).is_some_and(|tasks| tasks > 0) {
                self.early.insert(number, None);
                lacking.push(job);
            }
        }
        lacking
    }

    /// Returns the running tasks of an arriving job if they were adopted before the run.
    pub(super) fn adopted_first(&mut self, number: usize) -> Option<Running> {
        let run = self.early.remove(&number)?;
        Some(Running { tasks: self.jobs.get(number).map_or(0, PresentJob::running), run })
    }

    /// Number of pending tasks, grouped by each task's most frequent reason for rejection. Every machine is examined
    /// for every pending group, so this is for the end of a run.
    pub fn why_pending(&mut self) -> BTreeMap<String, u64> {
        let mut reasons = BTreeMap::new();
        let Some(placer) = self.placers.last_mut() else { return reasons };
        placer.sync_all(&self.cell);
        for job in self.jobs.iter() {
            for group in 0..job.job.groups.len() {
                let pending = job.pending_of(group).count() as u64;
                if pending > 0 {
                    let reason = placer.why((job.id, &job.job), group);
                    *reasons.entry(reason).or_insert(0) += pending;
                }
            }
        }
        reasons
    }
}
