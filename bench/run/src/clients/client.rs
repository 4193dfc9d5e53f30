//! Clients of one kind.

use omega_cellstate::{CellHandle, HandleError};
use omega_core::Version;
use omega_schedulers::Nanos;

/// The clients of one kind, with their frontend.
pub(super) trait Client: Send {
    /// Runs the clients, and steps their frontend once.
    ///
    /// # Errors
    /// If the cell does not answer.
    fn step(&mut self, cell: &dyn CellHandle, now: Nanos) -> Result<Round, HandleError>;
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
