//! Maximum number of a tenant's tasks on one machine: see
//! [`TenantConfig::tasks_per_machine_max`](omega_core::TenantConfig::tasks_per_machine_max).

use crate::framework::events::Events;
use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use omega_cellstate::Block;

/// Filter: the machine has fewer tasks of the tenant than the maximum.
#[derive(Clone, Copy, Debug)]
pub struct TasksPerMachine;

impl Filter for TasksPerMachine {
    fn name(&self) -> &'static str {
        "tasks_per_machine"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS | Reads::JOB
    }

    /// Changes of the maximum arrive with the event for quotas.
    fn wakes_on(&self) -> Events {
        Events::of(self.reads()) | Events::QUOTA_CHANGED
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.tasks_per_machine_max(tasks.job).is_some()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        among & !block.with_all_of_its_tenant(tasks.job, among)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::TASKS_PER_MACHINE
    }
}
