//! Evictions and throttling in a view. Both make room for a claim: an eviction frees the whole allocation of a task,
//! and throttling frees the part beyond the task's request.
//!
//! The amounts that a task gives up for a claim are added to the view's free amounts when the claim is made. They are
//! subtracted again if the claim is dropped, or if the eviction or resize is rejected. If the eviction or resize is
//! accepted, the amounts stay added until the sync that reaches the commit's version. Until then [`View::tasks_on`]
//! still lists the task, and its room is for this claim only.

use crate::state::allocation_overrides::amounts_of;
use crate::view::own::claims::Wish;
use crate::view::own::eviction_list::{Eviction, Gives, Victim};
use crate::view::{GroupRef, PlacedTask, View};
use omega_core::{Commit, MachineId, Precedence, Reason, Resize, TaskId, Transaction, Version};

impl View {
    /// Makes a claim like [`View::claim`] in the room that these tasks will free by their eviction. The evictions go
    /// into the transaction of the claim. Until that transaction has a result, the view does not count the evicted
    /// tasks. The view must keep placements.
    ///
    /// # Errors
    /// The placement check rejects the claim even after the evictions. The view is unchanged then.
    pub fn claim_evicting(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
        victims: &[PlacedTask],
    ) -> Result<(), Reason> {
        let wish = Wish { task, machine, group };
        let everything = |task: &PlacedTask| Victim { task: *task, gives: Gives::Everything };
        self.claim_given(wish, victims.iter().map(everything))
    }

    /// Makes a claim like [`View::claim_evicting`] in the room that these tasks will free when they are throttled to
    /// their requests ([`View::surplus`]).
    ///
    /// # Errors
    /// The placement check rejects the claim even after the throttling. The view is unchanged then.
    pub fn claim_throttling(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
        throttled: &[PlacedTask],
    ) -> Result<(), Reason> {
        let wish = Wish { task, machine, group };
        let surplus = |task: &PlacedTask| Victim { task: *task, gives: Gives::Surplus };
        self.claim_given(wish, throttled.iter().map(surplus))
    }

    fn claim_given(
        &mut self,
        wish: Wish,
        victims: impl Iterator<Item = Victim>,
    ) -> Result<(), Reason> {
        let Wish { task, machine, group } = wish;
        let first = self.evictions.len();
        for victim in victims {
            let id = victim.task.id;
            if self.runs_on(id, machine) && !self.is_evicted(id) {
                self.count_given(machine.row(), victim, 1);
                self.evictions.push(Eviction::new(task, machine, victim));
            }
        }
        let claimed = self.claim(task, machine, group);
        if claimed.is_err() {
            for eviction in self.evictions.split_off(first) {
                self.return_victim(eviction);
            }
        }
        claimed
    }

    /// Returns a bound: a task of this precedence may evict tasks whose precedence is below it. The bound is the lowest
    /// precedence of the task's band, or `precedence` if it is in no band.
    #[must_use]
    pub fn preemptible_below(&self, precedence: Precedence) -> Precedence {
        self.evictions.preemptible_below(precedence)
    }

    /// The number of evictions that the cell's limit still allows; `None` if there is no limit. Evictions for own
    /// claims are subtracted until a sync includes them.
    #[must_use]
    pub fn evictions_left(&self) -> Option<usize> {
        self.evictions.left()
    }

    /// Whether a claim of this view evicts or throttles this task, and no sync has included the change yet.
    #[must_use]
    pub fn is_evicted(&self, task: TaskId) -> bool {
        self.evictions.contains(task)
    }

    /// The tasks on the machine in a row that own claims evict or throttle, until a sync includes the change.
    /// [`View::tasks_on`] still lists these tasks, but the view's amounts and counters no longer include them.
    pub fn evicted_from(&self, row: usize) -> impl Iterator<Item = TaskId> {
        self.evictions.off_row(row)
    }

    /// All tasks that own claims evict and that were placed at the last sync.
    pub fn evicted(&self) -> impl Iterator<Item = &PlacedTask> {
        self.evictions.removed()
    }

    /// The number of evictions and resizes that wait for [`View::take_transaction`], including those of deferred claims.
    #[must_use]
    pub fn open_evictions(&self) -> usize {
        self.evictions.open()
    }

    fn runs_on(&self, task: TaskId, machine: MachineId) -> bool {
        let tasks = self.tasks_on(machine.row());
        self.rows.has(machine) && tasks.iter().any(|placed| placed.id == task)
    }

    fn return_victim(&mut self, eviction: Eviction) {
        if eviction.off {
            self.count_given(eviction.machine.row(), eviction.victim, -1);
        }
    }

    /// If `sign` is 1, adds to a row's free amounts the part that a task gives up; if it is -1, subtracts the part
    /// again.
    fn count_given(&mut self, row: usize, victim: Victim, sign: i64) {
        match victim.gives {
            Gives::Everything => self.count_placed(row, victim.task, sign),
            Gives::Surplus => self.count_surplus(row, victim.task, sign),
        }
    }

    /// Puts back the tasks that were to make room for the dropped claim of the task `of`.
    pub(in crate::view) fn drop_evictions(&mut self, of: TaskId) {
        for eviction in self.evictions.remove_of(of) {
            self.return_victim(eviction);
        }
    }

    /// Moves the evictions and resizes of open claims into a transaction.
    pub(in crate::view) fn submit_evictions(&mut self, number: u64) -> (Vec<TaskId>, Vec<Resize>) {
        let claims = &self.claims;
        let submitted = self.evictions.submit(number, |task| claims.is_deferred(task));
        let of = |wanted| submitted.iter().filter(move |victim| victim.gives == wanted);
        let resize = |task: &PlacedTask| {
            let to = amounts_of(&self.throttled(task)?);
            Some(Resize { task: task.id, to })
        };
        let resizes = of(Gives::Surplus).filter_map(|victim| resize(&victim.task)).collect();
        (of(Gives::Everything).map(|victim| victim.task.id).collect(), resizes)
    }

    /// Ends the evictions and resizes of a transaction that has a result. The view's own change for a task is undone if
    /// its item was rejected or not committed, or if the view's rows already include the item. Otherwise the change
    /// stays until a sync brings the row.
    pub(in crate::view) fn end_evictions(&mut self, txn: &Transaction, commit: Option<&Commit>) {
        for eviction in self.evictions.end(txn, commit, self.session.version()) {
            self.return_victim(eviction);
        }
    }

    /// Forgets the evictions and resizes that the rows of a version include.
    pub(in crate::view) fn forget_accepted_evictions(&mut self, version: Version) {
        for task in self.evictions.forget_accepted(version) {
            self.indexes.evicted(task);
        }
    }

    /// Counts every evicted or throttled task in full again. Called before a sync.
    pub(in crate::view) fn return_victims(&mut self) {
        let mut evictions = self.evictions.take();
        for eviction in &mut evictions {
            self.return_victim(*eviction);
            eviction.off = false;
        }
        self.evictions.put_back(evictions);
    }

    /// Stops counting the parts that evicted or throttled tasks give up, if the tasks are still on their machines.
    /// Called after a sync.
    pub(in crate::view) fn lift_victims(&mut self) {
        let mut evictions = self.evictions.take();
        for eviction in &mut evictions {
            eviction.off = self.runs_on(eviction.victim.task.id, eviction.machine);
            if eviction.off {
                self.count_given(eviction.machine.row(), eviction.victim, 1);
            }
        }
        self.evictions.put_back(evictions);
        self.evictions.forget_needless();
    }
}
