//! The interface between a scheduler and a cell.
//!
//! A scheduler reads deltas and writes transactions. The cell may be in its own process, replicated over the network,
//! or simulated; schedulers cannot distinguish these.

use crate::delta::{Delta, Interest};
use omega_core::{Commit, SchedulerId, Text, Transaction, TransactionError, Version};
use std::sync::Arc;

/// Reason why a cell did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The transaction is invalid; the error says what to change.
    #[error(transparent)]
    Refused(#[from] TransactionError),
    /// The cell cannot be reached now. Nothing was done; try again later.
    #[error("the cell cannot be reached")]
    Unavailable,
    /// The cell's disks are full, or it cannot save its state. Nothing was done; make room, and try again later.
    #[error("the cell takes no commits now, because it cannot save more: make room on its disks")]
    Full,
    /// The connection broke after the transaction was sent, which may or may not have been committed. Send it again
    /// with the same id: it returns the result of the first copy.
    #[error("the outcome of the transaction is unknown; send it again with the same id")]
    Unknown,
    /// This scheduler lacks the permission; the text says which.
    #[error("the cell refuses: {0}")]
    Denied(Text),
    /// The name was rejected, or too many schedulers have registered.
    #[error("the scheduler cannot register: {0}")]
    NotRegistered(omega_core::Rejection),
}

/// Function that wakes a sleeping scheduler. It is called from any thread, and must return at once.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A cell as a scheduler sees it. Handles are cheap to clone or share; each scheduler has its own view.
pub trait CellHandle: Send + Sync {
    /// Registers a scheduler by name, or finds it again after a restart. Returns its id and the number of its next
    /// transaction.
    ///
    /// # Errors
    /// If the cell cannot be reached, or rejects the name.
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError>;

    /// Fills `delta` with the changes since a version, or with the whole state for `Version(0)`. The whole state is
    /// also sent if the buffer's last delta had another lineage. Called before each decision, so its cost must depend
    /// on the number of changes only.
    ///
    /// # Errors
    /// If the cell cannot be reached; then `delta` is unchanged.
    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError>;

    /// Commits a transaction. Accepted items are durable when this returns `Ok`.
    ///
    /// # Errors
    /// If the transaction was not committed, or its outcome is unknown.
    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError>;

    /// Commits several transactions in this order, and returns the results in the same order. Where a commit waits for
    /// disks, all of them cost little more than one. By default they are committed one after the other.
    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        txns.iter().map(|txn| self.commit(txn)).collect()
    }

    /// Calls `wake` whenever the next sync with this interest may have changes; a later call replaces the function.
    /// Returns whether the handle supports this. If not, which is the default, an idle scheduler has to sync every few
    /// milliseconds.
    fn watch(&self, _interest: &Interest, _wake: Wake) -> bool {
        false
    }
}
