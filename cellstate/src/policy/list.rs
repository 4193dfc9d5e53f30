//! The list of policies. Macros derive from it the policy sets, the state in the cell, the columns in a delta, and the
//! mirrors in a view.
//!
//! To add a policy, add one line to the list; `with` names its columns, if it has any. If several policies reject a
//! claim, the conflict has the reason of the first in the list. The state hash also uses this order.

use super::columns::{Columns, RowsAgain};
use super::set::{ARE_CONSULTED, Listed};
use super::{Applying, Checks, Context, Ledger, Mirror, Placement, Policy, PolicySet, Restoring};
use crate::audit_error::AuditError;
use crate::index::machine_index::MachineIndex;
use crate::index::need::Need;
use crate::snapshot::{SnapshotState, SnapshotStateError};
use omega_core::{Job, Reason, TaskGroup, Transaction};
use std::hash::Hasher;

/// Calls a macro with the list.
macro_rules! policy_list {
    ($with:ident) => {
        $with! {
            /// Tasks that are placed together or not at all.
            gangs: gangs::Gangs,
            /// Evictions: which claims may preempt which tasks, and the limit on the number of evictions.
            evictions: evictions::Evictions with EvictionColumns,
            /// Affinity that must hold while a task runs.
            runtime_affinity: runtime_affinity::RuntimeAffinity,
            /// Allocations that differ from the request.
            allocations: allocations::Allocations,
            /// Machines that are reserved for some tenants for a time.
            reservations: reservations::Reservations with ReservationColumns,
            /// Amounts that belong to no machine.
            cluster_resources: cluster_resources::ClusterResources with ClusterResources,
            /// Hours in which batch tasks may have only a share of a machine.
            peaks: peaks::Peaks with PeakColumns,
            /// Limits on a tenant's tasks on one machine.
            tasks_per_machine: tasks_per_machine::TasksPerMachine with TenantCounts,
            /// Ports that the cell chooses for tasks.
            ports: ports::Ports with PortColumns,
            /// Limits on the claims of tenants.
            quotas: quotas::Quotas,
        }
    };
}

pub(super) use policy_list;

policy_list!(policies);
