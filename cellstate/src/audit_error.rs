//! Errors of the audit.

use omega_core::{JobId, MachineId, TaskId, Text};

/// A difference between the cell's sums and a recount. A cell with such a difference must no longer be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// Free amounts differ from the capacity minus the claims.
    #[error("machine {machine}: its free amounts are {found:?}, but a recount gives {expected:?}")]
    Free {
        /// Id of the machine.
        machine: MachineId,
        /// Free amounts in the cell.
        found: Vec<i64>,
        /// Recounted free amounts.
        expected: Vec<i64>,
    },
    /// Negative free amounts on a machine whose capacity never shrank.
    #[error("machine {0} has negative free amounts, although its capacity never shrank")]
    Overcommitted(MachineId),
    /// The machine's task list differs from the tasks placed on it.
    #[error("the task list of machine {0} differs from a recount")]
    TaskList(MachineId),
    /// A task is placed on a machine that does not exist.
    #[error("task {0} is on machine {1}, which does not exist")]
    NoMachine(TaskId, MachineId),
    /// The free parts of the machine's devices differ from a recount.
    #[error("machine {0}: the free parts of its devices differ from a recount")]
    Devices(MachineId),
    /// The free exclusive cores of the machine differ from a recount.
    #[error("machine {0}: its free exclusive cores differ from a recount")]
    Cores(MachineId),
    /// The ports of the machine's tasks differ from a recount, or a task has other ports than its group requests.
    #[error(
        "machine {0}: its recorded ports differ from a recount of its tasks' ports, or a task has \
         other ports than its group requests"
    )]
    Ports(MachineId),
    /// The sum of the demand profiles of the machine's tasks differs from a recount.
    #[error("machine {0}: the sum of its demand profiles differs from a recount")]
    DemandProfiles(MachineId),
    /// The job's numbers of tasks differ from a recount.
    #[error("job {0}: its numbers of placed and unfinished tasks differ from a recount")]
    JobCounts(JobId),
    /// A job without unfinished tasks is recorded neither as ended nor as scaled to zero, or as both; or another job is.
    #[error("job {0} is wrongly recorded as ended or as scaled to zero, or is not recorded")]
    Ended(JobId),
    /// A job is wrongly recorded as a gang that waits for more tasks, or such a gang is not recorded.
    #[error("job {0}: the record of whether its gang waits for more tasks differs from a recount")]
    GangWait(JobId),
    /// An allocation is recorded for a task without a machine, or a recorded allocation equals the request of the
    /// task's group.
    #[error(
        "job {0} records an allocation for a task that is not placed, or an allocation that equals \
         the task's request and so must not be recorded"
    )]
    Allocation(JobId),
    /// The allocations of batch tasks on a machine differ from a recount.
    #[error("the sums of what batch tasks claim on machines differ from a recount")]
    Batch,
    /// The amounts that a tenant uses differ from a recount.
    #[error("tenant {0:?}: its usage differs from a recount")]
    Tenant(Text),
    /// The claims of cluster resources differ from a recount.
    #[error("the sums of claimed cluster resources differ from a recount")]
    CellClaims,
    /// The cell checks quotas although no tenant has one, or skips the check although some tenant has one.
    #[error("quota checks are on although no tenant has a quota, or off although one has")]
    Quotas,
    /// The requested amounts of a tenant differ from a recount.
    #[error("tenant {0:?}: the requests of its jobs differ from a recount")]
    Requested(Text),
    /// The counters of a rule differ from a recount.
    #[error("the task counters of a placement rule differ from a recount")]
    Rules,
    /// A machine set differs from the machines that match its selector.
    #[error("a recorded set of machines differs from the machines that match its selector")]
    Sets,
}
