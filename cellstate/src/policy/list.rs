//! The list of policies, and what follows from it: their sets, their state in the cell, their columns in a delta, and
//! their mirrors in a view.
//!
//! A new policy is one line here; `with` names its columns, if it has any. The order is that in which checks give reasons, and in which the state is hashed.

use super::allocations::Allocations;
use super::cluster_resources::ClusterResources;
use super::columns::{Columns, RowsAgain};
use super::evictions::{EvictionColumns, Evictions};
use super::gangs::Gangs;
use super::peaks::{PeakColumns, Peaks};
use super::quotas::Quotas;
use super::reservations::{ReservationColumns, Reservations};
use super::runtime_affinity::RuntimeAffinity;
use super::tasks_per_machine::{TasksPerMachine, TenantCounts};
use super::{Applying, Checks, Context, Ledger, Mirror, Placement, Policy, PolicySet, Restoring};
use crate::audit::AuditError;
use crate::cell::Cell;
use crate::commit::Review;
use crate::delta::Delta;
use crate::facts::{Facts, Need};
use crate::image::{Image, ImageError};
use omega_core::{Conflict, Job, Reason, TaskGroup, TenantConfig, Text, Transaction};
use std::hash::Hasher;

/// The position of a policy in the list, as a set.
pub(crate) trait Listed {
    /// The set of this policy alone.
    const BIT: PolicySet;
}

policies! {
    /// Tasks that are placed together or not at all.
    gangs: Gangs,
    /// Evictions: who may preempt whom, and how many there may be.
    evictions: Evictions with EvictionColumns,
    /// Tasks that must keep others near them.
    runtime_affinity: RuntimeAffinity,
    /// Allocations beside the request.
    allocations: Allocations,
    /// Machines that are kept for others at some time.
    reservations: Reservations with ReservationColumns,
    /// Amounts that belong to the cell as a whole.
    cluster_resources: ClusterResources with ClusterResources,
    /// Hours in which batch may have only a share of a machine.
    peaks: Peaks with PeakColumns,
    /// The most tasks of a tenant on one machine.
    tasks_per_machine: TasksPerMachine with TenantCounts,
    /// The most that tenants may claim.
    quotas: Quotas,
}
