//! The start of counting ports in the cell.

use super::{Ports, has_any_ports};
use crate::cell::{Cell, Change};
use crate::policy::CellPolicy;
use crate::policy::set::Listed;
use omega_core::Job;

impl CellPolicy for Ports {}

impl Cell {
    /// Begins to count the ports of placed tasks if this new or changed job is the first for which the cell chooses
    /// ports. The caller has begun a version.
    pub(crate) fn count_ports_for(&mut self, job: &Job) {
        if self.policies.ports.counted || !has_any_ports(job) {
            return;
        }
        let mut ports = Ports { counted: true, ..Ports::default() };
        for (_, job) in self.jobs.iter() {
            for task in &job.tasks {
                let Some(machine) = task.state.machine() else { continue };
                if let Some(need) = &job.need(task).ports {
                    ports.rows.entry(machine.slot).or_default().add(need, &[], 1);
                }
            }
        }
        self.policies.ports = ports;
        self.log.push(Change::Policy(Ports::BIT));
    }
}
