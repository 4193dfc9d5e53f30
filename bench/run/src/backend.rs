//! The interface between a run and the storage of its cell.
//!
//! A run in memory needs no storage. With the feature `durable`, `replicas` stores the cell in replicas on disks. Since
//! `replicas` is only used through this interface, a build without the feature contains neither the log nor Raft.

use crate::report::DurableReport;
use omega_cellstate::{Cell, CellHandle};
use omega_core::{Command, Kinds, Outcome, Rejection};
use std::fmt::Debug;
use std::sync::Arc;

/// Error of the storage: it could not be created, does not answer, or is damaged.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct BackendError(pub Arc<dyn std::error::Error + Send + Sync>);

impl BackendError {
    /// Wraps an error of the storage.
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> BackendError {
        BackendError(Arc::new(error))
    }
}

/// The cell's answer to a command: its outcome, or the reason why the cell rejects it.
pub type Answer = Result<Outcome, Rejection>;

/// Storage that can create a cell.
pub trait DurableBackend: Debug + Send + Sync {
    /// Creates a cell with these kinds, ready for commands.
    ///
    /// # Errors
    /// If the storage cannot be created.
    fn found(&self, kinds: &Kinds) -> Result<Box<dyn DurableRun>, BackendError>;
}

/// The storage of a run.
pub trait DurableRun: Debug + Sync {
    /// Handles of the cell, one for each replica; at least one.
    fn cells(&self) -> Vec<Arc<dyn DurableCell>>;

    /// Checks that all replicas still run.
    ///
    /// # Errors
    /// If a replica has stopped.
    fn check(&self) -> Result<(), BackendError>;

    /// Waits until all replicas have applied the same commands, then audits and compares their states.
    ///
    /// # Errors
    /// If a replica does not catch up, or its state is wrong.
    fn check_states(&self) -> Result<(), BackendError>;

    /// Returns the cost of durability so far, for a run that made this many claims.
    fn report(&self, claims: u64) -> DurableReport;
}

/// A handle of the cell at one replica.
pub trait DurableCell: CellHandle + Debug {
    /// Calls `look` with the replica's copy of the cell.
    fn look(&self, look: &mut dyn FnMut(&Cell));

    /// Applies commands in order, and waits once until all of them are durable. Returns a result for each.
    ///
    /// # Errors
    /// For each command that the replicas do not answer.
    fn apply_all(&self, commands: Vec<Command>) -> Vec<Result<Answer, BackendError>>;
}
