//! Start and end of a run: preparation of the shipped cell, and reasons why tasks are pending.

use super::cell::{ShippedCell, ShippedError};
use omega_core::{Amounts, Command, TaskId, Text};
use std::collections::BTreeMap;

/// Initial state of a cell apart from its machines. Empty by default.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Limits and guarantees of tenants.
    pub quotas: Vec<(Text, Amounts)>,
    /// Draining machines, by their positions in the workload.
    pub draining: Vec<u32>,
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

    /// Number of pending tasks, grouped by each task's most frequent reason for rejection. Every machine is examined
    /// for every pending group, so this is for the end of a run.
    pub fn why_pending(&mut self) -> BTreeMap<String, u64> {
        let mut reasons = BTreeMap::new();
        let Some(seat) = self.seats.last_mut() else { return reasons };
        seat.sync_all(&self.cell);
        for known in self.known.iter().flatten() {
            let mut first = 0;
            for (index, group) in known.job.groups.iter().enumerate() {
                let of_group = first..first + group.count;
                first += group.count;
                let mine = |task: &&TaskId| of_group.contains(&task.index);
                let waiting = known.pending().iter().filter(mine).count() as u64;
                if waiting > 0 {
                    let reason = seat.why((known.id, &known.job), index);
                    *reasons.entry(reason).or_insert(0) += waiting;
                }
            }
        }
        reasons
    }
}
