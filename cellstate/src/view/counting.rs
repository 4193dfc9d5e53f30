//! Updates of all task counters of a view, made when a machine gets or loses a task.

use crate::fit::Grant;
use crate::index::machine_index::MachineIndex;
use crate::index::need::Need;
use crate::policy::{Mirrors, Placement};
use crate::state::machines::Part;
use crate::view::View;
use crate::view::compiled::GroupRef;
use crate::view::rows::Rows;
use crate::view::tenants::{TenantClaim, TenantIndex, TenantRef};
use omega_core::Job;

/// A task of a compiled group on the machine in a row.
#[derive(Clone, Copy)]
pub(super) struct GroupOnRow<'a> {
    pub(super) row: usize,
    pub(super) group: GroupRef,
    pub(super) grant: Grant,
    /// Allocation of the task, if it differs from the group's request.
    pub(super) allocation: Option<&'a [i64]>,
}

/// A task on the machine in a row.
pub(super) struct OnRow<'a> {
    pub(super) row: usize,
    pub(super) job: &'a Job,
    pub(super) need: &'a Need,
    pub(super) tenant: Option<TenantRef>,
    pub(super) grant: &'a Grant,
    /// Allocation of the task, if it differs from the group's request.
    pub(super) allocation: Option<&'a [i64]>,
}

/// The parts of a view that count the tasks of the cell.
pub(super) struct Counters<'a> {
    pub(super) machine_index: &'a mut MachineIndex,
    pub(super) rows: &'a mut Rows,
    pub(super) tenants: &'a mut TenantIndex,
    pub(super) policies: &'a mut Mirrors,
}

impl Counters<'_> {
    /// Counts a task as placed if `sign` is -1, or as gone if it is 1. The sign is that of the change in free amounts.
    #[inline]
    pub(super) fn count(self, task: &OnRow<'_>, sign: i64) {
        let OnRow { row, job, need, tenant, grant, allocation } = *task;
        let request = allocation.unwrap_or(&need.request);
        let at = Placement { row, job, tenant: 0, need, request, ports: &[] };
        self.policies.count(&at, -sign);
        let part = Part {
            request,
            // A resized task has constant amounts all day, so its demand profiles do not apply.
            demand_profiles: need.demand_profiles.as_deref().filter(|_| allocation.is_none()),
            devices: need.devices_of_placed(),
            chosen: grant.devices,
            cores: (!grant.cores.is_empty()).then_some(&grant.cores),
        };
        self.rows.count(row, part, sign);
        let claim = TenantClaim { request, of_cell: need.cluster_request.as_deref() };
        self.tenants.count(tenant, claim, -sign);
        if let Some(rules) = &need.rules {
            self.machine_index.rules.count_task(rules, row, -sign as i32, &self.machine_index.sets);
        }
    }
}

impl View {
    /// The parts of the view that count tasks.
    pub(super) fn counters(&mut self) -> Counters<'_> {
        let View { machine_index, rows, tenants, policies, .. } = self;
        Counters { machine_index, rows, tenants, policies }
    }

    /// Counts a task of a group on a machine as placed if `sign` is -1, or as gone if it is 1. The sign is that of the
    /// change in free amounts.
    pub(super) fn count_group(&mut self, task: GroupOnRow<'_>, sign: i64) {
        let View { groups, indexes, machine_index, rows, tenants, policies, .. } = self;
        let compiled = groups.get(task.group);
        indexes.count_of_job(compiled.id, task.row, sign);
        let on_row = OnRow {
            row: task.row,
            job: &compiled.job,
            need: &compiled.need,
            tenant: compiled.tenant,
            grant: &task.grant,
            allocation: task.allocation,
        };
        Counters { machine_index, rows, tenants, policies }.count(&on_row, sign);
    }
}
