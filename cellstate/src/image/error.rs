//! Why an image is of no cell.

use omega_core::{JobId, KindsError, MachineId, Rejection, SchedulerId, TaskId, Text, Version};

/// Why an image was not made a cell. No program of ours makes such an image: the bytes that it came
/// from were damaged or forged. Restore it from another copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The resource kinds make no sense.
    #[error("the image's resource kinds: {0}")]
    Kinds(#[from] KindsError),
    /// A machine, job, tenant, scheduler or load would be refused in a command.
    #[error("the image holds what no command may bring: {0}")]
    Refused(#[from] Rejection),
    /// More than a cell may have.
    #[error("the image has {given} {what}, at most {max} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        given: u64,
        /// How many are allowed.
        max: u64,
    },
    /// A name that must be one's own is there twice.
    #[error("the image names the {what} {name:?} twice")]
    Twice {
        /// Of what.
        what: &'static str,
        /// The name.
        name: Text,
    },
    /// The version is beyond what any cell reaches.
    #[error("the image is of {0}, which no cell reaches")]
    Version(Version),
    /// The evictions that count against the cap are out of order, or count no more.
    #[error("the image's list of evictions is out of place")]
    Evictions,
    /// The reservations are out of order, or there is one that is over.
    #[error("the image's list of reservations is out of place at {0:?}")]
    Reservation(Text),
    /// The calendars of peaks are out of order.
    #[error("the image's list of calendars of peaks is out of place at {0:?}")]
    Peaks(Text),
    /// A row's status, sequence number or incarnation cannot be at this version.
    #[error("row {0} of the image has a status, sequence number or incarnation that cannot be")]
    Row(u32),
    /// The list of vacant rows is not that of the rows without a machine.
    #[error("the image's list of vacant rows does not match its rows")]
    Vacant,
    /// A load is of a row without a machine, of a time that has not come, or out of order.
    #[error("the image has a load of row {0} that is out of place")]
    Load(u32),
    /// A job's number is out of order, or not below that of the next job.
    #[error("job {0} of the image is out of place")]
    JobOrder(JobId),
    /// A job's tasks do not match its groups.
    #[error("the tasks of job {0} of the image do not match its groups")]
    Tasks(JobId),
    /// A job's tasks hold their places, which they cannot.
    #[error("the tasks of job {0} of the image cannot hold their places so")]
    GangHold(JobId),
    /// A task was placed later than it is, or has no machine.
    #[error("the image has task {0} placed at a time that cannot be")]
    PlacedAt(TaskId),
    /// A task holds what it cannot.
    #[error("a task of job {0} of the image holds what it cannot")]
    Held(JobId),
    /// The tenant above this one is not among the tenants.
    #[error("the tenant above {0:?} is not in the image")]
    NoParent(Text),
    /// A job's tenant is not among the tenants.
    #[error("the tenant of job {0} is not in the image")]
    NoTenant(JobId),
    /// A task is on a machine that is not there.
    #[error("task {0} of the image is on machine {1}, which is not there")]
    NoMachine(TaskId, MachineId),
    /// A task has devices that its machine has not, or not for it.
    #[error("task {0} of the image has devices that it cannot have")]
    Devices(TaskId),
    /// A task has cores of its machine that it cannot have, or not those that it needs.
    #[error("task {0} of the image has cores to itself that it cannot have")]
    Cores(TaskId),
    /// With this task a sum exceeds 64 bits.
    #[error("with task {0} of the image a sum of claims exceeds 64 bits")]
    Overflow(TaskId),
    /// The list of ended jobs is not that of the jobs whose tasks have all ended, or its times are
    /// out of order.
    #[error("the image's list of ended jobs does not match job {0}")]
    Ended(JobId),
    /// A scheduler's name is held, but it never changed hands, or the lease cannot be.
    #[error("the name of scheduler {0} of the image cannot be held so")]
    Hold(SchedulerId),
    /// An answer is out of place, or cannot have been given.
    #[error("the image has an answer to scheduler {0} that cannot have been given")]
    Answer(SchedulerId),
}

impl ImageError {
    /// Checks that a list is no longer than any cell can have it.
    pub(crate) fn check_count(what: &'static str, given: u64, max: u64) -> Result<(), ImageError> {
        if given > max { Err(ImageError::TooMany { what, given, max }) } else { Ok(()) }
    }
}
