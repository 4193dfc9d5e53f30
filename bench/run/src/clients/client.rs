//! Clients of one kind, and the cell that their frontend uses.

use crate::cell::RunCell;
use crate::meter::Meter;
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_core::{Commit, SchedulerId, Text, Transaction, Version};
use omega_schedulers::{Nanos, Observer};
use parking_lot::Mutex;

/// The clients of one kind, with their frontend.
pub(super) trait Client: Send {
    /// Runs the clients, and steps their frontend once.
    ///
    /// # Errors
    /// If the cell does not answer.
    fn step(&mut self, cell: &Watched<'_>, now: Nanos) -> Result<Round, HandleError>;
}

/// Result of a frontend's round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Version of the cell that the frontend has seen.
    pub(super) version: Version,
    /// Number of pending tasks.
    pub(super) waiting: usize,
    /// Number of consecutive rounds without a placement after which no placement is expected until the cell changes.
    pub(super) patience: u32,
}

/// The cell of a frontend, with a meter that measures and reports its commits.
pub(super) struct Watched<'a> {
    pub(super) cell: &'a RunCell,
    pub(super) meter: Mutex<Meter>,
}

impl CellHandle for Watched<'_> {
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
        let commit = self.cell.commit(txn)?;
        self.meter.lock().committed(txn, &commit);
        Ok(commit)
    }
}
