//! Part of one job in the transaction that is being decided, and the end of its turn.

use crate::queue::Verdict;
use crate::refusals::Refusers;
use omega_core::JobId;
use smallvec::SmallVec;

/// The jobs of a transaction. A small transaction has one, without an allocation.
pub(super) type Turns = SmallVec<[Decided; 1]>;

/// A job's part of the open transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) job: JobId,
    pub(super) asked: usize,
    /// Number of tasks in the transaction.
    pub(super) placed: usize,
    /// Whether tasks found no machine. False if the transaction was full: then the cell may have
    /// room for the remaining tasks.
    pub(super) short: bool,
    /// Number of tasks that wait for a permit.
    pub(super) held: usize,
    /// Whether a plugin rejected claims after the decision.
    pub(super) turned_away: bool,
    /// Plugins that rejected the tasks without a machine.
    pub(super) by: Refusers,
    /// The count of news at the decision.
    pub(super) news: u64,
}

impl Decided {
    pub(super) fn new(job: JobId, news: u64) -> Decided {
        Decided {
            job,
            asked: 0,
            placed: 0,
            short: false,
            held: 0,
            turned_away: false,
            by: Refusers::default(),
            news,
        }
    }

    /// The verdict of the decision alone.
    pub(super) fn verdict(&self) -> Verdict {
        match self.turned_away || self.short {
            true => Verdict::Refused { by: self.by, news: self.news },
            false => Verdict::More,
        }
    }
}
