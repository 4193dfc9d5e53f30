//! The observer: callbacks during a step, for measurements.

use crate::backfill::BackfillFigures;
use crate::delay::WaitFigures;
use crate::queue::Queue;
use omega_cellstate::View;
use omega_core::{Commit, JobId, TaskId, Transaction, Version};

/// Callbacks during a step, for measurements. By default every method does nothing.
pub trait Observer {
    /// The view and the queue have been synced.
    fn synced(&mut self, _view: &View, _queue: &Queue) {}

    /// A decision begins.
    fn deciding(&mut self) {}

    /// A decision has ended, with the numbers of requested and placed tasks of a job.
    fn decided(&mut self, _job: JobId, _asked: usize, _placed: usize) {}

    /// A transaction was answered.
    fn committed(&mut self, _txn: &Transaction, _commit: &Commit) {}

    /// A plugin rejected a claim after the decision, or the claim's wait for a permit timed out.
    fn refused(&mut self, _task: TaskId, _by: &'static str) {}

    /// Counters of delay scheduling. Called at each step of a scheduler whose profile has a delay.
    fn waits(&mut self, _figures: WaitFigures) {}

    /// Counters of backfill. Called at each step of a scheduler whose profile has backfill.
    fn backfill(&mut self, _figures: BackfillFigures) {}

    /// A decision panicked with this message. Its job is set aside, and the scheduler continues.
    fn set_aside(&mut self, _job: JobId, _panic: &str) {}

    /// Called when no job may be tried now. The view is at this version.
    fn idle(&mut self, _version: Version, _queue: &Queue) {}
}

/// An observer that ignores all calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
