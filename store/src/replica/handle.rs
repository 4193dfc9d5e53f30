//! A replicated cell as a [`CellHandle`] for schedulers.
//!
//! Reads use this replica's state, and commits go to the leader. A commit is answered when this replica has applied it,
//! too, so that a scheduler finds its own commits in its view.
//!
//! A leader may fail after it has accepted a transaction and before it replies. Then the transaction is sent again with
//! an unchanged id: if it was applied, its first result is returned. It is sent as a retry, which the pre-check never
//! rejects, because the first copy may still be in flight.

use super::Applied;
use super::event::Event;
use super::mailbox::{Closed, Mailbox};
use super::pending_replies::{PendingReplies, ReplySender};
use super::request::{Reply, Request, RetryReason};
use super::threads::Running;
use crate::log::ReplicaId;
use crate::membership::{ChangeError, Membership, MembershipChange};
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, SnapshotState};
use omega_core::{
    Command, Commit, Outcome, Rejection, SchedulerId, Text, Transaction, TransactionId, Version,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Pause before a request without a reply is sent again: a tenth of the shortest election timeout.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Number of attempts before the caller gets an error. They take ten seconds in all, enough for many elections.
pub(super) const TRIES: usize = 200;

/// Reason why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nothing was done, for this reason. Try again later, or find out why no leader can be elected.
    #[error("nothing was done: {0}")]
    Unavailable(RetryReason),
    /// The outcome is unknown. Check the cell before sending the request again.
    #[error("the outcome is unknown: check the cell before sending the request again")]
    Unknown,
    /// The membership change is invalid.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The command was rejected, and changed nothing.
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

/// Pairs each request with the destination of its reply.
fn numbered(requests: Vec<Request>, pending: &Arc<PendingReplies>) -> Vec<(Request, ReplySender)> {
    let numbered = requests.into_iter().enumerate();
    numbered.map(|(number, request)| (request, pending.sender(number))).collect()
}

/// A cell, at one of its replicas. Clones share the access to it.
#[derive(Clone, Debug)]
pub struct ReplicatedCell {
    mailbox: Arc<Mailbox>,
    applied: Arc<Applied>,
    /// Number of each scheduler's last transaction with an unknown outcome. That transaction and earlier ones are sent
    /// as retries.
    unknown_up_to: Arc<Mutex<BTreeMap<SchedulerId, u64>>>,
}

impl ReplicatedCell {
    /// The cell at a running replica.
    #[must_use]
    pub fn new(replica: &Running) -> ReplicatedCell {
        ReplicatedCell {
            mailbox: replica.mailbox().clone(),
            applied: replica.applied().clone(),
            unknown_up_to: Arc::default(),
        }
    }

    /// Calls `look` with this replica's state, which is locked during the call.
    pub fn read<T>(&self, look: impl FnOnce(&Cell) -> T) -> T {
        look(&self.applied.lock().cell)
    }

    /// This replica's state at one version, copied in pieces while commits continue. `None` if copying could not begin
    /// within `patience`, because snapshots were being captured.
    #[must_use]
    pub fn snapshot_state(&self, patience: Duration) -> Option<SnapshotState> {
        self.applied.snapshot_state(patience)
    }

    /// Sends a request once.
    #[must_use]
    pub fn request(&self, request: Request) -> Reply {
        self.request_all(vec![request]).pop().expect("each request has an answer")
    }

    /// Sends several requests, each once. The replies are in the order of the requests.
    pub(super) fn request_all(&self, requests: Vec<Request>) -> Vec<Reply> {
        let count = requests.len();
        let pending = PendingReplies::new(count);
        match self.mailbox.send(Event::Request(numbered(requests, &pending))) {
            Ok(()) => pending.wait(),
            Err(Closed) => vec![Reply::Retry(RetryReason::Stopped); count],
        }
    }

    /// Applies a command on all replicas.
    ///
    /// # Errors
    /// The command was rejected, or its outcome is unknown.
    pub fn apply(&self, command: Command) -> Result<Outcome, RequestError> {
        let reply = self.retry_until_done(Request::Command(command), OnUnknown::Report)?;
        let Reply::Outcome(outcome) = reply else { return Err(RequestError::Unknown) };
        let outcome = outcome?;
        self.catch_up_with(&outcome);
        Ok(outcome)
    }

    /// Waits until this replica has applied everything that any replica had acknowledged before this call. Returns a
    /// version of the cell that includes all of that.
    ///
    /// # Errors
    /// No leader replies.
    pub fn catch_up_with_all(&self) -> Result<Version, RequestError> {
        match self.retry_until_done(Request::Read, OnUnknown::Retry)? {
            Reply::Fresh(version) => Ok(version),
            _ => Err(RequestError::Unknown),
        }
    }

    /// Changes the membership. Returns the new membership.
    ///
    /// # Errors
    /// The change is not possible, or its outcome is unknown.
    pub fn change_membership(&self, change: &MembershipChange) -> Result<Membership, RequestError> {
        match self.retry_until_done(Request::Change(change.clone()), OnUnknown::Report)? {
            Reply::Changed(changed) => Ok(changed?),
            _ => Err(RequestError::Unknown),
        }
    }

    /// Starts a transfer of leadership to another voter.
    ///
    /// # Errors
    /// The target is not a voter, or no leader replies.
    pub fn transfer(&self, to: ReplicaId) -> Result<(), RequestError> {
        match self.retry_until_done(Request::Transfer(to), OnUnknown::Retry)? {
            Reply::Changed(Err(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Sends several requests, each once, without waiting. `then` is called with the replies, in the order of the
    /// requests. `then` runs on the replica's thread, so it must be quick. If the replica has ended, or ends before a
    /// reply, that reply is [`Reply::Unknown`].
    pub fn begin(&self, requests: Vec<Request>, then: impl FnOnce(Vec<Reply>) + Send + 'static) {
        if requests.is_empty() {
            return then(Vec::new());
        }
        let pending = PendingReplies::calling(requests.len(), then);
        // If the mailbox is closed, the requests are dropped, and the replies become `Unknown`.
        let _ = self.mailbox.send(Event::Request(numbered(requests, &pending)));
    }

    /// Waits until this replica's cell is beyond a version, but no longer than `timeout`. Returns the cell's version.
    #[must_use]
    pub fn wait_past(&self, version: Version, timeout: Duration) -> Version {
        self.applied.wait_for(version.next(), timeout);
        self.read(Cell::version)
    }

    /// Sends a request repeatedly until it has a result.
    fn retry_until_done(
        &self,
        mut request: Request,
        on_unknown: OnUnknown,
    ) -> Result<Reply, RequestError> {
        let mut is_unknown = false;
        let mut last = RetryReason::Leaderless;
        for _ in 0..TRIES {
            match self.request(request.clone()) {
                Reply::Retry(again) if again.is_final() => {
                    last = again;
                    break;
                }
                Reply::Retry(again) => last = again,
                Reply::Unknown if on_unknown == OnUnknown::Report => {
                    return Err(RequestError::Unknown);
                }
                Reply::Unknown => is_unknown = true,
                reply => return Ok(reply),
            }
            request = match request {
                Request::Command(command) if is_unknown => Request::Retry(command),
                request => request,
            };
            std::thread::sleep(PAUSE);
        }
        Err(if is_unknown { RequestError::Unknown } else { RequestError::Unavailable(last) })
    }

    /// Waits until this replica has applied a change whose outcome is known. If the replica is isolated, the wait ends
    /// after a while, and the caller's next sync may lack the change.
    pub(super) fn catch_up_with(&self, outcome: &Outcome) {
        let known = match outcome {
            Outcome::Commit(Commit { version, .. }) | Outcome::Done(version) => {
                self.applied.wait_for(*version, CATCH_UP);
                return;
            }
            // These outcomes have no version. If the object exists on this replica, the change has been applied. If
            // not, either the change has not been applied yet, or the object was removed again. Only the leader can
            // distinguish the two cases.
            Outcome::Machine(id) => self.read(|cell| cell.machine(*id).is_some()),
            Outcome::Job(id) => self.read(|cell| cell.job(*id).is_some()),
            _ => true,
        };
        if !known {
            // If there is no leader, the caller's next sync may lack the change, as on an isolated replica.
            let _ = self.catch_up_with_all();
        }
    }
}

/// Longest time that a reply is delayed until this replica has applied the change. It is far longer than the delay of a
/// message, but short for a person.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Reaction to an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnUnknown {
    /// The request is sent again, because executing it twice is harmless.
    Retry,
    /// The unknown outcome is reported to the caller.
    Report,
}

impl CellHandle for ReplicatedCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        let command = Command::RegisterScheduler { name };
        match self.retry_until_done(Request::Command(command), OnUnknown::Retry) {
            Ok(Reply::Outcome(Ok(Outcome::Scheduler { id, next_transaction }))) => {
                Ok((id, next_transaction))
            }
            Ok(Reply::Outcome(Err(rejection))) => Err(HandleError::NotRegistered(rejection)),
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
        match self.retry_until_done(self.request_for(txn), OnUnknown::Retry) {
            Ok(Reply::Outcome(outcome)) => self.committed(outcome),
            // If an earlier attempt had an unknown outcome, the call may have had an effect.
            Err(RequestError::Unavailable(reason)) if !self.is_retry(txn) => Err(match reason {
                RetryReason::Full | RetryReason::NoSnapshot => HandleError::Full,
                _ => HandleError::Unavailable,
            }),
            _ => {
                self.note_unknown(txn);
                Err(HandleError::Unknown)
            }
        }
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        let replies = self.request_all(txns.iter().map(|txn| self.request_for(txn)).collect());
        let mut failed: Option<HandleError> = None;
        let done = |(txn, reply): (&&Transaction, Reply)| {
            match reply {
                Reply::Outcome(outcome) => return self.committed(outcome),
                // Nothing was done, so the transaction is sent as a new request.
                Reply::Retry(_) => {}
                _ => self.note_unknown(txn),
            }
            // After one transaction has failed at all attempts, the others are not sent again, because the caller
            // would wait for each.
            if let Some(error) = &failed {
                return Err(match error {
                    _ if self.is_retry(txn) => HandleError::Unknown,
                    // This transaction was not applied, because its reply said so.
                    HandleError::Unknown => HandleError::Unavailable,
                    error => error.clone(),
                });
            }
            let result = self.commit(txn);
            let is_outage = |error: &HandleError| {
                matches!(error, HandleError::Unavailable | HandleError::Full | HandleError::Unknown)
            };
            if let Some(error) = result.as_ref().err().filter(|error| is_outage(error)) {
                failed = Some(error.clone());
            }
            result
        };
        txns.iter().zip(replies).map(done).collect()
    }
}

/// Functions for commits.
impl ReplicatedCell {
    /// The request for a commit, as a first attempt or a retry.
    fn request_for(&self, txn: &Transaction) -> Request {
        let command = Command::Commit(txn.clone());
        if self.is_retry(txn) { Request::Retry(command) } else { Request::Command(command) }
    }

    /// Whether this transaction, or a later one of its scheduler, was sent before with an unknown outcome.
    fn is_retry(&self, txn: &Transaction) -> bool {
        let TransactionId { scheduler, number } = txn.id;
        self.unknown_up_to.lock().get(&scheduler).is_some_and(|highest| number <= *highest)
    }

    fn note_unknown(&self, txn: &Transaction) {
        let mut unknown_up_to = self.unknown_up_to.lock();
        let highest = unknown_up_to.entry(txn.id.scheduler).or_default();
        *highest = txn.id.number.max(*highest);
    }

    /// Returns the result of a transaction after this replica has applied it.
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
