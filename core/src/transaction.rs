//! Transactions: requests of schedulers to the cell, and the cell's results.
//!
//! A rejected claim is a result and not an error, because rejections are the normal cost of optimistic concurrency. A
//! result has the reason of each rejection, and the version to sync to before the next attempt.

use crate::amounts::{Amounts, KindId};
use crate::ids::{MachineId, SequenceNumber, TaskId, TransactionId, Version};
use crate::limits::NUMBERS_AHEAD_MAX;
use crate::machine::DeviceSet;
use serde::{Deserialize, Serialize};

/// A claim: the request to place a task on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// Id of the task. The amounts that it requests are in its job.
    pub task: TaskId,
    /// Id of the machine.
    pub machine: MachineId,
    /// Sequence number of the machine in the view in which the claim was decided.
    pub seen: SequenceNumber,
    /// Accelerator devices to use. If the set is empty, the cell chooses the fullest devices that have enough left.
    pub devices: DeviceSet,
    /// Amounts to claim: the request alone, or also the optional resources.
    pub take: Take,
}

impl Claim {
    /// Returns a claim of the task's request alone. The cell chooses the devices.
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
    /// The request of the task's group.
    #[default]
    Request,
    /// The request and all optional resources (see [`TaskGroup::optional`](crate::TaskGroup::optional)). The claim
    /// conflicts if any of the optional resources is not free.
    WithOptional,
}

/// A resize: gives a placed task more or less of its machine's resources.
///
/// The new allocation lasts as long as the task is on this machine. When the task is placed again, it gets its group's
/// request. Devices and cores do not change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resize {
    /// Id of the task.
    pub task: TaskId,
    /// New allocation, for each kind.
    pub to: Amounts,
}

/// Whether the other items of a transaction are applied when an item conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// The other items are applied.
    Incremental,
    /// No item is applied.
    AllOrNothing,
}

/// Check that decides whether a claim conflicts with commits since the view was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictCheck {
    /// A claim conflicts if it no longer fits (the fine check).
    ResourceFit,
    /// A claim conflicts if its machine changed at all (the coarse check). After a change, the scores that led to the
    /// claim may be out of date.
    SequenceNumber,
}

/// Claims that a scheduler submits together, with the releases, evictions and resizes that make room for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transaction {
    /// Id of the transaction. A retry with an equal id gets the result of the first attempt, and is not applied twice.
    pub id: TransactionId,
    /// Version of the view in which the transaction was decided.
    pub base: Version,
    /// Whether the other items are applied when an item conflicts.
    pub granularity: Granularity,
    /// Check that decides which claims conflict.
    pub check: ConflictCheck,
    /// Placed tasks to release from their machines; they become pending. Releases are applied before claims, so that
    /// one transaction can move a task.
    pub releases: Vec<TaskId>,
    /// Tasks to evict; they become pending. A task is evicted only if the cell accepts a claim of this transaction on
    /// its machine.
    ///
    /// The task must have a lower precedence than such a claim, or belong to a tenant that has borrowed.
    pub evictions: Vec<TaskId>,
    /// Tasks to place. Each claim is checked against the state after the claims before it.
    pub claims: Vec<Claim>,
    /// Resizes of placed tasks, applied in order and before the claims. So one transaction can shrink a task to place
    /// another.
    ///
    /// Growing needs room for the difference. Shrinking is rejected only if the task would get less `cpu` than it has
    /// exclusive cores.
    pub resizes: Vec<Resize>,
}

impl Transaction {
    /// Returns an incremental transaction that has only claims and uses the check [`ConflictCheck::ResourceFit`].
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

    /// Number of claims, releases, evictions and resizes together.
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
    /// The machine has too little of this kind left.
    NoRoom(KindId),
    /// The machine has too few devices with enough capacity left, or the devices that the claim names have too little
    /// left.
    NoDevices,
    /// The machine changed since the view was synced (only with the sequence-number check).
    MachineChanged,
    /// The machine was removed, or never existed.
    MachineGone,
    /// The machine is draining.
    MachineDraining,
    /// The task requires a machine by name, and this is another machine.
    OtherMachine,
    /// The machine does not meet the task's required affinity.
    AffinityUnmet,
    /// The machine has a taint that the task does not tolerate.
    Tainted,
    /// Another task on the machine has the port: a task that requests it, or one for which the cell chose it.
    PortTaken,
    /// An anti-affinity rule of this task, or of another task in the domain, forbids the placement.
    AntiAffinity,
    /// The task requires another task in its domain, and no such task is there.
    TaskAffinityUnmet,
    /// With the task, the domain would exceed the domain with the fewest tasks by more than the allowed skew.
    Skew,
    /// The domain already has the maximum number of tasks.
    DomainFull,
    /// The machine lacks the label that a rule's level needs.
    NoDomain,
    /// The claim would exceed the quota for this kind of the task's tenant, or of a tenant above it.
    QuotaExceeded(KindId),
    /// No task has this id.
    UnknownTask,
    /// The task to be placed is placed already.
    TaskPlaced,
    /// The task has ended, or its job was killed.
    TaskEnded,
    /// The task to be released, evicted or resized is not placed.
    TaskNotPlaced,
    /// No claim on the machine has a higher precedence than the task to be evicted, and no guarantee of a claim's
    /// tenant allows the eviction (see [`TenantConfig`](crate::TenantConfig)).
    PrecedenceTooLow,
    /// The cell accepted no claim of the transaction on the machine of the task to be evicted.
    EvictionUnused,
    /// The transaction leaves the gang with fewer placed tasks than its minimum.
    GangIncomplete,
    /// Another item of an all-or-nothing transaction conflicts.
    OthersConflict,
    /// Another task in the domain depends on the task to be released or evicted, and no other task there could take its
    /// role (see [`TaskRule::RuntimeAffinity`](crate::TaskRule::RuntimeAffinity)).
    ///
    /// Release the dependent task, too, or place another task in the domain that can take this role.
    RuntimeAffinityNeeded,
    /// The task to be evicted and the most important claim on its machine are in the same band of precedence (see
    /// [`Policy::bands`](crate::Policy::bands)).
    SameBand,
    /// The eviction limit is used up until the cell's time advances (see
    /// [`Policy::eviction_cap`](crate::Policy::eviction_cap)).
    EvictionsCapped,
    /// The machine is reserved for other tenants, now or before the expected end of the task (see
    /// [`Reservation`](crate::Reservation)).
    Reserved,
    /// The NUMA nodes of the machine have too few exclusive cores left, or a resize would leave the task less `cpu`
    /// than it has exclusive cores.
    NoCores,
    /// The whole cell has too little of this cluster resource left, so the task can be placed on no machine (see
    /// [`TaskGroup::cluster_request`](crate::TaskGroup::cluster_request)).
    CellExhausted(KindId),
    /// Batch tasks of the machine would exceed their share of this kind during the present peak hours (see
    /// [`PeakCalendar`](crate::PeakCalendar)).
    PeakHours(KindId),
    /// The machine already has the maximum number of the tenant's tasks (see
    /// [`TenantConfig::tasks_per_machine_max`](crate::TenantConfig::tasks_per_machine_max)) or of all tasks (see
    /// [`TASKS_PER_MACHINE_MAX`](crate::limits::TASKS_PER_MACHINE_MAX)).
    TasksPerMachine,
    /// The machine's port range has fewer free ports than the cell must choose for the task (see
    /// [`TaskGroup::any_ports`](crate::TaskGroup::any_ports)).
    NoPorts,
}

/// A reference to an item of a transaction, by the index in the list of items of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    /// A release.
    Release(u32),
    /// An eviction.
    Eviction(u32),
    /// A claim.
    Claim(u32),
    /// A resize.
    Resize(u32),
}

/// A rejected item of a transaction, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conflict {
    /// The rejected item.
    pub item: Item,
    /// Reason for which it was rejected.
    pub reason: Reason,
}

/// The result of a transaction.
///
/// Invariant: `conflicts` is strictly ascending by item, and every item of the transaction that is not in `conflicts`
/// was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Version to sync to before the next attempt. It includes the accepted items, and all changes that the rejected
    /// items conflicted with.
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

/// Reason why a transaction was rejected as a whole, without a check of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TransactionError {
    /// The transaction has no items. Add one.
    #[error("the transaction has no items: add at least one")]
    Empty,
    /// The transaction has too many items. Split it.
    #[error("the transaction has {items} items: at most {max} are allowed")]
    TooManyItems {
        /// Actual number of items.
        items: usize,
        /// Maximum number of items.
        max: usize,
    },
    /// The transaction's base is later than the cell's version. The view belongs to another cell, or to a cell whose
    /// state was lost. Start from a fresh snapshot.
    #[error(
        "the transaction was decided at version {base}, which is ahead of the cell's version \
         {version}: decide again from a fresh snapshot"
    )]
    BaseFromFuture {
        /// The transaction's base.
        base: Version,
        /// The cell's version.
        version: Version,
    },
    /// No scheduler of this id is registered. Register first.
    #[error("no scheduler {0} is registered: register it first")]
    UnknownScheduler(crate::ids::SchedulerId),
    /// The cell no longer keeps the result of this transaction. Sync to see the state of its tasks.
    #[error(
        "the cell no longer keeps the result of transaction {0}: sync to see the state of its tasks"
    )]
    AnswerExpired(TransactionId),
    /// A different transaction with this id was sent before. Give each transaction a new number, in ascending order. If
    /// the sender does so, another process uses the scheduler's name.
    #[error(
        "transaction {0} was sent before with different content: check that no other process uses \
         the scheduler's name, and give each transaction its own number"
    )]
    IdReused(TransactionId),
    /// The scheduler's name has got another owner, or has lost its owner, since the transaction was numbered. The
    /// sender must stop.
    ///
    /// The transaction was not applied by this attempt. Sync to see whether an earlier attempt was applied.
    #[error("transaction {0} is rejected: another process now owns the name of its scheduler")]
    Fenced(TransactionId),
    /// The transaction's number is too far above its scheduler's next number. Register again, and continue with the
    /// number in the response.
    #[error(
        "transaction {0} is numbered too far ahead, {NUMBERS_AHEAD_MAX} or more above its \
         scheduler's next number: register again, and continue with the number in the response"
    )]
    NumberAhead(TransactionId),
}
