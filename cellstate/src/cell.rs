//! The cell: a deterministic state machine over machines, jobs and placements.
//!
//! ```text
//!                    ┌────────────────────────── Cell ───────────────────────────┐
//!   Command ──apply──▶ machines   jobs, tasks   tenants   machine index          │
//!                    │     ▲            ▲          ▲          ▲                  │
//!   Outcome ◀────────│     └──── take / give back ─┴──────────┘                  │
//!                    │  version, change logs ──────────────────▶ Delta ──▶ views │
//!                    └───────────────────────────────────────────────────────────┘
//! ```
//!
//! The new state and the outcome depend only on the present state and the command, not on clocks, randomness or hash
//! order. A rejected command leaves no trace. `omega_core::Command` documents the commands; `commands/` and
//! `commit/` implement them, and `policy/` those of the policies.
//!
//! Invariants, which [`Cell::audit`] checks:
//! 1. For each machine and kind, the free amount equals the claimable amount minus the claims of the machine's tasks.
//! 2. No claim exceeds the amount that was free at its commit. Free amounts become negative only when a machine or the
//!    bound of overcommit shrinks, or when a task is adopted.
//! 3. A placed task is on one machine only, and the machine's list has it once.
//! 4. Rule counters, device shares, exclusive cores, tenants' use and claims of cluster resources equal a recount.
//! 5. Versions and sequence numbers only grow.

use crate::delta::log::ChangeLog;
use crate::fit::{Grant, MachineStatus};
use crate::history::History;
use crate::index::machine_index::MachineIndex;
use crate::policy::{Placement, Policies, PolicySet};
use crate::rules::{Domain, TrackerId};
use crate::snapshot::Capture;
use crate::state::allocation_overrides::Values;
use crate::state::ended_jobs::EndedJobs;
use crate::state::job_record::{JobRecord, OwnerId, TaskRun, WithoutTasks};
use crate::state::jobs::Jobs;
use crate::state::machines::{Machines, Part};
use crate::state::missed_deadline::DeadlineCounts;
use crate::state::registered::Registered;
use crate::state::tenants::Tenants;
use omega_core::limits::CHANGES_MAX;
use omega_core::{
    Command, DeviceSet, JobId, Kinds, Lease, MachineId, Outcome, Policy, Rejection, TaskId,
    TaskState, Version,
};

/// A logged change of anything except a machine's amounts. The log stores no values: a delta reads the present ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A machine was registered, updated, drained, undrained or removed. The row is logged as well.
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

impl Change {
    /// The changed job, or the job of the changed task, with its owner.
    pub fn job(&self) -> Option<(OwnerId, JobId)> {
        match *self {
            Change::Job(job, owner) => Some((owner, job)),
            Change::Task(task, owner) => Some((owner, task.job)),
            _ => None,
        }
    }
}

/// Counters for metrics, zero when the process starts. They are not part of the state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Tasks that a transaction moved.
    pub moves: u64,
    /// Met and missed deadlines.
    pub deadlines: DeadlineCounts,
}

/// The cell state. See the module documentation.
///
/// A clone or a restored copy continues with the same version numbers. So a scheduler or view that follows one copy must
/// not sync with another: it could miss changes. Register new schedulers at each copy.
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
    pub(crate) machine_index: MachineIndex,
    pub(crate) jobs: Jobs,
    /// The state of each policy.
    pub(crate) policies: Policies,
    pub(crate) schedulers: Vec<Registered>,
    /// Ended jobs, oldest first, each with the time at which the cell recorded the end.
    pub(crate) ended: EndedJobs,
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
            machine_index: MachineIndex::default(),
            jobs: Jobs::default(),
            tenants: Tenants::new(count),
            policies: Policies::default(),
            schedulers: Vec::new(),
            ended: EndedJobs::default(),
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
        self.policies.refresh(&self.machine_index);
        outcome
    }

    fn apply_command(&mut self, command: Command) -> Result<Outcome, Rejection> {
        match command {
            Command::RegisterScheduler { name } => self.register_scheduler(name),
            Command::RegisterMachine(machine) => self.register_machine(machine),
            Command::UpdateMachine { id, machine } => self.update_machine(id, machine),
            Command::DrainMachine { id, draining: true } => {
                self.set_status(id, MachineStatus::Draining)
            }
            Command::DrainMachine { id, draining: false } => {
                self.set_status(id, MachineStatus::Schedulable)
            }
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
            Command::AddTaint { id, taint } => self.add_taint(id, taint),
            Command::RemoveTaint { id, key } => self.remove_taint(id, &key),
            Command::EndUpdate { job, version, result } => self.end_update(job, version, result),
            Command::ReportTask { task, machine, placed_ms, report } => {
                self.report_task(TaskRun { task, machine, placed_ms }, report, None)
            }
            Command::ReportEnd { task, machine, placed_ms, report, end } => {
                self.report_task(TaskRun { task, machine, placed_ms }, report, Some(end))
            }
            Command::ReportUse { machine, used: _ } => self.ignore_use(machine),
            Command::AdoptTask { task, machine } => self.adopt_task(task, machine),
            Command::SetQuota { tenant, limit } => self.set_quota(&tenant, limit),
            Command::SetPolicy(policy) => self.set_policy(policy),
            Command::Expire { now_ms } => Ok(self.expire(now_ms)),
            Command::GrantLease { name, holder, lease_ms } => {
                self.grant_lease(name, Lease { holder, lease_ms })
            }
            Command::RevokeLeases { holder } => Ok(self.revoke_leases(holder)),
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
        let full_changed = row.take_full_change();
        if crate::injected!(ChangeDropped) && row.sequence.0.is_multiple_of(4) {
            return;
        }
        if full_changed {
            self.log.push(Change::Machine(slot as u32));
        }
        self.log_row(slot as u32);
    }

    /// Logs the present state of a row. If the row changes later in this version, it must be logged again.
    pub(crate) fn log_row(&mut self, slot: u32) {
        let row = slot as usize;
        self.log.push_row(slot, self.machines.row(row).sequence, self.machines.free(row));
    }

    /// Places a pending task on a machine. `check_fit` must have accepted it, and an allocation that differs from the
    /// group's request must have been recorded. This function chooses the task's ports, unless they are already
    /// recorded.
    pub(crate) fn place(parts: Parts<'_>, id: TaskId, machine: MachineId, grant: Grant) {
        let Parts { job, machines, tenants, policies, machine_index, now_ms } = parts;
        let task = &mut job.tasks[id.index as usize];
        task.state = TaskState::Placed(machine);
        task.devices = grant.devices;
        task.placed_ms = now_ms;
        let group = usize::from(task.group);
        job.placed += 1;
        job.cores.put(id.index, grant.cores);
        let need = &job.groups[group].need;
        if need.any_ports() > job.ports.get(id.index).len() {
            let chosen = policies.ports.choose(id, machine.row(), need, machine_index);
            job.ports.put(id.index, chosen);
        }
        let part = job.part(id.index);
        machines.take(machine.row(), id, part);
        tenants.count(job.tenant, &need.charged(part.request), 1);
        let (row, request, tenant) = (machine.row(), part.request, job.tenant);
        let ports = job.ports.get(id.index);
        policies.count(&Placement { row, job: &job.spec, tenant, need, request, ports }, 1);
        if let Some(rules) = &need.rules {
            machine_index.rules.count_task(rules, machine.row(), 1, &machine_index.sets);
        }
    }

    /// Removes a placed task from its machine and sets its new state. Returns the task's allocation if it differed from
    /// the group's request.
    pub(crate) fn unplace(parts: Parts<'_>, id: TaskId, state: TaskState) -> Option<Values> {
        let Parts { job, machines, tenants, policies, machine_index, .. } = parts;
        let machine = job.tasks[id.index as usize].state.machine()?;
        let part = job.part(id.index);
        let lost = crate::injected!(NotGivenBack) && state.ended();
        let given = if lost { Part { request: &[], demand_profiles: None, ..part } } else { part };
        machines.give_back(machine.row(), id, given);
        let need = job.need(&job.tasks[id.index as usize]);
        tenants.count(job.tenant, &need.charged(part.request), -1);
        let (row, request, tenant) = (machine.row(), part.request, job.tenant);
        let ports = job.ports.get(id.index);
        policies.count(&Placement { row, job: &job.spec, tenant, need, request, ports }, -1);
        let task = &mut job.tasks[id.index as usize];
        job.tally.change(usize::from(task.group), task.state, state);
        task.state = state;
        task.devices = DeviceSet::default();
        task.placed_ms = 0;
        let group = usize::from(task.group);
        job.placed -= 1;
        if let Some(rules) = &job.groups[group].need.rules {
            machine_index.rules.count_task(rules, machine.row(), -1, &machine_index.sets);
        }
        job.cores.forget(id.index);
        job.ports.forget(id.index);
        job.overrides.take(id.index)
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
            if let Some(domain) =
                self.machine_index.rules.domain_of(tracker, slot, &self.machine_index.sets)
            {
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
            machine_index: &mut self.machine_index,
            now_ms: self.now_ms,
        })
    }
}

/// The parts of the cell that a placement changes.
pub struct Parts<'a> {
    pub job: &'a mut JobRecord,
    pub machines: &'a mut Machines,
    pub tenants: &'a mut Tenants,
    pub policies: &'a mut Policies,
    pub machine_index: &'a mut MachineIndex,
    pub now_ms: u64,
}
