//! Rounds of a scheduler: complete, in two halves, or read-only.

use super::{Observer, Scheduler, Step, Unobserved};
use crate::queue::Nanos;
use omega_cellstate::{CellHandle, HandleError, Wake};

impl Scheduler {
    /// Has a cell wake this scheduler when a round may have something to do. Returns whether that
    /// and [`Step::until`] suffice. They do not if the handle cannot wake schedulers, or if permits
    /// come from other threads.
    pub fn watch(&self, cell: &(impl CellHandle + ?Sized), wake: Wake) -> bool {
        !self.shared && cell.watch(self.view.interest(), wake)
    }

    /// Syncs the view and the queue, and places nothing: diagnoses then refer to the cell's present
    /// state.
    ///
    /// # Errors
    /// If the cell cannot be reached.
    pub fn look(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
    ) -> Result<(), HandleError> {
        self.sync(cell, now, &mut Unobserved)
    }

    /// One round. `now` is the time in nanoseconds since any fixed moment; it must not go back.
    ///
    /// # Errors
    /// If the cell cannot be reached. The scheduler stays whole: step again later.
    pub fn step(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        self.refresh(cell, now, observer)?;
        self.act(cell, now, observer)
    }

    /// First half of [`Scheduler::step`]: syncs the view and the queue. If there is a transaction
    /// with an unknown outcome, it is resent first, and nothing is read until its outcome is known.
    ///
    /// # Errors
    /// If the cell cannot be reached.
    pub fn refresh(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<(), HandleError> {
        if !self.unknown.is_empty() {
            return Ok(());
        }
        self.sync(cell, now, observer)?;
        observer.synced(&self.view, &self.queue);
        if self.profile.delay.is_some() {
            observer.waits(self.waits.figures);
        }
        if let Some(backfill) = &self.profile.backfill {
            observer.backfill(backfill.plans().read().figures);
        }
        Ok(())
    }

    /// Second half of [`Scheduler::step`]: decides on the present view, and commits.
    ///
    /// # Errors
    /// As of [`Scheduler::step`].
    pub fn act(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        match self.unknown.pop_front() {
            Some(flight) => self.ask_again(flight, cell, now, observer),
            None => self.fly(cell, now, observer),
        }
    }
}
