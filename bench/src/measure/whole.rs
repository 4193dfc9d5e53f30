//! Question: how many tasks does a core place in a second, from sync to settled commit?
//!
//! Each run starts from a copy of one cell at 60 % use. Jobs are submitted in waves; the submission is not measured.
//! After each wave, the workers step until every task is placed, and this time is measured. A run ends before 70 % use.
//! The processor time is that of the workers' threads.

use crate::measure::bare::{self, Columns};
use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, Span, by_turns, timed, timed_on_all_threads};
use crate::measure::scan;
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::{CellHandle, SharedCell};
use omega_core::{Command, Job};
use omega_schedulers::{Profile, Scheduler, Search, Settings, Unobserved};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const WORKLOAD: &str =
    "cells from 60 to 70 % use; small tasks; a window of 64 feasible machines, 1 score; SharedCell";

/// Number of feasible machines among which a search chooses, as in the bare loop.
pub(crate) const FEASIBLE: u32 = 64;

/// Number of tasks of one wave. A wave has several thousand decisions, but far fewer changes than the cell's change
/// lists have room for.
pub(crate) const WAVE: usize = 10_000;

/// Load of a run.
#[derive(Clone)]
pub(crate) struct Load {
    /// Number of tasks that are placed.
    pub(crate) tasks: usize,
    /// Number of tasks of each job.
    pub(crate) job_tasks: usize,
    /// Number of tasks that are submitted at once, before the workers start.
    pub(crate) wave: usize,
    /// Settings of each worker.
    pub(crate) workers: Vec<Settings>,
}

impl Load {
    /// A load for this many workers, with a search over a random sample of machines. Each job fills one transaction.
    pub(crate) fn sampled(tasks: usize, workers: usize, claims: usize) -> Load {
        let settings = |i| Settings {
            claims_max: claims,
            ..Settings::worker("default", i, workers as u32)
                .with_search(Search::Sampled { feasible: FEASIBLE })
                .with_seed(SEED)
        };
        let workers = (0..workers as u32).map(settings).collect();
        Load { tasks, job_tasks: claims, wave: WAVE, workers }
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) placed: usize,
    pub(crate) conflicts: usize,
    /// Processor time of all workers, and wall time from the start of the first worker to the end of the last.
    pub(crate) span: Span,
    /// Wall time of the run, with the processor time of the whole process.
    pub(crate) process: Span,
}

impl Done {
    pub(crate) fn each(&self) -> Figure {
        self.span.each(self.placed)
    }
}

/// A cell to which jobs can be submitted.
pub(crate) trait Submit: CellHandle {
    /// Submits jobs, and returns when the cell has committed them.
    fn submit(&self, jobs: Vec<Job>);

    /// Waits until this handle has the jobs that were submitted at any handle.
    fn catch_up(&self);
}

impl Submit for SharedCell {
    fn submit(&self, jobs: Vec<Job>) {
        self.apply_all(jobs.into_iter().map(Command::SubmitJob));
    }

    fn catch_up(&self) {}
}

/// Places all tasks of a load, in waves. `profile` makes the profile of each worker.
pub(crate) fn run(made: &Made, load: &Load, profile: fn() -> Profile) -> Done {
    run_on(&[SharedCell::new(made.copy())], load, profile)
}

/// Runs on handles of one cell; workers are assigned to handles in turn.
pub(crate) fn run_on(cells: &[impl Submit], load: &Load, profile: fn() -> Profile) -> Done {
    let start =
        Start { together: Barrier::new(load.workers.len() + 1), waves: AtomicUsize::new(0) };
    let waves = load.tasks.div_ceil(load.wave);
    let wave_tasks = load.tasks / waves / load.job_tasks * load.job_tasks;
    std::thread::scope(|scope| {
        let work = |(i, settings): (usize, Settings)| {
            let (cell, start) = (&cells[i % cells.len()], &start);
            // The thread is named, so that a profiler distinguishes workers from the set-up.
            let named = std::thread::Builder::new().name("worker".into());
            let work = move || worker(cell, profile(), settings, (start, waves));
            named.spawn_scoped(scope, work).expect("a thread starts")
        };
        let handles: Vec<_> = load.workers.iter().cloned().enumerate().map(work).collect();
        let mut wall = Span::default();
        start.together.wait();
        for wave in 0..waves {
            let first = wave * wave_tasks / load.job_tasks;
            let jobs = cells::small_jobs(first, wave_tasks, load.job_tasks);
            cells[0].submit(jobs.collect());
            cells.iter().for_each(Submit::catch_up);
            start.together.wait();
            std::thread::sleep(SPREAD);
            let ((), span) = timed_on_all_threads(|| {
                start.waves.store(wave + 1, Ordering::Release);
                start.together.wait();
            });
            wall += span;
        }
        let mut done = Done::default();
        for handle in handles {
            let part = handle.join().expect("a worker does not panic");
            done.placed += part.placed;
            done.conflicts += part.conflicts;
            done.span.cpu += part.span.cpu;
        }
        done.span.wall = wall.wall;
        done.process = wall;
        assert_eq!(done.placed, waves * wave_tasks, "every task finds a machine");
        done
    })
}

/// The start of a wave.
///
/// All threads first meet at the barrier, where the kernel wakes the workers. It often wakes two workers on one
/// processor, and moves one of them some milliseconds later. So the workers spin until the wave is counted.
struct Start {
    together: Barrier,
    /// Number of waves that have started.
    waves: AtomicUsize,
}

impl Start {
    fn wait_for(&self, wave: usize) {
        self.together.wait();
        while self.waves.load(Ordering::Acquire) <= wave {
            std::hint::spin_loop();
        }
    }
}

/// Time in which the kernel distributes spinning workers over the processors.
const SPREAD: Duration = Duration::from_millis(5);

/// One worker: registers and syncs, then steps through each wave until nothing is pending.
fn worker(
    cell: &impl CellHandle,
    profile: Profile,
    settings: Settings,
    (start, waves): (&Start, usize),
) -> Done {
    let mut scheduler = Scheduler::new(cell, profile, settings).expect("a worker registers");
    scheduler.step(cell, 0, &mut Unobserved).expect("a cell in this process answers");
    let mut done = Done::default();
    let mut now = 0;
    start.together.wait();
    for wave in 0..waves {
        start.wait_for(wave);
        let ((), span) = timed(|| {
            loop {
                let step = scheduler.go_on(cell, now, &mut Unobserved).expect("the cell answers");
                done.placed += step.placed;
                done.conflicts += step.conflicts;
                if step.idle && scheduler.queue().pending_tasks() == 0 {
                    break;
                }
                // Waiting is not measured: if every job waits for a later time, the clock is advanced.
                now += if step.idle { 10_000_000 } else { 1000 };
            }
        });
        done.span += span;
        start.together.wait();
    }
    done
}

/// Number of tasks by which the use of a cell grows from 60 to below 70 %.
fn tasks(options: &Options, machines: usize) -> usize {
    options.work(100_000).min(machines * 15)
}

/// Medians of Omega's and of the bare loop's runs.
fn measure(options: &Options, made: &Made, load: &Load) -> (Figure, Figure) {
    let (_, mut view) = cells::viewed(made);
    scan::profile().prepare(&mut view);
    let mut columns = Columns::of(&view);
    let each = load.workers[0].claims_max;
    by_turns(
        options.runs(),
        || run(made, load, scan::profile).each(),
        || bare::whole(&mut columns, load.tasks, each, SEED),
    )
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(10_000);
    let count = tasks(options, 10_000);
    let mut rows = Vec::new();
    let mut small = Vec::new();
    for (claims, limit, reach, most) in
        [(1, "2.2 M/s", 0.7, 6.0), (10, "7-9 M/s", 2.5, 3.0), (100, "7-9 M/s", 2.5, 2.0)]
    {
        let (ours, bare) = measure(options, &made, &Load::sampled(count, 1, claims));
        small.push(ours.cpu);
        let row = rate(format!("10,000 machines, {claims}-task jobs, {claims} claims"), ours, bare);
        rows.push(row.limit(limit).reach(Reach::AtLeast(reach)));
        rows.push(to_bare(ours, bare).reach(Reach::AtMost(most)));
    }
    for (job_tasks, claims, most) in [(100, 1, 4.0), (1, 100, 6.0)] {
        let load = Load { job_tasks, ..Load::sampled(count, 1, claims) };
        let (ours, bare) = measure(options, &made, &load);
        rows.push(rate(format!("  {job_tasks}-task jobs, {claims} claims"), ours, bare));
        rows.push(to_bare(ours, bare).reach(Reach::AtMost(most)));
    }
    let made = cells::in_use(100_000);
    for (claims, small) in [1, 10, 100].into_iter().zip(small) {
        let (ours, bare) = measure(options, &made, &Load::sampled(count, 1, claims));
        rows.push(rate(format!("100,000 machines, {claims} claims"), ours, bare));
        let what = format!("  rate of that at 10,000 machines, {claims} claims");
        let row = Row::value(what, Unit::Times, small / ours.cpu);
        rows.push(row.limit("0.5 x").reach(Reach::AtLeast(0.4)));
    }
    rows
}

/// The ratio of a placement's time to that of the bare loop.
fn to_bare(ours: Figure, bare: Figure) -> Row {
    Row::value("  time to the bare loop's", Unit::Times, ours.cpu / bare.cpu)
}

fn rate(what: String, ours: Figure, bare: Figure) -> Row {
    Row::time(what, Unit::MillionsPerSecond, ours).beside(bare)
}

/// Rows for combinations of numbers of machines, of workers, and of claims per transaction.
pub(crate) fn matrix(options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for machines in [1000, 10_000, 100_000] {
        let made = cells::in_use(machines);
        for workers in [1, 2, 4] {
            for claims in [1, 10, 100] {
                let load = Load::sampled(tasks(options, machines), workers, claims);
                let (ours, bare) = measure(options, &made, &load);
                let what = format!("{machines} machines, {workers} workers, {claims} claims");
                rows.push(rate(what, ours, bare));
            }
        }
    }
    rows
}
