//! The list of policies. Macros derive from it the policy sets, the state in the cell, the columns in a delta, and the
//! mirrors in a view.
//!
//! To add a policy, add one line to the list; `with` names its columns, if it has any. If several policies reject a
//! claim, the conflict has the reason of the first in the list. The state hash also uses this order.

use super::allocations::Allocations;
use super::cluster_resources::ClusterResources;
use super::columns::{Columns, RowsAgain};
use super::evictions::{EvictionColumns, Evictions};
use super::gangs::Gangs;
use super::peaks::{PeakColumns, Peaks};
use super::ports::{PortColumns, Ports};
use super::quotas::Quotas;
use super::reservations::{ReservationColumns, Reservations};
use super::runtime_affinity::RuntimeAffinity;
use super::set::Listed;
use super::tasks_per_machine::{TasksPerMachine, TenantCounts};
use super::{Applying, Checks, Context, Ledger, Mirror, Placement, Policy, PolicySet, Restoring};
use crate::audit_error::AuditError;
use crate::cell::Cell;
use crate::commit::Review;
use crate::delta::Delta;
use crate::facts::Facts;
use crate::image::{Image, ImageError};
use crate::need::Need;
use omega_core::{Conflict, Job, Reason, TaskGroup, TenantConfig, Text, Transaction};
use std::hash::Hasher;

policies! {
    /// Tasks that are placed together or not at all.
    gangs: Gangs,
    /// Evictions: which claims may preempt which tasks, and the limit on the number of evictions.
    evictions: Evictions with EvictionColumns,
    /// Affinity that must hold while a task runs.
    runtime_affinity: RuntimeAffinity,
    /// Allocations that differ from the request.
    allocations: Allocations,
    /// Machines that are reserved for some tenants for a time.
    reservations: Reservations with ReservationColumns,
    /// Amounts that belong to no machine.
    cluster_resources: ClusterResources with ClusterResources,
    /// Hours in which batch tasks may have only a share of a machine.
    peaks: Peaks with PeakColumns,
    /// Limits on a tenant's tasks on one machine.
    tasks_per_machine: TasksPerMachine with TenantCounts,
    /// Ports that the cell chooses for tasks.
    ports: Ports with PortColumns,
    /// Limits on the claims of tenants.
    quotas: Quotas,
}
