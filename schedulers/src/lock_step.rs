//! Runs schedulers in lock step on the thread of the caller, so that equal input gives equal results.
//!
//! ```text
//!   round 0:   refresh 0 ─ refresh 1 ─ refresh 2 ─ act 0 ─ act 1 ─ act 2
//!   round 1:   refresh 0 ─ refresh 1 ─ refresh 2 ─ act 1 ─ act 2 ─ act 0
//! ```
//!
//! In each round, all schedulers first bring their views up to the same version. Then they decide and commit one after
//! the other, and another scheduler is first in each round. So they conflict like schedulers that decide at the same
//! time, but in an order that does not depend on the timing of threads. [`crate::pool`] runs schedulers on threads.

use crate::pool::{self, Worker};
use crate::queue::Nanos;
use crate::scheduler::{Observer, Scheduler, Step};
use omega_cellstate::{CellHandle, HandleError};

/// Schedulers that work in rounds. See the head of the file.
#[derive(Debug)]
pub struct LockStep<O> {
    workers: Vec<Worker<O>>,
    /// Position of the worker that commits first in the next round.
    first: usize,
}

/// Result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Tasks placed.
    pub placed: usize,
    /// Claims rejected.
    pub conflicts: usize,
    /// Whether no scheduler had work.
    pub idle: bool,
    /// If idle: the earliest time at which a scheduler has work, provided that no event occurs before.
    pub until: Option<Nanos>,
}

impl Round {
    fn with(self, step: Step) -> Round {
        Round {
            placed: self.placed + step.placed,
            conflicts: self.conflicts + step.conflicts,
            idle: self.idle && step.idle,
            until: self.until.into_iter().chain(step.until).min(),
        }
    }
}

impl<O: Observer> LockStep<O> {
    /// Creates a lock step of schedulers, each with its observer. In the first round, the schedulers commit in the given
    /// order.
    pub fn new(schedulers: impl IntoIterator<Item = (Scheduler, O)>) -> LockStep<O> {
        let worker = |(scheduler, observer)| Worker { scheduler, observer, error: None };
        LockStep { workers: schedulers.into_iter().map(worker).collect(), first: 0 }
    }

    /// Runs one round. `now` is in nanoseconds since any fixed moment and must not decrease. If the cell rejects a
    /// scheduler permanently, its later rounds are skipped, and [`Worker::error`] has the error.
    pub fn round(&mut self, cell: &impl CellHandle, now: Nanos) -> Round {
        for worker in self.workers.iter_mut().filter(|worker| worker.error.is_none()) {
            let refreshed = pool::guarded(worker, |scheduler, observer| {
                scheduler.refresh(cell, now, observer).map(|()| Step::default())
            });
            note_error(worker, refreshed);
        }
        let mut round = Round { idle: true, ..Round::default() };
        let (last, first) = self.workers.split_at_mut(self.first);
        let in_turn = first.iter_mut().chain(last).filter(|worker| worker.error.is_none());
        for worker in in_turn {
            let acted =
                pool::guarded(worker, |scheduler, observer| scheduler.act(cell, now, observer));
            round = round.with(note_error(worker, acted));
        }
        self.first = (self.first + 1) % self.workers.len().max(1);
        round
    }

    /// The workers, in their order.
    #[must_use]
    pub fn workers(&self) -> &[Worker<O>] {
        &self.workers
    }

    /// Ends the rounds, and returns the workers.
    #[must_use]
    pub fn stop(self) -> Vec<Worker<O>> {
        self.workers
    }
}

/// Records an error that ends a worker. Temporary errors are not recorded, and the next round retries.
fn note_error<O>(worker: &mut Worker<O>, step: Result<Step, HandleError>) -> Step {
    match step {
        Ok(step) => step,
        Err(HandleError::Unavailable | HandleError::Full | HandleError::Unknown) => Step::default(),
        Err(error) => {
            worker.error = Some(error);
            Step::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, Settings, Unobserved};
    use omega_cellstate::{Cell, SharedCell};
    use omega_core::{Amounts, Command, Job, Kinds, Machine, TaskGroup};

    /// A cell with one machine that has room for one task, and two schedulers with a job each.
    fn contended() -> (SharedCell, LockStep<Unobserved>) {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([1000])))).unwrap();
        let scheduler = |name: &str| {
            let group = TaskGroup::new(1, Amounts::new([600]));
            let job = Job { scheduler: name.into(), ..Job::batch(format!("{name}-job"), group) };
            cell.apply(Command::SubmitJob(job)).unwrap();
            let settings = Settings::new(name);
            (Scheduler::new(&cell, Profile::first_fit(), settings).unwrap(), Unobserved)
        };
        let both = [scheduler("a"), scheduler("b")];
        (cell, LockStep::new(both))
    }

    #[test]
    fn all_decide_on_the_same_version_and_commit_in_order() {
        let (cell, mut lock_step) = contended();
        let round = lock_step.round(&cell, 0);
        assert_eq!((round.placed, round.conflicts, round.idle), (1, 1, false));
        let placed = |worker: &Worker<Unobserved>| worker.scheduler.queue().pending_tasks() == 0;
        assert_eq!(lock_step.workers().iter().map(placed).collect::<Vec<_>>(), [true, false]);
        // The view of the second scheduler now shows that there is no room, so this scheduler has nothing to do.
        let rounds: Vec<Round> = (1..20).map(|i| lock_step.round(&cell, i * 1_000_000)).collect();
        assert!(rounds.iter().all(|round| round.placed == 0 && round.conflicts == 0), "{rounds:?}");
        assert!(rounds.last().unwrap().idle, "{rounds:?}");
    }

    #[test]
    fn another_scheduler_is_first_in_each_round() {
        let (cell, mut lock_step) = contended();
        lock_step.round(&cell, 0);
        let group = || TaskGroup::new(1, Amounts::new([600]));
        cell.apply(Command::RegisterMachine(Machine::new("n", Amounts::new([1000])))).unwrap();
        let job = Job { scheduler: "a".into(), ..Job::batch("a-second", group()) };
        cell.apply(Command::SubmitJob(job)).unwrap();
        let round = lock_step.round(&cell, 10_000_000_000);
        assert_eq!((round.placed, round.conflicts), (1, 1));
        let placed = |worker: &Worker<Unobserved>| worker.scheduler.queue().pending_tasks() == 0;
        assert_eq!(lock_step.workers().iter().map(placed).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_rejected_scheduler_takes_part_in_no_further_round() {
        /// Rejects every sync.
        struct Rejects(SharedCell);
        impl CellHandle for Rejects {
            fn register(
                &self,
                name: omega_core::Text,
            ) -> Result<(omega_core::SchedulerId, u64), HandleError> {
                self.0.register(name)
            }
            fn sync(
                &self,
                _: omega_core::Version,
                _: &omega_cellstate::Interest,
                _: &mut omega_cellstate::Delta,
            ) -> Result<(), HandleError> {
                Err(HandleError::Denied("no".into()))
            }
            fn commit(
                &self,
                _: &omega_core::Transaction,
            ) -> Result<omega_core::Commit, HandleError> {
                Err(HandleError::Unavailable)
            }
        }
        let (cell, mut lock_step) = contended();
        let round = lock_step.round(&Rejects(cell), 0);
        assert_eq!(round, Round { idle: true, ..Round::default() });
        assert!(lock_step.stop().iter().all(|worker| worker.error.is_some()));
    }
}
