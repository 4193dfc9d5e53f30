//! The interface between a scheduler and a cell.
//!
//! A scheduler reads deltas and writes transactions. The cell may be in the scheduler's process, replicated over the
//! network, or simulated. The interface is the same in each case.

use crate::delta::{Delta, Interest};
use omega_core::{Commit, SchedulerId, Text, Transaction, TransactionError, Version};
use std::sync::Arc;

/// Reason for which a call to a cell failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The transaction is invalid, as the error explains.
    #[error(transparent)]
    Refused(#[from] TransactionError),
    /// The cell cannot be reached now. The call had no effect; try again later.
    #[error("the cell cannot be reached: try again later")]
    Unavailable,
    /// The cell's disks are full, or it cannot save its state. The call had no effect. Make space on the disks, and try
    /// again later.
    #[error("the cell accepts no commits now, because it cannot save more: make room on its disks")]
    Full,
    /// The connection broke after the transaction was sent, so the transaction may have been committed or not. Send it
    /// again with an unchanged id: if the first copy was committed, its result is returned.
    #[error("the outcome of the transaction is unknown: send it again with the same id")]
    Unknown,
    /// The scheduler lacks a permission, or another process owns its name, as the text explains.
    #[error("the cell rejected the request: {0}")]
    Denied(Text),
    /// The name was rejected, or too many schedulers have registered.
    #[error("the scheduler cannot register: {0}")]
    NotRegistered(omega_core::Rejection),
}

/// Function that wakes a sleeping scheduler. Any thread may call it, and it must return at once.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Results of [`CellHandle::commit_and_sync`].
#[derive(Clone, Debug)]
pub struct CommitsAndSync {
    /// Results of the transactions, in order.
    pub commits: Vec<Result<Commit, HandleError>>,
    /// Whether the delta was filled, after the commits.
    pub synced: Result<(), HandleError>,
}

/// A scheduler's access to a cell. Handles are cheap to clone or share; each scheduler has its own view.
pub trait CellHandle: Send + Sync {
    /// Registers a scheduler by name. If the name is registered already, as after a restart, the scheduler keeps its
    /// id. Returns the id and the number of the scheduler's next transaction.
    ///
    /// # Errors
    /// The cell cannot be reached, or rejects the name.
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError>;

    /// Fills `delta` with the changes since a version, or with the whole state for `Version(0)`. The whole state is
    /// also sent if the last delta in `delta` had another lineage. Schedulers sync before each decision, so the cost
    /// must depend only on the number of changes.
    ///
    /// # Errors
    /// The cell cannot be reached. `delta` is unchanged then.
    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError>;

    /// Commits a transaction. Accepted items are durable when this returns `Ok`.
    ///
    /// # Errors
    /// The transaction was not committed, or its outcome is unknown.
    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError>;

    /// Commits several transactions in the given order, and returns their results in that order.
    ///
    /// If each commit must be written to disks, one call with several transactions costs little more than one commit.
    /// The default implementation commits them one after the other.
    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        txns.iter().map(|txn| self.commit(txn)).collect()
    }

    /// Commits transactions as [`CellHandle::commit_all`] does, and then syncs as [`CellHandle::sync`] does.
    ///
    /// A cell in memory does both under one lock. The default implementation makes two calls.
    fn commit_and_sync(
        &self,
        txns: &[&Transaction],
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> CommitsAndSync {
        let commits = self.commit_all(txns);
        let synced = self.sync(since, interest, delta);
        CommitsAndSync { commits, synced }
    }

    /// Adds a function that is called whenever the next sync with this interest may have changes. A handle may replace
    /// the oldest of more than 64 functions.
    ///
    /// Returns whether the handle calls such a function. The default implementation returns `false`. In that case an
    /// idle scheduler must sync every few milliseconds.
    fn watch(&self, _interest: &Interest, _wake: Wake) -> bool {
        false
    }
}

/// A handle whose commits are made by a function. All other calls go to the cell.
///
/// The function gets the cell and the transactions, and returns a result for each, in order.
#[derive(Clone, Copy, Debug)]
pub struct CommitHook<'a, C: ?Sized, F> {
    cell: &'a C,
    commit: F,
}

impl<'a, C, F> CommitHook<'a, C, F>
where
    C: CellHandle + ?Sized,
    F: Fn(&C, &[&Transaction]) -> Vec<Result<Commit, HandleError>> + Send + Sync,
{
    /// Creates a handle of a cell with this function for commits.
    pub fn new(cell: &'a C, commit: F) -> CommitHook<'a, C, F> {
        CommitHook { cell, commit }
    }
}

impl<C, F> CellHandle for CommitHook<'_, C, F>
where
    C: CellHandle + ?Sized,
    F: Fn(&C, &[&Transaction]) -> Vec<Result<Commit, HandleError>> + Send + Sync,
{
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.cell.sync(since, interest, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.commit_all(&[txn]).pop().expect("a transaction has a result")
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        (self.commit)(self.cell, txns)
    }

    fn watch(&self, interest: &Interest, wake: Wake) -> bool {
        self.cell.watch(interest, wake)
    }
}
