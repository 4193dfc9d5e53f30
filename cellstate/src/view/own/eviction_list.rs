//! The list of the tasks that make room for a view's own claims, by eviction or throttling; and the limits on
//! evictions.

use crate::delta::Delta;
use crate::view::PlacedTask;
use omega_core::bands::band_of;
use omega_core::transaction::Item;
use omega_core::{Band, Commit, MachineId, Precedence, TaskId, Transaction, Version};

/// A task that makes room for a claim.
#[derive(Clone, Copy, Debug)]
pub(in crate::view) struct Eviction {
    /// The task of the claim.
    of: TaskId,
    pub(in crate::view) machine: MachineId,
    pub(in crate::view) victim: Victim,
    /// Whether the part that the task gives up is removed from the view. False if the task has already left the
    /// machine.
    pub(in crate::view) off: bool,
    phase: Phase,
}

/// A task that makes room, and the part of its allocation that it gives up.
#[derive(Clone, Copy, Debug)]
pub(in crate::view) struct Victim {
    pub(in crate::view) task: PlacedTask,
    pub(in crate::view) gives: Gives,
}

/// Progress of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The eviction is not yet in a transaction.
    Open,
    /// The eviction was submitted in the transaction with this number.
    InFlight(u64),
    /// The eviction was accepted at this version, which the view has not reached.
    Accepted(Version),
}

/// The part of a task's allocation that makes room for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::view) enum Gives {
    /// The whole allocation, because the task is evicted.
    Everything,
    /// The part beyond the request of the task's group, because the task is throttled.
    Surplus,
}

impl Eviction {
    /// An eviction for the claim of the task `of`. It is not yet in a transaction.
    pub(in crate::view) fn new(of: TaskId, machine: MachineId, victim: Victim) -> Eviction {
        Eviction { of, machine, victim, off: true, phase: Phase::Open }
    }

    /// Whether the entry evicts a task that was placed at the last sync.
    fn removes(&self) -> bool {
        self.off && self.victim.gives == Gives::Everything
    }

    /// The item for this eviction or resize in its transaction.
    fn item(&self, txn: &Transaction) -> Option<Item> {
        let victim = self.victim.task.id;
        match self.victim.gives {
            Gives::Everything => {
                let index = txn.evictions.iter().position(|task| *task == victim);
                index.map(|index| Item::Eviction(index as u32))
            }
            Gives::Surplus => {
                let index = txn.resizes.iter().position(|resize| resize.task == victim);
                index.map(|index| Item::Resize(index as u32))
            }
        }
    }
}

/// The evictions of own claims. See the module documentation.
#[derive(Debug, Default)]
pub(in crate::view) struct OwnEvictions {
    list: Vec<Eviction>,
    /// The precedence bands of the cell.
    bands: Vec<Band>,
    /// The number of evictions that the cell's limit allows; `None` if there is no limit.
    left: Option<u32>,
}

impl OwnEvictions {
    /// Applies the cell's policy.
    pub(in crate::view) fn set_policy(&mut self, delta: &Delta) {
        self.bands.clone_from(&delta.bands);
        self.left = delta.evictions_left;
    }

    /// Returns a bound: a task of this precedence may evict tasks whose precedence is below it.
    pub(in crate::view) fn preemptible_below(&self, precedence: Precedence) -> Precedence {
        band_of(&self.bands, precedence).map_or(precedence, |band| band.from)
    }

    /// The number of evictions that the cell's limit allows, minus the evictions in the list; `None` if there is no
    /// limit.
    pub(in crate::view) fn left(&self) -> Option<usize> {
        let whole = self.list.iter().filter(|one| one.victim.gives == Gives::Everything);
        Some((self.left? as usize).saturating_sub(whole.count()))
    }

    /// Whether the list evicts or throttles a task.
    pub(in crate::view) fn contains(&self, task: TaskId) -> bool {
        self.list.iter().any(|eviction| eviction.victim.task.id == task)
    }

    /// The tasks on the machine in a row that the view does not count, or counts only in part.
    pub(in crate::view) fn off_row(&self, row: usize) -> impl Iterator<Item = TaskId> {
        let there = move |eviction: &&Eviction| eviction.off && eviction.machine.row() == row;
        self.list.iter().filter(there).map(|eviction| eviction.victim.task.id)
    }

    /// The tasks that the list evicts and that were placed at the last sync.
    pub(in crate::view) fn removed(&self) -> impl Iterator<Item = &PlacedTask> {
        self.list.iter().filter(|one| one.removes()).map(|one| &one.victim.task)
    }

    /// The number of evictions that are not yet in a transaction.
    pub(in crate::view) fn open(&self) -> usize {
        self.list.iter().filter(|eviction| eviction.phase == Phase::Open).count()
    }

    /// The number of evictions and resizes.
    pub(in crate::view) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds an eviction.
    pub(in crate::view) fn push(&mut self, eviction: Eviction) {
        self.list.push(eviction);
    }

    /// Removes the evictions from this position on.
    pub(in crate::view) fn split_off(&mut self, first: usize) -> Vec<Eviction> {
        self.list.split_off(first)
    }

    /// Removes and returns the evictions for a claim of the task `of` that is not yet in a transaction.
    pub(in crate::view) fn remove_of(&mut self, of: TaskId) -> Vec<Eviction> {
        self.list.extract_if(.., |one| one.of == of && one.phase == Phase::Open).collect()
    }

    /// Moves the evictions for open claims into the transaction with this number. Evictions for deferred claims stay.
    pub(in crate::view) fn submit(
        &mut self,
        number: u64,
        is_deferred: impl Fn(TaskId) -> bool,
    ) -> Vec<Victim> {
        let open = self.list.iter_mut().filter(|eviction| eviction.phase == Phase::Open);
        let submitted = open.filter(|eviction| !is_deferred(eviction.of));
        let mark = |eviction: &mut Eviction| {
            eviction.phase = Phase::InFlight(number);
            eviction.victim
        };
        submitted.map(mark).collect()
    }

    /// Ends the evictions of a transaction that has a result. Evictions that were accepted at a version after `seen`
    /// stay in the list; the others are removed and returned.
    pub(in crate::view) fn end(
        &mut self,
        txn: &Transaction,
        commit: Option<&Commit>,
        seen: Version,
    ) -> Vec<Eviction> {
        let accepted = commit.filter(|commit| commit.version > seen);
        let mut returned = Vec::new();
        self.list.retain_mut(|eviction| {
            if eviction.phase != Phase::InFlight(txn.id.number) {
                return true;
            }
            let item = eviction.item(txn);
            let is_accepted =
                |commit: &&Commit| item.is_some_and(|item| commit.conflict_of(item).is_none());
            match accepted.filter(is_accepted) {
                Some(commit) => eviction.phase = Phase::Accepted(commit.version),
                None => returned.push(*eviction),
            }
            eviction.phase != Phase::InFlight(txn.id.number)
        });
        returned
    }

    /// Removes the evictions that the rows of a version include. Returns the evicted tasks that were placed at the last
    /// sync.
    pub(in crate::view) fn forget_accepted(
        &mut self,
        version: Version,
    ) -> impl Iterator<Item = TaskId> {
        let reached = move |one: &mut Eviction| matches!(one.phase, Phase::Accepted(accepted) if accepted <= version);
        let forgotten = self.list.extract_if(.., reached);
        forgotten.filter(Eviction::removes).map(|eviction| eviction.victim.task.id)
    }

    /// Takes the list out, so that the caller can change it together with the view. The caller returns it with
    /// [`OwnEvictions::put_back`].
    pub(in crate::view) fn take(&mut self) -> Vec<Eviction> {
        std::mem::take(&mut self.list)
    }

    /// Puts the list back.
    pub(in crate::view) fn put_back(&mut self, list: Vec<Eviction>) {
        self.list = list;
    }

    /// Removes evictions whose tasks left by themselves before the eviction was submitted.
    pub(in crate::view) fn forget_needless(&mut self) {
        self.list.retain(|eviction| eviction.off || eviction.phase != Phase::Open);
    }
}
