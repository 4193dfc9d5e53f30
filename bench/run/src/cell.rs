//! The cell of a run: in memory, or replicated.
//!
//! The run is the same for both, except that replicas may fail to answer. A run cannot continue without an answer, so
//! it then ends with the error.

use crate::backend::{Answer, BackendError, DurableCell};
use omega_cellstate::{Cell, CellHandle, CommitsAndSync, Delta, HandleError, Interest, SharedCell};
use omega_core::{
    Command, Commit, MachineId, SchedulerId, TaskId, TaskReport, Text, Transaction, Version,
};
use std::sync::Arc;

/// The cell of a run. Clones share it.
#[derive(Clone, Debug)]
pub(crate) enum RunCell {
    /// In memory.
    Memory(SharedCell),
    /// The cell at one of its replicas.
    Replica(Arc<dyn DurableCell>),
}

impl RunCell {
    /// A cell in memory.
    pub(crate) fn memory(cell: Cell) -> RunCell {
        RunCell::Memory(SharedCell::new(cell))
    }

    /// Reads the cell, or the replica's copy of it.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Cell) -> T) -> T {
        match self {
            RunCell::Memory(cell) => cell.read(look),
            RunCell::Replica(cell) => {
                let (mut look, mut seen) = (Some(look), None);
                cell.look(&mut |cell| seen = look.take().map(|look| look(cell)));
                seen.expect("a replica shows its cell once")
            }
        }
    }

    /// Applies a command. The inner result is the cell's answer.
    ///
    /// # Errors
    /// If the cell does not answer.
    pub(crate) fn apply(&self, command: Command) -> Result<Answer, BackendError> {
        match self {
            RunCell::Memory(cell) => Ok(cell.apply(command)),
            RunCell::Replica(cell) => {
                let answer = cell.apply_all(vec![command]).pop();
                answer.expect("each command has an answer")
            }
        }
    }

    /// Applies commands in order, and does not wait for a disk after each.
    ///
    /// # Errors
    /// If the cell does not answer a command.
    pub(crate) fn apply_all(
        &self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Result<Vec<Answer>, BackendError> {
        match self {
            RunCell::Memory(cell) => Ok(cell.apply_all(commands)),
            RunCell::Replica(cell) => {
                cell.apply_all(commands.into_iter().collect()).into_iter().collect()
            }
        }
    }
}

/// Number of task ends that are applied under one lock of a cell in memory, so that commits wait only for a few
/// microseconds.
const ENDS: usize = 32;

impl RunCell {
    /// Reports the ends of tasks to a cell in memory. Returns the number of tasks that were running; `None` for a
    /// replicated cell, which gets the ends as commands.
    pub(crate) fn finish(&self, tasks: &[(TaskId, MachineId)]) -> Option<u64> {
        let RunCell::Memory(cell) = self else { return None };
        let report = TaskReport::Finished;
        let ended =
            |&(task, machine): &_| Command::ReportTask { task, machine, placed_ms: 0, report };
        let mut finished = 0;
        for some in tasks.chunks(ENDS) {
            // The cell rejects the end of a task that was lost with its machine, so that task is not counted as
            // finished.
            cell.apply_each(some.iter().map(ended), |answer| finished += u64::from(answer.is_ok()));
        }
        Some(finished)
    }
}

/// Maximum number of a scheduler's in-flight transactions. With this number, the wait for a disk is already a
/// negligible part of a transaction's time.
const IN_FLIGHT: usize = 16;

impl RunCell {
    /// Number of in-flight transactions at which a scheduler stops and waits for answers.
    pub(crate) fn commits_in_flight(&self) -> usize {
        match self {
            RunCell::Memory(_) => 1,
            RunCell::Replica(_) => IN_FLIGHT,
        }
    }
}

impl CellHandle for RunCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        match self {
            RunCell::Memory(cell) => cell.register(name),
            RunCell::Replica(cell) => cell.register(name),
        }
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        match self {
            RunCell::Memory(cell) => cell.sync(since, interest, delta),
            RunCell::Replica(cell) => cell.sync(since, interest, delta),
        }
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        match self {
            RunCell::Memory(cell) => cell.commit(txn),
            RunCell::Replica(cell) => cell.commit(txn),
        }
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        match self {
            RunCell::Memory(cell) => cell.commit_all(txns),
            RunCell::Replica(cell) => cell.commit_all(txns),
        }
    }

    fn commit_and_sync(
        &self,
        txns: &[&Transaction],
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> CommitsAndSync {
        match self {
            RunCell::Memory(cell) => cell.commit_and_sync(txns, since, interest, delta),
            RunCell::Replica(cell) => cell.commit_and_sync(txns, since, interest, delta),
        }
    }
}
