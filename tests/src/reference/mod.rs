//! The naive reference model: a cell without any running sum.
//!
//! It stores machines, jobs and the states of tasks, and scans all of them for each query. It is written from the
//! documentation of `omega-core`, shares no code with `omega-cellstate`, and undoes changes by restoring a copy. If the
//! model and the cell agree on thousands of random histories, errors in the cell are unlikely.
//!
//! Where the documentation leaves a choice, the model decides as follows:
//! - The row of a removed machine goes to the next machine, the most recently vacated row first.
//! - A command other than a transaction raises a machine's sequence number by one if it changed the capacity or the
//!   free amounts, however many tasks it moved; a load report does not.
//! - A command that requests the present state (draining a draining machine, killing an ended job) succeeds without a
//!   new version; setting a quota or a policy always starts one.
//! - A task whose machine lacks the label of a level is not counted at that level.

mod allocations;
mod cluster_resources;
mod commit;
mod fit;
mod gangs;
mod jobs;
mod leases;
mod machines;
mod peaks;
mod ports;
mod programs;
mod reservations;
mod tenants;
mod validate;
mod versions;
mod wishes;

use jobs::WithoutTasks;
pub use machines::claimed_together;
use omega_cellstate::JobVersion;
use omega_core::{
    Amounts, Command, Commit, DeviceSet, HolderId, Job, JobId, KindId, Kinds, Machine, MachineId,
    NodeCores, Outcome, PeakCalendar, Policy, Rejection, Reservation, SchedulerId, SequenceNumber,
    TaskId, TaskState, TenantConfig, Text, Transaction, Version,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A row, with or without a machine.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Sequence number of the row, which counts its changes.
    pub sequence: SequenceNumber,
    /// Number of machines that had the row before.
    pub incarnation: u32,
    /// The machine that has the row.
    pub machine: Option<Host>,
}

/// A machine with its state.
#[derive(Clone, Debug)]
pub struct Host {
    /// The machine as registered.
    pub spec: Arc<Machine>,
    /// Whether the machine accepts no new tasks.
    pub draining: bool,
    /// Last load report of the machine.
    pub load: Option<ReferenceLoad>,
}

/// A load report.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceLoad {
    /// Measured use.
    pub used: Amounts,
    /// Claims of the machine's tasks at the time of the report.
    pub claimed: Amounts,
    /// Time of the report.
    pub at_ms: u64,
}

/// A job with its state.
#[derive(Clone, Debug)]
pub struct ReferenceJob {
    /// Description of the job, with the groups of its tasks.
    pub spec: Arc<Job>,
    /// All versions of the job; empty while the job has the groups with which it was submitted.
    pub versions: Vec<JobVersion>,
    /// Time of the submission.
    pub submitted_ms: u64,
    /// Whether the job has ended because it was killed.
    pub killed: bool,
    /// Whether the job is a service that remains although it has no tasks.
    pub scaled_to_zero: bool,
    /// Tasks of the job, by number.
    pub tasks: Vec<ReferenceTask>,
    /// State of the job's gang while it waits for more tasks.
    pub gang_wait: Option<ReferenceGangWait>,
}

/// State of a waiting gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceGangWait {
    /// Time of the first `Expire` after the wait began.
    pub noticed_ms: Option<u64>,
    /// Whether the gang was once kept at its timeout.
    pub spared: bool,
}

/// A task with its state.
#[derive(Clone, Debug)]
pub struct ReferenceTask {
    /// State of the task.
    pub state: TaskState,
    /// Devices of the task.
    pub devices: DeviceSet,
    /// Position of the task's group in the job.
    pub group: usize,
    /// Number of times that the task failed.
    pub failures: u64,
    /// Time of the task's placement; 0 while it has no machine.
    pub placed_ms: u64,
    /// Exclusive cores of the task, by NUMA node.
    pub cores: NodeCores,
    /// Ports that the cell chose for the task.
    pub ports: Vec<u16>,
    /// Allocation of the task; `None` if it is the group's request.
    pub allocation: Option<Amounts>,
}

/// Past transactions of a scheduler with their results, by number.
type Answers = BTreeMap<u64, Arc<(Transaction, Commit)>>;

/// A scheduler and its past transactions.
#[derive(Clone, Debug)]
struct Scheduler {
    name: Text,
    holder: Option<HolderId>,
    answers: Answers,
    /// Numbers of transactions whose results are forgotten, because all results had too many conflicts.
    forgotten: BTreeSet<u64>,
    next: u64,
    /// Lowest valid transaction number of the scheduler. When another process takes over the scheduler's name, all
    /// numbers below become invalid.
    left_behind: u64,
}

/// The reference model. See the module documentation.
#[derive(Clone, Debug)]
pub struct Reference {
    kinds: Kinds,
    policy: Policy,
    version: Version,
    now_ms: u64,
    rows: Vec<Row>,
    /// Rows without a machine, in order of removal.
    vacant: Vec<usize>,
    jobs: BTreeMap<JobId, ReferenceJob>,
    next_job: u64,
    tenants: BTreeSet<Text>,
    quotas: BTreeMap<Text, Amounts>,
    tenant_configs: BTreeMap<Text, TenantConfig>,
    admissions: BTreeMap<Text, Amounts>,
    schedulers: Vec<Scheduler>,
    /// Times of the evictions that the eviction limit includes.
    evicted: Vec<u64>,
    /// Current and future reservations, in order of creation.
    reservations: Vec<Reservation>,
    /// Peak calendars, by name.
    peaks: BTreeMap<Text, PeakCalendar>,
    /// Ended jobs, with the time at which their end was recorded.
    over: Vec<(JobId, Option<u64>)>,
    /// Capacity of the cluster resources for which a capacity was set.
    cluster_capacity: BTreeMap<KindId, u64>,
}

impl Reference {
    /// Creates an empty cell.
    #[must_use]
    pub fn new(kinds: Kinds) -> Reference {
        Reference {
            kinds,
            policy: Policy::default(),
            version: Version(0),
            now_ms: 0,
            rows: Vec::new(),
            vacant: Vec::new(),
            jobs: BTreeMap::new(),
            next_job: 0,
            tenants: BTreeSet::new(),
            quotas: BTreeMap::new(),
            tenant_configs: BTreeMap::new(),
            admissions: BTreeMap::new(),
            schedulers: Vec::new(),
            evicted: Vec::new(),
            reservations: Vec::new(),
            peaks: BTreeMap::new(),
            over: Vec::new(),
            cluster_capacity: BTreeMap::new(),
        }
    }

    /// Applies a command. A rejected command changes nothing.
    ///
    /// # Errors
    /// The reasons of the cell.
    pub fn apply(&mut self, command: Command) -> Result<Outcome, Rejection> {
        let adopts = match &command {
            Command::AdoptTask { task, .. } => Some(task.job),
            _ => None,
        };
        let before = self.gangs_placed();
        let outcome = self.apply_alone(command);
        if outcome.is_ok() {
            self.note_gang_waits(&before, adopts);
        }
        outcome
    }

    fn apply_alone(&mut self, command: Command) -> Result<Outcome, Rejection> {
        match command {
            Command::RegisterScheduler { name } => self.register_scheduler(name),
            Command::RegisterMachine(machine) => self.register_machine(machine),
            Command::UpdateMachine { id, machine } => self.update_machine(id, machine),
            Command::DrainMachine { id, draining } => self.drain_machine(id, draining),
            Command::RemoveMachine { id } => self.remove_machine(id),
            Command::ReportLoad { id, load } => self.report_load(id, load),
            Command::SubmitJob(job) => self.submit_job(job),
            Command::ResizeGroup { job, group, count } => {
                self.resize_group(job, &group, count, WithoutTasks::Ends)
            }
            Command::ScaleGroup { job, group, count } => {
                self.resize_group(job, &group, count, WithoutTasks::Stays)
            }
            Command::KillJob { job } => self.kill_job(job),
            Command::DeleteJob { job } => self.delete_job(job),
            Command::UpdateJob { job, version, spec } => self.update_job(job, version, spec),
            Command::RollJob { job, step } => self.roll_job(job, &step),
            Command::AddTaint { id, taint } => self.set_taint(id, &taint.key.clone(), Some(taint)),
            Command::RemoveTaint { id, key } => self.set_taint(id, &key, None),
            Command::EndUpdate { job, version, result } => self.end_update(job, version, result),
            Command::ReportTask { task, machine, placed_ms, report } => {
                self.report_task((task, machine), placed_ms, report)
            }
            // The end of a program is only for the history of events, which is not part of the state.
            Command::ReportEnd { task, machine, placed_ms, report, end: _ } => {
                self.report_task((task, machine), placed_ms, report)
            }
            // Use is only kept in the log.
            Command::ReportUse { machine, used: _ } => self.ignore_use(machine),
            Command::AdoptTask { task, machine } => self.adopt_task(task, machine),
            Command::SetQuota { tenant, limit } => self.set_quota(tenant, limit),
            Command::SetPolicy(policy) => {
                validate::policy(&policy)?;
                let done = self.set_policy(policy);
                self.forget_evictions();
                Ok(done)
            }
            Command::Commit(txn) => Ok(Outcome::Commit(self.commit(&txn)?)),
            Command::Expire { now_ms } => Ok(self.expire(now_ms)),
            Command::GrantLease { name, holder, lease_ms } => {
                self.grant_lease(name, holder, lease_ms)
            }
            Command::RevokeLeases { holder } => Ok(self.revoke_leases(holder)),
            Command::SetTenant { tenant, tenant_config } => self.set_tenant(tenant, tenant_config),
            Command::SetAdmission { tenant, limit } => self.set_admission(tenant, limit),
            Command::Reserve(reservation) => self.reserve(reservation),
            Command::Unreserve { name } => self.unreserve(&name),
            Command::SetClusterCapacity { kind, amount } => self.set_cluster_capacity(kind, amount),
            Command::SetPeaks(calendar) => self.set_peaks(calendar),
            Command::RemovePeaks { name } => self.remove_peaks(&name),
            other => unimplemented_command(&other),
        }
    }

    fn set_quota(&mut self, tenant: Text, limit: Option<Amounts>) -> Result<Outcome, Rejection> {
        validate::name(&tenant)?;
        if let Some(limit) = &limit {
            validate::quota(&tenant, limit, &self.kinds)?;
        }
        self.check_tenants([&tenant])?;
        self.tenants.insert(tenant.clone());
        match limit {
            Some(limit) => self.quotas.insert(tenant, limit),
            None => self.quotas.remove(&tenant),
        };
        Ok(self.done())
    }

    /// Starts a new version.
    fn done(&mut self) -> Outcome {
        self.version = self.version.next();
        Outcome::Done(self.version)
    }

    /// Raises the sequence numbers of these rows.
    fn raise(&mut self, rows: &BTreeSet<usize>) {
        for row in rows {
            self.rows[*row].sequence = self.rows[*row].sequence.next();
        }
    }
}

fn unimplemented_command(command: &Command) -> ! {
    panic!("the reference does not know {command:?} yet")
}

/// Read access.
impl Reference {
    /// The cell's version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The cell's time.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The kinds.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Rows by number.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Id of the machine that has a row.
    #[must_use]
    pub fn machine_id(&self, row: usize) -> MachineId {
        MachineId { slot: row as u32, incarnation: self.rows[row].incarnation }
    }

    /// A machine, if it exists.
    #[must_use]
    pub fn host(&self, id: MachineId) -> Option<&Host> {
        let row = self.rows.get(id.row())?;
        row.machine.as_ref().filter(|_| row.incarnation == id.incarnation)
    }

    /// Every job.
    #[must_use]
    pub fn jobs(&self) -> &BTreeMap<JobId, ReferenceJob> {
        &self.jobs
    }

    /// Number of schedulers.
    #[must_use]
    pub fn schedulers(&self) -> usize {
        self.schedulers.len()
    }

    /// Every process that owns a name.
    pub fn holders(&self) -> impl Iterator<Item = HolderId> {
        self.schedulers.iter().filter_map(|scheduler| scheduler.holder)
    }

    /// Names of the schedulers with their owners, by id.
    pub fn lease_owners(&self) -> impl Iterator<Item = (&Text, Option<HolderId>)> {
        self.schedulers.iter().map(|scheduler| (&scheduler.name, scheduler.holder))
    }

    /// A number above all transaction numbers that a scheduler has used.
    #[must_use]
    pub fn next_transaction(&self, scheduler: SchedulerId) -> u64 {
        self.schedulers.get(scheduler.0 as usize).map_or(0, |scheduler| scheduler.next)
    }

    /// Tenants that were named in any command.
    pub fn tenants(&self) -> impl Iterator<Item = &Text> {
        self.tenants.iter()
    }

    /// Every task with its job, in ascending order.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &ReferenceJob, &ReferenceTask)> {
        self.jobs.iter().flat_map(|(id, job)| {
            let tasks = job.tasks.iter().zip(0..);
            tasks.map(move |(task, index)| (TaskId { job: *id, index }, job, task))
        })
    }

    /// Every placed task, with its row.
    pub fn placed(&self) -> impl Iterator<Item = (TaskId, &ReferenceJob, &ReferenceTask, usize)> {
        self.tasks()
            .filter_map(|(id, job, task)| Some((id, job, task, task.state.machine()?.row())))
    }

    /// A task and its job.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<(&ReferenceJob, &ReferenceTask)> {
        let job = self.jobs.get(&id.job)?;
        Some((job, job.tasks.get(id.index as usize)?))
    }
}
