//! A delta: the changes between two versions, or the whole state.
//!
//! A sync costs in proportion to the number of changes, not to the size of the cell. The cell walks its bounded change
//! log from the view's version, and copies each logged row. A row that was logged several times is copied several
//! times; its last copy is the present state. If the log has more rows than the cell, each row of the cell is copied
//! once. If the log no longer reaches back to the view's version, the whole state is copied.
//!
//! The reader passes the buffer of the last delta to the next sync, so syncs stop allocating once the buffer is large
//! enough.

use crate::cell::{Cell, Change};
use crate::fit::MachineStatus;
use crate::policy::{Columns, PolicyColumns};
use crate::rules::{Count, DomainName, TrackerId, TrackerKey};
use crate::state::allocation_overrides::amounts_of;
use crate::state::changes::Counts;
use crate::state::cores::CoresLeft;
use crate::state::demand_profiles::DemandProfileSum;
use crate::state::devices::Devices;
use crate::state::job_record::{JobRecord, OwnerId, TaskRecord};
use crate::state::load::LoadReport;
use crate::state::tenants::{Tenant, TenantDelta};
use omega_core::{
    Amounts, Band, DeviceSet, Job, JobId, Kinds, Machine, NodeCores, Overcommit, SequenceNumber,
    TaskId, TaskState, Text, Version,
};
use std::collections::HashSet;
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

    /// The delta that a reader would get from [`Cell::delta_since`] after this one if nothing changed in between, not
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

    fn push_task(&mut self, id: TaskId, (job, task): (&JobRecord, &TaskRecord)) {
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
            self.push_task(TaskId { job, index }, (record, task));
        }
    }
}

impl Cell {
    /// Fills `delta` with the changes from a version to the present one.
    ///
    /// `delta` gets the whole state in these cases: `since` is `Version(0)`, unknown, too old or in the future; or the
    /// last delta in this buffer had another lineage.
    pub fn delta_since(&self, since: Version, interest: &Interest, delta: &mut Delta) {
        let (lineage, related) = (delta.lineage, delta.lineage == self.lineage);
        self.write_head(since, delta);
        if since == self.version && since != Version(0) && related {
            return;
        }
        let Some(counts) = self.counts_since(since, lineage) else {
            return self.write_everything(interest, delta);
        };
        self.write_rows_and_tenants(since, counts, delta);
        let wanted = self.wanted(interest);
        for change in self.log.since(since) {
            if change.job().is_none_or(|(owner, job)| wanted.includes(owner, job)) {
                self.write_change(change, delta);
            }
        }
    }

    /// Clears a delta, and writes the parts that every delta has.
    pub(crate) fn write_head(&self, since: Version, delta: &mut Delta) {
        delta.clear();
        delta.lineage = self.lineage;
        delta.from = since;
        delta.to = self.version;
        delta.now_ms = self.now_ms;
        delta.rows = self.machines.row_count();
        delta.overcommit_max = self.policy.overcommit_max.clone();
        delta.bands.clone_from(&self.policy.bands);
        delta.evictions_left = self.evictions_left();
        self.policies.write_head(&mut delta.policies);
    }

    /// Writes the rows and tenants that changed after a version.
    pub(crate) fn write_rows_and_tenants(&self, since: Version, counts: Counts, delta: &mut Delta) {
        if counts.rows <= self.machines.row_count() {
            self.write_rows_since(since, delta)
        } else {
            self.write_rows(delta)
        }
        self.tenants.changed_since(since).for_each(|tenant| delta.push_tenant(tenant));
    }

    /// Counts the changes since a version of a lineage; `None` if a delta would contain the whole state.
    #[must_use]
    pub fn change_count_since(&self, since: Version, lineage: Version) -> Option<usize> {
        self.counts_since(since, lineage).map(|counts| counts.others + counts.rows)
    }

    /// Counts the changed rows and the other changes since a version.
    pub(crate) fn counts_since(&self, since: Version, lineage: Version) -> Option<Counts> {
        if lineage != self.lineage || since == Version(0) || since > self.version {
            return None;
        }
        self.log.counts_since(since)
    }

    /// Number of tasks that are written with a changed job.
    pub(crate) fn tasks_of_change(&self, change: &Change) -> usize {
        let Change::Job(id, _) = *change else { return 0 };
        let job = self.jobs.get(id).filter(|job| job.alive > 0 && job.resized);
        job.map_or(0, |job| job.tasks.len())
    }

    /// Writes the present state of a changed object.
    pub(crate) fn write_change(&self, change: &Change, delta: &mut Delta) {
        match *change {
            Change::Machine(slot) => self.write_machine(slot, delta),
            Change::Tracker(id) => self.write_tracker(id, delta),
            Change::Count(id, domain) => {
                if let Some((name, count)) = self.machine_index.rules.named_count(id, domain) {
                    delta.counts.push((id, name, count));
                }
            }
            Change::Quota => delta.quotas = true,
            Change::Policy(some) => {
                self.policies.write_change(some, &mut delta.policies, delta.rows)
            }
            Change::Job(id, _) => self.write_job(id, delta),
            Change::Task(id, _) => {
                if let Some(task) = self.jobs.task(id) {
                    delta.push_task(id, task);
                }
            }
        }
    }

    fn write_everything(&self, interest: &Interest, delta: &mut Delta) {
        delta.full = true;
        delta.from = Version(0);
        delta.kinds = Some(self.kinds.clone());
        for slot in 0..self.machines.row_count() as u32 {
            self.write_machine(slot, delta);
        }
        self.write_rows(delta);
        self.policies.write_whole(&mut delta.policies);
        for id in self.machine_index.rules.ids() {
            self.write_tracker(id, delta);
        }
        self.tenants.all_in_deltas().iter().for_each(|tenant| delta.push_tenant(tenant));
        let optional = self.wanted(interest);
        for (id, job) in self.jobs.iter() {
            if job.alive == 0 || !optional.includes(job.owner, id) {
                continue;
            }
            delta.jobs.push(JobDelta { id, job: Some(job.spec.clone()) });
            delta.push_tasks(id, job);
        }
    }

    fn write_rows(&self, delta: &mut Delta) {
        (0..self.machines.row_count() as u32).for_each(|slot| self.write_row(slot, delta));
    }

    fn write_row(&self, slot: u32, delta: &mut Delta) {
        let row = slot as usize;
        delta.slots.push(slot);
        delta.sequences.push(self.machines.row(row).sequence);
        delta.free.extend_from_slice(self.machines.free(row));
        self.write_parts(slot, delta);
    }

    /// Writes the rows that changed after a version.
    fn write_rows_since(&self, since: Version, delta: &mut Delta) {
        let Some(parts) = self.log.amounts_since(since) else {
            return self.log.rows_since(since).for_each(|slot| self.write_row(slot, delta));
        };
        delta.slots.extend(self.log.rows_since(since));
        for part in parts {
            delta.sequences.extend_from_slice(part.sequences);
            delta.free.extend_from_slice(part.free);
        }
        if self.machines.has_parts() || self.policies.any_writes_rows() {
            self.log.rows_since(since).for_each(|slot| self.write_parts(slot, delta));
        }
        debug_assert!(self.ends_at_present(delta), "a row changed after it was logged");
    }

    /// Whether some row may have a value that a delta removes by not listing it. Merging deltas then takes a search for
    /// such rows.
    pub(crate) fn has_sparse_row_values(&self) -> bool {
        self.machines.has_demand_profiles() || self.policies.any_writes_rows()
    }

    /// Whether the last copy of each row in a delta is the present state.
    fn ends_at_present(&self, delta: &Delta) -> bool {
        let kinds = self.machines.kinds();
        let mut seen = HashSet::new();
        (0..delta.slots.len()).rev().all(|at| {
            let row = delta.slots[at] as usize;
            !seen.insert(row)
                || delta.sequences[at] == self.machines.row(row).sequence
                    && delta.free[at * kinds..][..kinds] == *self.machines.free(row)
        })
    }

    /// Writes the data of a row that most rows lack: devices, exclusive cores, demand profiles, columns of policies,
    /// and load.
    fn write_parts(&self, slot: u32, delta: &mut Delta) {
        let row = slot as usize;
        if self.machines.has_devices()
            && let Some(devices) = self.machines.devices(row)
        {
            delta.devices.push((slot, *devices));
        }
        if self.machines.has_cores()
            && let Some(cores) = self.machines.cores(row)
        {
            delta.cores.push((slot, *cores));
        }
        if let Some(sum) = self.machines.demand_profiles(row) {
            delta.demand_profiles.push((slot, sum.clone()));
        }
        self.policies.write_row(slot, &mut delta.policies);
        if self.machines.has_loads()
            && let Some(load) = self.machines.load(row)
        {
            delta.loads.push((slot, load.clone()));
        }
    }

    fn write_machine(&self, slot: u32, delta: &mut Delta) {
        let row = self.machines.row(slot as usize);
        delta.machines.push(MachineDelta {
            slot,
            incarnation: row.incarnation,
            status: row.status,
            machine: self.machine_index.machines.get(slot as usize).cloned().flatten(),
        });
    }

    fn write_tracker(&self, id: TrackerId, delta: &mut Delta) {
        delta.trackers.push((id, self.machine_index.rules.key(id).cloned()));
        let counts = self.machine_index.rules.counts(id);
        delta.counts.extend(counts.map(|(domain, count)| (id, domain, count)));
    }

    fn write_job(&self, id: JobId, delta: &mut Delta) {
        let job = self.jobs.get(id).filter(|job| job.alive > 0);
        delta.jobs.push(JobDelta { id, job: job.map(|job| job.spec.clone()) });
        if let Some(job) = job.filter(|job| job.resized) {
            // After a resize, the groups' counts no longer determine how many tasks there are and to which group each
            // belongs.
            delta.push_tasks(id, job);
        }
    }

    /// The jobs of an interest.
    pub(crate) fn wanted(&self, interest: &Interest) -> Wanted {
        match interest {
            Interest::Machines => Wanted::None,
            Interest::AllJobs => Wanted::All,
            Interest::JobsOf(name, share) => {
                self.jobs.owner(name).map_or(Wanted::None, |owner| Wanted::Of(owner, *share))
            }
        }
    }
}

/// An [`Interest`] with the number of its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    None,
    Of(OwnerId, Share),
    All,
}

impl Wanted {
    pub(crate) fn includes(self, owner: OwnerId, job: JobId) -> bool {
        match self {
            Wanted::None => false,
            Wanted::Of(wanted, share) => wanted == owner && share.includes(job),
            Wanted::All => true,
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
