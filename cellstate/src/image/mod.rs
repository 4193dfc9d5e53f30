//! The state of a cell as plain data: what a snapshot holds.
//!
//! ```text
//!            image, or begin_capture + capture_more                 Cell::from_image
//!    Cell ──────────────────────────────────────────▶ Image ─────────────────────────▶ Cell
//!                                                       │  all that a later outcome,
//!                                                       │  delta or hash depends on
//!    free amounts, devices left, tasks by machine, ◀ ─ ─ ─┘  derived again, and checked
//!    tenants' sums, sets, rule counters, name tables
//! ```
//!
//! An image has no more than what cannot be derived, so that nothing in it can disagree with the
//! rest, and little has to be trusted. A cell that was restored answers everything as the one that
//! was never saved. Two things of it differ, and neither shows in an outcome or a hash: how rule
//! trackers are numbered, which a view would notice (so views start anew, see
//! [`Delta::lineage`](crate::Delta::lineage)); and in which order a machine lists its tasks.
//!
//! Owners of jobs are not in it: their numbers never leave the cell, and a name without a job is as
//! good as none.

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
use omega_core::{
    Amounts, Hold, Job, JobId, Kinds, Machine, NodeCores, PeakCalendar, Policy, Reservation,
    SequenceNumber, TenantConfig, Text, Version,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The state of a cell at one version. See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The resource kinds.
    pub kinds: Kinds,
    /// The version.
    pub version: Version,
    /// The last time that the cell was told.
    pub now_ms: u64,
    /// The policy.
    pub policy: Policy,
    /// Evictions that count against the policy's cap: the times, ascending, with how many at each.
    pub evicted: Vec<(u64, u32)>,
    /// The reservations, by name.
    pub reservations: Vec<Reservation>,
    /// How much the cell as a whole has of each kind.
    pub cluster_capacity: Amounts,
    /// The calendars of peaks, by name.
    pub peaks: Vec<PeakCalendar>,
    /// Every row, also those without a machine.
    pub machines: Vec<MachineImage>,
    /// What machines reported as used, ascending by row.
    pub loads: Vec<(u32, LoadReport)>,
    /// The rows without a machine; the last one is the next to be used.
    pub vacant: Vec<u32>,
    /// The number of the next job.
    pub next_job: JobId,
    /// Every known job, ascending.
    pub jobs: Vec<JobImage>,
    /// Those that have ended, oldest first, with the time at which the cell noticed.
    pub ended: Vec<(JobId, Option<u64>)>,
    /// Every tenant that ever had a job or a quota, in the order in which they came.
    pub tenants: Vec<TenantImage>,
    /// The schedulers, by id.
    pub schedulers: Vec<SchedulerImage>,
}

/// A row of machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineImage {
    /// What it is; `None` if the row is empty.
    pub machine: Option<Arc<Machine>>,
    /// The row's sequence number.
    pub sequence: SequenceNumber,
    /// How many machines had the row before.
    pub incarnation: u32,
    /// Whether it takes tasks.
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
    /// Its number.
    pub id: JobId,
    /// What it is.
    pub spec: Arc<Job>,
    /// Whether a group ever had another count: then tasks are not numbered group by group.
    pub resized: bool,
    /// Whether its tasks hold their places until more of them have one.
    pub hold: Option<GangHold>,
    /// What tasks of it hold that is not their group's request, ascending by number.
    pub held: Vec<(u32, Amounts)>,
    /// The cores that tasks of it have to themselves, ascending by number.
    pub cores: Vec<(u32, NodeCores)>,
    /// Its tasks, by number.
    pub tasks: SmallVec<[TaskRecord; 2]>,
}

impl JobImage {
    pub(crate) fn of(id: JobId, job: &JobRecord) -> JobImage {
        let tasks = SmallVec::from_slice(&job.tasks);
        let JobRecord { spec, resized, hold, held, cores, .. } = job;
        let (held, cores) = (held.iter().collect(), cores.iter().collect());
        JobImage { id, spec: spec.clone(), resized: *resized, hold: *hold, held, cores, tasks }
    }
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantImage {
    /// Its name.
    pub name: Text,
    /// What its tasks may claim together; `None` is anything.
    pub limit: Option<Amounts>,
    /// How it stands among the others.
    pub tenant_config: TenantConfig,
    /// What its jobs may ask for together; `None` is anything.
    pub admits: Option<Amounts>,
}

/// A scheduler that has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerImage {
    /// Its name.
    pub name: Text,
    /// Who holds the name, if a process does.
    pub hold: Option<Hold>,
    /// What is new below this number is refused.
    pub floor: u64,
    /// The answers that the cell would give again, in the order of their places in the ring.
    pub answers: Vec<Answer>,
}
