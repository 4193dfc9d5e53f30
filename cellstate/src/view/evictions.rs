//! Room that a view's claims make for themselves by evicting.
//!
//! A task that a claim evicts is off the view from the claim until the answer, as the claim itself
//! is on it. It is put back when the claim is dropped or the eviction refused; if it was taken, the
//! next sync brings the rows without it.

use super::{GroupRef, PlacedTask, View};
use omega_core::bands::band_of;
use omega_core::{Commit, MachineId, Precedence, Reason, TaskId, Transaction, transaction::Item};

/// A task that makes room for a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eviction {
    /// For the claim of which task.
    of: TaskId,
    machine: MachineId,
    victim: PlacedTask,
    /// Whether the victim is off the view: it may have left the machine by itself.
    off: bool,
    /// The transaction that it was submitted in.
    flight: Option<u64>,
}

impl View {
    /// Like [`View::claim`], in the room that is there once these tasks have left the machine. They
    /// go into the transaction of the claim, and stay off the view until the answer. The view must
    /// keep placements.
    ///
    /// # Errors
    /// If the judge refuses even so; then the view is as it was.
    pub fn claim_evicting(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
        victims: &[PlacedTask],
    ) -> Result<(), Reason> {
        let first = self.evictions.len();
        for victim in victims {
            if self.runs_on(victim.id, machine) && !self.is_evicted(victim.id) {
                self.count_placed(machine.row(), *victim, 1);
                let eviction =
                    Eviction { of: task, machine, victim: *victim, off: true, flight: None };
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

    /// The precedence below which tasks may be evicted for one of this precedence: its own, or where its band
    /// begins.
    #[must_use]
    pub fn displaces_below(&self, precedence: Precedence) -> Precedence {
        band_of(&self.kept.bands, precedence).map_or(precedence, |band| band.from)
    }

    /// How many tasks more may be evicted until the cell's time has moved, those that claims evict which were
    /// not yet answered taken off; `None`: any number.
    #[must_use]
    pub fn evictions_left(&self) -> Option<usize> {
        Some((self.kept.evictions_left? as usize).saturating_sub(self.evictions.len()))
    }

    /// Whether a claim that was not yet answered evicts this task.
    #[must_use]
    pub fn is_evicted(&self, task: TaskId) -> bool {
        self.evictions.iter().any(|eviction| eviction.victim.id == task)
    }

    /// The tasks on the machine in a row that claims evict which were not yet answered. They are
    /// among [`View::tasks_on`] still, and off the view's amounts and counters already.
    pub fn evicted_from(&self, row: usize) -> impl Iterator<Item = TaskId> {
        let there = move |eviction: &&Eviction| eviction.off && eviction.machine.row() == row;
        self.evictions.iter().filter(there).map(|eviction| eviction.victim.id)
    }

    /// All tasks that claims evict which were not yet answered, and that still run.
    pub fn evicted(&self) -> impl Iterator<Item = &PlacedTask> {
        self.evictions.iter().filter(|eviction| eviction.off).map(|eviction| &eviction.victim)
    }

    /// How many evictions wait for [`View::take_transaction`], those of held claims included.
    #[must_use]
    pub fn open_evictions(&self) -> usize {
        self.evictions.iter().filter(|eviction| eviction.flight.is_none()).count()
    }

    fn runs_on(&self, task: TaskId, machine: MachineId) -> bool {
        let there = machine.row() < self.rows() && self.machine_id(machine.row()) == machine;
        there && self.tasks_on(machine.row()).iter().any(|placed| placed.id == task)
    }

    fn return_victim(&mut self, eviction: Eviction) {
        if eviction.off {
            self.count_placed(eviction.machine.row(), eviction.victim, -1);
        }
    }

    /// Puts back what the dropped claim of a task evicted.
    pub(super) fn drop_evictions(&mut self, of: TaskId) {
        if self.evictions.is_empty() {
            return;
        }
        let is_open = |eviction: &Eviction| eviction.of == of && eviction.flight.is_none();
        for eviction in self.evictions.extract_if(.., |e| is_open(e)).collect::<Vec<_>>() {
            self.return_victim(eviction);
        }
    }

    /// The evictions of open claims, which now go into a transaction.
    pub(super) fn submit_evictions(&mut self, number: u64) -> Vec<TaskId> {
        let held = &self.held;
        let open = self.evictions.iter_mut().filter(|eviction| eviction.flight.is_none());
        let submitted = open.filter(|eviction| !held.contains_key(&eviction.of));
        let mark = |eviction: &mut Eviction| {
            eviction.flight = Some(number);
            eviction.victim.id
        };
        submitted.map(mark).collect()
    }

    /// Ends the evictions of a transaction: those that were refused, or not judged, or are in the
    /// view's rows already, are put back.
    pub(super) fn end_evictions(&mut self, txn: &Transaction, commit: Option<&Commit>) {
        if txn.evictions.is_empty() {
            return;
        }
        let flown = |eviction: &Eviction| eviction.flight == Some(txn.id.number);
        let ended: Vec<_> = self.evictions.extract_if(.., |e| flown(e)).collect();
        for eviction in ended {
            let index = txn.evictions.iter().position(|task| *task == eviction.victim.id);
            let taken = |commit: &Commit| {
                let item = index.map(|index| Item::Eviction(index as u32));
                commit.version > self.version
                    && item.is_some_and(|item| commit.conflict_of(item).is_none())
            };
            match (commit.is_some_and(taken), &mut self.job_places) {
                (false, _) => self.return_victim(eviction),
                (true, Some(places)) if eviction.off => places.evicted(eviction.victim.id),
                (true, _) => {}
            }
        }
    }

    /// Puts every victim back before a sync.
    pub(super) fn return_victims(&mut self) {
        let mut evictions = std::mem::take(&mut self.evictions);
        for eviction in &mut evictions {
            self.return_victim(*eviction);
            eviction.off = false;
        }
        self.evictions = evictions;
    }

    /// Takes every victim off again after a sync, if it still runs there.
    pub(super) fn lift_victims(&mut self) {
        let mut evictions = std::mem::take(&mut self.evictions);
        for eviction in &mut evictions {
            eviction.off = self.runs_on(eviction.victim.id, eviction.machine);
            if eviction.off {
                self.count_placed(eviction.machine.row(), eviction.victim, 1);
            }
        }
        // What has left by itself and was not submitted needs no eviction.
        evictions.retain(|eviction| eviction.off || eviction.flight.is_some());
        self.evictions = evictions;
    }
}
