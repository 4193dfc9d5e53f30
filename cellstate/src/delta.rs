//! What changed between two versions, or everything there is.
//!
//! A view is private, so it must be brought up to date; and it must cost what changed, not what
//! there is. The master walks its bounded change lists from the view's version and copies the
//! present state of each row that they name. A row may be named twice: the copy is the same. Where
//! the list names more rows than the cell has, each row is sent once; when it no longer reaches back,
//! everything is.
//!
//! A delta is a buffer that the reader keeps and passes in again: no allocation once it has grown.

use crate::cell::{Cell, Change};
use crate::cores::CoresLeft;
use crate::demand_profiles::DemandProfileSum;
use crate::devices::Devices;
use crate::held::amounts_of;
use crate::jobs::{JobRecord, OwnerId, TaskRecord};
use crate::judge::MachineStatus;
use crate::load::LoadReport;
use crate::policy::{Columns, PolicyColumns};
use crate::rules::{Count, DomainName, TrackerId, TrackerKey};
use crate::tenants::Tenant;
use omega_core::{
    Amounts, Band, DeviceSet, Job, JobId, Kinds, Machine, NodeCores, Overcommit, SequenceNumber,
    TaskId, TaskState, TenantConfig, Text, Version,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Which jobs a reader wants to hear of. Machines and rules it always hears of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interest {
    /// No jobs: only what can be claimed.
    #[default]
    Machines,
    /// The jobs that name this scheduler: all of them, or one worker's share.
    JobsOf(Text, Share),
    /// Every job.
    AllJobs,
}

/// One of several equal parts of a scheduler's jobs, by job number: the workers of one scheduler
/// divide its jobs without speaking to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which part, from 0.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Share {
    /// Everything.
    pub const ALL: Share = Share { index: 0, of: 1 };

    /// Whether a job is in this part.
    #[must_use]
    pub fn includes(self, job: JobId) -> bool {
        self.of <= 1 || job.0 % u64::from(self.of) == u64::from(self.index)
    }
}

/// A machine as a view needs it, apart from what is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDelta {
    /// The row.
    pub slot: u32,
    /// How many machines had the row before.
    pub incarnation: u32,
    /// Whether it takes tasks.
    pub status: MachineStatus,
    /// What it is; `None` if the row is empty.
    pub machine: Option<Arc<Machine>>,
}

/// A job that came, was resized, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDelta {
    /// Which.
    pub id: JobId,
    /// What it now is; `None` once all its tasks have ended.
    pub job: Option<Arc<Job>>,
}

/// A task whose state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskDelta {
    /// Which.
    pub id: TaskId,
    /// The position of its group in its job.
    pub group: u16,
    /// Its state now.
    pub state: TaskState,
    /// The devices that it has.
    pub devices: DeviceSet,
    /// When it got its machine, by the cell's time; 0 while it has none.
    pub placed_ms: u64,
}

/// What is so of a tenant until an operator says otherwise: shared, as it comes with all that it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantTerms {
    /// Its name.
    pub name: Text,
    /// How it stands among the others.
    pub tenant_config: TenantConfig,
    /// The most that its tasks and those of all tenants below it may claim together.
    pub limit: Option<Amounts>,
}

/// A tenant, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantDelta {
    /// Who it is, how it stands, and what it may have.
    pub terms: Arc<TenantTerms>,
    /// What its tasks and those of all tenants below it claim together, by kind.
    pub used: SmallVec<[i64; 4]>,
}

/// What changed between two versions. See the head of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// The version that it starts from.
    pub from: Version,
    /// The version that it leads to.
    pub to: Version,
    /// Who numbered the trackers that it speaks of: the version of the image that the cell was
    /// restored from, 0 for a cell that never was. A cell reads here what the reader's last delta
    /// said; one of another lineage sends everything.
    pub lineage: Version,
    /// Whether it is everything, rather than what changed.
    pub full: bool,
    /// The cell's resource kinds; only in a full delta.
    pub kinds: Option<Kinds>,
    /// The most that a machine may be overcommitted.
    pub overcommit_max: Overcommit,
    /// The cell's time at the version that it leads to, in milliseconds: by it reports of load have an age.
    pub now_ms: u64,
    /// The policy's bands of precedence.
    pub bands: Vec<Band>,
    /// How many evictions more the cell takes now; `None`: any number.
    pub evictions_left: Option<u32>,
    /// Columns of each policy.
    pub policies: PolicyColumns,
    /// How many rows the cell has.
    pub rows: usize,
    /// Machines that came, changed or went.
    pub machines: Vec<MachineDelta>,
    /// Rows whose amounts changed.
    pub slots: Vec<u32>,
    /// Their sequence numbers.
    pub sequences: Vec<SequenceNumber>,
    /// What is free in them: for each row every kind, in order.
    pub free: Vec<i64>,
    /// Devices of those rows that have any.
    pub devices: Vec<(u32, Devices)>,
    /// What is left of the cores of those rows in which tasks may have some to themselves.
    pub cores: Vec<(u32, CoresLeft)>,
    /// The sums of the demand profiles of those rows whose tasks have any: the others have none any more.
    pub demand_profiles: Vec<(u32, Arc<DemandProfileSum>)>,
    /// Reports of those rows that have one.
    pub loads: Vec<(u32, LoadReport)>,
    /// Trackers that came (with a key) or went.
    pub trackers: Vec<(TrackerId, Option<TrackerKey>)>,
    /// Counters that changed.
    pub counts: Vec<(TrackerId, DomainName, Count)>,
    /// Whether some tenant's quota changed, or a tenant that has one claims less than before.
    pub quotas: bool,
    /// Tenants that came, stand otherwise or have another limit, or that use more or less than before; none as long
    /// as no tenant of the cell has a standing or a limit. One may be there without having changed.
    pub tenants: Vec<TenantDelta>,
    /// Jobs that came, changed or ended.
    pub jobs: Vec<JobDelta>,
    /// Tasks whose state changed, and all of a job that was ever resized. A task of a new job that
    /// is not here is pending; without a resize, tasks are numbered group by group.
    pub tasks: Vec<TaskDelta>,
    /// By position, ascending, those of these tasks that hold something else of their machines than their group
    /// requests, with what that is.
    pub held: Vec<(u32, Amounts)>,
    /// By position, ascending, those of these tasks that have cores to themselves, with how many of which NUMA node.
    pub task_cores: Vec<(u32, NodeCores)>,
}

/// A task of a delta, with what its group does not tell of what it holds.
#[derive(Clone, Copy, Debug)]
pub struct HoldingTask<'a> {
    /// The task.
    pub task: &'a TaskDelta,
    /// What it holds, if that is not its group's request.
    pub held: Option<&'a Amounts>,
    /// The cores that it has to itself.
    pub cores: NodeCores,
}

impl Delta {
    /// Whether it changes what runs where, as far as a rule about other tasks looks at it.
    #[must_use]
    pub fn changes_rules(&self) -> bool {
        !self.counts.is_empty() || !self.trackers.is_empty()
    }

    /// Each task, with what it holds.
    pub fn tasks_held(&self) -> impl Iterator<Item = HoldingTask<'_>> {
        let mut held = self.held.iter().peekable();
        let mut cores = self.task_cores.iter().peekable();
        (0..).zip(&self.tasks).map(move |(position, task)| HoldingTask {
            task,
            held: held.next_if(|(at, _)| *at == position).map(|(_, amounts)| amounts),
            cores: cores.next_if(|(at, _)| *at == position).map_or(NodeCores::NONE, |(_, c)| *c),
        })
    }

    fn clear(&mut self) {
        if self.full {
            // As large as the cell: the next one will hardly need as much again.
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
        self.held.clear();
        self.task_cores.clear();
    }

    /// What a cell tells a reader of this delta in which nothing has happened since, and which was not told the time: that is
    /// what [`Cell::delta_since`] then says, and it is no change.
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

    /// Keeps those tasks only that are to be kept, with what they hold.
    pub fn retain_tasks(&mut self, mut keeps: impl FnMut(&TaskDelta) -> bool) {
        let mut numbers = 0..;
        let place = |task: &TaskDelta| keeps(task).then(|| numbers.next()).flatten();
        let places: Vec<Option<u32>> = self.tasks.iter().map(place).collect();
        let place = |at: u32| places.get(at as usize).copied().flatten();
        self.held.retain_mut(|(at, _)| place(*at).map(|now| *at = now).is_some());
        self.task_cores.retain_mut(|(at, _)| place(*at).map(|now| *at = now).is_some());
        let mut kept = places.iter().map(Option::is_some);
        self.tasks.retain(|_| kept.next().unwrap_or(false));
    }

    fn push_tenant(&mut self, tenant: &Tenant) {
        self.tenants.push(TenantDelta {
            terms: tenant.terms.clone(),
            used: SmallVec::from_slice(&tenant.used),
        });
    }

    fn push_task(&mut self, id: TaskId, (job, task): (&JobRecord, &TaskRecord)) {
        let TaskRecord { state, devices, group, placed_ms, .. } = *task;
        if let Some(values) = job.held.get(id.index) {
            self.held.push((self.tasks.len() as u32, amounts_of(values)));
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
    /// Fills `delta` with what leads from a version to the present one. A version that is unknown,
    /// too old or from the future gets everything; so does `Version(0)`, and a buffer whose last
    /// delta came from a cell of another lineage.
    pub fn delta_since(&self, since: Version, interest: &Interest, delta: &mut Delta) {
        delta.clear();
        let (lineage, related) = (delta.lineage, delta.lineage == self.lineage);
        delta.lineage = self.lineage;
        delta.from = since;
        delta.to = self.version;
        delta.now_ms = self.now_ms;
        delta.rows = self.machines.row_count();
        delta.overcommit_max = self.policy.overcommit_max.clone();
        delta.bands.clone_from(&self.policy.bands);
        delta.evictions_left = self.evictions_left();
        self.policies.write_head(delta);
        if since == self.version && since != Version(0) && related {
            return;
        }
        let rows = self.counts_since(since, lineage).map(|(_, rows)| rows);
        let Some(rows) = rows else { return self.write_everything(interest, delta) };
        match rows <= self.machines.row_count() {
            true => self.row_log.since(since).for_each(|slot| self.write_row(*slot, delta)),
            false => self.write_rows(delta),
        }
        self.write_changes(since, interest, delta);
    }

    /// Counts the changes that lead from a version of a lineage to this one; `None` where a delta has everything.
    #[must_use]
    pub fn change_count_since(&self, since: Version, lineage: Version) -> Option<usize> {
        self.counts_since(since, lineage).map(|(changes, rows)| changes + rows)
    }

    /// Counts the changes of that delta, and the rows that changed beside them.
    fn counts_since(&self, since: Version, lineage: Version) -> Option<(usize, usize)> {
        if lineage != self.lineage || since == Version(0) || since > self.version {
            return None;
        }
        self.log.count_since(since).zip(self.row_log.count_since(since))
    }

    /// Writes what changed, but for the rows.
    fn write_changes(&self, since: Version, interest: &Interest, delta: &mut Delta) {
        self.tenants.changed_since(since).for_each(|tenant| delta.push_tenant(tenant));
        let optional = self.wanted(interest);
        for change in self.log.since(since) {
            match *change {
                Change::Machine(slot) => self.write_machine(slot, delta),
                Change::Tracker(id) => self.write_tracker(id, delta),
                Change::Count(id, domain) => {
                    if let Some((name, count)) = self.facts.rules.named_count(id, domain) {
                        delta.counts.push((id, name, count));
                    }
                }
                Change::Quota => delta.quotas = true,
                Change::Policy(some) => self.policies.write_change(some, delta),
                Change::Job(id, owner) if optional.includes(owner, id) => self.write_job(id, delta),
                Change::Task(id, owner) if optional.includes(owner, id.job) => {
                    if let Some(task) = self.jobs.task(id) {
                        delta.push_task(id, task);
                    }
                }
                Change::Job(..) | Change::Task(..) => {}
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
        self.policies.write_whole(delta);
        for id in self.facts.rules.ids() {
            self.write_tracker(id, delta);
        }
        self.tenants.all_if_told().iter().for_each(|tenant| delta.push_tenant(tenant));
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
        self.policies.write_row(slot, delta);
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
            machine: self.facts.machines.get(slot as usize).cloned().flatten(),
        });
    }

    fn write_tracker(&self, id: TrackerId, delta: &mut Delta) {
        delta.trackers.push((id, self.facts.rules.key(id).cloned()));
        let counts = self.facts.rules.counts(id);
        delta.counts.extend(counts.map(|(domain, count)| (id, domain, count)));
    }

    fn write_job(&self, id: JobId, delta: &mut Delta) {
        let job = self.jobs.get(id).filter(|job| job.alive > 0);
        delta.jobs.push(JobDelta { id, job: job.map(|job| job.spec.clone()) });
        if let Some(job) = job.filter(|job| job.resized) {
            // The counts no longer tell which task is of which group, nor how many there are.
            delta.push_tasks(id, job);
        }
    }

    fn wanted(&self, interest: &Interest) -> Wanted {
        match interest {
            Interest::Machines => Wanted::None,
            Interest::AllJobs => Wanted::All,
            Interest::JobsOf(name, share) => {
                self.owners.get(name).map_or(Wanted::None, |owner| Wanted::Of(*owner, *share))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Wanted {
    None,
    Of(OwnerId, Share),
    All,
}

impl Wanted {
    fn includes(self, owner: OwnerId, job: JobId) -> bool {
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
        delta.held = vec![(1, Amounts::new([1])), (2, Amounts::new([2])), (4, Amounts::new([4]))];
        let cores = |count| NodeCores::NONE.with(0, count);
        delta.task_cores = vec![(0, cores(10)), (4, cores(14))];
        delta.retain_tasks(|task| [1, 4].contains(&task.id.job.0));
        let kept: Vec<u64> = delta.tasks.iter().map(|task| task.id.job.0).collect();
        assert_eq!(kept, [1, 4]);
        assert_eq!(delta.held, [(0, Amounts::new([1])), (1, Amounts::new([4]))]);
        assert_eq!(delta.task_cores, [(1, cores(14))]);
    }
}
