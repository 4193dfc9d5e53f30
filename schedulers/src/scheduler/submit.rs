//! In-flight transactions: decided one after the other on the same view, submitted together, and answered in order.
//!
//! ```text
//!   sync ─▶ decide 1 ─▶ decide 2 ─▶ ... ─▶ submit all ─▶ answer 1 ─▶ answer 2 ─▶ ... ─▶ sync
//! ```
//!
//! If transactions are submitted together, a cell in memory locks once for all of them, and a durable cell writes all
//! of them with one disk sync. If they were submitted one by one, the first would have its own disk sync, and the
//! others would wait for it.
//!
//! When a transaction is decided, the claims of earlier transactions are on the view, so no two transactions claim the
//! same room. All answers are settled before the next sync, whose changes are later than the answers. If a transaction
//! is rejected, its room is free again on the view. Later decisions may have lacked that room, so their jobs are
//! retried at once.
//!
//! If plugins make room, reserve, permit or prepare, there is only one in-flight transaction, because a rejection would
//! invalidate the plugins' results for later transactions.

use super::round_state::{InFlight, Late, Pace};
use super::{Observer, Scheduler, Step};
use crate::queue::Nanos;
use omega_cellstate::{CellHandle, HandleError, SubmitResult};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Commit, Transaction};
use smallvec::{SmallVec, smallvec};

/// In-flight transactions of a step. Usually there is one, which needs no allocation.
type AllInFlight = SmallVec<[InFlight; 1]>;

/// Results of transactions. Usually there is one, which needs no allocation.
type Answers = SmallVec<[Result<Commit, HandleError>; 1]>;

/// Submits the transactions, and waits for the answers.
fn submit(cell: &(impl CellHandle + ?Sized), transactions: &AllInFlight) -> Answers {
    match transactions.as_slice() {
        [only] => smallvec![cell.commit(&only.txn)],
        several => cell.commit_all(&txns(several)).into(),
    }
}

fn txns(transactions: &[InFlight]) -> SmallVec<[&Transaction; 16]> {
    transactions.iter().map(|one| &one.txn).collect()
}

impl Scheduler {
    /// Maximum number of in-flight transactions of a step. The number is 1 if a rejection would invalidate plugins'
    /// results for later transactions.
    pub(super) fn in_flight_max(&self) -> usize {
        let chain = &self.profile.chain;
        let alone = chain.guards() || !chain.post_filter.is_empty();
        if alone { 1 } else { self.settings.commits_in_flight.max(1) }
    }

    /// Decides and submits transactions, and settles their answers. In rounds without a pause, it also syncs if the
    /// claims until the next sync are used up.
    pub(super) fn decide_and_submit(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        pace: Pace,
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        let most = self.together(pace);
        let mut transactions = AllInFlight::new();
        while transactions.len() < most {
            self.round_state.decides_after(transactions.len());
            self.decide(now, observer);
            if self.view.open_claims() == 0 {
                break;
            }
            if transactions.is_empty()
                && let Some(until) = self.hold_back(now)
            {
                self.round_state.decides_after(0);
                return Ok(Step { idle: true, until: Some(until), holds: true, ..Step::default() });
            }
            transactions.push(self.build_transaction());
        }
        self.round_state.decides_after(0);
        if transactions.is_empty() {
            self.round_state.must_sync();
            let idle = self.queue.active_jobs() == 0;
            if idle {
                observer.idle(self.view.version(), &self.queue);
            }
            let until = if idle { self.queue.next_turn() } else { None };
            return Ok(Step { idle, until, ..Step::default() });
        }
        let claims = transactions.iter().map(|one| one.txn.claims.len()).sum();
        if pace == Pace::GoesOn && self.round_state.claims_left() <= claims {
            return self.submit_and_sync(cell, transactions, now, observer);
        }
        let answers = submit(cell, &transactions);
        self.settle_all(transactions.into_iter().zip(answers), now, observer)
    }

    /// Submits the transactions, settles their answers, and then applies the changes that were fetched with them. If an
    /// answer is missing, the changes are dropped, and the next round syncs.
    fn submit_and_sync(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        transactions: AllInFlight,
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        let SubmitResult { commits, fetched } =
            self.view.submit_and_fetch(cell, &txns(&transactions));
        let settled = self.settle_all(transactions.into_iter().zip(commits), now, observer);
        let step = match settled {
            Ok(step) => step,
            Err(error) => {
                fetched.into_iter().for_each(|fetched| self.view.drop_fetched(fetched));
                return Err(error);
            }
        };
        match fetched {
            Ok(fetched) => self.apply_fetched(fetched, now, observer),
            Err(_) => self.round_state.must_sync(),
        }
        Ok(step)
    }

    /// Returns the time until which the open transaction is held back; `None` if it is to be submitted. Called for a
    /// transaction with a claim, when the transaction is full or no job has a turn.
    fn hold_back(&mut self, now: Nanos) -> Option<Nanos> {
        let chain = &self.profile.chain;
        let is_full = self.open_items() >= self.settings.claims_max.clamp(1, TRANSACTION_ITEMS_MAX);
        if self.settings.hold == 0
            || is_full
            || self.queue.active_jobs() > 0
            || chain.guards()
            || !chain.post_filter.is_empty()
        {
            return None;
        }
        self.round_state.hold(now, self.settings.hold)
    }

    /// Drops the transaction that is held back. Its jobs get their turns again, because the queue is rebuilt.
    pub(super) fn drop_held(&mut self) {
        self.view.drop_claims(self.view.open_claims());
        self.decisions.clear();
        self.round_state.end_hold();
    }

    /// Turns the open claims into a transaction.
    fn build_transaction(&mut self) -> InFlight {
        self.round_state.end_hold();
        let mut txn = self.view.take_transaction();
        txn.granularity = self.settings.granularity;
        txn.check = self.settings.check;
        InFlight { txn, decisions: std::mem::take(&mut self.decisions) }
    }

    /// Processes the answers in the order in which the transactions were submitted.
    fn settle_all(
        &mut self,
        transactions: impl Iterator<Item = (InFlight, Result<Commit, HandleError>)>,
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        self.round_state.begin_answers(Late::No);
        let mut all = Step::default();
        let mut failed = None;
        for (one, answer) in transactions {
            match self.answered(one, answer, now, observer) {
                Ok(step) => {
                    all.placed += step.placed;
                    all.conflicts += step.conflicts;
                }
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        if self.round_state.has_returned() || failed.is_some() {
            self.round_state.must_sync();
        } else {
            self.round_state.claimed(all.placed);
        }
        failed.map_or(Ok(all), Err)
    }

    /// Resends a transaction with an unknown outcome.
    pub(super) fn resend(
        &mut self,
        one: InFlight,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        let answer = cell.commit(&one.txn);
        if matches!(
            answer,
            Err(HandleError::Unavailable | HandleError::Full | HandleError::Unknown)
        ) {
            // If the retry did not reach the cell, the outcome of the first attempt is still unknown.
            self.round_state.return_unknown(one);
            return answer.map(|_| Step::default());
        }
        self.round_state.begin_answers(Late::Yes);
        let step = self.answered(one, answer, now, observer);
        self.round_state.end_answers();
        step
    }

    fn answered(
        &mut self,
        one: InFlight,
        answer: Result<Commit, HandleError>,
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        if answer == Err(HandleError::Unknown) {
            self.round_state.add_unknown(one);
            return Err(HandleError::Unknown);
        }
        let InFlight { txn, decisions } = one;
        self.decisions = decisions;
        match answer {
            Ok(commit) => {
                observer.committed(&txn, &commit);
                Ok(self.settle(&txn, &commit, now))
            }
            Err(error) => {
                // Either nothing was placed, or the next sync shows the placed tasks.
                self.view.abandon(&txn);
                self.finder.forget_failures();
                self.follow(&txn, |_| false);
                self.queue.put_back(txn.claims.iter().map(|claim| claim.task));
                self.round_state.note_returned();
                self.end_turns(now, Some(&[]));
                Err(error)
            }
        }
    }
}
