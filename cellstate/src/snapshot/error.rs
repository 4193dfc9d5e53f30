//! Errors of restoring a snapshot state.

use omega_core::{JobId, KindsError, MachineId, Rejection, SchedulerId, TaskId, Text, Version};

/// Reason for which a snapshot state is invalid. No cell produces such a state, so its bytes were damaged or forged.
/// Restore from another copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotStateError {
    /// The resource kinds are invalid.
    #[error("the snapshot's resource kinds are invalid: {0}")]
    Kinds(#[from] KindsError),
    /// A command with this machine, job, tenant, scheduler or load would be rejected.
    #[error("the snapshot has invalid data: {0}")]
    Refused(#[from] Rejection),
    /// A count exceeds the bound of a cell.
    #[error("the snapshot has {given} {what}: at most {max} are allowed")]
    TooMany {
        /// Name of the counted objects.
        what: &'static str,
        /// Number of objects.
        given: u64,
        /// Maximum number of objects.
        max: u64,
    },
    /// Two objects of one kind have this name.
    #[error("the snapshot names the {what} {name:?} twice")]
    Twice {
        /// Kind of the objects.
        what: &'static str,
        /// Name of the objects.
        name: Text,
    },
    /// The version is higher than any cell reaches.
    #[error("the snapshot has version {0}, which is higher than any cell reaches")]
    Version(Version),
    /// The evictions within the span of the eviction limit are out of order or too old.
    #[error("the recent evictions in the snapshot are out of order, or too old to be recorded")]
    Evictions,
    /// The reservations are out of order, or a reservation has ended.
    #[error("the reservations in the snapshot are not in ascending order of name at {0:?}")]
    Reservation(Text),
    /// The peak calendars are out of order.
    #[error("the peak calendars in the snapshot are not in ascending order of name at {0:?}")]
    Peaks(Text),
    /// A row's status, sequence number or incarnation is impossible at this version.
    #[error(
        "machine row {0} of the snapshot has an impossible status, sequence number or incarnation"
    )]
    Row(u32),
    /// The list of vacant rows differs from the rows without a machine.
    #[error(
        "the list of vacant machine rows in the snapshot differs from the rows without a machine"
    )]
    Vacant,
    /// A load report belongs to a row without a machine, has a time in the future, or is out of order.
    #[error(
        "the load report of machine row {0} in the snapshot is out of order, in the future, or for a \
         row without a machine"
    )]
    Load(u32),
    /// A job's id is out of order, or not below the next unused job id.
    #[error(
        "the id of job {0} of the snapshot must be greater than the id of the job before it, and \
         less than the next unused job id"
    )]
    JobOrder(JobId),
    /// A job's tasks do not match its groups.
    #[error("the tasks of job {0} of the snapshot differ from the task counts of the job's groups")]
    Tasks(JobId),
    /// A job's versions are out of order, or do not contain its groups.
    #[error(
        "the versions of job {0} of the snapshot are out of order, or lack one of the job's groups"
    )]
    Versions(JobId),
    /// A job is recorded as a waiting gang, but cannot be one.
    #[error(
        "job {0} of the snapshot is recorded as a gang that waits for more tasks, but cannot be one"
    )]
    GangWait(JobId),
    /// A task was placed in the future, or has a placement time but no machine.
    #[error(
        "task {0} of the snapshot has a placement time that is in the future, or has a placement time \
         but no machine"
    )]
    PlacedAt(TaskId),
    /// A task has an impossible allocation.
    #[error("job {0} of the snapshot records an impossible allocation for one of its tasks")]
    Allocation(JobId),
    /// The parent of this tenant does not exist.
    #[error("the parent of tenant {0:?} is not in the snapshot")]
    NoParent(Text),
    /// The tenant of this job does not exist.
    #[error("the tenant of job {0} is not in the snapshot")]
    NoTenant(JobId),
    /// A task is placed on a machine that does not exist.
    #[error("task {0} of the snapshot is on machine {1}, which does not exist")]
    NoMachine(TaskId, MachineId),
    /// A task has devices that its machine does not have, or that its group did not request.
    #[error(
        "task {0} of the snapshot has devices that its group does not request or its machine does \
         not have"
    )]
    Devices(TaskId),
    /// A task has cores that its machine does not have, or other cores than its group requests.
    #[error(
        "task {0} of the snapshot has exclusive cores that its group does not request or its machine \
         does not have"
    )]
    Cores(TaskId),
    /// A task has a port of another task, or other ports than its group requests.
    #[error("task {0} of the snapshot has ports that do not fit its request")]
    Ports(TaskId),
    /// With this task, a sum exceeds 64 bits.
    #[error("the claims of task {0} of the snapshot increase a sum of claims to more than 64 bits")]
    Overflow(TaskId),
    /// The list of ended jobs differs from the jobs without unfinished tasks, or its times are out of order.
    #[error(
        "job {0} is wrongly in the snapshot's list of ended jobs, missing from it, or out of order"
    )]
    Ended(JobId),
    /// A scheduler's name has an owner although the floor of its transaction numbers is 0, or its lease is out of
    /// bounds.
    #[error("the name of scheduler {0} in the snapshot has an impossible owner or lease")]
    Lease(SchedulerId),
    /// A cached transaction result of this scheduler is invalid, or is not at its position in the ring.
    #[error("the snapshot has an invalid cached transaction result of scheduler {0}")]
    CachedReply(SchedulerId),
}

impl SnapshotStateError {
    /// Checks that a list is not longer than a cell allows.
    pub(crate) fn check_count(
        what: &'static str,
        given: u64,
        max: u64,
    ) -> Result<(), SnapshotStateError> {
        if given > max { Err(SnapshotStateError::TooMany { what, given, max }) } else { Ok(()) }
    }
}
