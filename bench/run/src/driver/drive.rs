//! The workers of a run: on threads, or in lock step on the feeder's thread.

use crate::RunError;
use crate::cell::RunCell;
use crate::clients::{Front, Fronts, Served};
use crate::clock::RunClock;
use crate::driver::message::Message;
use crate::driver::worker_factory::Measured;
use crate::meter::Meter;
use crossbeam_channel::Receiver;
use omega_schedulers::{LockStep, Nanos, Pool, Worker};
use std::time::Duration;

/// Time for which the feeder waits for a message before it reads the clock again.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2);

/// Time that a round in lock step adds to the schedulers' clock: about the time of a transaction with a few claims.
const ROUND: Nanos = 10_000;

/// Maximum time that a round adds if all workers are idle. Workers on threads would sleep meanwhile.
const IDLE_ROUND: Nanos = 1_000_000;

/// The schedulers and the frontends of a run that has ended.
pub(crate) type Done = (Vec<Worker<Meter>>, Vec<Served>);

/// Execution of a run's workers: on threads, or in lock step.
pub(crate) trait Drive {
    /// Wakes the workers, because there may be work for them.
    fn wake(&mut self);

    /// Number of workers that have not ended.
    fn running(&self) -> usize;

    /// Runs the workers, and returns a message from a worker or from the command thread; `None` if none comes for some
    /// time.
    fn wait(&mut self, messages: &Receiver<Message>) -> Option<Message>;

    /// Advances the schedulers' time with the workload's.
    fn pass(&mut self, ms: u64);

    /// Advances the schedulers' time by a second, and wakes them.
    fn skip_a_second(&mut self);

    /// Checks that the cell still works.
    ///
    /// # Errors
    /// If the cell does not work any more.
    fn check(&self) -> Result<(), RunError>;
}

/// Workers on threads.
pub(crate) struct Threads<'a> {
    pub(crate) pool: Pool<'a, Meter>,
    pub(crate) fronts: Fronts<'a>,
    pub(crate) clock: &'a RunClock,
    /// Returns an error if the cell does not work any more.
    pub(crate) goes_on: &'a dyn Fn() -> Result<(), RunError>,
}

impl Threads<'_> {
    /// Stops the workers, and returns their results.
    ///
    /// # Errors
    /// If a frontend ended early, because the cell rejected it.
    pub(crate) fn stop(self) -> Result<Done, RunError> {
        let (mut workers, served) = (self.pool.stop(), self.fronts.stop());
        workers.iter_mut().for_each(|worker| worker.observer.flush());
        Ok((workers, served?))
    }
}

impl Drive for Threads<'_> {
    fn wake(&mut self) {
        self.pool.wake();
    }

    fn running(&self) -> usize {
        self.pool.running() + self.fronts.running()
    }

    fn wait(&mut self, messages: &Receiver<Message>) -> Option<Message> {
        messages.recv_timeout(PATIENCE).ok()
    }

    fn pass(&mut self, ms: u64) {
        self.clock.pass(Duration::from_millis(ms));
    }

    fn skip_a_second(&mut self) {
        self.clock.pass(Duration::from_secs(1));
        self.pool.wake();
    }

    fn check(&self) -> Result<(), RunError> {
        (self.goes_on)()
    }
}

/// Workers in lock step. Time is computed from rounds instead of measured, so that it is equal in each run.
pub(crate) struct Stepped<'a> {
    cell: &'a RunCell,
    schedulers: LockStep<Meter>,
    fronts: Vec<Front<'a>>,
    now: Nanos,
}

impl<'a> Stepped<'a> {
    /// Creates the lock step of these workers.
    pub(crate) fn new(
        cell: &'a RunCell,
        schedulers: Vec<Measured>,
        fronts: Vec<Front<'a>>,
    ) -> Stepped<'a> {
        Stepped { cell, schedulers: LockStep::new(schedulers), fronts, now: 0 }
    }

    /// Stops the workers, and returns their results.
    ///
    /// # Errors
    /// If a frontend ended early, because the cell rejected it.
    pub(crate) fn stop(self) -> Result<Done, RunError> {
        let served = self.fronts.into_iter().map(Front::stop).collect::<Result<_, _>>()?;
        Ok((self.schedulers.stop(), served))
    }
}

impl Drive for Stepped<'_> {
    fn wake(&mut self) {}

    fn running(&self) -> usize {
        let schedulers = self.schedulers.workers().iter().filter(|worker| worker.error.is_none());
        schedulers.count() + self.fronts.iter().filter(|front| front.is_running()).count()
    }

    fn wait(&mut self, messages: &Receiver<Message>) -> Option<Message> {
        let round = self.schedulers.round(self.cell, self.now);
        let mut idle = round.idle;
        for front in self.fronts.iter_mut().filter(|front| front.is_running()) {
            idle &= front.round(self.now).is_idle();
        }
        let wakes = round.until.map_or(IDLE_ROUND, |until| until.saturating_sub(self.now));
        let step = if idle { wakes.clamp(ROUND, IDLE_ROUND) } else { ROUND };
        self.now = self.now.saturating_add(step);
        messages.try_recv().ok()
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.saturating_add(ms.saturating_mul(1_000_000));
    }

    fn skip_a_second(&mut self) {
        self.pass(1000);
    }

    fn check(&self) -> Result<(), RunError> {
        Ok(())
    }
}
