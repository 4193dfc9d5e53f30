//! The cell: a deterministic state machine over machines, jobs and placements.
//!
//! ```text
//!                    ┌────────────────────────── Cell ───────────────────────────┐
//!   Command ──apply──▶ machines   jobs, tasks   tenants   facts (sets, rules)    │
//!                    │     ▲            ▲          ▲          ▲                  │
//!   Outcome ◀────────│     └──── take / give back ─┴──────────┘                  │
//!                    │  version, change logs ──────────────────▶ Delta ──▶ views │
//!                    └───────────────────────────────────────────────────────────┘
//! ```
//!
//! The new state and the outcome depend only on the present state and the command, not on clocks, randomness or hash
//! order. A rejected command leaves no trace. `omega_core::Command` documents the commands; each file beside this one
//! implements one family of them: `machine_commands.rs`, `job_commands.rs`, `holders.rs`, `commit/`, and the policies
//! in `policy/`.
//!
//! Invariants, which [`Cell::audit`] checks:
//! 1. For each machine and kind, the free amount equals the claimable amount minus the claims of the machine's tasks.
//! 2. No claim exceeds the amount that was free at its commit. Free amounts become negative only when a machine or the
//!    bound of overcommit shrinks, or when a task is adopted.
//! 3. A placed task is on one machine only, and the machine's list has it once.
//! 4. Rule counters, device shares, exclusive cores, tenants' use and claims of cluster resources equal a recount.
//! 5. Versions and sequence numbers only grow.

use crate::answers::Answers;
use crate::changes::ChangeLog;
use crate::commit::Scratch;
use crate::cores::{CoreCounts, CoresLeft};
use crate::facts::Facts;
use crate::held::Values;
use crate::history::History;
use crate::image::Capture;
use crate::jobs::{JobRecord, Jobs, OwnerId, TaskRecord};
use crate::judge::{Grant, MachineStatus};
use crate::load::LoadReport;
use crate::machines::{Machines, Part};
use crate::missed_deadline::DueCounts;
use crate::policy::{Placement, Policies, PolicySet};
use crate::rules::{Domain, TrackerId};
use crate::tenants::Tenants;
use crate::validate;
use omega_core::limits::CHANGES_MAX;
use omega_core::{
    Command, DeviceSet, Hold, Job, JobId, Kinds, Machine, MachineId, NodeCores, Outcome, Policy,
    Rejection, SchedulerId, SequenceNumber, TaskId, TaskState, TenantConfig, Text, Version,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// A logged change of anything except a machine's amounts. The log stores no values: a delta reads the present ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A machine was registered, updated, drained, undrained or removed.
    Machine(u32),
    Job(JobId, OwnerId),
    Task(TaskId, OwnerId),
    Tracker(TrackerId),
    Count(TrackerId, Domain),
    /// A tenant's remaining quota changed.
    Quota,
    /// The settings or the present effect of these policies changed.
    Policy(PolicySet),
}

/// A registered scheduler.
///
/// Each commit writes its scheduler's record, and different schedulers commit on different processors. So no two
/// records share a pair of cache lines (processors fetch lines in pairs), and each scheduler has its own buffers.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(crate) struct Registered {
    pub(crate) name: Text,
    /// The process that owns the name, if any.
    pub(crate) hold: Option<Hold>,
    pub(crate) answers: Answers,
    /// Buffers of the scheduler's commits; `None` during a commit, and before the first one.
    pub(crate) scratch: Option<Box<Scratch>>,
}

impl Registered {
    /// A scheduler whose name no process owns.
    pub(crate) fn new(name: Text) -> Registered {
        Registered { name, hold: None, answers: Answers::default(), scratch: None }
    }
}

/// Counters for metrics, zero when the process starts. They are not part of the state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Tasks that a transaction moved.
    pub(crate) moves: u64,
    /// Met and missed deadlines.
    pub(crate) due: DueCounts,
}

/// The cell state. See the module documentation.
///
/// Commits run on several processors. A commit must fetch the cache lines that it will write from the processor that
/// ran the previous commit. So the fields that every commit writes come first, and share a few cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub struct Cell {
    pub(crate) version: Version,
    /// Changes by version, for deltas.
    pub(crate) log: ChangeLog<Change>,
    pub(crate) tenants: Tenants,
    pub(crate) now_ms: u64,
    pub(crate) kinds: Kinds,
    pub(crate) policy: Policy,
    pub(crate) machines: Machines,
    pub(crate) facts: Facts,
    pub(crate) jobs: Jobs,
    /// The state of each policy.
    pub(crate) policies: Policies,
    pub(crate) schedulers: Vec<Registered>,
    /// Ended jobs, oldest first, each with the time at which the cell recorded the end.
    pub(crate) ended: VecDeque<(JobId, Option<u64>)>,
    pub(crate) counters: Counters,
    /// The version of the snapshot that the cell was restored from, at which tracker numbering began. Cells with equal
    /// history and lineage have equal tracker numbers.
    pub(crate) lineage: Version,
    /// Events of the recent past, if events are kept. They are not part of the state, and no outcome depends on them.
    pub(crate) history: Option<Box<History>>,
    /// The running capture, if any.
    pub(crate) capture: Option<Box<Capture>>,
}

impl Cell {
    /// An empty cell with these resource kinds.
    #[must_use]
    pub fn new(kinds: Kinds) -> Cell {
        Cell::with_change_limit(kinds, CHANGES_MAX)
    }

    /// An empty cell whose change logs keep at most `changes` changes.
    #[must_use]
    pub fn with_change_limit(kinds: Kinds, changes: usize) -> Cell {
        let count = kinds.count();
        Cell {
            kinds,
            policy: Policy::default(),
            version: Version(0),
            now_ms: 0,
            machines: Machines::new(count),
            facts: Facts::default(),
            jobs: Jobs::default(),
            tenants: Tenants::new(count),
            policies: Policies::default(),
            schedulers: Vec::new(),
            ended: VecDeque::new(),
            counters: Counters::default(),
            log: ChangeLog::new(Version(0), changes, count),
            lineage: Version(0),
            history: None,
            capture: None,
        }
    }

    /// Applies a command.
    ///
    /// # Errors
    /// The command is invalid in the present state. The state has not changed.
    pub fn apply(&mut self, command: Command) -> Result<Outcome, Rejection> {
        if let Command::Commit(txn) = &command {
            return Ok(Outcome::Commit(self.commit(txn)?));
        }
        let outcome = self.apply_command(command);
        self.policies.refresh(&self.facts);
        outcome
    }

    fn apply_command(&mut self, command: Command) -> Result<Outcome, Rejection> {
        match command {
            Command::RegisterScheduler { name } => self.register_scheduler(name),
            Command::RegisterMachine(machine) => self.register_machine(machine),
            Command::UpdateMachine { id, machine } => self.update_machine(id, machine),
            Command::DrainMachine { id, draining } => self.drain_machine(id, draining),
            Command::RemoveMachine { id } => self.remove_machine(id),
            Command::ReportLoad { id, load } => self.report_load(id, load),
            Command::SubmitJob(job) => self.submit_job(job),
            Command::ResizeGroup { job, group, count } => self.resize_group(job, &group, count),
            Command::KillJob { job } => self.kill_job(job),
            Command::DeleteJob { job } => self.delete_job(job),
            Command::UpdateJob { job, version, spec } => self.update_job(job, version, spec),
            Command::RollJob { job, step } => self.roll_job(job, &step),
            Command::ReportTask { task, machine, report } => {
                self.report_task((task, machine), report, None)
            }
            Command::ReportEnd { task, machine, report, end } => {
                self.report_task((task, machine), report, Some(end))
            }
            Command::AdoptTask { task, machine } => self.adopt_task(task, machine),
            Command::SetQuota { tenant, limit } => self.set_quota(&tenant, limit),
            Command::SetPolicy(policy) => self.set_policy(policy),
            Command::Expire { now_ms } => Ok(self.expire(now_ms)),
            Command::HoldScheduler { name, holder, lease_ms } => {
                self.hold_scheduler(name, Hold { holder, lease_ms })
            }
            Command::EndHolder { holder } => Ok(self.end_holder(holder)),
            Command::SetTenant { tenant, tenant_config } => self.set_tenant(&tenant, tenant_config),
            Command::SetAdmission { tenant, limit } => self.set_admission(&tenant, limit),
            Command::Reserve(reservation) => self.reserve(reservation),
            Command::Unreserve { name } => self.unreserve(&name),
            Command::SetClusterCapacity { kind, amount } => self.set_cluster_capacity(kind, amount),
            Command::SetPeaks(calendar) => self.set_peaks(calendar),
            Command::RemovePeaks { name } => self.remove_peaks(&name),
            _ => unreachable!("every command of this version is handled above"),
        }
    }

    fn set_tenant(
        &mut self,
        tenant: &Text,
        tenant_config: TenantConfig,
    ) -> Result<Outcome, Rejection> {
        validate::tenant_config(tenant, &tenant_config, &self.kinds)?;
        self.tenants.set_tenant(tenant, tenant_config.clone())?;
        self.recount_asked();
        let version = self.begin();
        Policies::configure_tenant(self, tenant, &tenant_config);
        // If the parent changed, other quotas may apply to the tenant now.
        self.log.push(Change::Quota);
        Ok(Outcome::Done(version))
    }

    // --- Helpers for all families of commands ---------------------------------------------------

    /// Starts the next version.
    pub(crate) fn begin(&mut self) -> Version {
        self.version = self.version.next();
        self.tenants.begin(self.version);
        self.log.open_version();
        self.version
    }

    /// Records that a machine changed in this version. Call it once per machine and command.
    pub(crate) fn touch(&mut self, slot: usize) {
        let row = self.machines.row_mut(slot);
        row.sequence = row.sequence.next();
        if crate::planted!(ChangeDropped) && row.sequence.0.is_multiple_of(4) {
            return;
        }
        self.log_row(slot as u32);
    }

    /// Logs the present state of a row. If the row changes later in this version, it must be logged again.
    pub(crate) fn log_row(&mut self, slot: u32) {
        let row = slot as usize;
        self.log.push_row(slot, self.machines.row(row).sequence, self.machines.free(row));
    }

    /// Places a pending task on a machine. `judge` must have accepted it, and an allocation that differs from the
    /// group's request must have been recorded. This function chooses the task's ports, unless they are already
    /// recorded.
    pub(crate) fn place(parts: Parts<'_>, id: TaskId, machine: MachineId, grant: Grant) {
        let Parts { job, machines, tenants, policies, facts, now_ms } = parts;
        let task = &mut job.tasks[id.index as usize];
        task.state = TaskState::Placed(machine);
        task.devices = grant.devices;
        task.placed_ms = now_ms;
        let group = usize::from(task.group);
        job.placed += 1;
        job.cores.put(id.index, grant.cores);
        let need = &job.groups[group].need;
        if need.any_ports() > job.ports.get(id.index).len() {
            let chosen = policies.ports.choose(id, machine.row(), need, facts);
            job.ports.put(id.index, chosen);
        }
        let part = job.part(id.index);
        machines.take(machine.row(), id, part);
        tenants.count(job.tenant, &need.charged(part.request), 1);
        let (row, request, tenant) = (machine.row(), part.request, job.tenant);
        let ports = job.ports.get(id.index);
        policies.count(&Placement { row, job: &job.spec, tenant, need, request, ports }, 1);
        if let Some(rules) = &need.rules {
            facts.rules.count_task(rules, machine.row(), 1, &facts.sets);
        }
    }

    /// Removes a placed task from its machine and sets its new state. Returns the task's allocation if it differed from
    /// the group's request.
    pub(crate) fn unplace(parts: Parts<'_>, id: TaskId, state: TaskState) -> Option<Values> {
        let Parts { job, machines, tenants, policies, facts, .. } = parts;
        let machine = job.tasks[id.index as usize].state.machine()?;
        let part = job.part(id.index);
        let lost = crate::planted!(NotGivenBack) && state.ended();
        let given = if lost { Part { request: &[], demand_profiles: None, ..part } } else { part };
        machines.give_back(machine.row(), id, given);
        let need = job.need(&job.tasks[id.index as usize]);
        tenants.count(job.tenant, &need.charged(part.request), -1);
        let (row, request, tenant) = (machine.row(), part.request, job.tenant);
        let ports = job.ports.get(id.index);
        policies.count(&Placement { row, job: &job.spec, tenant, need, request, ports }, -1);
        let task = &mut job.tasks[id.index as usize];
        task.state = state;
        task.devices = DeviceSet::default();
        task.placed_ms = 0;
        let group = usize::from(task.group);
        job.placed -= 1;
        if let Some(rules) = &job.groups[group].need.rules {
            facts.rules.count_task(rules, machine.row(), -1, &facts.sets);
        }
        job.cores.forget(id.index);
        job.ports.forget(id.index);
        job.held.take(id.index)
    }

    /// Logs a task's new state and the counters that it changed.
    pub(crate) fn log_task(&mut self, id: TaskId, owner: OwnerId, slot: Option<usize>) {
        self.log.push(Change::Task(id, owner));
        let Some(slot) = slot else { return };
        let Some((job, task)) = self.jobs.task(id) else { return };
        if task.state.machine().is_none() && self.tenants.is_limited(job.tenant) {
            // The tenant uses less now, so claims that exceeded its quota may fit.
            self.log.push(Change::Quota);
        }
        let Some(group) = job.groups.get(usize::from(task.group)) else { return };
        let Some(rules) = &group.need.rules else { return };
        for tracker in rules.counted() {
            if let Some(domain) = self.facts.rules.domain_of(tracker, slot, &self.facts.sets) {
                self.log.push(Change::Count(tracker, domain));
            }
        }
    }

    /// The parts of the cell that a placement of this job changes.
    pub(crate) fn parts(&mut self, job: JobId) -> Option<Parts<'_>> {
        Some(Parts {
            job: self.jobs.get_mut(job)?,
            machines: &mut self.machines,
            tenants: &mut self.tenants,
            policies: &mut self.policies,
            facts: &mut self.facts,
            now_ms: self.now_ms,
        })
    }
}

/// The parts of the cell that a placement changes.
pub(crate) struct Parts<'a> {
    pub(crate) job: &'a mut JobRecord,
    pub(crate) machines: &'a mut Machines,
    pub(crate) tenants: &'a mut Tenants,
    pub(crate) policies: &'a mut Policies,
    pub(crate) facts: &'a mut Facts,
    pub(crate) now_ms: u64,
}

/// A machine and its state, as [`Cell::machine`] returns it.
#[derive(Clone, Debug)]
pub struct MachineState<'a> {
    /// Id of the machine.
    pub id: MachineId,
    /// Description of the machine.
    pub machine: &'a Arc<Machine>,
    /// Status of the machine.
    pub status: MachineStatus,
    /// Sequence number of the machine.
    pub sequence: SequenceNumber,
    /// Free amount of each kind. Negative if the claims exceed the claimable amount, for example because the machine
    /// shrank.
    pub free: &'a [i64],
    /// Claimable amount of each kind: the capacity times the overcommit.
    pub claimable: Vec<i64>,
    /// Free part of each device, in thousandths.
    pub devices_left: &'a [i16],
    /// Free exclusive cores by NUMA node; `None` if the machine has no exclusive cores.
    pub cores_left: Option<&'a CoresLeft>,
    /// The machine's last load report.
    pub load: Option<&'a LoadReport>,
    /// Tasks placed on the machine, in no particular order.
    pub tasks: &'a [TaskId],
}

/// Queries.
impl Cell {
    /// Whether the state will change soon by the passing of time alone. If so, the cell should receive `Expire` often.
    #[must_use]
    pub fn waits_for_time(&self) -> bool {
        self.policies.are_near_an_edge(self.now_ms)
    }

    /// Whether outcomes of commands may depend on the time. If so, `Expire` should be sent together with commands.
    #[must_use]
    pub fn goes_by_time(&self) -> bool {
        // Recorded events have the cell's time, so a cell that keeps events needs the time too.
        self.policy.eviction_cap.is_some() || self.policies.go_by_time() || self.history.is_some()
    }

    /// The cell's version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Number of tasks that transactions moved to another machine since this process started.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.counters.moves
    }

    /// The cell's time in milliseconds, as last set by [`Command::Expire`].
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The cell's resource kinds.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The cell's policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The name of a scheduler that has registered.
    #[must_use]
    pub fn scheduler_name(&self, id: SchedulerId) -> Option<&Text> {
        self.schedulers.get(id.0 as usize).map(|scheduler| &scheduler.name)
    }

    /// The machine with this name.
    #[must_use]
    pub fn machine_by_name(&self, name: &str) -> Option<MachineId> {
        self.machines.by_name(name)
    }

    /// The machine with this id, if it exists.
    #[must_use]
    pub fn machine(&self, id: MachineId) -> Option<MachineState<'_>> {
        let row = self.machines.get(id)?;
        let machine = self.facts.machines[id.row()].as_ref()?;
        Some(MachineState {
            id,
            machine,
            status: row.status,
            sequence: row.sequence,
            free: self.machines.free(id.row()),
            claimable: crate::machines::claimable(machine, &self.kinds, &self.policy),
            devices_left: self.machines.devices(id.row()).map_or(&[], |devices| devices.left()),
            cores_left: self.machines.cores(id.row()),
            load: self.machines.load(id.row()),
            tasks: &row.tasks,
        })
    }

    /// Every machine, in ascending order of rows.
    pub fn machines(&self) -> impl Iterator<Item = MachineState<'_>> {
        self.machines_from(0)
    }

    /// Every machine in this row or a later row, in ascending order of rows.
    pub fn machines_from(&self, row: usize) -> impl Iterator<Item = MachineState<'_>> {
        (row..self.machines.row_count()).filter_map(|slot| self.machine(self.machines.id(slot)))
    }

    /// The job with this name.
    #[must_use]
    pub fn job_by_name(&self, name: &str) -> Option<JobId> {
        self.jobs.by_name(name)
    }

    /// The job with this id, if it exists.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(id).map(|record| &record.spec)
    }

    /// The id that the next job will get. A lower id without a job belongs to a job that has ended and was forgotten.
    #[must_use]
    pub fn next_job(&self) -> JobId {
        self.jobs.next_id()
    }

    /// Every job, in ascending order.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Arc<Job>)> {
        self.jobs.iter().map(|(id, record)| (id, &record.spec))
    }

    /// Every job with this id or a higher id, in ascending order.
    pub fn jobs_from(&self, first: JobId) -> impl Iterator<Item = (JobId, &Arc<Job>)> {
        self.jobs.iter_from(first).map(|(id, record)| (id, &record.spec))
    }

    /// The state of a task; `None` if its job or the task does not exist.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<TaskState> {
        self.jobs.task(id).map(|(_, task)| task.state)
    }

    /// The devices of a task.
    #[must_use]
    pub fn task_devices(&self, id: TaskId) -> Option<DeviceSet> {
        self.jobs.task(id).map(|(_, task)| task.devices)
    }

    /// The exclusive cores of a task, by NUMA node; zero for a task that is not placed.
    #[must_use]
    pub fn task_cores(&self, id: TaskId) -> NodeCores {
        let job = self.jobs.get(id.job);
        job.and_then(|job| job.cores.get(id.index)).copied().unwrap_or_default()
    }

    /// The ports that the cell chose for a task, in the order of [`TaskGroup::any_ports`](omega_core::TaskGroup); empty
    /// for a task that is not placed.
    #[must_use]
    pub fn task_ports(&self, id: TaskId) -> &[u16] {
        self.jobs.get(id.job).map_or(&[], |job| job.ports.get(id.index))
    }

    /// The number of exclusive cores of all machines, and how many are allocated.
    #[must_use]
    pub fn core_counts(&self) -> CoreCounts {
        self.machines.core_counts()
    }

    /// The cell's time at which a task was placed; 0 if it is not placed, and `None` if it does not exist.
    #[must_use]
    pub fn task_placed_ms(&self, id: TaskId) -> Option<u64> {
        self.jobs.task(id).map(|(_, task)| task.placed_ms)
    }

    /// The position of a task's group in its job.
    #[must_use]
    pub fn task_group(&self, id: TaskId) -> Option<usize> {
        self.jobs.task(id).map(|(_, task)| usize::from(task.group))
    }

    /// The states of a job's tasks, in order.
    pub fn tasks(&self, job: JobId) -> impl Iterator<Item = (TaskId, TaskState)> + '_ {
        self.tasks_from(job, 0)
    }

    /// The states of a job's tasks with this index or a higher index, in order.
    pub fn tasks_from(
        &self,
        job: JobId,
        first: u32,
    ) -> impl Iterator<Item = (TaskId, TaskState)> + '_ {
        let tasks: &[TaskRecord] = self.jobs.get(job).map_or(&[], |record| &record.tasks);
        let rest = tasks.get(first as usize..).unwrap_or_default();
        rest.iter().zip(first..).map(move |(task, index)| (TaskId { job, index }, task.state))
    }

    /// All tenants in order of first mention, each with its quota and with the amounts that its tasks and those of all
    /// tenants below it claim.
    pub fn tenants(&self) -> impl Iterator<Item = (&Text, Option<&omega_core::Amounts>, &[i64])> {
        self.tenants
            .iter()
            .map(|tenant| (&tenant.terms.name, tenant.terms.limit.as_ref(), tenant.used.as_slice()))
    }

    /// The configuration of a tenant, if any command ever named the tenant.
    #[must_use]
    pub fn tenant_config(&self, name: &str) -> Option<&TenantConfig> {
        self.tenants.get(name).map(|tenant| &tenant.terms.tenant_config)
    }

    /// The request limit of a tenant, for its own jobs and those of all tenants below it.
    #[must_use]
    pub fn admission(&self, name: &str) -> Option<&omega_core::Amounts> {
        self.tenants.get(name)?.admits.as_ref()
    }

    /// The amounts that the jobs of a tenant and of those below it request; `None` while no tenant has a request limit.
    /// Sums above 64 bits are capped.
    #[must_use]
    pub fn asked(&self, name: &str) -> Option<Vec<u64>> {
        let sums = self.tenants.asked(self.tenants.id(name)?)?;
        Some(sums.iter().map(|sum| (*sum).try_into().unwrap_or(u64::MAX)).collect())
    }

    /// The amounts that the tasks of a tenant and of all tenants below it claim.
    #[must_use]
    pub fn tenant_used(&self, name: &str) -> Option<&[i64]> {
        self.tenants.get(name).map(|tenant| tenant.used.as_slice())
    }
}
