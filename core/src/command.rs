//! Commands: all changes of a cell.
//!
//! A cell is a state machine: equal sequences of commands give equal states on every replica. So a cell neither reads a
//! clock nor draws random numbers: commands carry the time and all identities.

use crate::amounts::{Amounts, KindId};
use crate::bands::{Band, EvictionCap};
use crate::ids::{HolderId, JobId, MachineId, SchedulerId, TaskId, Version};
use crate::job::Job;
use crate::job::run_end::RunEnd;
use crate::job::task_use::TaskUse;
use crate::job::update::{RollStep, UpdateResult};
use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN};
use crate::machine::{Machine, Overcommit, Taint};
use crate::peaks::PeakCalendar;
use crate::reservation::Reservation;
use crate::tenant::TenantConfig;
use crate::text::Text;
use crate::transaction::{Commit, Transaction, TransactionError};
use serde::{Deserialize, Serialize};

/// A command: a change requested of the cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Command {
    /// Registers a scheduler's name and returns its id. If the name is already registered, the id stays the same. If a
    /// process owns the name, the command is rejected.
    RegisterScheduler {
        /// Name of the scheduler.
        name: Text,
    },
    /// Adds a machine.
    RegisterMachine(Machine),
    /// Changes a machine's capacity and attributes.
    ///
    /// Tasks on the machine stay even if they exceed the new capacity. In this case, no more of the exceeded kind can
    /// be claimed until the claims fit again.
    UpdateMachine {
        /// Id of the machine.
        id: MachineId,
        /// The machine's new description. The name must not change.
        machine: Machine,
    },
    /// Stops or resumes the placement of tasks on a machine. Tasks that are already on the machine stay.
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
    /// Reports the amounts that a machine's tasks were measured to use.
    ReportLoad {
        /// Id of the machine.
        id: MachineId,
        /// Amounts in use.
        load: Amounts,
    },
    /// Adds a job, with all its tasks pending.
    SubmitJob(Job),
    /// Changes the number of tasks of a group. Added tasks are pending. If the group shrinks, its pending tasks end
    /// first, then placed tasks that have not started, then running tasks, and the newest first among equals.
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
    /// Reports a change of state of a placed task.
    ReportTask {
        /// Id of the task.
        task: TaskId,
        /// The reporting machine. A report from a machine that the task has left is rejected.
        machine: MachineId,
        /// The cell's time at which the reported run was placed; 0 if unknown. If it is known, and the task was placed
        /// at another known time, the report is about an earlier run, and is rejected.
        placed_ms: u64,
        /// New state of the task.
        report: TaskReport,
    },
    /// Adopts a task that already runs on a machine. The cell does not check amounts, rules or quotas, so the task may
    /// exceed the machine's capacity. Only devices, exclusive cores and ports must be free. Checks of later claims take
    /// the adopted task into account.
    AdoptTask {
        /// Id of the task.
        task: TaskId,
        /// Machine on which the task runs.
        machine: MachineId,
    },
    /// Limits the total that a tenant's tasks may claim. `None` removes the limit.
    SetQuota {
        /// Name of the tenant.
        tenant: Text,
        /// Limit of each registered kind. The limit of a kind that is not named is 0.
        limit: Option<Amounts>,
    },
    /// Replaces the cell's policy.
    SetPolicy(Policy),
    /// Checks a transaction and applies the items that pass.
    Commit(Transaction),
    /// Advances the cell's time. Removes the records of jobs that ended longer ago than
    /// [`Policy::ttl_after_finished_ms`], releases gangs at their timeout, and ends reservations. The version rises
    /// only if one of these effects occurs, a peak begins or ends, or the eviction limit allows evictions again.
    ///
    /// One command removes at most [`REMOVED_JOBS_MAX`](crate::limits::REMOVED_JOBS_MAX) jobs, those that ended first,
    /// and no further job once they have [`REMOVED_TASKS`](crate::limits::REMOVED_TASKS) tasks. Later commands remove
    /// the others.
    Expire {
        /// New time, in milliseconds since any fixed time. An earlier time than the cell's present time has no effect.
        now_ms: u64,
    },
    /// Leases a scheduler's name to a process, and registers the name if it is new. The command is rejected if another
    /// process owns the name.
    ///
    /// From then on, the cell fences transactions whose numbers earlier owners could use (see
    /// [`TransactionError::Fenced`]). If the process already owns the name, the reply is the same as to its first
    /// request.
    GrantLease {
        /// Name of the scheduler.
        name: Text,
        /// Id of the new owner.
        holder: HolderId,
        /// Time without renewal after which another process may end the lease, in milliseconds. The cell reads no
        /// clock; it only stores the duration for clients.
        lease_ms: u32,
    },
    /// Revokes all names of a process that has ended, or no longer renews its leases. Later transactions of the process
    /// are fenced. The version rises only if the process owned a name.
    RevokeLeases {
        /// Id of the process that owns the names.
        holder: HolderId,
    },
    /// Replaces a tenant's configuration. The tenants below this tenant stay below it.
    ///
    /// Claims of the tenant's tasks stay even if they exceed a limit of the new parent.
    SetTenant {
        /// Name of the tenant.
        tenant: Text,
        /// New configuration of the tenant.
        tenant_config: TenantConfig,
    },
    /// Sets the request limit of a tenant; `None` removes the limit.
    ///
    /// The limit bounds the total that the tenant's jobs and those of tenants below it may request, whether their tasks
    /// are placed or not. A job beyond the limit is rejected when it is submitted; accepted jobs stay.
    SetAdmission {
        /// Name of the tenant.
        tenant: Text,
        /// Limit of each registered kind. The limit of a kind that is not named is 0.
        limit: Option<Amounts>,
    },
    /// Reserves machines for some tenants for a time window. If an equal reservation exists, the command has no effect.
    Reserve(Reservation),
    /// Ends a reservation before the end of its time window.
    Unreserve {
        /// Name of the reservation.
        name: Text,
    },
    /// Sets the cell's capacity of a cluster resource (see
    /// [`TaskGroup::cluster_request`](crate::TaskGroup::cluster_request)). If claims exceed the capacity, they stay,
    /// and further claims are rejected until usage is below the capacity.
    SetClusterCapacity {
        /// Id of the cluster resource's kind, which must be registered.
        kind: KindId,
        /// New capacity. With 0 the cell has none of the resource.
        amount: u64,
    },
    /// Sets a calendar of peak hours on some machines. A calendar with the same name is replaced. If an equal calendar
    /// exists, the command has no effect.
    SetPeaks(PeakCalendar),
    /// Removes a calendar of peak hours.
    RemovePeaks {
        /// Name of the calendar.
        name: Text,
    },
    /// Reports the new state of a placed task, like [`Command::ReportTask`], and the reason why a run of its program
    /// ended. The reason is only kept in the history.
    ReportEnd {
        /// Id of the task.
        task: TaskId,
        /// The reporting machine. A report from a machine that the task has left is rejected.
        machine: MachineId,
        /// The cell's time at which the reported run was placed, as in [`Command::ReportTask`].
        placed_ms: u64,
        /// New state of the task.
        report: TaskReport,
        /// End of the program's run.
        end: RunEnd,
    },
    /// Ends a job and all its tasks, and removes its record, so that its name is free at once.
    DeleteJob {
        /// Id of the job.
        job: JobId,
    },
    /// Gives a service a new description, which becomes its next version. Existing tasks do not change until
    /// [`Command::RollJob`] replaces them. If the description equals the present one, the command has no effect. A
    /// service that has ended, but was not killed, runs again with all tasks of the description.
    UpdateJob {
        /// Id of the job.
        job: JobId,
        /// Version that the job must have for the command to be accepted; `None` accepts any version.
        version: Option<u32>,
        /// The new description.
        spec: Job,
    },
    /// Adds tasks to a job, and ends other tasks, in one step of the update to the job's newest version.
    RollJob {
        /// Id of the job.
        job: JobId,
        /// Tasks to add and to end.
        step: RollStep,
    },
    /// Reports the resources that tasks have used on a machine, for accounting. The state does not change.
    ReportUse {
        /// The reporting machine.
        machine: MachineId,
        /// Resources that its tasks have used since its previous report. The tasks may have ended.
        used: Vec<TaskUse>,
    },
    /// Records the result of the update to a job's newest version. If the version has a result, the command has no
    /// effect.
    EndUpdate {
        /// Id of the job.
        job: JobId,
        /// Number of the version. If the job has another version, the command is rejected.
        version: u32,
        /// Result of the update.
        result: UpdateResult,
    },
    /// Adds a taint to a machine, in place of those with the same key. If the machine has exactly this taint, the
    /// command has no effect.
    ///
    /// Unlike [`Command::UpdateMachine`], the command keeps all else, so it does not undo a concurrent change.
    AddTaint {
        /// Id of the machine.
        id: MachineId,
        /// The taint.
        taint: Taint,
    },
    /// Removes the taints of a machine that have this key. If the machine has none, the command has no effect.
    RemoveTaint {
        /// Id of the machine.
        id: MachineId,
        /// Key of the taints.
        key: Text,
    },
    /// Changes the number of tasks of a group, like [`Command::ResizeGroup`], which ends a job without tasks. This
    /// command keeps a service without tasks, unless it is a gang: the service is scaled to zero until it gets tasks
    /// again by this command or [`Command::UpdateJob`], and no [`Command::Expire`] removes it.
    ScaleGroup {
        /// Id of the job.
        job: JobId,
        /// The group's name.
        group: Text,
        /// New number of tasks.
        count: u32,
    },
}

/// The process that owns a scheduler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Id of the process.
    pub holder: HolderId,
    /// Time without renewal after which another process may end the lease, in milliseconds.
    pub lease_ms: u32,
}

/// Report of an agent about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskReport {
    /// The task runs.
    Started,
    /// The task has finished.
    Finished,
    /// The task has failed. It becomes pending again if it has restarts left.
    Failed,
    /// The agent cannot tell whether the task has ended. The task becomes pending again.
    Lost,
    /// The agent restarts the task's program on this machine. The state of the task does not change.
    Restarted,
}

/// Policy of the whole cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Upper bound of the overcommit of each machine, by kind; higher values of a machine are reduced to it. Kinds that
    /// are not compressible have 100, which means no overcommit.
    pub overcommit_max: Overcommit,
    /// Time after which the record of an ended job is removed, in milliseconds of [`Command::Expire`].
    pub ttl_after_finished_ms: u64,
    /// Ranges of precedence within which no task evicts another: at most 16, ascending, and without overlaps. Even
    /// within a band, a tenant may reclaim its guarantee (see [`TenantConfig`]).
    pub bands: Vec<Band>,
    /// Rate limit of evictions, whatever their cause; `None` means unlimited.
    pub eviction_cap: Option<EvictionCap>,
}

/// Result of a command that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// The scheduler is registered.
    Scheduler {
        /// Id of the scheduler.
        id: SchedulerId,
        /// Number that the scheduler should give its next transaction. It is higher than all numbers used under the
        /// name.
        next_transaction: u64,
    },
    /// The machine is registered, with this id.
    Machine(MachineId),
    /// The job is submitted, with this id.
    Job(JobId),
    /// The transaction was checked, with this result.
    Commit(Commit),
    /// The command was applied. The cell has this version now.
    Done(Version),
}

/// Reason for which a command was rejected. A rejected command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// Another object has this name. Choose another name, or use the existing object.
    #[error("{0:?} already exists: choose another name")]
    NameTaken(Text),
    /// This text is not allowed as a name (see [`crate::text`]). Choose another name.
    #[error("{0}")]
    BadName(Text),
    /// No machine has this id: it was removed, or never existed.
    #[error("there is no machine {0}")]
    UnknownMachine(MachineId),
    /// An update gives a machine another name, but names cannot change. Remove the machine, and register it under the
    /// new name.
    #[error(
        "the machine is called {is:?}, not {given:?}: remove it and register it again to change \
         its name"
    )]
    OtherName {
        /// Present name of the machine.
        is: Text,
        /// Name in the update.
        given: Text,
    },
    /// An update changes the machine's number of devices while a task has a device. Repeat the update when no task has
    /// a device.
    #[error("tasks use devices of machine {0}, so its devices cannot change: drain it first")]
    DevicesInUse(MachineId),
    /// No job has this id: its record was removed after its end, or it never existed.
    #[error("there is no job {0}")]
    UnknownJob(JobId),
    /// The job has no group of this name.
    #[error("job {job} has no group {group:?}")]
    UnknownGroup {
        /// Id of the job.
        job: JobId,
        /// Requested name.
        group: Text,
    },
    /// The job has no task with this id.
    #[error("there is no task {0}")]
    UnknownTask(TaskId),
    /// The task to adopt is not pending. Only pending tasks can be adopted.
    #[error("task {0} is not pending: only pending tasks can be adopted")]
    TaskNotPending(TaskId),
    /// The machine has too few devices with enough capacity left for the task to adopt. Correct the devices in the
    /// machine's description first.
    #[error(
        "task {0} cannot be adopted, because machine {1} has too few free devices for it: correct \
         the devices in the machine's description first"
    )]
    NoDevicesLeft(TaskId, MachineId),
    /// The task is not on the reporting machine, because it has moved or ended since.
    #[error("task {0} is not on machine {1}")]
    TaskNotThere(TaskId, MachineId),
    /// The kind is not registered, or the amount is above its maximum. Use a registered kind and a smaller amount.
    #[error(
        "{what}: the cell has no resource kind number {}, or the amount of this kind is above 2^50 \
         (in quotas and capacities of cluster resources: 2^62 - 1): correct the kind or the amount",
        kind.0
    )]
    BadAmount {
        /// Object that the amount belongs to, as a phrase.
        what: Text,
        /// The resource kind.
        kind: KindId,
    },
    /// A list or a count is above its bound. Reduce it.
    #[error("{what}: {given} are too many: at most {max} are allowed")]
    TooMany {
        /// Name of the list or count.
        what: Text,
        /// Number in the command.
        given: u64,
        /// Maximum number.
        max: u64,
    },
    /// The job's description is invalid: for example, it has no task, or two groups with the same name. The text
    /// explains the error.
    #[error("{0}")]
    BadJob(Text),
    /// The transaction was rejected before its items were checked.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// Another process owns the scheduler's name. Wait until that process has ended or its lease has expired, or choose
    /// another name.
    #[error("another process owns the scheduler's name {name:?}")]
    NameHeld {
        /// Name of the scheduler.
        name: Text,
        /// Id of the owner. The error message omits it, because any process that has this id can act as the owner.
        holder: HolderId,
    },
    /// The lease is shorter or longer than allowed. Choose a duration within the bounds.
    #[error(
        "a lease of {given} ms is not allowed: must be from {LEASE_MS_MIN} to {LEASE_MS_MAX} \
         ms"
    )]
    BadLease {
        /// Requested duration, in milliseconds.
        given: u32,
    },
    /// The tenant's configuration is invalid, as the text explains. Choose another parent, guarantee or weight.
    #[error("{0}")]
    BadTenant(Text),
    /// The policy is invalid, as the text explains. Choose other bands, or another eviction limit.
    #[error("{0}")]
    BadPolicy(Text),
    /// With this job, the tenant's jobs would request more than the tenant's request limit allows. Request less, or
    /// wait until jobs of the tenant have ended. [`Command::SetAdmission`] raises the limit.
    #[error("the jobs of tenant {tenant:?} {detail}")]
    NotAdmitted {
        /// Tenant whose request limit is exceeded: the job's own tenant, or one above it.
        tenant: Text,
        /// The resource kind.
        kind: KindId,
        /// Total that the tenant's jobs would request with this job.
        requested: u64,
        /// Maximum that the tenant's jobs may request.
        limit: u64,
        /// The requested total and the limit as text, with the kind's name and unit.
        detail: Text,
    },
    /// The reservation is invalid, as the text explains. Choose other machines, tenants or times.
    #[error("{0}")]
    BadReservation(Text),
    /// No reservation has this name: it expired, was removed, or never existed.
    #[error("there is no reservation {0:?}")]
    UnknownReservation(Text),
    /// The machine's description is invalid, as the text explains. Correct it.
    #[error("{0}")]
    BadMachine(Text),
    /// An update changes the cores of a machine's NUMA nodes while a task has exclusive cores. Repeat the update when
    /// no task has exclusive cores.
    #[error(
        "tasks use exclusive cores of machine {0}, so its `numa` cannot change: drain it first"
    )]
    CoresInUse(MachineId),
    /// The NUMA nodes of the machine have too few cores left for the task to adopt. Correct `numa` in the machine's
    /// description first.
    #[error(
        "task {0} cannot be adopted, because it needs more exclusive cores than machine {1} has \
         free: correct `numa` in the machine's description first"
    )]
    NoCoresLeft(TaskId, MachineId),
    /// The calendar of peak hours is invalid, as the text explains. Choose other machines, times or shares.
    #[error("{0}")]
    BadPeaks(Text),
    /// No calendar of peak hours has this name: it was removed, or never existed.
    #[error("there is no peak calendar {0:?}")]
    UnknownPeaks(Text),
    /// The job's version differs from the version that the command requires. Read the job again before the next
    /// attempt.
    #[error(
        "job {job:?} has version {is}, not {given}: read the job again, and repeat the change \
         on the new version"
    )]
    OtherVersion {
        /// Name of the job.
        job: Text,
        /// Present version of the job.
        is: u32,
        /// Version that the command requires.
        given: u32,
    },
    /// The machine's port range has too few free ports for the task to adopt. Correct the range in the machine's
    /// description first.
    #[error(
        "task {0} cannot be adopted, because the port range of machine {1} has too few free ports \
         for it: correct the range in the machine's description first"
    )]
    NoPortsLeft(TaskId, MachineId),
}
