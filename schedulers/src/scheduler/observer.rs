//! The observer: reports on a step for measurements.

use crate::backfill::BackfillFigures;
use crate::delay::WaitFigures;
use crate::queue::Queue;
use omega_cellstate::View;
use omega_core::{Commit, JobId, TaskId, Transaction, Version};

/// Callbacks of a step, for measurements. Every method does nothing by default.
pub trait Observer {
    /// View and queue are synced.
    fn synced(&mut self, _view: &View, _queue: &Queue) {}

    /// A decision begins.
    fn deciding(&mut self) {}

    /// A decision has ended, with the numbers of requested and placed tasks of a job.
    fn decided(&mut self, _job: JobId, _asked: usize, _placed: usize) {}

    /// A transaction was answered.
    fn committed(&mut self, _txn: &Transaction, _commit: &Commit) {}

    /// A plugin rejected a claim after the decision, or a wait for its permit timed out.
    fn refused(&mut self, _task: TaskId, _by: &'static str) {}

    /// Counters of delay scheduling, at each step of a scheduler whose profile has it.
    fn waits(&mut self, _figures: WaitFigures) {}

    /// Counters of backfill, at each step of a scheduler whose profile has it.
    fn backfill(&mut self, _figures: BackfillFigures) {}

    /// A decision panicked with this message. Its job is set aside, and the scheduler continues.
    fn set_aside(&mut self, _job: JobId, _panic: &str) {}

    /// Called when no job is ready to be tried at this version.
    fn idle(&mut self, _version: Version, _queue: &Queue) {}
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
