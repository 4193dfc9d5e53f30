//! The state of a cell as plain data: the content of a snapshot.
//!
//! ```text
//!     snapshot_state, or begin_capture + capture_more       Cell::from_snapshot_state
//!  Cell ──────────────────────────────────────▶ SnapshotState ─────────────────────▶ Cell
//!                                                     │  everything that a later outcome,
//!                                                     │  delta or hash depends on
//!  free amounts, devices left, tasks by machine, ◀ ─ ─┘  derived again, and checked
//!  tenants' sums, sets, rule counters, name tables
//! ```
//!
//! A snapshot leaves out all data that can be derived, so that its parts cannot contradict each other. A restored cell
//! returns the outcomes and hashes that the original would return. Two things may differ. A machine's task list may
//! have another order. Rule trackers may have other numbers, so each view's next delta is a full one (see
//! [`Delta::lineage`](crate::Delta::lineage)).
//!
//! The numbers of job owners are left out. Only the cell uses them, and it assigns new numbers when it restores jobs.

mod capture;
mod error;
mod restore;
mod save;

pub use capture::Capture;
pub use capture::Captured;
pub use error::SnapshotStateError;

use crate::state::job_record::JobSnapshot;
use crate::state::load::LoadReport;
use crate::state::machines::MachineSnapshot;
use crate::state::reply_cache::CachedReply;
use omega_core::{
    Amounts, JobId, Kinds, Lease, PeakCalendar, Policy, Reservation, TenantConfig, Text, Version,
};

/// The state of a cell at one version. See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotState {
    /// The resource kinds.
    pub kinds: Kinds,
    /// The version.
    pub version: Version,
    /// The cell's time, in milliseconds.
    pub now_ms: u64,
    /// The policy.
    pub policy: Policy,
    /// Evictions within the span of the eviction limit: times in ascending order, each with the number of evictions.
    pub evicted: Vec<(u64, u32)>,
    /// The reservations, ordered by name.
    pub reservations: Vec<Reservation>,
    /// The capacity of each cluster resource.
    pub cluster_capacity: Amounts,
    /// The calendars of peak hours, ordered by name.
    pub peaks: Vec<PeakCalendar>,
    /// Every row, with or without a machine.
    pub machines: Vec<MachineSnapshot>,
    /// Load reports, ascending by row.
    pub loads: Vec<(u32, LoadReport)>,
    /// The rows without a machine. The next new machine gets the last of these rows.
    pub vacant: Vec<u32>,
    /// The id of the next job.
    pub next_job: JobId,
    /// Every job, in ascending order.
    pub jobs: Vec<JobSnapshot>,
    /// Ended jobs, oldest first, each with the time at which the cell recorded the end.
    pub ended: Vec<(JobId, Option<u64>)>,
    /// Every tenant that was ever named, in order of first mention.
    pub tenants: Vec<TenantSnapshot>,
    /// The schedulers, by id.
    pub schedulers: Vec<SchedulerSnapshot>,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSnapshot {
    /// Name of the tenant.
    pub name: Text,
    /// Limit of the tenant; `None` if it has none.
    pub limit: Option<Amounts>,
    /// Configuration of the tenant.
    pub tenant_config: TenantConfig,
    /// Request limit of the tenant; `None` if it has none.
    pub admits: Option<Amounts>,
}

/// A registered scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerSnapshot {
    /// Name of the scheduler.
    pub name: Text,
    /// The owner of the name, if any.
    pub lease: Option<Lease>,
    /// New transactions with a number below this one are rejected.
    pub floor: u64,
    /// The cached results, in the order of the ring.
    pub reply_cache: Vec<CachedReply>,
}
