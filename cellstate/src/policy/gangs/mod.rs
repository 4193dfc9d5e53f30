//! Gangs placed by several transactions: tasks keep their machines, but are not started until enough tasks of the gang
//! are placed.
//!
//! ```text
//!          some tasks are placed           the gang's minimum is placed
//!   none ────────────────────────▶ waiting ─────────────────────────────▶ none: agents start the tasks
//!     ▲                             │
//!     └── an Expire finds that the gang timeout is over: all its tasks are pending again
//! ```
//!
//! A gang with placed tasks that is not waiting has been complete before. If such a gang loses some tasks, it does not
//! wait again, because its other tasks run. Once none of its tasks is placed, the gang starts over.
//!
//! **Start of the timeout.** The first [`Expire`](omega_core::Command::Expire) after the first placement starts the
//! timeout. If the placement started it, an outdated cell time would make the gang time out too early.
//!
//! **No livelock.** Timeouts end, so the machines of an incomplete gang become free again. If several gangs time out at
//! once, the oldest gets a second timeout, so that it can use the machines that the other gangs release. Otherwise two
//! gangs that each have half of a cell could both release their machines and retry for ever. No waiting gang gets a
//! third timeout. Schedulers also wait longer before they retry a released gang than before they retry other jobs.

mod in_cell;

use super::{Ledger, Policy};
use omega_core::{Job, JobId, TaskGroup};
use std::collections::BTreeSet;

/// Counts of waiting gangs since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GangCounts {
    /// Gangs that began to wait.
    pub begun: u64,
    /// Gangs that became complete.
    pub completed: u64,
    /// Gangs that were released at their timeout.
    pub timed_out: u64,
}

/// The policy of gangs: the jobs with a waiting gang, and counts.
#[derive(Clone, Debug, Default)]
pub struct Gangs {
    waiting: BTreeSet<JobId>,
    counts: GangCounts,
}

impl Gangs {
    /// Whether a job has a waiting gang.
    pub fn is_waiting(&self, job: JobId) -> bool {
        self.waiting.contains(&job)
    }

    /// Adds a waiting gang of a snapshot.
    pub fn restore_wait(&mut self, job: JobId) {
        self.waiting.insert(job);
    }
}

impl Ledger for Gangs {
    fn is_counting(&self) -> bool {
        false
    }
}

impl Policy for Gangs {
    type Columns = ();
    type Mirror = ();
    type Note = ();

    fn concerns(job: &Job, _: &TaskGroup) -> bool {
        job.gang_min.is_some() || job.gang_timeout_ms.is_some()
    }

    fn is_near_an_edge(&self, _: u64) -> bool {
        !self.waiting.is_empty()
    }

    fn depends_on_time(&self) -> bool {
        !self.waiting.is_empty()
    }
}
