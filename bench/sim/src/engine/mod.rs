//! One loop of discrete events for every architecture, over every kind of cell.
//!
//! What an architecture is, lies in how its schedulers see the cell and when their claims are judged;
//! what a cell is, lies behind the trait [`Cell`]. So each architecture is written once and runs on
//! the cell of the reference simulator, whose digits it must meet, as well as on the cell that is shipped.
//!
//! ```text
//!   arrivals ──▶ queue of a scheduler ──▶ thinks ──▶ attempt on the cell ──▶ tasks run, and end
//!                      ▲                                   │ what found no room, or lost a conflict
//!                      └──────────── 1 s later ────────────┘
//! ```
//!
//! Time is the simulation's own, in seconds. Events of one time happen in the order in which they were
//! asked for, and chance comes from seeded generators alone: the same input gives the same run.

mod agenda;
mod cell;
mod offers;
mod queueing;
mod records;
mod sampling;
mod sizing;

pub use agenda::Agenda;
pub use cell::{Access, Attempt, Cell, Ended, Granularity, Judgement, Lost, Running, Taken};
pub use offers::{OfferCell, OfferSettings, run_offers};
pub use queueing::run_queues;
pub use records::{JobRecord, Records, SchedulerRecord};
pub use sampling::{SampledCell, SamplingSettings, run_sampling};
pub use sizing::{SizedCell, SizedRun, Sizing};

/// Which of the two kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work that ends by itself.
    Batch,
    /// Work that serves.
    Service,
}

/// A job as the loop sees it. What its tasks ask for is the cell's matter.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// When it comes, in seconds.
    pub submit_s: f64,
    /// Number of tasks it has.
    pub tasks: u32,
    /// Of which kind it is.
    pub kind: Kind,
}

/// Time for which a scheduler decides: a constant for a job, and some for each task not yet placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionTime {
    /// Seconds for a job.
    pub job_s: f64,
    /// Seconds for a task.
    pub task_s: f64,
}

impl DecisionTime {
    /// For so many tasks.
    #[must_use]
    pub fn of(self, tasks: u32) -> f64 {
        self.job_s + self.task_s * f64::from(tasks)
    }
}

/// One scheduler: how long it decides on jobs of either kind.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    /// For batch jobs.
    pub batch: DecisionTime,
    /// For service jobs.
    pub service: DecisionTime,
}

impl Scheduler {
    /// Time for which it decides on so many tasks of a job of this kind.
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
    /// The numbers of the jobs in the order in which they come.
    pub arrivals: &'a [u32],
    /// The scheduler of each job.
    pub owners: &'a [u32],
    /// The schedulers.
    pub schedulers: &'a [Scheduler],
    /// When machines change, in seconds, ascending: what changes is the cell's matter.
    pub changes: &'a [f64],
    /// When it ends, in seconds; the first event after that still happens.
    pub end_s: f64,
    /// Whether the use of the cell is looked at every second. A look is an event: with it, there always is a next one.
    pub survey: Survey,
}

/// Whether the use of the cell is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survey {
    /// Every second, from the start.
    EverySecond,
    /// Never.
    Never,
}

/// After how long a job that was not placed whole is put in the queue again.
const RETRY_S: f64 = 1.0;
/// After so many attempts that placed nothing, a job is given up.
const ATTEMPTS_VAIN_MAX: u32 = 100;
/// After so many attempts, a job is given up in any case.
const ATTEMPTS_MAX: u32 = 1000;
