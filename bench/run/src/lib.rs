//! A run: real schedulers on threads place a workload on a real cell.
//!
//! ```text
//!   arrivals, machine events ─┐                              ┌─ scheduler ─┐
//!   ends of tasks ────────────┴─▶ feeder ─ commands ─▶ cell ◀┼─ scheduler ─┤
//!        ▲                        (this thread)              └─ scheduler ─┘
//!        └───────────────── placements, by channel ◀────────────────┘
//! ```
//!
//! The schedulers run freely and in parallel; only time and the tasks are simulated. The feeder has
//! the workload's clock, submits arriving jobs, and ends tasks after their run time. With
//! [`Pace::Fastest`], the clock jumps from event to event, and waits only while it is too far ahead of
//! the schedulers (see [`WINDOW_MAX`]), so that the workload's order and times keep their meaning.
//! Before it jumps over more than ten seconds, jobs that found no machine are tried again.
//! With [`Pace::InTurns`], the clock waits for the schedulers before each event, and jobs that found no machine are tried
//! again in each second. With [`Pace::Speed`], the clock follows the wall clock. The run
//! ends at the last arrival, after the schedulers have tried all jobs.

mod agenda;
mod cell;
mod clients;
mod clock;
mod counts;
mod crew;
mod drive;
mod ends;
mod explained;
mod feeder;
pub mod kept;
mod lane;
mod ledger;
mod message;
mod meter;
mod named;
mod outcome;
mod rebalanced;
#[cfg(feature = "durable")]
pub mod replicas;
pub mod report;
mod samples;
mod stop;
#[cfg(test)]
mod tests;
#[cfg(feature = "durable")]
mod timed;
mod watch;
mod window;

use crate::report::RunReport;
use crate::report::waiting::WaitingReport;
use cell::RunCell;
use kept::{KeepError, Keeper, Kept};
use omega_cellstate::Cell;
use omega_core::{Command, ConflictCheck, Granularity, Rejection, Text};
use omega_schedulers::config::{ConfigError, Profiles};
use omega_schedulers::{Clock, Nanos, Pool, Search, Worker};
use omega_workload::Workload;
use std::sync::Arc;

pub use explained::{AskedJob, explain_at, explain_cell};
pub use omega_workload::SCHEDULERS;
pub use rebalanced::{Carry, Moment, Pass, cell_of, rebalance_at, rebalance_cell};
pub use stop::Stop;
#[cfg(feature = "durable")]
pub use timed::{TimedCell, Took};

/// Maximum distance of the clock from the schedulers at full pace. The clock waits for the schedulers while this many
/// tasks are pending, or while four times as many have arrived or ended unseen by a scheduler. In small cells the limit
/// is two tasks for five machines. With this window, every scheduler has work. It is also small compared with the
/// number of running tasks, so tasks are placed and end hardly later than in trace time. (Without a limit, all jobs of
/// a small workload would arrive before its first task ends.)
pub const WINDOW_MAX: usize = 4096;

/// Names of clients that are not schedulers. Jobs for `offers` are placed by frameworks that get offers, one per
/// tenant. Each job for `asks` is an application that requests containers.
pub const CLIENTS: [&str; 2] = ["offers", "asks"];

/// Speed of the workload's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the schedulers can follow.
    Fastest,
    /// As fast as possible, but before each event the schedulers try all pending jobs. The same input then gives the
    /// same run, unless the order of the schedulers' commits matters.
    InTurns,
    /// Seconds of the workload per second of the run.
    Speed(f64),
}

impl Pace {
    /// Whether the wall clock determines the times of events.
    fn is_timed(self) -> bool {
        matches!(self, Pace::Speed(_))
    }
}

/// Concurrency of the schedulers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// Each scheduler has its own thread. If two claim the same resources, the timing of the threads decides which of
    /// them commits first.
    #[default]
    Threads,
    /// All schedulers run in lock step on one thread: the same input and seed give the same placements, conflicts and
    /// samples. This requires a cell in memory, and a pace that does not follow the wall clock.
    LockStep,
}

/// Schedulers that may evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evict {
    /// The schedulers whose profiles have a plugin that evicts.
    #[default]
    AsProfilesSay,
    /// Every scheduler.
    Always,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of schedulers for the jobs that name `service`.
    pub service_schedulers: u32,
    /// Number of schedulers for the jobs that name `batch`; each gets a part of the jobs.
    pub batch_schedulers: u32,
    /// Maximum number of claims in a transaction.
    pub claims_max: usize,
    /// Time in nanoseconds for which a scheduler keeps a transaction open when it has no further job to try.
    pub hold: Nanos,
    /// Whether transactions may be committed in part.
    pub granularity: Granularity,
    /// Changes that count as conflicts.
    pub check: ConflictCheck,
    /// Search of the schedulers; `None` means that of their profiles.
    pub search: Option<Search>,
    /// Profiles by scheduler name. Other schedulers have ready-made profiles.
    pub profiles: Profiles,
    /// Which schedulers evict tasks of lower precedence for tasks that fit on no machine.
    pub evict: Evict,
    /// Speed of the workload's time.
    pub pace: Pace,
    /// Concurrency of the schedulers.
    pub workers: Workers,
    /// The seed of the schedulers' choices.
    pub seed: u64,
    /// A request to end the run early.
    pub stop: Stop,
    /// The storage of the cell; `None` for a cell in memory.
    pub keeper: Option<Arc<dyn Keeper>>,
    /// Commands that are applied before all others, such as tenants and their settings, quotas, and policy beyond the
    /// workload's.
    pub setup: Vec<Command>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            service_schedulers: 1,
            batch_schedulers: 3,
            claims_max: 100,
            hold: 0,
            granularity: Granularity::Incremental,
            check: ConflictCheck::ResourceFit,
            search: None,
            profiles: Profiles::default(),
            evict: Evict::default(),
            pace: Pace::Fastest,
            workers: Workers::default(),
            seed: 1,
            stop: Stop::default(),
            keeper: None,
            setup: Vec::new(),
        }
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Number of tasks that were submitted.
    pub submitted: u64,
    /// Number of tasks of the whole workload.
    pub tasks: u64,
    /// Placements so far.
    pub placements: u64,
    /// Number of pending tasks.
    pub pending: u64,
}

/// Error of a run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The cell rejected a machine. Correct the machine in the input.
    #[error("machine {name:?}: {why}")]
    Machine {
        /// Name of the machine.
        name: Text,
        /// The reason.
        why: Rejection,
    },
    /// No machine has this name. Drain an existing machine.
    #[error("there is no machine {name:?}")]
    NoMachine {
        /// Name of the machine.
        name: Text,
    },
    /// The cell rejected a job. Correct the job in the input.
    #[error("job {name:?}: {why}")]
    Job {
        /// Name of the job.
        name: Text,
        /// The reason.
        why: Rejection,
    },
    /// The cell rejected a command of `setup`. Correct the command.
    #[error("the set-up of the cell: {0}")]
    Setup(Rejection),
    /// A profile names something that the cell does not have. Correct the profile.
    #[error("profile {name:?}: {why}")]
    Profile {
        /// Name of the profile.
        name: String,
        /// The reason.
        why: Box<ConfigError>,
    },
    /// The cell did not answer a scheduler. The reason tells what can be done.
    #[error("scheduler {name:?}: {why}")]
    Scheduler {
        /// Name of the scheduler.
        name: Text,
        /// The reason.
        why: omega_cellstate::HandleError,
    },
    /// Lock step was requested together with disks or the wall clock, whose timing affects the order. Leave one of them
    /// out.
    #[error("schedulers work in lock step only on a cell in memory, and not in trace time")]
    NoLockStep,
    /// The storage of the cell could not be created, does not answer, or is damaged.
    #[error(transparent)]
    Kept(#[from] KeepError),
    /// The audit at the end found an error, which is a defect of Omega. Report it.
    #[error("the cell is wrong after the run, please report it: {0}")]
    Audit(#[from] omega_cellstate::AuditError),
}

/// Runs a workload to its last arrival, and until the schedulers have tried all jobs.
///
/// # Errors
/// If the cell rejects a part of the workload.
pub fn run(
    workload: Workload,
    options: &RunOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, RunError> {
    let ended = run_to_the_end(workload, options, progress)?;
    Ok(outcome::report(ended, options))
}

/// The jobs to explain after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// The job with this name.
    Job(&'a str),
    /// One job for each reason for which tasks are pending, up to five. The reason of the most tasks comes first.
    EachReason,
}

/// Runs a workload as [`run`] does, and explains why jobs are pending at its end.
///
/// # Errors
/// If the cell rejects a part of the workload.
pub fn explain(
    workload: Workload,
    options: &RunOptions,
    which: Which<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<WaitingReport, RunError> {
    let ended = run_to_the_end(workload, options, progress)?;
    Ok(explained::report(ended, which))
}

/// A run that has ended.
struct Ended {
    fed: feeder::Fed,
    kept: Option<Box<dyn Kept>>,
    workers: Vec<Worker<meter::Meter>>,
    served: Vec<clients::Served>,
    wall_s: f64,
    cpu_s: Option<f64>,
}

fn run_to_the_end(
    workload: Workload,
    options: &RunOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Ended, RunError> {
    let found = |keeper: &Arc<dyn Keeper>| keeper.found(&workload.kinds);
    let kept = options.keeper.as_ref().map(found).transpose()?;
    if options.workers == Workers::LockStep && (kept.is_some() || options.pace.is_timed()) {
        return Err(RunError::NoLockStep);
    }
    let cells = match &kept {
        Some(kept) => kept.cells().into_iter().map(RunCell::Replica).collect(),
        None => vec![RunCell::memory(Cell::new(workload.kinds.clone()))],
    };
    let mut feeder = feeder::Feeder::new(cells[0].clone(), workload, options)?;
    let clock = clock::RunClock::start();
    let cpu_before = clock::process_cpu_s();
    let goes_on = || kept.as_ref().map_or(Ok(()), |kept| kept.check()).map_err(RunError::from);
    let mut driven = Driven { feeder: &mut feeder, cells: &cells, clock: &clock };
    let (mut workers, served) = match options.workers {
        Workers::Threads => driven.on_threads(options, &goes_on, progress),
        Workers::LockStep => driven.in_lock_step(options, progress),
    }?;
    if let Some((worker, why)) = workers.iter().find_map(|w| Some((w, w.error.clone()?))) {
        return Err(RunError::Scheduler { name: worker.scheduler.settings().name.clone(), why });
    }
    feeder.close(&clock);
    let wall_s = clock.seconds();
    let cpu_s = cpu_before.zip(clock::process_cpu_s()).map(|(before, after)| after - before);
    let fed = feeder.end();
    if fed.interrupted {
        look(&mut workers, &cells, &clock);
    }
    match &kept {
        Some(kept) => kept.check_states()?,
        None => _ = cells[0].read(|cell| cell.audit())?,
    }
    Ok(Ended { fed, kept, workers, served, wall_s, cpu_s })
}

/// Syncs schedulers that were interrupted with the cell, because the report takes pending jobs from their queues.
fn look(workers: &mut [Worker<meter::Meter>], cells: &[RunCell], clock: &clock::RunClock) {
    for (worker, cell) in workers.iter_mut().zip(cells.iter().cycle()) {
        // The checks that follow report a replica that no longer answers.
        let _ = worker.scheduler.look(cell, clock.now());
    }
}

/// State of a run while it is driven.
struct Driven<'a> {
    feeder: &'a mut feeder::Feeder,
    cells: &'a [RunCell],
    clock: &'a clock::RunClock,
}

impl Driven<'_> {
    fn on_threads(
        &mut self,
        options: &RunOptions,
        goes_on: &dyn Fn() -> Result<(), RunError>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<drive::Done, RunError> {
        let Driven { feeder, cells, clock } = self;
        let (cells, clock) = (*cells, *clock);
        let schedulers = feeder.schedulers(cells, options)?;
        let fronts = feeder.fronts(cells)?;
        std::thread::scope(|scope| {
            let each = cells.iter().cycle().zip(schedulers);
            let each = each.map(|(cell, (scheduler, meter))| (cell, scheduler, meter));
            let pool = Pool::start_each(scope, clock, each);
            let fronts = clients::Fronts::start(scope, clock, cells, fronts);
            let mut threads = drive::Threads { pool, fronts, clock, goes_on };
            let fed = feeder.feed(&mut threads, options.pace, clock, progress);
            let done = threads.stop();
            fed.and(done)
        })
    }

    fn in_lock_step(
        &mut self,
        options: &RunOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<drive::Done, RunError> {
        let Driven { feeder, cells, clock } = self;
        let (cells, clock) = (*cells, *clock);
        let schedulers = feeder.schedulers(cells, options)?;
        let fronts = feeder.fronts(cells)?.into_iter();
        let fronts = fronts.map(|front| clients::Front::new(front, &cells[0])).collect();
        let mut stepped = drive::Stepped::new(&cells[0], schedulers, fronts);
        feeder.feed(&mut stepped, options.pace, clock, progress)?;
        stepped.stop()
    }
}
