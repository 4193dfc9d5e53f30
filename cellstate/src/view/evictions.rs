//! Room that a view's claims make: evictions, and throttling of tasks to their request.
//!
//! The amounts that a task gives up for a claim are added to the view's free amounts together with the claim. They are
//! subtracted again if the claim is dropped, or the eviction or resize is rejected. If it is accepted, they stay added
//! until the sync that reaches the commit's version; until then [`View::tasks_on`] still lists the task, and no other
//! claim may count on its room.

use super::{GroupRef, PlacedTask, View};
use crate::held::amounts_of;
use omega_core::bands::band_of;
use omega_core::{
    Commit, MachineId, Precedence, Reason, Resize, TaskId, Transaction, Version, transaction::Item,
};

/// A task that makes room for a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eviction {
    /// The task of that claim.
    of: TaskId,
    machine: MachineId,
    victim: PlacedTask,
    gives: Gives,
    /// Whether its amounts are off the view: the task may have left the machine by itself.
    off: bool,
    phase: Phase,
}

/// The progress of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for a transaction.
    Open,
    /// It was submitted in the transaction of this number.
    InFlight(u64),
    /// Accepted at a version that the view has not reached.
    Taken(Version),
}

/// The part that a task gives up for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// Everything: it is evicted.
    Everything,
    /// The part of its allocation beyond its group's request: it is throttled.
    Surplus,
}

impl View {
    /// Claims like [`View::claim`], in the room that is free once these tasks are evicted. The evictions go into the
    /// transaction of the claim, and stay off the view until the result. The view must keep placements.
    ///
    /// # Errors
    /// If the placement check rejects it even so; then the view is unchanged.
    pub fn claim_evicting(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
        victims: &[PlacedTask],
    ) -> Result<(), Reason> {
        self.claim_given((task, machine), group, victims.iter().map(|v| (*v, Gives::Everything)))
    }

    /// Claims like [`View::claim_evicting`], in the room that is free once these tasks are throttled to their requests
    /// ([`View::surplus`]).
    ///
    /// # Errors
    /// If the placement check rejects it even so; then the view is unchanged.
    pub fn claim_throttling(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
        throttled: &[PlacedTask],
    ) -> Result<(), Reason> {
        self.claim_given((task, machine), group, throttled.iter().map(|t| (*t, Gives::Surplus)))
    }

    fn claim_given(
        &mut self,
        (task, machine): (TaskId, MachineId),
        group: GroupRef,
        given: impl Iterator<Item = (PlacedTask, Gives)>,
    ) -> Result<(), Reason> {
        let first = self.evictions.len();
        for (victim, gives) in given {
            if self.runs_on(victim.id, machine) && !self.is_evicted(victim.id) {
                self.count_given(machine.row(), (victim, gives), 1);
                let (of, phase) = (task, Phase::Open);
                let eviction = Eviction { of, machine, victim, gives, off: true, phase };
                self.evictions.push(eviction);
            }
        }
        let claimed = self.claim(task, machine, group);
        if claimed.is_err() {
            let taken_back = self.evictions.split_off(first);
            taken_back.into_iter().for_each(|eviction| self.return_victim(eviction));
        }
        claimed
    }

    /// The precedence below which tasks may be evicted for a task of this precedence: its own, or the start of its
    /// band.
    #[must_use]
    pub fn displaces_below(&self, precedence: Precedence) -> Precedence {
        band_of(&self.kept.bands, precedence).map_or(precedence, |band| band.from)
    }

    /// The number of evictions left in the cell's limit, minus the evictions of own claims whose tasks the view still
    /// shows; `None` without a limit.
    #[must_use]
    pub fn evictions_left(&self) -> Option<usize> {
        let whole = self.evictions.iter().filter(|eviction| eviction.gives == Gives::Everything);
        Some((self.kept.evictions_left? as usize).saturating_sub(whole.count()))
    }

    /// Whether an own claim evicts or throttles this task, and no sync has included that yet.
    #[must_use]
    pub fn is_evicted(&self, task: TaskId) -> bool {
        self.evictions.iter().any(|eviction| eviction.victim.id == task)
    }

    /// The tasks on the machine in a row that own claims evict or throttle and no sync has included yet.
    /// [`View::tasks_on`] still lists them; their amounts and counters are off the view.
    pub fn evicted_from(&self, row: usize) -> impl Iterator<Item = TaskId> {
        let there = move |eviction: &&Eviction| eviction.off && eviction.machine.row() == row;
        self.evictions.iter().filter(there).map(|eviction| eviction.victim.id)
    }

    /// All tasks that own claims evict and that run as of the last sync.
    pub fn evicted(&self) -> impl Iterator<Item = &PlacedTask> {
        let gone = |eviction: &&Eviction| eviction.off && eviction.gives == Gives::Everything;
        self.evictions.iter().filter(gone).map(|eviction| &eviction.victim)
    }

    /// The number of evictions and resizes that wait for [`View::take_transaction`], including those of held claims.
    #[must_use]
    pub fn open_evictions(&self) -> usize {
        self.evictions.iter().filter(|eviction| eviction.phase == Phase::Open).count()
    }

    fn runs_on(&self, task: TaskId, machine: MachineId) -> bool {
        let there = machine.row() < self.rows() && self.machine_id(machine.row()) == machine;
        there && self.tasks_on(machine.row()).iter().any(|placed| placed.id == task)
    }

    fn return_victim(&mut self, eviction: Eviction) {
        if eviction.off {
            self.count_given(eviction.machine.row(), (eviction.victim, eviction.gives), -1);
        }
    }

    /// Takes the part that a task gives up off a row (`sign` 1), or puts it back (-1).
    fn count_given(&mut self, row: usize, (task, gives): (PlacedTask, Gives), sign: i64) {
        match gives {
            Gives::Everything => self.count_placed(row, task, sign),
            Gives::Surplus => self.count_surplus(row, task, sign),
        }
    }

    /// Puts back the tasks that the dropped claim of a task evicted.
    pub(super) fn drop_evictions(&mut self, of: TaskId) {
        if self.evictions.is_empty() {
            return;
        }
        let is_open = |eviction: &Eviction| eviction.of == of && eviction.phase == Phase::Open;
        for eviction in self.evictions.extract_if(.., |e| is_open(e)).collect::<Vec<_>>() {
            self.return_victim(eviction);
        }
    }

    /// Moves the evictions and resizes of open claims into a transaction.
    pub(super) fn submit_evictions(&mut self, number: u64) -> (Vec<TaskId>, Vec<Resize>) {
        let held = &self.held;
        let open = self.evictions.iter_mut().filter(|eviction| eviction.phase == Phase::Open);
        let submitted = open.filter(|eviction| !held.contains_key(&eviction.of));
        let mark = |eviction: &mut Eviction| {
            eviction.phase = Phase::InFlight(number);
            (eviction.victim, eviction.gives)
        };
        let submitted: Vec<_> = submitted.map(mark).collect();
        let of = |wanted| submitted.iter().filter(move |(_, gives)| *gives == wanted);
        let resize = |task: &PlacedTask| {
            let to = amounts_of(&self.throttled(task)?);
            Some(Resize { task: task.id, to })
        };
        let resizes = of(Gives::Surplus).filter_map(|(task, _)| resize(task)).collect();
        (of(Gives::Everything).map(|(task, _)| task.id).collect(), resizes)
    }

    /// Ends the evictions and resizes of a transaction: those that were rejected or not committed, or that the rows
    /// include already, are put back. The others stay off the view until their rows arrive.
    pub(super) fn end_evictions(&mut self, txn: &Transaction, commit: Option<&Commit>) {
        if self.evictions.is_empty() {
            return;
        }
        let flown = |eviction: &Eviction| eviction.phase == Phase::InFlight(txn.id.number);
        let ended: Vec<_> = self.evictions.extract_if(.., |e| flown(e)).collect();
        for eviction in ended {
            let item = eviction.item(txn);
            let taken = |commit: &&Commit| {
                commit.version > self.version
                    && item.is_some_and(|item| commit.conflict_of(item).is_none())
            };
            match commit.filter(taken) {
                Some(commit) => {
                    let phase = Phase::Taken(commit.version);
                    self.evictions.push(Eviction { phase, ..eviction });
                }
                None => self.return_victim(eviction),
            }
        }
    }

    /// Forgets the evictions and resizes that the rows of a version include.
    pub(super) fn forget_taken_evictions(&mut self, version: Version) {
        if self.evictions.is_empty() {
            return;
        }
        let reached = |e: &Eviction| matches!(e.phase, Phase::Taken(taken) if taken <= version);
        for eviction in self.evictions.extract_if(.., |e| reached(e)) {
            if let Some(places) = &mut self.job_places
                && eviction.off
                && eviction.gives == Gives::Everything
            {
                places.evicted(eviction.victim.id);
            }
        }
    }

    /// Puts back every evicted or throttled task: before a sync.
    pub(super) fn return_victims(&mut self) {
        let mut evictions = std::mem::take(&mut self.evictions);
        for eviction in &mut evictions {
            self.return_victim(*eviction);
            eviction.off = false;
        }
        self.evictions = evictions;
    }

    /// Takes the parts that these tasks give up off the view again, if they still run there: after a sync.
    pub(super) fn lift_victims(&mut self) {
        let mut evictions = std::mem::take(&mut self.evictions);
        for eviction in &mut evictions {
            eviction.off = self.runs_on(eviction.victim.id, eviction.machine);
            if eviction.off {
                self.count_given(eviction.machine.row(), (eviction.victim, eviction.gives), 1);
            }
        }
        // A task that left by itself needs no eviction, unless that was submitted.
        evictions.retain(|eviction| eviction.off || eviction.phase != Phase::Open);
        self.evictions = evictions;
    }
}

impl Eviction {
    /// The item of the transaction in which it was submitted.
    fn item(&self, txn: &Transaction) -> Option<Item> {
        let victim = self.victim.id;
        match self.gives {
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
