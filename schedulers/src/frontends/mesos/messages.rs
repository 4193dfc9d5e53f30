//! Messages between a frontend and its frameworks.

use crate::queue::Nanos;
use crate::queue::dominant::Weight;
use omega_cellstate::{Devices, HandleError};
use omega_core::{Amounts, KindId, Machine, MachineId, Reason, TaskId, TaskState, Text};
use std::fmt;
use std::sync::Arc;

/// Number of a framework within one frontend, in order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameworkId(pub u32);

impl fmt::Display for FrameworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

/// Number of an offer within one frontend, in the order of the offers. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId(pub u64);

impl fmt::Display for OfferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}", self.0)
    }
}

/// A framework: a client that receives offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framework {
    /// Name, unique among the frameworks of the frontend.
    pub name: Text,
    /// Tenant of the framework's jobs (in Mesos, the role).
    ///
    /// The framework may place all jobs of this tenant that name the frontend as their scheduler. Frameworks of one
    /// tenant share the tenant's jobs and dominant share.
    pub tenant: Text,
    /// Weight of the framework's share, relative to other frameworks.
    pub weight: Weight,
    /// Minimum amounts of an offer: a machine with less available is not offered to the framework.
    pub least: Amounts,
}

impl Framework {
    /// A framework of weight 1 that accepts offers of any size.
    pub fn new(name: impl Into<Text>, tenant: impl Into<Text>) -> Framework {
        let least = Amounts::zero();
        Framework { name: name.into(), tenant: tenant.into(), weight: Weight::ONE, least }
    }
}

/// Part of a machine's free resources that an offer contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Portion {
    /// All available resources of the machine.
    #[default]
    Whole,
    /// At most these amounts, and nothing of kinds without an amount.
    AtMost(Amounts),
}

/// Settings of an offer frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the frontend. The frameworks of the frontend may place the jobs that have this name as their scheduler
    /// name.
    pub name: Text,
    /// Number of machines offered to a framework before shares are compared again. 1 divides free resources evenly, as
    /// Mesos does; `usize::MAX` offers everything to one framework after the other.
    pub machines_at_once: usize,
    /// Part of each machine that an offer contains.
    pub portion: Portion,
    /// Maximum number of open offers of a framework. Set it to no more offers than the framework can examine before
    /// they become outdated.
    pub offers_max: usize,
    /// Time after which an unanswered offer expires; `None` means never. After that, the machine is not offered to the
    /// same framework for a time of equal length.
    pub answer_within: Option<Nanos>,
}

impl Settings {
    /// Returns settings for offers of whole machines, one at a time, with at most 1024 open offers to each framework.
    ///
    /// Offers expire after five seconds, which is Mesos' default duration of a filter.
    pub fn new(name: impl Into<Text>) -> Settings {
        Settings {
            name: name.into(),
            machines_at_once: 1,
            portion: Portion::Whole,
            offers_max: 1024,
            answer_within: Some(5_000_000_000),
        }
    }
}

/// An offer of free resources of one machine to one framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Number of the offer.
    pub id: OfferId,
    /// Framework that may use the offer.
    pub framework: FrameworkId,
    /// The machine.
    pub machine: MachineId,
    /// Description of the machine: name, labels, taints.
    pub description: Arc<Machine>,
    /// Amount that is offered of each kind.
    pub amounts: Amounts,
    /// Free part of each device of the machine; `None` if the machine has no devices, or if they are in another offer.
    pub devices: Option<Devices>,
}

/// Filter that a framework sets when it answers an offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refuse {
    /// No filter: the machine may be offered again at once.
    #[default]
    Nothing,
    /// Filters all offers of the machine until a time.
    Machine {
        /// Time of the clock passed to [`super::Frontend::step`].
        until: Nanos,
    },
    /// Filters offers of the machine until a time, except offers with more of some kind than this offer.
    Amounts {
        /// Time of the clock passed to [`super::Frontend::step`].
        until: Nanos,
    },
}

/// A task to run on an offered machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// A pending task of the framework's tenant.
    pub task: TaskId,
    /// Machine of one of the accepted offers.
    pub machine: MachineId,
}

/// An event for a framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Receiver of the event.
    pub framework: FrameworkId,
    /// The event.
    pub happened: Happened,
}

/// An event for a framework.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happened {
    /// The framework received this offer.
    Offered(Offer),
    /// The offer was withdrawn.
    Withdrawn(OfferId, Withdrawn),
    /// The cell accepted the claim: the task has its machine.
    Launched {
        /// Id of the task.
        task: TaskId,
        /// Id of the machine.
        machine: MachineId,
    },
    /// The task was not launched. It is pending again, except if the reason implies another state.
    NotLaunched {
        /// Id of the task.
        task: TaskId,
        /// The chosen machine.
        machine: MachineId,
        /// The reason.
        why: NotLaunched,
    },
    /// A task of the framework's tenant lost its machine: the task has ended, or is pending again.
    Left {
        /// Id of the task.
        task: TaskId,
        /// The machine that the task had.
        machine: MachineId,
        /// Current state of the task; `None` if its job has ended.
        state: Option<TaskState>,
    },
}

/// Reason for which an offer was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Withdrawn {
    /// Other schedulers used the offered resources.
    Taken,
    /// The machine was removed, or no longer accepts tasks.
    Gone,
    /// The machine differs from the offered description: its labels, taints or capacity changed.
    Changed,
    /// The offer was not answered in time.
    Late,
}

/// Reason for which a task was not launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLaunched {
    /// The cell rejected the claim because of a conflict, a rule, a quota or a gang.
    Refused(Reason),
    /// The cell has not checked the transaction.
    Unsent(HandleError),
}

/// Reason for which a framework cannot register.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Another framework has this name. Choose another name, or deregister that framework.
    #[error(
        "a framework called {0:?} is already registered: choose another name, or deregister \
         that framework"
    )]
    NameTaken(Text),
    /// The maximum number of frameworks is registered. Start another frontend, maybe on the same cell.
    #[error("{max} frameworks are registered, which is the maximum: start another frontend on the \
         same cell", max = super::FRAMEWORKS_MAX)]
    TooMany,
}

/// Error in the offers that a framework names. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The framework is not registered. Register it first.
    #[error("no framework {0} is registered: register it first")]
    UnknownFramework(FrameworkId),
    /// The offer was withdrawn (an event reported this), or has already been answered. Remove it from the answer.
    #[error("offer {0} is no longer open, because it was withdrawn or answered: leave it out")]
    NotOut(OfferId),
    /// The offer was made to another framework. Use only offers made to the framework that answers.
    #[error("offer {0} belongs to another framework: use only offers made to this framework")]
    Foreign(OfferId),
    /// The offer is named twice.
    #[error("offer {0} is named twice: name it once")]
    Twice(OfferId),
}

/// Reason for which an acceptance was rejected. Nothing changed: the offers are still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// A named offer cannot be used.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The task is in no job that has the framework's tenant and the frontend as its scheduler. Remove it from the
    /// acceptance.
    #[error(
        "task {0} is in no job that has this framework's tenant and this frontend as its \
         scheduler: leave it out"
    )]
    UnknownTask(TaskId),
    /// The task has a machine, has been launched already, or has ended. Remove it from the acceptance.
    #[error("task {0} is not pending: leave it out")]
    NotWaiting(TaskId),
    /// The task is named twice.
    #[error("task {0} is named twice: name it once")]
    TaskTwice(TaskId),
    /// No offer in the call is for the machine where a task is to run. Add an offer of this machine.
    #[error(
        "task {task} is to run on machine {machine}, but this call has no offer of this machine: \
         add an offer of it"
    )]
    NotOffered {
        /// Id of the task.
        task: TaskId,
        /// Id of the machine.
        machine: MachineId,
    },
    /// The tasks need more than is offered. Launch fewer tasks on the machine, or name more offers of it.
    #[error("the tasks need {needed} of kind {} on machine {machine}, but only {offered} is \
         offered: launch fewer tasks there", kind.0)]
    TooMuch {
        /// Id of the machine.
        machine: MachineId,
        /// The resource kind.
        kind: KindId,
        /// Amount that the tasks need.
        needed: u64,
        /// Amount in the offers.
        offered: u64,
    },
    /// No offer in the call has the machine's devices. Add the offer that has them.
    #[error(
        "task {task} needs devices of machine {machine}, but no offer in this call has them: add \
         the offer that has them"
    )]
    NoDevices {
        /// Id of the task.
        task: TaskId,
        /// Id of the machine.
        machine: MachineId,
    },
    /// The cell's checks forbid the task on this machine. Launch the task on another machine.
    #[error(
        "task {task} cannot run on the machine chosen for it ({reason:?}): launch it on another \
         machine"
    )]
    Rejected {
        /// Id of the task.
        task: TaskId,
        /// Reason given by the cell's checks.
        reason: Reason,
    },
    /// The tasks do not fit into the open transaction. Call `step` first, or launch fewer tasks.
    #[error(
        "{tasks} more tasks do not fit into the open transaction: call `step` first, or launch \
         fewer tasks"
    )]
    TooMany {
        /// Number of tasks to launch.
        tasks: usize,
    },
}

/// Division of the free resources in the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Free resources. Accepted offers that are not yet committed do not count as free.
    pub free: Amounts,
    /// Resources in open offers.
    pub offered: Amounts,
    /// Free resources of machines that accept no tasks.
    pub held_back: Amounts,
    /// Free resources that are in no offer. The next step offers them, unless filters exclude them for every framework.
    pub available: Amounts,
}

/// Counters since the frontend began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps that ended without an error.
    pub rounds: u64,
    /// Offers made.
    pub offered: u64,
    /// Offers that were accepted, with or without tasks.
    pub accepted: u64,
    /// Offers that were declined.
    pub declined: u64,
    /// Offers that were withdrawn because other schedulers took their resources or the machine changed.
    pub withdrawn: u64,
    /// Offers that were not answered in time.
    pub late: u64,
    /// Tasks whose claims the cell accepted.
    pub launched: u64,
    /// Tasks whose claims the cell rejected.
    pub conflicts: u64,
    /// Calls that failed with an error.
    pub errors: u64,
}
