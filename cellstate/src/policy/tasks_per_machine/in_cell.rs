//! The count of a tenant's tasks when the tenant gets a maximum.

use super::{Limited, TasksPerMachine};
use crate::cell::Cell;
use crate::policy::CellPolicy;
use omega_core::{TenantConfig, Text};

impl CellPolicy for TasksPerMachine {
    fn configure_tenant(cell: &mut Cell, name: &Text, config: &TenantConfig) {
        let policy = &mut cell.policies.tasks_per_machine;
        let is_known = policy.tenants.contains_key(name);
        policy.configure(name, config.tasks_per_machine_max);
        if is_known || config.tasks_per_machine_max.is_none() {
            return;
        }
        let placed = cell.count_tasks_by_row(name);
        let Some(limited) = cell.policies.tasks_per_machine.tenants.get_mut(name) else { return };
        limited.placed = placed;
        let rows: Vec<u32> = limited.rows().map(|(slot, _)| slot).collect();
        rows.into_iter().for_each(|slot| cell.log_row(slot));
    }
}

impl Cell {
    /// The number of a tenant's tasks in each row.
    fn count_tasks_by_row(&self, tenant: &Text) -> Vec<u32> {
        let mut limited = Limited::default();
        for (_, job) in self.jobs.iter().filter(|(_, job)| job.spec.tenant == *tenant) {
            let rows = job.tasks.iter().filter_map(|task| task.state.machine());
            rows.for_each(|machine| limited.set(machine.row(), limited.on(machine.row()) + 1));
        }
        limited.placed
    }
}
