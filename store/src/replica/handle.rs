//! A replicated cell as a [`CellHandle`] for schedulers.
//!
//! Reads use this replica's state; commits go to the leader. A commit is answered when this replica
//! has applied it, too, so a scheduler finds its own commits in its view.
//!
//! A leader may fail between accepting a transaction and its reply. Then the transaction is sent
//! again under its id: if it was applied, its first result is returned. It is sent as a retry,
//! which is never rejected by the pre-check, because its first copy may be in flight.

use super::Applied;
use super::ask::{Again, Answer, Ask};
use super::mailbox::{Closed, Mailbox};
use super::reply::{Awaited, Reply};
use super::threads::{Event, Running};
use crate::log::ReplicaId;
use crate::membership::{ChangeError, Membership, MembershipChange};
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Image, Interest};
use omega_core::{
    Command, Commit, Outcome, Rejection, SchedulerId, Text, Transaction, TransactionId, Version,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Pause before a request without a reply is sent again: a tenth of an election.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Number of attempts before the caller gets an error: ten seconds in all, time for many elections.
pub(super) const TRIES: usize = 200;

/// Reason why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nothing was done. Try again later, or find out why no leader can be elected.
    #[error("nothing was done: {0}")]
    Unavailable(Again),
    /// The outcome is unknown. Check the cell before sending the request again.
    #[error("the outcome is unknown: check the cell before sending it again")]
    Unknown,
    /// The membership change is invalid.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The command was rejected, and changed nothing.
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

/// Pairs requests with the destinations of their answers.
fn numbered(asks: Vec<Ask>, awaited: &Arc<Awaited>) -> Vec<(Ask, Reply)> {
    let numbered = asks.into_iter().enumerate();
    numbered.map(|(number, ask)| (ask, awaited.reply(number))).collect()
}

/// A cell at one of its replicas. Clones share it.
#[derive(Clone, Debug)]
pub struct ReplicatedCell {
    mailbox: Arc<Mailbox>,
    applied: Arc<Applied>,
    /// Highest transaction of each scheduler with an unknown outcome: it and earlier ones are sent
    /// as retries.
    doubts: Arc<Mutex<BTreeMap<SchedulerId, u64>>>,
}

impl ReplicatedCell {
    /// The cell at a running replica.
    #[must_use]
    pub fn new(replica: &Running) -> ReplicatedCell {
        ReplicatedCell {
            mailbox: replica.mailbox().clone(),
            applied: replica.applied().clone(),
            doubts: Arc::default(),
        }
    }

    /// Calls `look` with this replica's state, under the lock of the state.
    pub fn read<T>(&self, look: impl FnOnce(&Cell) -> T) -> T {
        look(&self.applied.lock().cell)
    }

    /// This replica's state at one version, copied in pieces while commits continue. `None` if it could not start in
    /// time, because snapshots were captured.
    #[must_use]
    pub fn image(&self, patience: Duration) -> Option<Image> {
        self.applied.image(patience)
    }

    /// Sends a request once, without retries.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> Answer {
        self.ask_all(vec![ask]).pop().expect("each request has an answer")
    }

    /// Sends several requests, each once. The results are in the same order.
    pub(super) fn ask_all(&self, asks: Vec<Ask>) -> Vec<Answer> {
        let count = asks.len();
        let awaited = Awaited::new(count);
        match self.mailbox.send(Event::Ask(numbered(asks, &awaited))) {
            Ok(()) => awaited.wait(),
            Err(Closed) => vec![Answer::Again(Again::Stopped); count],
        }
    }

    /// Applies a command on all replicas.
    ///
    /// # Errors
    /// If it was rejected, or the outcome is unknown.
    pub fn apply(&self, command: Command) -> Result<Outcome, AskError> {
        let answer = self.insist(Ask::Command(command), Doubt::Tell)?;
        let Answer::Outcome(outcome) = answer else { return Err(AskError::Unknown) };
        let outcome = outcome?;
        self.catch_up_with(&outcome);
        Ok(outcome)
    }

    /// Waits until this replica has applied everything that was answered anywhere before this call. Returns a version
    /// that includes it.
    ///
    /// # Errors
    /// If no leader answers.
    pub fn catch_up_with_all(&self) -> Result<Version, AskError> {
        match self.insist(Ask::Read, Doubt::Retry)? {
            Answer::Fresh(version) => Ok(version),
            _ => Err(AskError::Unknown),
        }
    }

    /// Changes the membership. Returns the new one.
    ///
    /// # Errors
    /// If that is not possible, or the outcome is unknown.
    pub fn change_membership(&self, change: &MembershipChange) -> Result<Membership, AskError> {
        match self.insist(Ask::Change(change.clone()), Doubt::Tell)? {
            Answer::Changed(changed) => Ok(changed?),
            _ => Err(AskError::Unknown),
        }
    }

    /// Starts a transfer of leadership to another voter.
    ///
    /// # Errors
    /// If it is not a voter, or no leader answers.
    pub fn transfer(&self, to: ReplicaId) -> Result<(), AskError> {
        match self.insist(Ask::Transfer(to), Doubt::Retry)? {
            Answer::Changed(Err(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Sends several requests, each once, without waiting: `then` is called with the results, in
    /// the same order, on the replica's thread, so it must be quick. If the replica has ended, or
    /// ends before it replies, the result is [`Answer::Unknown`].
    pub fn begin(&self, asks: Vec<Ask>, then: impl FnOnce(Vec<Answer>) + Send + 'static) {
        if asks.is_empty() {
            return then(Vec::new());
        }
        let awaited = Awaited::calling(asks.len(), then);
        // A closed mailbox drops the replies, which gives the result.
        let _ = self.mailbox.send(Event::Ask(numbered(asks, &awaited)));
    }

    /// Waits until this replica's cell is beyond a version, at most for `timeout`. Returns the cell's version.
    #[must_use]
    pub fn wait_past(&self, version: Version, timeout: Duration) -> Version {
        self.applied.wait_for(version.next(), timeout);
        self.read(Cell::version)
    }

    /// Repeats a request until there is an answer.
    fn insist(&self, mut ask: Ask, in_doubt: Doubt) -> Result<Answer, AskError> {
        let mut doubt = false;
        let mut last = Again::Leaderless;
        for _ in 0..TRIES {
            match self.ask(ask.clone()) {
                Answer::Again(again) if again.is_final() => {
                    last = again;
                    break;
                }
                Answer::Again(again) => last = again,
                Answer::Unknown if in_doubt == Doubt::Tell => return Err(AskError::Unknown),
                Answer::Unknown => doubt = true,
                answer => return Ok(answer),
            }
            ask = match ask {
                Ask::Command(command) if doubt => Ask::Retry(command),
                ask => ask,
            };
            std::thread::sleep(PAUSE);
        }
        Err(if doubt { AskError::Unknown } else { AskError::Unavailable(last) })
    }

    /// Waits until this replica has applied an answered change. If it is isolated for long, the
    /// caller's next sync has an older version.
    pub(super) fn catch_up_with(&self, outcome: &Outcome) {
        let known = match outcome {
            Outcome::Commit(Commit { version, .. }) | Outcome::Done(version) => {
                self.applied.wait_for(*version, CATCH_UP);
                return;
            }
            // These outcomes have no version. If the object exists here, the change has been applied; if not, it may
            // not be applied yet, or be removed again, which only the leader knows.
            Outcome::Machine(id) => self.read(|cell| cell.machine(*id).is_some()),
            Outcome::Job(id) => self.read(|cell| cell.job(*id).is_some()),
            _ => true,
        };
        if !known {
            // Without a leader, the caller's next sync has an older version, as described above.
            let _ = self.catch_up_with_all();
        }
    }
}

/// Longest time that a reply is delayed until this replica has applied the change: far longer than a message takes, but
/// short for people.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Reaction to an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// Retry: doing it twice is harmless.
    Retry,
    /// Report it.
    Tell,
}

impl CellHandle for ReplicatedCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        let command = Command::RegisterScheduler { name };
        match self.insist(Ask::Command(command), Doubt::Retry) {
            Ok(Answer::Outcome(Ok(Outcome::Scheduler { id, next_transaction }))) => {
                Ok((id, next_transaction))
            }
            Ok(Answer::Outcome(Err(rejection))) => Err(HandleError::NotRegistered(rejection)),
            Ok(_) | Err(_) => Err(HandleError::Unavailable),
        }
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.applied.lock().cell.delta_since(since, interest, delta);
        Ok(())
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        match self.insist(self.ask_for(txn), Doubt::Retry) {
            Ok(Answer::Outcome(outcome)) => self.committed(outcome),
            Err(AskError::Unavailable(Again::Full | Again::NoSnapshot)) => Err(HandleError::Full),
            Err(AskError::Unavailable(_)) => Err(HandleError::Unavailable),
            _ => {
                self.note_doubt(txn);
                Err(HandleError::Unknown)
            }
        }
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        let answers = self.ask_all(txns.iter().map(|txn| self.ask_for(txn)).collect());
        let done = |(txn, answer): (&&Transaction, Answer)| match answer {
            Answer::Outcome(outcome) => self.committed(outcome),
            // Nothing was done, so the request is repeated as a new one.
            Answer::Again(_) => self.commit(txn),
            _ => {
                self.note_doubt(txn);
                self.commit(txn)
            }
        };
        txns.iter().zip(answers).map(done).collect()
    }
}

/// Commits.
impl ReplicatedCell {
    /// The request for a commit: a first attempt or a retry.
    fn ask_for(&self, txn: &Transaction) -> Ask {
        let command = Command::Commit(txn.clone());
        if self.is_in_doubt(txn) { Ask::Retry(command) } else { Ask::Command(command) }
    }

    /// Whether this transaction, or a later one of its scheduler, was sent with an unknown outcome.
    fn is_in_doubt(&self, txn: &Transaction) -> bool {
        let TransactionId { scheduler, number } = txn.id;
        self.doubts.lock().get(&scheduler).is_some_and(|highest| number <= *highest)
    }

    fn note_doubt(&self, txn: &Transaction) {
        let mut doubts = self.doubts.lock();
        let highest = doubts.entry(txn.id.scheduler).or_default();
        *highest = txn.id.number.max(*highest);
    }

    /// The result of a transaction, once this replica has applied it.
    fn committed(&self, outcome: Result<Outcome, Rejection>) -> Result<Commit, HandleError> {
        match outcome {
            Ok(outcome) => {
                self.catch_up_with(&outcome);
                match outcome {
                    Outcome::Commit(commit) => Ok(commit),
                    _ => unreachable!("a transaction is answered by a commit"),
                }
            }
            Err(Rejection::Transaction(error)) => Err(error.into()),
            Err(_) => Err(HandleError::Unknown),
        }
    }
}
