//! A run: real schedulers on threads place a workload on a real cell.
//!
//! ```text
//!   arrivals, machine events ─┐                              ┌─ scheduler ─┐
//!   ends of tasks ────────────┴─▶ feeder ─ commands ─▶ cell ◀┼─ scheduler ─┤
//!        ▲                        (this thread)              └─ scheduler ─┘
//!        └───────────────── placements, by channel ◀────────────────┘
//! ```
//!
//! The schedulers run freely and in parallel; only time and the tasks are simulated. The feeder advances the
//! workload's clock, submits arriving jobs, and ends tasks after their run time. With [`Pace::Fastest`], the
//! clock jumps from event to event. It waits only while it is too far ahead of the schedulers, so that the order
//! and the times of the workload are kept: by many changes (see [`WINDOW_MAX`]), or by more than a fiftieth of the
//! mean run time of tasks, at most half a minute. Before it goes on, jobs that found no machine are tried again if
//! something was freed. With [`Pace::InTurns`], the clock waits for the schedulers before each event. With
//! [`Pace::Speed`], the clock follows the wall clock. The run ends at the last arrival, after the schedulers have
//! tried all jobs.

pub mod backend;
mod cell;
mod clients;
mod clock;
mod counts;
mod driver;
mod error;
mod meter;
mod named;
mod options;
mod outcome;
mod passes;
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

use crate::report::RunReport;
use crate::report::waiting::WaitingReport;
use backend::DurableBackend;
use cell::RunCell;
use omega_cellstate::Cell;
use omega_schedulers::{Clock, Pool, Worker};
use omega_workload::Workload;
use outcome::FinishedRun;
use std::sync::Arc;

pub use driver::explained::{AskedJob, Which, explain_at, explain_cell};
pub use error::RunError;
pub use omega_workload::SCHEDULERS;
pub use options::{
    CLIENTS, Evict, Pace, PlacedFile, Progress, Rebalancing, RunOptions, WINDOW_MAX, Workers,
};
pub use rebalanced::{Carry, Moment, Pass, cell_of, rebalance_at, rebalance_cell};
pub use stop::Stop;
#[cfg(feature = "durable")]
pub use timed::{TimedCell, Took};

/// Runs a workload until its last job has arrived and the schedulers have tried all jobs.
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
    Ok(driver::explained::report(ended, which, &options.stop))
}

fn run_to_the_end(
    workload: Workload,
    options: &RunOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<FinishedRun, RunError> {
    let found = |backend: &Arc<dyn DurableBackend>| backend.found(&workload.kinds);
    let durable = options.backend.as_ref().map(found).transpose()?;
    if options.workers == Workers::LockStep && (durable.is_some() || options.pace.is_timed()) {
        return Err(RunError::NoLockStep);
    }
    let cells = match &durable {
        Some(durable) => durable.cells().into_iter().map(RunCell::Replica).collect(),
        None => vec![RunCell::memory(Cell::new(workload.kinds.clone()))],
    };
    let mut feeder = driver::feeder::Feeder::new(cells[0].clone(), workload, options)?;
    let clock = Arc::new(clock::RunClock::start(options.pace));
    let cpu_before = clock::process_cpu_s();
    let goes_on =
        || durable.as_ref().map_or(Ok(()), |durable| durable.check()).map_err(RunError::from);
    let mut driven = Driven { feeder: &mut feeder, cells: &cells, clock: &clock };
    let (mut workers, served) = match options.workers {
        Workers::Threads => driven.on_threads(options, &goes_on, progress),
        Workers::LockStep => driven.in_lock_step(options, progress),
    }?;
    if let Some((worker, why)) = workers.iter().find_map(|w| Some((w, w.error.clone()?))) {
        return Err(RunError::Scheduler { name: worker.scheduler.settings().name.clone(), why });
    }
    feeder.close(&clock)?;
    let wall_s = clock.seconds();
    let cpu_s = cpu_before.zip(clock::process_cpu_s()).map(|(before, after)| after - before);
    let fed = feeder.end();
    if fed.interrupted {
        look(&mut workers, &cells, &clock);
    }
    match &durable {
        Some(durable) => durable.check_states()?,
        None => _ = cells[0].read(|cell| cell.audit())?,
    }
    Ok(FinishedRun { fed, durable, workers, served, wall_s, cpu_s })
}

/// Syncs the schedulers of an interrupted run with the cell, because the report takes pending jobs from their queues.
fn look(workers: &mut [Worker<meter::Meter>], cells: &[RunCell], clock: &clock::RunClock) {
    for (worker, cell) in workers.iter_mut().zip(cells.iter().cycle()) {
        // If a replica no longer answers, a later check reports it.
        let _ = worker.scheduler.look(cell, clock.now());
    }
}

/// The feeder, the cell handles and the clock of a run in progress.
struct Driven<'a> {
    feeder: &'a mut driver::feeder::Feeder,
    cells: &'a [RunCell],
    clock: &'a Arc<clock::RunClock>,
}

impl Driven<'_> {
    fn on_threads(
        &mut self,
        options: &RunOptions,
        goes_on: &dyn Fn() -> Result<(), RunError>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<driver::drive::Done, RunError> {
        let Driven { feeder, cells, clock } = self;
        let (cells, clock) = (*cells, *clock);
        let schedulers = feeder.schedulers(cells, options, clock)?;
        let fronts = feeder.fronts(cells, clock)?;
        let clock: &clock::RunClock = clock;
        std::thread::scope(|scope| {
            let each = cells.iter().cycle().zip(schedulers);
            let each = each.map(|(cell, (scheduler, meter))| (cell, scheduler, meter));
            let pool = Pool::start_each(scope, clock, each);
            let fronts = clients::Fronts::start(scope, clock, cells, fronts);
            let mut threads = driver::drive::Threads { pool, fronts, clock, goes_on };
            let fed = feeder.feed(&mut threads, options.pace, clock, progress);
            let done = threads.stop();
            fed.and(done)
        })
    }

    fn in_lock_step(
        &mut self,
        options: &RunOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<driver::drive::Done, RunError> {
        let Driven { feeder, cells, clock } = self;
        let (cells, clock) = (*cells, *clock);
        let schedulers = feeder.schedulers(cells, options, clock)?;
        let fronts = feeder.fronts(cells, clock)?.into_iter();
        let fronts = fronts.map(|front| clients::Front::new(front, &cells[0])).collect();
        let mut stepped = driver::drive::Stepped::new(&cells[0], schedulers, fronts);
        feeder.feed(&mut stepped, options.pace, clock, progress)?;
        stepped.stop()
    }
}
