//! State of a scheduler's rounds: transactions with unknown outcomes, and values that one round passes to the next.

use super::decided::Decisions;
use crate::queue::Nanos;
use omega_core::Transaction;
use std::collections::VecDeque;

/// Number of claims after which a scheduler syncs, in rounds without a pause: see [`Scheduler::go_on`]. It is small
/// compared with the number of rows in a cell, so claims of several schedulers seldom conflict.
///
/// [`Scheduler::go_on`]: super::Scheduler::go_on
fn claims_per_sync(rows: usize) -> usize {
    (rows / 64).clamp(32, 128)
}

/// Kind of a round, by the way in which it syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Rounds follow each other without a pause: see [`Scheduler::go_on`]. The round that uses up the claims until the
    /// next sync commits and syncs in one call.
    ///
    /// [`Scheduler::go_on`]: super::Scheduler::go_on
    GoesOn,
    /// The round itself does not sync, because [`Scheduler::refresh`] has done so.
    ///
    /// [`Scheduler::refresh`]: super::Scheduler::refresh
    Steps,
}

/// A transaction, and the parts of jobs in it.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) txn: Transaction,
    pub(super) decisions: Decisions,
}

/// State of a scheduler's rounds; see the head of the file.
#[derive(Debug, Default)]
pub(super) struct RoundState {
    /// Transactions with unknown outcomes, in the order in which they are resent.
    unknown: VecDeque<InFlight>,
    /// Number of transactions of this step that wait for their answers.
    in_flight: usize,
    /// Whether claims of this step were rejected. Later decisions of the step could not use the room that these
    /// rejections freed.
    returned: bool,
    /// Whether the result being settled arrived after the results of later transactions.
    late: bool,
    /// Number of claims left until the next sync, in rounds without a pause.
    claims_left: usize,
    /// Time until which the open transaction is held back, if any.
    held_until: Option<Nanos>,
}

impl RoundState {
    /// The first transaction with unknown outcome.
    pub(super) fn unknown(&self) -> Option<&InFlight> {
        self.unknown.front()
    }

    /// Removes the first transaction with unknown outcome, to be resent.
    pub(super) fn take_unknown(&mut self) -> Option<InFlight> {
        self.unknown.pop_front()
    }

    /// Adds a transaction whose outcome is unknown.
    pub(super) fn add_unknown(&mut self, one: InFlight) {
        self.unknown.push_back(one);
    }

    /// Puts back a transaction whose outcome is still unknown after it was resent.
    pub(super) fn return_unknown(&mut self, one: InFlight) {
        self.unknown.push_front(one);
    }

    /// Records that the next transaction is decided while `in_flight` earlier ones wait for their answers.
    pub(super) fn decides_after(&mut self, in_flight: usize) {
        self.in_flight = in_flight;
    }

    /// Whether transactions of this step wait for their answers.
    pub(super) fn has_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// Begins to settle the answers of this step's transactions, or of one that was resent.
    pub(super) fn begin_answers(&mut self, late: Late) {
        self.returned = false;
        self.late = late == Late::Yes;
    }

    /// Ends the settling of answers.
    pub(super) fn end_answers(&mut self) {
        self.late = false;
    }

    /// Whether the result being settled arrived after the results of later transactions. Then the jobs that lacked the
    /// room of this transaction have already ended their turns.
    pub(super) fn is_late(&self) -> bool {
        self.late
    }

    /// Records that claims were rejected.
    pub(super) fn note_returned(&mut self) {
        self.returned = true;
    }

    /// Whether claims of this step were rejected.
    pub(super) fn has_returned(&self) -> bool {
        self.returned
    }

    /// Restarts the count of claims after a sync.
    pub(super) fn synced(&mut self, rows: usize) {
        self.claims_left = claims_per_sync(rows);
    }

    /// Requires a sync at the start of the next round.
    pub(super) fn must_sync(&mut self) {
        self.claims_left = 0;
    }

    /// Counts claims since the last sync.
    pub(super) fn claimed(&mut self, claims: usize) {
        self.claims_left = self.claims_left.saturating_sub(claims);
    }

    /// Number of claims until the next sync, in rounds without a pause.
    pub(super) fn claims_left(&self) -> usize {
        self.claims_left
    }

    /// Holds the open transaction back for this long from its first claim. Returns the end of this time, or `None` once
    /// the end is reached.
    pub(super) fn hold(&mut self, now: Nanos, hold: Nanos) -> Option<Nanos> {
        let until = *self.held_until.get_or_insert(now.saturating_add(hold));
        (now < until).then_some(until)
    }

    /// Whether the open transaction is held back.
    pub(super) fn is_holding(&self) -> bool {
        self.held_until.is_some()
    }

    /// Ends the hold, because the open transaction was submitted or dropped.
    pub(super) fn end_hold(&mut self) {
        self.held_until = None;
    }
}

/// Whether an answer arrived after those of later transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    Yes,
    No,
}
