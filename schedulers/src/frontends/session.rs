//! A frontend's session: its view, its jobs, and the transaction whose outcome is unknown, if there is one.
//!
//! Claims are subtracted from the view until their result is known. If the connection breaks after a transaction was
//! sent, the session sends the same transaction again before it makes any other decision. The cell recognises the id of
//! the transaction and returns the first result.

use super::task_index::{Mark, TaskIndex};
use crate::queue::dominant::Totals;
use omega_cellstate::{CellHandle, HandleError, Interest, Share, View};
use omega_core::{Commit, JobId, Reason, TaskId, Text, Transaction};
use std::collections::BTreeSet;

/// Outcome of a transaction.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The cell checked the transaction.
    Checked(Commit),
    /// The transaction was not checked and changed nothing, or it was checked and the next sync brings its results.
    Dropped(HandleError),
}

/// Session of a frontend with a cell.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) view: View,
    pub(crate) task_index: TaskIndex,
    pub(crate) totals: Totals,
    unknown: Option<Transaction>,
    /// Jobs whose compiled data in the view is outdated. The data is kept until the cell has answered all claims of the
    /// session.
    stale: BTreeSet<JobId>,
}

impl Session {
    /// Registers the frontend under a name. Its jobs are those that name it as their scheduler.
    pub(crate) fn new(
        cell: &(impl CellHandle + ?Sized),
        name: Text,
    ) -> Result<Session, HandleError> {
        let (id, next) = cell.register(name.clone())?;
        Ok(Session {
            view: View::new(id, next).with_interest(Interest::JobsOf(name, Share::ALL)),
            task_index: TaskIndex::default(),
            totals: Totals::default(),
            unknown: None,
            stale: BTreeSet::new(),
        })
    }

    /// Updates the view, the jobs and the total resources to the cell's current version.
    pub(crate) fn sync(&mut self, cell: &(impl CellHandle + ?Sized)) -> Result<(), HandleError> {
        self.view.sync(cell)?;
        let claimed = self.claimed();
        let delta = self.view.delta();
        self.task_index.apply(delta, |task| claimed.contains(&task));
        if delta.full || !delta.machines.is_empty() {
            self.totals = Totals::of(&self.view);
        }
        self.stale.append(&mut self.task_index.take_stale());
        if claimed.is_empty() {
            for job in std::mem::take(&mut self.stale) {
                self.view.forget_job(job);
            }
        }
        Ok(())
    }

    /// Tasks whose claims have not been answered yet.
    fn claimed(&self) -> BTreeSet<TaskId> {
        let open = (0..self.view.open_claims()).filter_map(|index| self.view.open_claim(index));
        let unknown = self.unknown.iter().flat_map(|txn| &txn.claims).map(|claim| claim.task);
        open.map(|claim| claim.task).chain(unknown).collect()
    }

    /// Sends the transaction with an unknown outcome again. Returns the transaction and its outcome; `None` if there is
    /// no such transaction.
    ///
    /// # Errors
    /// If the outcome is still unknown.
    pub(crate) fn ask_again(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
    ) -> Result<Option<(Transaction, Reply)>, HandleError> {
        let Some(txn) = self.unknown.take() else { return Ok(None) };
        match cell.commit(&txn) {
            // If the retry did not reach the cell, the outcome of the first attempt is still unknown.
            Err(error @ (HandleError::Unavailable | HandleError::Full | HandleError::Unknown)) => {
                self.unknown = Some(txn);
                Err(error)
            }
            answer => Ok(Some(self.answered(txn, answer))),
        }
    }

    /// Submits the open claims and the releases as a transaction. Returns the transaction and its outcome; `None` if
    /// there is nothing to submit.
    ///
    /// # Errors
    /// If the outcome is unknown: call [`Session::ask_again`] next.
    pub(crate) fn submit(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        releases: Vec<TaskId>,
    ) -> Result<Option<(Transaction, Reply)>, HandleError> {
        if self.view.open_claims() == 0 && releases.is_empty() {
            return Ok(None);
        }
        let mut txn = self.view.take_transaction();
        txn.releases = releases;
        match cell.commit(&txn) {
            Err(HandleError::Unknown) => {
                self.unknown = Some(txn);
                Err(HandleError::Unknown)
            }
            answer => Ok(Some(self.answered(txn, answer))),
        }
    }

    /// Applies the cell's answer to the view, and to the marks of the claimed tasks.
    fn answered(
        &mut self,
        txn: Transaction,
        answer: Result<Commit, HandleError>,
    ) -> (Transaction, Reply) {
        match answer {
            Ok(commit) => {
                self.view.settle(&txn, &commit);
                for (index, claim) in txn.claims.iter().enumerate() {
                    let mark = match commit.conflict_of_claim(index) {
                        None => Mark::Placed(claim.machine),
                        // The next sync brings the task's current state.
                        Some(Reason::TaskPlaced | Reason::TaskEnded | Reason::UnknownTask) => {
                            Mark::Over
                        }
                        Some(_) => Mark::Waiting,
                    };
                    self.task_index.note(claim.task, mark);
                }
                (txn, Reply::Checked(commit))
            }
            Err(error) => {
                self.view.abandon(&txn);
                txn.claims.iter().for_each(|claim| self.task_index.note(claim.task, Mark::Waiting));
                (txn, Reply::Dropped(error))
            }
        }
    }
}
