//! The policy that limits a tenant's tasks on one machine (see
//! [`TenantConfig::tasks_per_machine_max`](omega_core::TenantConfig::tasks_per_machine_max)).
//!
//! Tasks are counted by row, and only for tenants with such a maximum. The cell and each view keep these counts and use
//! one check. A view adds its own claims to the counts. The maximum is part of the tenant's configuration, which deltas
//! contain anyway. When a maximum is set, the cell counts the tenant's placed tasks and sends each row that has such
//! tasks.
//!
//! Invariant: the count of a tenant in a row is the number of its tasks on that machine. Rows beyond the end of the
//! list have no task of the tenant.

mod in_cell;
mod view;

use super::{Applying, Columns, Context, Ledger, Mirror, Placement, Policy, Restoring, RowsAgain};
use crate::audit_error::AuditError;
use crate::index::machine_index::MachineIndex;
use crate::snapshot::SnapshotStateError;
use omega_core::{Job, Reason, TaskGroup, Text};
use std::collections::BTreeMap;

/// The limits and counts of tenants. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct TasksPerMachine {
    tenants: BTreeMap<Text, Limited>,
}

/// A tenant that has a maximum number of tasks per machine.
#[derive(Clone, Debug, Default)]
struct Limited {
    max: u32,
    /// Number of the tenant's tasks in each row.
    placed: Vec<u32>,
}

impl Limited {
    fn on(&self, row: usize) -> u32 {
        self.placed.get(row).copied().unwrap_or(0)
    }

    fn is_full(&self, row: usize) -> bool {
        self.on(row) >= self.max
    }

    fn set(&mut self, row: usize, count: u32) {
        if self.placed.len() <= row {
            self.placed.resize(row + 1, 0);
        }
        self.placed[row] = count;
    }

    /// The rows with tasks of the tenant, each with the number of tasks.
    fn rows(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.placed.iter().copied()).filter(|(_, count)| *count > 0)
    }
}

impl TasksPerMachine {
    fn of(&self, job: &Job) -> Option<&Limited> {
        self.tenants.get(&job.tenant)
    }

    /// The number of the tenant's tasks in a row.
    fn placed_on(&self, row: usize) -> u32 {
        self.tenants.values().map(|limited| limited.on(row)).sum()
    }

    /// Clears the count of a row. Returns the row and the count if the count was not 0.
    fn clear(&mut self, row: usize) -> Option<(usize, u32)> {
        let before = self.placed_on(row);
        if before == 0 {
            return None;
        }
        self.tenants.values_mut().filter(|one| one.on(row) > 0).for_each(|one| one.set(row, 0));
        Some((row, before))
    }

    /// Sets or removes the maximum of a tenant. Returns whether it changed.
    fn configure(&mut self, name: &Text, max: Option<u32>) -> bool {
        let Some(max) = max else { return self.tenants.remove(name).is_some() };
        let known = self.tenants.get(name).map(|limited| limited.max);
        self.tenants.entry(name.clone()).or_default().max = max;
        known != Some(max)
    }
}

impl Ledger for TasksPerMachine {
    fn is_checking(&self, _: &MachineIndex) -> bool {
        !self.tenants.is_empty()
    }

    fn is_counting(&self) -> bool {
        !self.tenants.is_empty()
    }

    fn check(&self, at: &Placement<'_>, _: &Context<'_>) -> Result<(), Reason> {
        let is_full = self.of(at.job).is_some_and(|limited| limited.is_full(at.row));
        if is_full { Err(Reason::TasksPerMachine) } else { Ok(()) }
    }

    fn count(&mut self, at: &Placement<'_>, sign: i64) {
        let Some(limited) = self.tenants.get_mut(&at.job.tenant) else { return };
        let count = i64::from(limited.on(at.row)) + sign;
        debug_assert!(count >= 0, "a task that leaves was counted");
        limited.set(at.row, u32::try_from(count).unwrap_or(0));
    }
}

impl Policy for TasksPerMachine {
    type Columns = TenantCounts;
    type Mirror = TasksPerMachine;
    type Note = ();
    const WRITES_ROWS: bool = true;

    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        true
    }

    fn write_row(&self, slot: u32, columns: &mut TenantCounts) {
        for (tenant, limited) in &self.tenants {
            let count = limited.on(slot as usize);
            if count > 0 {
                let entry = TenantCount { tenant: tenant.clone(), count };
                columns.counts.push((slot, entry));
            }
        }
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        for tenant in &restoring.snapshot.tenants {
            self.configure(&tenant.name, tenant.tenant_config.tasks_per_machine_max);
        }
        Ok(())
    }

    fn audit(&self, recount: &TasksPerMachine) -> Result<(), AuditError> {
        let equal = |name: &Text, limited: &Limited| {
            let recounted = recount.tenants.get(name);
            recounted.is_some_and(|recounted| limited.rows().eq(recounted.rows()))
        };
        let wrong = self.tenants.iter().find(|(name, limited)| !equal(name, limited));
        wrong.map_or(Ok(()), |(name, _)| Err(AuditError::Tenant(name.clone())))
    }

    fn uncounted(&self) -> TasksPerMachine {
        let empty = |limited: &Limited| Limited { max: limited.max, placed: Vec::new() };
        let tenants = self.tenants.iter().map(|(name, limited)| (name.clone(), empty(limited)));
        TasksPerMachine { tenants: tenants.collect() }
    }
}

impl Mirror<TenantCounts> for TasksPerMachine {
    fn reset(&mut self) {
        self.tenants.clear();
    }

    fn apply(&mut self, columns: &TenantCounts, applying: Applying<'_>) {
        let Applying { slots, tenants, change_counts, stale, .. } = applying;
        for tenant in tenants {
            let max = tenant.terms.tenant_config.tasks_per_machine_max;
            *stale |= self.configure(&tenant.terms.name, max);
        }
        if self.tenants.is_empty() {
            return;
        }
        // A delta may list a row twice. Both entries then have equal counts.
        let mut had = Vec::new();
        for slot in slots {
            had.extend(self.clear(*slot as usize));
        }
        for (slot, entry) in &columns.counts {
            if let Some(limited) = self.tenants.get_mut(&entry.tenant) {
                limited.set(*slot as usize, entry.count);
            }
        }
        // A lower count is reported as freed room: a task that requested nothing frees no amounts, but makes room for
        // another task of its tenant.
        let fewer = had.iter().filter(|(row, before)| self.placed_on(*row) < *before);
        change_counts.freed += fewer.count() as u64;
    }
}

/// The columns of this policy in a delta. The maximum itself is in the tenant's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantCounts {
    /// The counts of tenants with a maximum in each changed row, ordered by row. A tenant that is not listed for a
    /// changed row has no task there.
    pub counts: Vec<(u32, TenantCount)>,
}

/// The number of a tenant's tasks on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantCount {
    /// Name of the tenant.
    pub tenant: Text,
    /// Number of the tenant's own tasks.
    pub count: u32,
}

impl Columns for TenantCounts {
    fn clear(&mut self) {
        self.counts.clear();
    }

    fn append(&mut self, later: &TenantCounts, again: &RowsAgain<'_>) {
        again.forget_in(&mut self.counts);
        self.counts.extend_from_slice(&later.counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_inverses_and_other_tenants_are_not_counted() {
        let mut limited = Limited { max: 2, placed: Vec::new() };
        assert!(!limited.is_full(70) && limited.on(70) == 0);
        limited.set(70, 2);
        assert!(limited.is_full(70) && !limited.is_full(69));
        assert_eq!(limited.rows().collect::<Vec<_>>(), [(70, 2)]);
        limited.set(70, 0);
        assert_eq!(limited.rows().count(), 0);
        let mut all = TasksPerMachine::default();
        assert!(all.configure(&"red".into(), Some(2)) && !all.configure(&"red".into(), Some(2)));
        assert!(all.configure(&"red".into(), Some(3)) && !all.configure(&"blue".into(), None));
        assert!(all.configure(&"red".into(), None) && all.tenants.is_empty());
    }
}
