//! The observer: reports on a step for measurements.

use crate::backfill::BackfillFigures;
use crate::delay::WaitFigures;
use crate::queue::Queue;
use omega_cellstate::View;
use omega_core::{Commit, JobId, TaskId, Transaction, Version};

/// Callbacks of a step, for measurements. Every method does nothing by default.
pub trait Observer {
    /// View and queue are up to date with what has come from the cell.
    fn synced(&mut self, _view: &View, _queue: &Queue) {}

    /// A decision begins.
    fn deciding(&mut self) {}

    /// A decision has ended: so many tasks of a job were asked for, and so many have a machine in
    /// the view.
    fn decided(&mut self, _job: JobId, _asked: usize, _placed: usize) {}

    /// A transaction was answered.
    fn committed(&mut self, _txn: &Transaction, _commit: &Commit) {}

    /// A plugin rejected a claim after the decision, or a wait for its permit timed out.
    fn refused(&mut self, _task: TaskId, _by: &'static str) {}

    /// Jobs wait for machines that they prefer, or have: what became of it so far. Told in each step of a
    /// scheduler whose profile has them wait.
    fn waits(&mut self, _figures: WaitFigures) {}

    /// Jobs that find no room have plans, or had: what became of them so far. Told in each step of a scheduler
    /// whose profile makes plans.
    fn backfill(&mut self, _figures: BackfillFigures) {}

    /// A decision has panicked, with this message. Its job is set aside, and the scheduler goes on with the others.
    fn set_aside(&mut self, _job: JobId, _panic: &str) {}

    /// No job has its turn at this version.
    fn idle(&mut self, _version: Version, _queue: &Queue) {}
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
