//! Transactions: requests of schedulers to the cell, and the cell's results.
//!
//! A rejected claim is a result, not an error: with optimistic concurrency it is the normal price
//! of parallel decisions. It has a reason, and the version to sync to before the next attempt.

use crate::amounts::{Amounts, KindId};
use crate::ids::{MachineId, SequenceNumber, TaskId, TransactionId, Version};
use crate::limits::NUMBERS_AHEAD_MAX;
use crate::machine::DeviceSet;
use serde::{Deserialize, Serialize};

/// A claim: the request to place a task on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// Id of the task. Its request is in its job.
    pub task: TaskId,
    /// Id of the machine.
    pub machine: MachineId,
    /// The machine's sequence number in the view that the claim was decided on.
    pub seen: SequenceNumber,
    /// The accelerator devices to use. If empty, the cell chooses the fullest devices that fit.
    pub devices: DeviceSet,
    /// Amounts to claim: the request, or with optional resources.
    pub take: Take,
}

impl Claim {
    /// A claim of the task's request; the cell chooses the devices.
    #[must_use]
    pub fn new(task: TaskId, machine: MachineId, seen: SequenceNumber) -> Claim {
        Claim { task, machine, seen, devices: DeviceSet::default(), take: Take::Request }
    }
}

/// Amounts that a claim allocates.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// Request of the task's group.
    #[default]
    Request,
    /// Claims the optional resources, too (see [`TaskGroup::optional`](crate::TaskGroup::optional)): all of them, or the claim
    /// conflicts.
    WithOptional,
}

/// A resize: a placed task gets more or less of its machine's resources.
///
/// The allocation lasts while the task is on this machine; afterwards the task needs its group's
/// request again. Devices and cores do not change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resize {
    /// Id of the task.
    pub task: TaskId,
    /// New allocation of each kind.
    pub to: Amounts,
}

/// Whether the other items of a transaction are committed when some conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// The other items are applied.
    Incremental,
    /// No item is applied.
    AllOrNothing,
}

/// Conflict check of claims against commits since the view was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictCheck {
    /// The claim no longer fits.
    ResourceFit,
    /// If its machine changed at all (coarse): then the scores that led to it may be stale.
    SequenceNumber,
}

/// Claims that a scheduler submits together, with the releases, evictions and resizes that make
/// room for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transaction {
    /// Its id. A retry with the same id gets the same answer and is not applied twice.
    pub id: TransactionId,
    /// The version of the view that it was decided on.
    pub base: Version,
    /// Whether the other items are applied if one is rejected.
    pub granularity: Granularity,
    /// Definition of a conflict.
    pub check: ConflictCheck,
    /// Placed tasks to take off their machines; they become pending. Releases come first, so that
    /// one transaction can move a task.
    pub releases: Vec<TaskId>,
    /// Tasks of lower precedence, or of tenants that have borrowed, to evict; they become pending.
    /// They are evicted only if the cell accepts a claim of this transaction on their machine.
    pub evictions: Vec<TaskId>,
    /// Tasks to place, in order: each is checked after those before it.
    pub claims: Vec<Claim>,
    /// Resizes of placed tasks, in order, before the claims, so that one transaction can shrink a
    /// task to place another. Growing needs room for the difference; shrinking is rejected only
    /// below the `cpu` of a task's exclusive cores.
    pub resizes: Vec<Resize>,
}

impl Transaction {
    /// A transaction of claims alone, incremental, checked by resource fit.
    #[must_use]
    pub fn new(id: TransactionId, base: Version, claims: Vec<Claim>) -> Transaction {
        Transaction {
            id,
            base,
            granularity: Granularity::Incremental,
            check: ConflictCheck::ResourceFit,
            releases: Vec::new(),
            evictions: Vec::new(),
            claims,
            resizes: Vec::new(),
        }
    }

    /// Number of claims, releases, evictions and resizes.
    #[must_use]
    pub fn items(&self) -> usize {
        self.claims.len() + self.releases.len() + self.evictions.len() + self.resizes.len()
    }
}

/// Reason for which an item of a transaction was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// The machine has too little left of this kind.
    NoRoom(KindId),
    /// No devices of the machine have enough left, or not the requested ones.
    NoDevices,
    /// The machine changed since the view was synced (sequence-number check only).
    MachineChanged,
    /// The machine was removed, or never was.
    MachineGone,
    /// The machine is draining.
    MachineDraining,
    /// The task names another machine.
    OtherMachine,
    /// The machine does not meet the required affinity.
    AffinityUnmet,
    /// The machine has a taint that the task does not tolerate.
    Tainted,
    /// Another task on the machine has the port.
    PortTaken,
    /// An anti-affinity of this task or of a running task forbids the domain.
    AntiAffinity,
    /// No task that this one must run near runs in the domain.
    TaskAffinityUnmet,
    /// The domain would exceed the emptiest by more than the allowed skew.
    Skew,
    /// The domain already has the maximum number of tasks.
    DomainFull,
    /// The machine lacks the label of the rule's level.
    NoDomain,
    /// The tenant's quota of this kind is used up.
    QuotaExceeded(KindId),
    /// There is no such task.
    UnknownTask,
    /// The task has a machine already.
    TaskPlaced,
    /// The task has ended, or its job was killed.
    TaskEnded,
    /// The task to be released, evicted or resized has no machine.
    TaskNotPlaced,
    /// The task to be evicted does not have a lower precedence than a claim on its machine, and its
    /// tenant has not borrowed from the guarantee of the claim's tenant (see
    /// [`TenantConfig`](crate::TenantConfig)).
    PrecedenceTooLow,
    /// No claim of the transaction was accepted on the machine of the task to evict.
    EvictionUnused,
    /// Fewer tasks of the job would run than its gang needs.
    GangIncomplete,
    /// Another item of an all-or-nothing transaction conflicts.
    OthersConflict,
    /// A task that stays in the domain needs this one, or one like it, there (see
    /// [`TaskRule::RuntimeAffinity`](crate::TaskRule::RuntimeAffinity)): release
    /// that one too, or put another one there.
    RuntimeAffinityNeeded,
    /// The task to be evicted is in the same band of precedence as the most important claim on its machine
    /// (see [`Policy::bands`](crate::Policy::bands)).
    SameBand,
    /// The eviction limit is reached until the cell's time advances (see
    /// [`Policy::eviction_cap`](crate::Policy::eviction_cap)).
    EvictionsCapped,
    /// The machine is reserved for other tenants, now or before the task is expected to have ended (see
    /// [`Reservation`](crate::Reservation)).
    Reserved,
    /// The NUMA nodes of the machine have too few exclusive cores left; or a resize would leave
    /// less `cpu` than the task has exclusive cores.
    NoCores,
    /// The cell as a whole has too little of this kind left, wherever the task would run (see
    /// [`TaskGroup::cluster_request`](crate::TaskGroup::cluster_request)).
    CellExhausted(KindId),
    /// Peak hours: batch tasks on the machine would exceed their share of this kind (see
    /// [`PeakCalendar`](crate::PeakCalendar)).
    PeakHours(KindId),
    /// The machine has as many tasks of the tenant as it may have (see
    /// [`TenantConfig::tasks_per_machine_max`](crate::TenantConfig::tasks_per_machine_max)).
    TasksPerMachine,
}

/// A part of a transaction, by its position in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    /// One of the releases.
    Release(u32),
    /// One of the evictions.
    Eviction(u32),
    /// One of the claims.
    Claim(u32),
    /// One of the resizes.
    Resize(u32),
}

/// A rejected item of a transaction, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conflict {
    /// The item.
    pub item: Item,
    /// The reason.
    pub reason: Reason,
}

/// The answer to a transaction.
///
/// Invariant: `conflicts` is strictly ascending by item, and every item of the transaction that is
/// not in it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Version to sync to: it includes the accepted items, and all changes that conflicted with the
    /// others.
    pub version: Version,
    /// Rejected items.
    pub conflicts: Vec<Conflict>,
}

impl Commit {
    /// Reason for which a claim was rejected; `None` if it was accepted.
    #[must_use]
    pub fn conflict_of_claim(&self, index: usize) -> Option<Reason> {
        self.conflict_of(Item::Claim(index as u32))
    }

    /// Reason for which an item was rejected; `None` if it was accepted.
    #[must_use]
    pub fn conflict_of(&self, item: Item) -> Option<Reason> {
        let found = self.conflicts.binary_search_by(|conflict| conflict.item.cmp(&item));
        found.ok().map(|i| self.conflicts[i].reason)
    }

    /// Whether all items were accepted.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.conflicts.is_empty()
    }
}

/// Reason for which a transaction was not checked at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TransactionError {
    /// Remedy: add an item.
    #[error("the transaction is empty")]
    Empty,
    /// Remedy: split the transaction or the file.
    #[error("the transaction has {items} items, at most {max} are allowed")]
    TooManyItems {
        /// Actual number of items.
        items: usize,
        /// Maximum number of items.
        max: usize,
    },
    /// The view belongs to another cell, or to a lost one: start from a fresh snapshot.
    #[error("the transaction was decided at {base}, but the cell is at {version}")]
    BaseFromFuture {
        /// The transaction's base.
        base: Version,
        /// The cell's version.
        version: Version,
    },
    /// Remedy: register first.
    #[error("no scheduler {0} is registered")]
    UnknownScheduler(crate::ids::SchedulerId),
    /// The result of this id is no longer kept; sync to see the state of the tasks.
    #[error("the answer to transaction {0} is no longer known")]
    AnswerExpired(TransactionId),
    /// Two different transactions carry one id: count upwards.
    #[error("transaction {0} was sent before with other content")]
    IdReused(TransactionId),
    /// Another process, or none, owns the scheduler's name since the transaction was numbered:
    /// stop. Nothing was done now; sync to see whether it was accepted before.
    #[error("transaction {0} is fenced: another process owns its scheduler's name now")]
    Fenced(TransactionId),
    /// Remedy: register again, and continue from the number in the answer.
    #[error(
        "transaction {0} is {NUMBERS_AHEAD_MAX} or more above its scheduler's next number: register \
         again, and go on from the number in the answer"
    )]
    NumberAhead(TransactionId),
}
