//! A delta: the changes between two versions, or the whole state.
//!
//! A sync costs in proportion to the number of changes, not to the size of the cell. The cell walks its bounded change
//! log from the view's version, and copies each logged row. A row that was logged several times is copied several
//! times; its last copy is the present state. If the log has more rows than the cell, each row of the cell is copied
//! once. If the log no longer reaches back to the view's version, the whole state is copied.
//!
//! The reader passes the buffer of the last delta to the next sync, so syncs stop allocating once the buffer is large
//! enough.

pub mod build;
pub mod changed;
pub mod log;
pub mod merge;
pub mod shared;

use crate::fit::MachineStatus;
use crate::policy::{Columns, PolicyColumns};
use crate::rules::{Count, DomainName, TrackerId, TrackerKey};
use crate::state::allocation_overrides::amounts_of;
use crate::state::cores::CoresLeft;
use crate::state::demand_profiles::DemandProfileSum;
use crate::state::devices::Devices;
use crate::state::job_record::{JobRecord, TaskRecord};
use crate::state::load::LoadReport;
use crate::state::tenants::{Tenant, TenantDelta};
use omega_core::{
    Amounts, Band, DeviceSet, Job, JobId, Kinds, Machine, NodeCores, Overcommit, SequenceNumber,
    TaskId, TaskState, Text, Version,
};
use std::sync::Arc;

/// The jobs that a reader receives. It always receives machines and rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interest {
    /// No jobs.
    #[default]
    Machines,
    /// The jobs that name this scheduler, or one worker's share of these.
    JobsOf(Text, Share),
    /// Every job.
    AllJobs,
}

/// One of several equal parts of a scheduler's jobs. Jobs are divided by number, so that the workers of one scheduler
/// need no communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Position of the part, from 0.
    pub index: u32,
    /// Number of parts.
    pub of: u32,
}

impl Share {
    /// The share of a scheduler with one worker: all jobs.
    pub const ALL: Share = Share { index: 0, of: 1 };

    /// Whether a job belongs to this part.
    #[must_use]
    pub fn includes(self, job: JobId) -> bool {
        self.of <= 1 || job.0 % u64::from(self.of) == u64::from(self.index)
    }
}

/// The description of a machine, without its free amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDelta {
    /// Number of the row.
    pub slot: u32,
    /// Number of earlier machines in this row.
    pub incarnation: u32,
    /// Status of the machine.
    pub status: MachineStatus,
    /// Description of the machine; `None` if the row is empty.
    pub machine: Option<Arc<Machine>>,
}

/// A job that was submitted, resized, updated or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDelta {
    /// Id of the job.
    pub id: JobId,
    /// Present description of the job; `None` once all its tasks have ended.
    pub job: Option<Arc<Job>>,
}

/// A task whose state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskDelta {
    /// Id of the task.
    pub id: TaskId,
    /// Position of the task's group in the job.
    pub group: u16,
    /// Present state of the task.
    pub state: TaskState,
    /// Devices of the task.
    pub devices: DeviceSet,
    /// The cell's time at which the task was placed; 0 while it is not placed.
    pub placed_ms: u64,
}

/// A delta. See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// The version of the view that the delta can be applied to.
    pub from: Version,
    /// The version of the view after the delta.
    pub to: Version,
    /// Lineage of the tracker numbers: the version of the snapshot from which the cell was restored, or 0. If this
    /// field of the reader's last delta differs from the cell's lineage, `delta_since` sends the whole state.
    pub lineage: Version,
    /// Whether the delta contains the whole state.
    pub full: bool,
    /// The cell's resource kinds; only in a full delta.
    pub kinds: Option<Kinds>,
    /// Upper bound of overcommit, from the cell's policy.
    pub overcommit_max: Overcommit,
    /// The cell's time in milliseconds at version `to`. Readers compute the ages of load reports from this time.
    pub now_ms: u64,
    /// Bands of precedence, from the cell's policy.
    pub bands: Vec<Band>,
    /// Number of evictions that the eviction limit allows now; `None` if there is no limit.
    pub evictions_left: Option<u32>,
    /// The columns of each policy.
    pub policies: PolicyColumns,
    /// Number of rows of the cell.
    pub rows: usize,
    /// Machines that were added, changed or removed.
    pub machines: Vec<MachineDelta>,
    /// Rows whose amounts changed, in the order of the changes. If a row occurs several times, the last one is valid.
    pub slots: Vec<u32>,
    /// Sequence numbers of the rows in `slots`, in that order.
    pub sequences: Vec<SequenceNumber>,
    /// Free amounts of the rows in `slots`: all kinds of the first row, then all kinds of the second, and so on.
    pub free: Vec<i64>,
    /// For each row in `slots` whose machine has devices: the row and the devices.
    pub devices: Vec<(u32, Devices)>,
    /// For each row in `slots` whose machine has exclusive cores: the row and the free cores.
    pub cores: Vec<(u32, CoresLeft)>,
    /// For each row in `slots` that has demand profiles: the row and their sum. Other rows in `slots` have none.
    pub demand_profiles: Vec<(u32, Arc<DemandProfileSum>)>,
    /// For each row in `slots` whose machine has reported its load: the row and the report.
    pub loads: Vec<(u32, LoadReport)>,
    /// Trackers that were added (with a key) or removed.
    pub trackers: Vec<(TrackerId, Option<TrackerKey>)>,
    /// Counters of trackers that changed.
    pub counts: Vec<(TrackerId, DomainName, Count)>,
    /// Whether claims that exceeded a quota may fit now, because a quota or the tree of tenants changed, or a tenant
    /// uses less.
    pub quotas: bool,
    /// Tenants that are new, or whose configuration, limit or use changed. The list may include unchanged tenants. It
    /// is empty while no tenant of the cell is configured.
    pub tenants: Vec<TenantDelta>,
    /// Jobs that were added, changed or ended.
    pub jobs: Vec<JobDelta>,
    /// Tasks whose state changed, and all tasks of each listed job that was ever resized. A task of a new job is
    /// pending if it is not listed. If a job was never resized, its tasks are numbered group by group.
    pub tasks: Vec<TaskDelta>,
    /// Allocations that differ from the group's request, by position in `tasks`, ascending.
    pub allocations: Vec<(u32, Amounts)>,
    /// Exclusive cores, by position in `tasks`, ascending.
    pub task_cores: Vec<(u32, NodeCores)>,
}

/// A task of a delta with its allocation.
#[derive(Clone, Copy, Debug)]
pub struct AllocatedTask<'a> {
    /// The changed task.
    pub task: &'a TaskDelta,
    /// Allocation of the task, if it differs from the request of its group.
    pub allocation: Option<&'a Amounts>,
    /// Exclusive cores of the task.
    pub cores: NodeCores,
}

impl Delta {
    /// Whether the delta may change counters of rules about other tasks.
    #[must_use]
    pub fn changes_rules(&self) -> bool {
        !self.counts.is_empty() || !self.trackers.is_empty()
    }

    /// The changed tasks, each with its allocation.
    pub fn tasks_with_allocations(&self) -> impl Iterator<Item = AllocatedTask<'_>> {
        let mut allocations = self.allocations.iter().peekable();
        let mut cores = self.task_cores.iter().peekable();
        (0..).zip(&self.tasks).map(move |(position, task)| AllocatedTask {
            task,
            allocation: allocations.next_if(|(at, _)| *at == position).map(|(_, amounts)| amounts),
            cores: cores.next_if(|(at, _)| *at == position).map_or(NodeCores::NONE, |(_, c)| *c),
        })
    }

    /// Removes all changes.
    pub(crate) fn clear(&mut self) {
        if self.full {
            // The memory of a full delta is freed, because the next delta will hardly need as much.
            *self = Delta { lineage: self.lineage, ..Delta::default() };
            return;
        }
        self.kinds = None;
        self.policies.clear();
        self.machines.clear();
        self.slots.clear();
        self.sequences.clear();
        self.free.clear();
        self.devices.clear();
        self.cores.clear();
        self.demand_profiles.clear();
        self.loads.clear();
        self.trackers.clear();
        self.counts.clear();
        self.quotas = false;
        self.tenants.clear();
        self.jobs.clear();
        self.tasks.clear();
        self.allocations.clear();
        self.task_cores.clear();
    }

    /// The delta that a reader would get from `Cell::delta_since` after this one if nothing changed in between, not
    /// even the time. `quotas` is false, and all lists are empty.
    #[must_use]
    pub fn nothing_since(&self) -> Delta {
        Delta {
            from: self.to,
            to: self.to,
            lineage: self.lineage,
            now_ms: self.now_ms,
            rows: self.rows,
            overcommit_max: self.overcommit_max.clone(),
            bands: self.bands.clone(),
            evictions_left: self.evictions_left,
            policies: self.policies.nothing_since(),
            ..Delta::default()
        }
    }

    /// Keeps only the tasks that `keeps` accepts, with their allocations.
    pub fn retain_tasks(&mut self, mut keeps: impl FnMut(&TaskDelta) -> bool) {
        let mut numbers = 0..;
        let place = |task: &TaskDelta| keeps(task).then(|| numbers.next()).flatten();
        let places: Vec<Option<u32>> = self.tasks.iter().map(place).collect();
        let place = |at: u32| places.get(at as usize).copied().flatten();
        self.allocations.retain_mut(|(at, _)| place(*at).map(|now| *at = now).is_some());
        self.task_cores.retain_mut(|(at, _)| place(*at).map(|now| *at = now).is_some());
        let mut kept = places.iter().map(Option::is_some);
        self.tasks.retain(|_| kept.next().unwrap_or(false));
    }

    fn push_tenant(&mut self, tenant: &Tenant) {
        self.tenants.push(TenantDelta { terms: tenant.terms.clone(), used: tenant.used.clone() });
    }

    fn push_task(&mut self, id: TaskId, job: &JobRecord, task: &TaskRecord) {
        let TaskRecord { state, devices, group, placed_ms, .. } = *task;
        if let Some(values) = job.overrides.get(id.index) {
            self.allocations.push((self.tasks.len() as u32, amounts_of(values)));
        }
        if let Some(cores) = job.cores.get(id.index) {
            self.task_cores.push((self.tasks.len() as u32, *cores));
        }
        self.tasks.push(TaskDelta { id, group, state, devices, placed_ms });
    }

    fn push_tasks(&mut self, job: JobId, record: &JobRecord) {
        for (task, index) in record.tasks.iter().zip(0..) {
            self.push_task(TaskId { job, index }, record, task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::JobId;

    #[test]
    fn what_tasks_hold_stays_with_those_that_are_kept() {
        let task = |job| TaskDelta {
            id: TaskId { job: JobId(job), index: 0 },
            group: 0,
            state: TaskState::Pending,
            devices: DeviceSet::default(),
            placed_ms: 0,
        };
        let mut delta = Delta { tasks: (0..5).map(task).collect(), ..Delta::default() };
        delta.allocations =
            vec![(1, Amounts::new([1])), (2, Amounts::new([2])), (4, Amounts::new([4]))];
        let cores = |count| NodeCores::NONE.with(0, count);
        delta.task_cores = vec![(0, cores(10)), (4, cores(14))];
        delta.retain_tasks(|task| [1, 4].contains(&task.id.job.0));
        let kept: Vec<u64> = delta.tasks.iter().map(|task| task.id.job.0).collect();
        assert_eq!(kept, [1, 4]);
        assert_eq!(delta.allocations, [(0, Amounts::new([1])), (1, Amounts::new([4]))]);
        assert_eq!(delta.task_cores, [(1, cores(14))]);
    }
}
