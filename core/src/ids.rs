//! Ids and counters.
//!
//! Each kind of id has its own type, so that versions are never compared with sequence numbers, nor
//! jobs with machines.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Defines an id: a distinct number type, ordered, hashable and printed with a prefix.
macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

define_id!(
    /// Id of a job. The cell numbers jobs as they are submitted, from 0, and never reuses a number.
    JobId(u64),
    "j"
);
define_id!(
    /// A scheduler that may commit. The cell numbers schedulers as they register.
    SchedulerId(u32),
    "s"
);
define_id!(
    /// A process that owns names of schedulers. It draws the number at random when it starts, so no
    /// two processes, and no two starts of one, share a number.
    HolderId(u64),
    "h"
);
define_id!(
    /// Counts the changes of the cell: every command that changes anything raises it by one.
    Version(u64),
    "v"
);
define_id!(
    /// Counts the changes of one machine. Each transaction that changes the machine increments it
    /// once, whatever the number of its claims there; a rejected transaction does not. Any other
    /// command that changes what may be claimed there also increments it; a load report does not.
    SequenceNumber(u64),
    "#"
);
define_id!(
    /// Preemption order: a task can be evicted only for one of higher precedence. It does not
    /// order a queue.
    Precedence(i32),
    "p"
);

impl Version {
    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl SequenceNumber {
    /// The sequence number after this one.
    #[must_use]
    pub fn next(self) -> SequenceNumber {
        SequenceNumber(self.0 + 1)
    }
}

/// Id of a machine: its row in every column, and the row's incarnation.
///
/// Rows are reused after a machine is removed, so that columns stay dense. The incarnation
/// distinguishes claims on the old machine from those on the new one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MachineId {
    /// The row.
    pub slot: u32,
    /// Number of machines that had this row before.
    pub incarnation: u32,
}

impl MachineId {
    /// The first machine of a row: the id in use if no machine of that row was ever removed.
    #[must_use]
    pub fn first(slot: u32) -> MachineId {
        MachineId { slot, incarnation: 0 }
    }

    /// The row as an index.
    #[must_use]
    pub fn row(self) -> usize {
        self.slot as usize
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => write!(f, "m{}", self.slot),
            n => write!(f, "m{}.{n}", self.slot),
        }
    }
}

/// Id of a task: its job, and its index in the job. Indexes count from 0 over all groups, in order
/// of creation, and are never reused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct TaskId {
    /// The job.
    pub job: JobId,
    /// Index of the task in its job.
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.index)
    }
}

/// Id of a transaction: its scheduler, and the scheduler's own number.
///
/// A scheduler numbers its transactions in ascending order and never reuses a number. A retry keeps
/// its number and is not applied twice. An answered transaction must not be sent again: one that
/// conflicted as a whole may have left no record, and would be checked again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct TransactionId {
    /// Scheduler that sent it.
    pub scheduler: SchedulerId,
    /// The sender's count.
    pub number: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheduler, self.number)
    }
}
