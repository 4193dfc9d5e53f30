//! Rounds of a scheduler: complete rounds, rounds in two halves, and rounds that place nothing.

use super::round_state::Pace;
use super::{Observer, Scheduler, Step, Unobserved};
use crate::queue::Nanos;
use omega_cellstate::{CellHandle, HandleError, Wake};

/// Number of small transactions that are submitted together in rounds without a pause, so that they take the cell's
/// lock once. The number is small because no claim is committed before the last of these transactions is decided.
const SMALL_TOGETHER: usize = 16;

impl Scheduler {
    /// Registers `wake`, which the cell calls when a round may have something to do. Returns true if the caller needs
    /// to call `step` only after a call of `wake`, and at [`Step::until`]. Returns false if the handle cannot wake
    /// schedulers, or if permits come from other threads.
    pub fn watch(&self, cell: &(impl CellHandle + ?Sized), wake: Wake) -> bool {
        !self.permits.is_shared() && cell.watch(self.view.interest(), wake)
    }

    /// Syncs the view and the queue, and places nothing, so that diagnoses refer to the cell's present state. While the
    /// outcome of a transaction is unknown, does nothing, like [`Scheduler::refresh`].
    ///
    /// # Errors
    /// If the cell cannot be reached.
    pub fn look(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
    ) -> Result<(), HandleError> {
        if self.round_state.unknown().is_some() {
            return Ok(());
        }
        self.sync(cell, now, &mut Unobserved)
    }

    /// Runs one round. `now` is the time in nanoseconds since any fixed moment, and must not decrease.
    ///
    /// # Errors
    /// If the cell cannot be reached. The scheduler stays consistent: step again later.
    pub fn step(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        self.refresh(cell, now, observer)?;
        self.act(cell, now, observer)
    }

    /// Runs one of several rounds without a pause between them. In contrast to [`Scheduler::step`], it submits up to
    /// 16 small transactions together, and syncs the view only after 32 to 128 claims (more in a larger cell), a
    /// conflict, or a round without work. So a scheduler with small transactions takes the cell's lock seldom, and
    /// reads several changes at once. When the claims are used up, it commits and syncs in one call.
    ///
    /// Each round is a [`Scheduler::step`] if a plugin makes room, reserves, permits or prepares, or if the profile
    /// has fair shares, delay scheduling or backfill. In these cases, decisions depend on the latest claims of other
    /// schedulers.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::step`].
    pub fn go_on(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        if self.reads_each_change() {
            return self.step(cell, now, observer);
        }
        if self.round_state.claims_left() > 0 {
            let step = self.act_on(Pace::GoesOn, cell, now, observer)?;
            if !step.idle {
                return Ok(step);
            }
        }
        self.refresh(cell, now, observer)?;
        self.act_on(Pace::GoesOn, cell, now, observer)
    }

    /// Maximum number of transactions to submit together. In rounds without a pause, small transactions together have
    /// about as many claims as are left until the next sync.
    pub(super) fn together(&self, pace: Pace) -> usize {
        let claims = self.round_state.claims_left();
        let small = claims.div_ceil(self.settings.claims_max.max(1)).min(SMALL_TOGETHER);
        match pace {
            Pace::GoesOn => small.max(self.in_flight_max()),
            Pace::Steps => self.in_flight_max(),
        }
    }

    /// Whether decisions depend on the latest claims of other schedulers, so that each round syncs.
    fn reads_each_change(&mut self) -> bool {
        let chain = &self.profile.chain;
        chain.guards()
            || !chain.post_filter.is_empty()
            || self.permits.is_shared()
            || self.profile.backfill.is_some()
            || self.profile.delay.is_some()
            || self.queue.shares().is_some()
    }

    /// First half of [`Scheduler::step`]: syncs the view and the queue. While the outcome of a transaction is unknown,
    /// does nothing, because the second half must resend the transaction first.
    ///
    /// # Errors
    /// If the cell cannot be reached.
    pub fn refresh(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<(), HandleError> {
        if self.round_state.unknown().is_some() {
            return Ok(());
        }
        self.sync(cell, now, observer)?;
        if self.profile.delay.is_some() {
            observer.waits(self.waits.figures);
        }
        if let Some(backfill) = &self.profile.backfill {
            observer.backfill(backfill.plans().figures);
        }
        Ok(())
    }

    /// Second half of [`Scheduler::step`]: decides on the present view, and commits.
    ///
    /// # Errors
    /// As [`Scheduler::step`].
    pub fn act(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        self.act_on(Pace::Steps, cell, now, observer)
    }

    /// Resends the first transaction with an unknown outcome, or decides and commits transactions.
    fn act_on(
        &mut self,
        pace: Pace,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        match self.round_state.take_unknown() {
            Some(one) => self.resend(one, cell, now, observer),
            None => self.decide_and_submit(cell, pace, now, observer),
        }
    }
}
