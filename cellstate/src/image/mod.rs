//! The state of a cell as plain data: the content of a snapshot.
//!
//! ```text
//!          image, or begin_capture + capture_more                 Cell::from_image
//!  Cell ──────────────────────────────────────────▶ Image ─────────────────────────▶ Cell
//!                                                     │  everything that a later outcome,
//!                                                     │  delta or hash depends on
//!  free amounts, devices left, tasks by machine, ◀ ─ ─ ─┘  derived again, and checked
//!  tenants' sums, sets, rule counters, name tables
//! ```
//!
//! An image leaves out all data that can be derived, so that its parts cannot contradict each other. A restored cell
//! returns the outcomes and hashes that the original would return. Two things may differ. A machine's task list may
//! have another order. Rule trackers may have other numbers, so each view's next delta is a full one (see
//! [`Delta::lineage`](crate::Delta::lineage)).
//!
//! The numbers of job owners are left out. Only the cell uses them, and it assigns new numbers when it restores jobs.

mod capture;
mod error;
mod restore;

pub(crate) use capture::Capture;
pub use capture::Captured;
pub use error::ImageError;

use crate::answers::Answer;
use crate::jobs::{JobRecord, TaskRecord};
use crate::judge::MachineStatus;
use crate::load::LoadReport;
use crate::machines::Row;
use crate::policy::gangs::GangHold;
use crate::versions::JobVersion;
use omega_core::{
    Amounts, Hold, Job, JobId, Kinds, Machine, NodeCores, PeakCalendar, Policy, Reservation,
    SequenceNumber, TenantConfig, Text, Version,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The state of a cell at one version. See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
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
    pub machines: Vec<MachineImage>,
    /// Load reports, ascending by row.
    pub loads: Vec<(u32, LoadReport)>,
    /// The rows without a machine. The next new machine gets the last of these rows.
    pub vacant: Vec<u32>,
    /// The id of the next job.
    pub next_job: JobId,
    /// Every job, in ascending order.
    pub jobs: Vec<JobImage>,
    /// Ended jobs, oldest first, each with the time at which the cell recorded the end.
    pub ended: Vec<(JobId, Option<u64>)>,
    /// Every tenant that was ever named, in order of first mention.
    pub tenants: Vec<TenantImage>,
    /// The schedulers, by id.
    pub schedulers: Vec<SchedulerImage>,
}

/// A row of the machine table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineImage {
    /// Description of the machine; `None` if the row is empty.
    pub machine: Option<Arc<Machine>>,
    /// The row's sequence number.
    pub sequence: SequenceNumber,
    /// Number of earlier machines in this row.
    pub incarnation: u32,
    /// Status of the row.
    pub status: MachineStatus,
}

impl MachineImage {
    pub(crate) fn of(machine: Option<Arc<Machine>>, row: &Row) -> MachineImage {
        let Row { sequence, incarnation, status, .. } = *row;
        MachineImage { machine, sequence, incarnation, status }
    }
}

/// A job and its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobImage {
    /// Id of the job.
    pub id: JobId,
    /// Description of the job.
    pub spec: Arc<Job>,
    /// The latest versions of the job, oldest first; empty if it was never updated.
    pub versions: Vec<JobVersion>,
    /// Whether a group was ever resized. If so, tasks are not numbered group by group.
    pub resized: bool,
    /// State of the job's waiting gang; `None` if the job has no waiting gang.
    pub hold: Option<GangHold>,
    /// Allocations that differ from the group's request, ascending by task index.
    pub held: Vec<(u32, Amounts)>,
    /// Exclusive cores, ascending by task index.
    pub cores: Vec<(u32, NodeCores)>,
    /// Ports that the cell chose, ascending by task index.
    pub ports: Vec<(u32, Vec<u16>)>,
    /// Tasks of the job, by index.
    pub tasks: SmallVec<[TaskRecord; 1]>,
}

impl JobImage {
    pub(crate) fn of(id: JobId, job: &JobRecord) -> JobImage {
        let tasks = SmallVec::from_slice(&job.tasks);
        let JobRecord { spec, versions, resized, hold, held, cores, ports, .. } = job;
        let (spec, versions) = (spec.clone(), versions.clone());
        let (held, cores) = (held.iter().collect(), cores.iter().collect());
        let ports = ports.iter().map(|(index, ports)| (index, ports.to_vec())).collect();
        JobImage { id, spec, versions, resized: *resized, hold: *hold, held, cores, ports, tasks }
    }
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantImage {
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
pub struct SchedulerImage {
    /// Name of the scheduler.
    pub name: Text,
    /// The owner of the name, if any.
    pub hold: Option<Hold>,
    /// New transactions with a number below this one are rejected.
    pub floor: u64,
    /// The cached results, in the order of the ring.
    pub answers: Vec<Answer>,
}
