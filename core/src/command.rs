//! Commands: all changes of a cell.
//!
//! A cell is a state machine: the same commands in the same order give the same state everywhere.
//! So commands carry the time and all identities.

use crate::amounts::{Amounts, KindId};
use crate::bands::{Band, EvictionCap};
use crate::ids::{HolderId, JobId, MachineId, SchedulerId, TaskId, Version};
use crate::job::Job;
use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN};
use crate::machine::{Machine, Overcommit};
use crate::peaks::PeakCalendar;
use crate::reservation::Reservation;
use crate::run_end::RunEnd;
use crate::tenant::TenantConfig;
use crate::text::Text;
use crate::transaction::{Commit, Transaction, TransactionError};
use crate::update::RollStep;
use serde::{Deserialize, Serialize};

/// A command: a change requested of the cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Command {
    /// Registers a scheduler's name and returns its id. A registered name keeps its id. A name that
    /// a process owns is rejected.
    RegisterScheduler {
        /// Its name.
        name: Text,
    },
    /// Adds a machine.
    RegisterMachine(Machine),
    /// Changes a machine's capacity and attributes. Its tasks stay, even if they exceed the new
    /// capacity; nothing more of such a kind is placed until the claims fit again.
    UpdateMachine {
        /// Id of the machine.
        id: MachineId,
        /// The machine's new description. The name must not change.
        machine: Machine,
    },
    /// Stops or resumes placing tasks on a machine. Its tasks stay.
    DrainMachine {
        /// Id of the machine.
        id: MachineId,
        /// Whether the machine is to accept no new tasks.
        draining: bool,
    },
    /// Removes a machine. Its tasks become pending.
    RemoveMachine {
        /// Id of the machine.
        id: MachineId,
    },
    /// Reports the measured use of a machine by its tasks.
    ReportLoad {
        /// Id of the machine.
        id: MachineId,
        /// Amounts in use.
        load: Amounts,
    },
    /// Adds a job; its tasks are pending.
    SubmitJob(Job),
    /// Changes the number of tasks of a group. New tasks are pending; a shrinking group loses its
    /// pending tasks first, then its newest.
    ResizeGroup {
        /// Id of the job.
        job: JobId,
        /// The group's name.
        group: Text,
        /// New number of tasks.
        count: u32,
    },
    /// Ends a job and all its tasks.
    KillJob {
        /// Id of the job.
        job: JobId,
    },
    /// Reports the state of a placed task.
    ReportTask {
        /// Id of the task.
        task: TaskId,
        /// The reporting machine. A report from a machine that the task has left is rejected.
        machine: MachineId,
        /// State of the task.
        report: TaskReport,
    },
    /// Adopts a task that already runs on a machine. Nothing is checked: it may exceed the
    /// machine's capacity, or break a rule. It counts when later claims are checked.
    AdoptTask {
        /// Id of the task.
        task: TaskId,
        /// Where it runs.
        machine: MachineId,
    },
    /// Limits the total claim of a tenant's tasks; `None` removes the limit.
    SetQuota {
        /// Name of the tenant.
        tenant: Text,
        /// The most of each registered kind; a kind that is not named has 0.
        limit: Option<Amounts>,
    },
    /// Replaces the cell's policy.
    SetPolicy(Policy),
    /// Checks a transaction and applies the items that pass.
    Commit(Transaction),
    /// Advances the cell's time and forgets ended jobs that are past their retention (see
    /// [`Policy::ttl_after_finished_ms`]). The version rises only if something is forgotten.
    Expire {
        /// Milliseconds since any fixed moment. A time before the last one counts as the last.
        now_ms: u64,
    },
    /// Leases a scheduler's name to a process, unless another process owns it; registers a new
    /// name. Transactions with numbers used under the name before are fenced from now on: see
    /// [`TransactionError::Fenced`]. The owner gets the same answer again.
    HoldScheduler {
        /// The name.
        name: Text,
        /// The new owner.
        holder: HolderId,
        /// Time without renewal after which another process may end the lease, in milliseconds. The
        /// cell stores it for clients and reads no clock.
        lease_ms: u32,
    },
    /// Revokes all names of a process that has ended or stopped renewing; its later transactions
    /// are fenced. The version rises only if it owned any.
    EndHolder {
        /// The process that owned the names.
        holder: HolderId,
    },
    /// Configures a tenant: parent, guarantee and weight. Its claims stay, even beyond a new limit;
    /// tenants below it move with it.
    SetTenant {
        /// Name of the tenant.
        tenant: Text,
        /// Configuration of the tenant from now on.
        tenant_config: TenantConfig,
    },
    /// Sets the request limit of a tenant: what its jobs and those of tenants below it may request
    /// together, placed or not; `None` removes the limit. Jobs beyond it are rejected; earlier ones
    /// stay.
    SetAdmission {
        /// Name of the tenant.
        tenant: Text,
        /// The most of each registered kind; a kind that is not named has 0.
        limit: Option<Amounts>,
    },
    /// Reserves machines for some tenants for a time window. An identical reservation is accepted
    /// without effect.
    Reserve(Reservation),
    /// Ends a reservation before its time.
    Unreserve {
        /// Its name.
        name: Text,
    },
    /// Sets the cell's capacity of a cluster resource (see
    /// [`TaskGroup::cluster_request`](crate::TaskGroup::cluster_request)). Claims beyond it stay,
    /// and further ones are rejected until usage is below it.
    SetClusterCapacity {
        /// Registered kind of the resource.
        kind: KindId,
        /// Amount; 0 is none.
        amount: u64,
    },
    /// Sets a calendar of peak hours on some machines, in place of the one with the same name. An
    /// identical calendar is accepted without effect.
    SetPeaks(PeakCalendar),
    /// Removes a calendar of peaks.
    RemovePeaks {
        /// Its name.
        name: Text,
    },
    /// Reports the state of a placed task, as [`Command::ReportTask`] does, with the end of a run of
    /// its program. The end is kept in the history alone.
    ReportEnd {
        /// Id of the task.
        task: TaskId,
        /// The machine that reports; a report from one that the task has left is refused.
        machine: MachineId,
        /// State of the task.
        report: TaskReport,
        /// The end of the run.
        end: RunEnd,
    },
    /// Ends a job and all its tasks, and forgets it: its name is free at once.
    DeleteJob {
        /// Id of the job.
        job: JobId,
    },
    /// Gives a service another description, as its next version. Its tasks stay as they are:
    /// [`Command::RollJob`] moves them. An equal description is accepted without effect.
    UpdateJob {
        /// Id of the job.
        job: JobId,
        /// The version that the job must have; `None`: any.
        version: Option<u32>,
        /// The new description.
        spec: Job,
    },
    /// Adds tasks to a job and ends others at once, so that it follows its version.
    RollJob {
        /// Id of the job.
        job: JobId,
        /// The tasks.
        step: RollStep,
    },
}

/// The process that owns a scheduler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// Id of the process.
    pub holder: HolderId,
    /// Time without renewal after which another process may end the lease, in milliseconds.
    pub lease_ms: u32,
}

/// Outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskReport {
    /// The task runs.
    Started,
    /// The task has finished.
    Finished,
    /// It failed; it is pending again while it has restarts left.
    Failed,
    /// The task's fate is unknown; it is pending again.
    Lost,
    /// Its agent starts its program again, on the same machine. The task stays as it is.
    Restarted,
}

/// Policy of the whole cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Largest overcommit of a machine, per kind. Machines with a higher one get this. Kinds that
    /// are not compressible stay at 100.
    pub overcommit_max: Overcommit,
    /// Retention of ended jobs, in milliseconds of [`Command::Expire`].
    pub ttl_after_finished_ms: u64,
    /// Ranges of precedence within which no task evicts another: ascending and disjoint, at most
    /// 16. Guarantees of tenants are reclaimed nevertheless (see [`TenantConfig`]).
    pub bands: Vec<Band>,
    /// Limit of evictions of any cause in a span of time; `None`: unlimited.
    pub eviction_cap: Option<EvictionCap>,
}

/// Actions of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// A scheduler has this id, and should number its next transaction from here on.
    Scheduler {
        /// Its id.
        id: SchedulerId,
        /// A number above all used ones.
        next_transaction: u64,
    },
    /// A machine has this id.
    Machine(MachineId),
    /// A job has this id.
    Job(JobId),
    /// The result of a transaction that was checked.
    Commit(Commit),
    /// The command was applied; the cell has this version.
    Done(Version),
}

/// Reason for which a command was rejected. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// Choose another name, or look up the object that has it.
    #[error("{0:?} exists already")]
    NameTaken(Text),
    /// Choose another text: see [`crate::text`].
    #[error("{0}")]
    BadName(Text),
    /// The machine was removed, or never was.
    #[error("there is no machine {0}")]
    UnknownMachine(MachineId),
    /// The machine's name cannot change: remove it and register the new one.
    #[error("the machine is called {is:?}, not {given:?}")]
    OtherName {
        /// Its name.
        is: Text,
        /// Name in the command.
        given: Text,
    },
    /// The number of its devices can change only while no task has one.
    #[error("tasks of machine {0} have some of its devices")]
    DevicesInUse(MachineId),
    /// The job has ended long ago, or never was.
    #[error("there is no job {0}")]
    UnknownJob(JobId),
    /// The job has no such group.
    #[error("job {job} has no group {group:?}")]
    UnknownGroup {
        /// Id of the job.
        job: JobId,
        /// Requested group.
        group: Text,
    },
    /// The job has no such task.
    #[error("there is no task {0}")]
    UnknownTask(TaskId),
    /// Only a pending task can be adopted.
    #[error("task {0} is not pending")]
    TaskNotPending(TaskId),
    /// No devices of the machine have enough left for the task: correct the machine first.
    #[error("machine {1} has no devices left for task {0}")]
    NoDevicesLeft(TaskId, MachineId),
    /// The report is late: the task has moved or ended.
    #[error("task {0} is not on machine {1}")]
    TaskNotThere(TaskId, MachineId),
    /// Use a registered kind and at most 2^50 of it.
    #[error("{what}: kind {} is not registered, or its amount exceeds 2^50", kind.0)]
    BadAmount {
        /// Object that the amount belongs to.
        what: Text,
        /// The resource kind.
        kind: KindId,
    },
    /// Reduce it: a list or a count is beyond its bound.
    #[error("{what}: {given}, at most {max} allowed")]
    TooMany {
        /// Things that exceed their bound.
        what: Text,
        /// The number.
        given: u64,
        /// Maximum number.
        max: u64,
    },
    /// A job needs at least one group with at least one task, and group names must be unique.
    #[error("{0}")]
    BadJob(Text),
    /// The transaction was not checked.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// Wait until its owner has ended or its lease has expired, or choose another name.
    #[error("the scheduler's name {name:?} is held by another process")]
    NameHeld {
        /// The name.
        name: Text,
        /// The process that owns it. The message omits the number, because it is the right to act
        /// as that process.
        holder: HolderId,
    },
    /// Choose a lease within the bounds.
    #[error("a lease of {given} ms: from {LEASE_MS_MIN} to {LEASE_MS_MAX} ms are allowed")]
    BadLease {
        /// Requested duration.
        given: u32,
    },
    /// Choose another parent, guarantee or weight.
    #[error("{0}")]
    BadTenant(Text),
    /// Choose other bands, or another cap of evictions.
    #[error("{0}")]
    BadPolicy(Text),
    /// Request less, wait until tasks of the tenant have ended, or have the limit raised (see
    /// [`Command::SetAdmission`]).
    #[error("the jobs of tenant {tenant:?} {told}")]
    NotAdmitted {
        /// Tenant of the limit: the job's tenant, or one above it.
        tenant: Text,
        /// The resource kind.
        kind: KindId,
        /// Amount that they would request, with this job.
        asked: u64,
        /// Amount that they may request.
        limit: u64,
        /// The amounts in words, by the kind's name and in its unit.
        told: Text,
    },
    /// Choose other machines, tenants or times.
    #[error("{0}")]
    BadReservation(Text),
    /// The reservation expired, was deleted, or never existed.
    #[error("there is no reservation {0:?}")]
    UnknownReservation(Text),
    /// Describe the machine otherwise.
    #[error("{0}")]
    BadMachine(Text),
    /// The cores of its NUMA nodes can change only while no task has exclusive cores.
    #[error("tasks of machine {0} have some of its cores to themselves")]
    CoresInUse(MachineId),
    /// The machine's NUMA nodes have too few cores left for the task: correct the machine first.
    #[error("machine {1} has no cores left for task {0}")]
    NoCoresLeft(TaskId, MachineId),
    /// Choose other machines, times or shares.
    #[error("{0}")]
    BadPeaks(Text),
    /// The calendar was removed, or never existed.
    #[error("there is no calendar of peaks {0:?}")]
    UnknownPeaks(Text),
    /// The job was updated since: look at it again.
    #[error("job {job:?} has version {is}, not {given}: look at it again")]
    OtherVersion {
        /// Name of the job.
        job: Text,
        /// Its version.
        is: u32,
        /// Version in the command.
        given: u32,
    },
}
