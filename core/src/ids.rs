//! Ids and counters.
//!
//! Each id and counter has its own type, so that code cannot compare versions with sequence numbers, or jobs with
//! machines.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Defines an id type: a number that is ordered, hashable, and printed with a prefix.
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
    /// Id of a scheduler that may commit. The cell numbers schedulers as they register.
    SchedulerId(u32),
    "s"
);
define_id!(
    /// Id of a process that owns names of schedulers. A process chooses the number at random whenever it starts. So two
    /// processes never have the same id, and a restarted process has a new id.
    HolderId(u64),
    "h"
);
define_id!(
    /// Number of changes of the cell so far. Every command that changes anything raises it by one.
    Version(u64),
    "v"
);
define_id!(
    /// Number of changes of one machine so far. A transaction that changes the machine raises it by one, no matter how
    /// many of its claims are for the machine. A rejected transaction does not raise it.
    ///
    /// Other commands raise it if they change the amounts that may be claimed on the machine. A load report does not.
    SequenceNumber(u64),
    "#"
);
define_id!(
    /// Importance for preemption: a task can be evicted only for a task of higher precedence. The cell does not order
    /// queues by it.
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

/// Id of a machine: its row in every column, and the incarnation of the row.
///
/// A row is reused after its machine is removed, so that columns stay dense. The incarnation distinguishes claims on
/// the old machine from claims on the new one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MachineId {
    /// Number of the row.
    pub slot: u32,
    /// Number of machines that had this row before.
    pub incarnation: u32,
}

impl MachineId {
    /// Returns the id of the first machine of a row. It is the present machine if no machine of this row was ever
    /// removed.
    #[must_use]
    pub fn first(slot: u32) -> MachineId {
        MachineId { slot, incarnation: 0 }
    }

    /// The row number as an index.
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

/// Id of a task: its job, and its index in the job. The cell assigns indexes as tasks are created, in one sequence from
/// 0 for all groups of the job, and never reuses an index.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct TaskId {
    /// Id of the job.
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
/// A scheduler numbers its transactions in ascending order and never reuses a number. A retry has the number of the
/// first attempt, and the cell does not apply it twice.
///
/// A transaction must not be sent again after its reply has arrived. The cell may keep no record of a transaction in
/// which every item conflicted, and would then check it like a new one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct TransactionId {
    /// Scheduler that sent the transaction.
    pub scheduler: SchedulerId,
    /// Number of the transaction among those of its scheduler.
    pub number: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheduler, self.number)
    }
}
