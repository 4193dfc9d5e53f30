//! The one door between a scheduler and a cell.
//!
//! A scheduler reads by delta and writes by transaction, and cannot tell whether the cell is in
//! its own process, replicated over the network, or simulated.

use crate::delta::{Delta, Interest};
use omega_core::{Commit, SchedulerId, Text, Transaction, TransactionError, Version};
use std::sync::Arc;

/// Why a cell did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The transaction was not judged; the reason tells what to change.
    #[error(transparent)]
    Refused(#[from] TransactionError),
    /// The cell cannot be reached now. Nothing was done; try again later.
    #[error("the cell cannot be reached")]
    Unavailable,
    /// The cell has no room for more commits on its disks, or cannot save its state. Nothing was done;
    /// make room, and try again later.
    #[error("the cell takes no commits now, because it cannot save more: make room on its disks")]
    Full,
    /// The connection broke after the transaction was sent: it may or may not have been taken.
    /// Send it again with the same id, and the answer is the first one's.
    #[error("the outcome of the transaction is unknown; send it again with the same id")]
    Unknown,
    /// The cell does not allow it to this scheduler; the reason tells what to change.
    #[error("the cell refuses: {0}")]
    Denied(Text),
    /// The name was refused, or too many schedulers have registered.
    #[error("the scheduler cannot register: {0}")]
    NotRegistered(omega_core::Rejection),
}

/// Function that wakes a sleeping scheduler. It is called from any thread, and must return at once.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A cell, as a scheduler sees it. Handles are cheap to clone or share; each scheduler has its own
/// view.
pub trait CellHandle: Send + Sync {
    /// Registers a scheduler by name, or finds it again after a restart. The answer is its id and
    /// a number for its next transaction.
    ///
    /// # Errors
    /// If the cell cannot be reached or refuses the name.
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError>;

    /// Fills `delta` with what changed since a version; everything since `Version(0)`. The buffer
    /// still says of which lineage the last delta was, and of another one everything is sent.
    /// Called before each decision, so it must cost what changed.
    ///
    /// # Errors
    /// If the cell cannot be reached; then `delta` is left as it was.
    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError>;

    /// Submits a transaction. When this returns `Ok`, what was taken is safe.
    ///
    /// # Errors
    /// If the transaction was not judged, or nobody knows whether it was.
    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError>;

    /// Submits several transactions in this order, and answers in the same order. Where a commit takes
    /// long because the cell is on disks, all of them cost little more than one. By default they are
    /// committed one after the other.
    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        txns.iter().map(|txn| self.commit(txn)).collect()
    }

    /// Calls `wake` whenever the next sync of this interest may have something new; a later call replaces the function.
    /// Returns whether the handle does so. By default it does not: an idle scheduler then has to sync every few
    /// milliseconds.
    fn watch(&self, _interest: &Interest, _wake: Wake) -> bool {
        false
    }
}
