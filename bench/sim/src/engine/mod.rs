//! One event loop for every architecture and every kind of cell.
//!
//! An architecture is defined by the view that its schedulers have of the cell, and by the time when their
//! claims are checked; the trait [`Cell`] hides the cell. So each architecture is written once, and runs on two cells:
//! the cell of the reference simulator, whose results must be reproduced to the last digit, and the shipped cell.
//!
//! ```text
//!   arrivals ──▶ queue of a scheduler ──▶ decides ──▶ attempt on the cell ──▶ tasks run, and end
//!                      ▲                                   │ no feasible machine, or a conflict
//!                      └──────────── 1 s later ────────────┘
//! ```
//!
//! Time is simulated, in seconds. Events of one time happen in the order in which they were added, and random choices
//! come from seeded generators: equal inputs give equal runs.

mod agenda;
mod asleep;
mod cell;
mod offers;
mod queueing;
mod records;
mod sampling;
mod sizing;

pub use agenda::Agenda;
pub use cell::{Access, Attempt, Cell, CommitMode, Ended, Granularity, Lost, Running, Taken};
pub use offers::{OfferCell, OfferSettings, run_offers};
pub use queueing::run_queues;
pub use records::{JobRecord, Records, SchedulerRecord};
pub use sampling::{SampledCell, SamplingSettings, run_sampling};
pub use sizing::{SizedCell, SizedRun, Sizing};

/// Kind of a job, by whether its tasks end by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Jobs whose tasks end by themselves.
    Batch,
    /// Jobs whose tasks run until they are stopped.
    Service,
}

/// A job in the event loop, without its requests, which only the cell needs.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Arrival time in seconds.
    pub submit_s: f64,
    /// Number of the job's tasks.
    pub tasks: u32,
    /// Kind of the job.
    pub kind: Kind,
}

/// Decision time: a constant time for a job, plus a time for each task that is not placed yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionTime {
    /// Seconds for a job, whatever its number of tasks.
    pub job_s: f64,
    /// Seconds for a task.
    pub task_s: f64,
}

impl DecisionTime {
    /// Decision time for a number of tasks.
    #[must_use]
    pub fn of(self, tasks: u32) -> f64 {
        self.job_s + self.task_s * f64::from(tasks)
    }
}

/// A scheduler, with its decision times for both kinds of jobs.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    /// Decision time for batch jobs.
    pub batch: DecisionTime,
    /// Decision time for service jobs.
    pub service: DecisionTime,
}

impl Scheduler {
    /// Decision time for a number of tasks of a job of this kind.
    #[must_use]
    pub fn decides(&self, kind: Kind, tasks: u32) -> f64 {
        match kind {
            Kind::Batch => self.batch.of(tasks),
            Kind::Service => self.service.of(tasks),
        }
    }
}

/// Simulation plan: jobs, the scheduler of each, and the end.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// All jobs.
    pub jobs: &'a [Job],
    /// Job numbers in order of arrival.
    pub arrivals: &'a [u32],
    /// The scheduler of each job.
    pub owners: &'a [u32],
    /// The schedulers.
    pub schedulers: &'a [Scheduler],
    /// Times of machine changes in seconds, ascending. The cell has the changes themselves.
    pub changes: &'a [f64],
    /// End of the run in seconds. Unless the use is measured at all times, the first event after this time is still
    /// processed.
    pub end_s: f64,
    /// Measurement of the cell's use. If the use is measured, a run lasts until its end, even without events.
    pub survey: Survey,
    /// Time up to which the use is measured, in seconds, if it is measured at all times; maybe infinite.
    pub used_until_s: f64,
    /// When jobs that are not completely placed are tried again.
    pub retries: Retries,
}

/// When a job that is not completely placed is tried again, after at least a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retries {
    /// If the job found no room: once a task has ended or a machine has changed, or after five minutes. After a conflict:
    /// after a second. With two-level scheduling and sampling: after a second.
    #[default]
    Unlimited,
    /// After a second.
    EachSecond,
    /// Each second, up to a number of attempts, as in the simulator of the Omega paper.
    Limited,
}

/// Measurement of the cell's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survey {
    /// By a sample every second, from the start, as the paper's simulator does.
    EverySecond,
    /// At all times, from each event to the next. A run ends exactly at its end time, after the events of that time.
    Always,
    /// Never.
    Never,
}

/// Delay after which an incompletely placed job is queued again.
const RETRY_S: f64 = 1.0;
/// Time after which a job that found no room is tried again even if no room was freed.
const SLEEP_MAX_S: f64 = 300.0;
/// Number of attempts after which a job without placements is abandoned.
const ATTEMPTS_VAIN_MAX: u32 = 100;
/// Number of attempts after which any incompletely placed job is abandoned.
const ATTEMPTS_MAX: u32 = 1000;
