//! Question: do workers avoid conflicts with each other, and do they use the cores?
//!
//! Conflicts are measured in two ways, because threads that run freely rarely decide at the same time on two cores. In
//! the second way, all eight workers decide on the same version before any of them commits. This is the worst case, and
//! does not depend on the number of cores.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, median};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::whole::{self, Load};
use crate::measure::{Options, SEED};
use omega_cellstate::{CellHandle, CommitHook, SharedCell};
use omega_core::{Command, Transaction};
use omega_schedulers::{Home, Profile, Scheduler, Search, Settings, Unobserved};
use std::sync::Barrier;

pub(crate) const WORKLOAD: &str =
    "10,000 machines from 60 % use; 8 workers, 1-task jobs, 1 claim, default settings; speed-up";

pub(crate) const WORKERS: u32 = 8;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(10_000);
    let tasks = options.work(100_000);
    let mut rows = Vec::new();
    for (name, profile) in
        [("batch", Profile::batch as fn() -> Profile), ("service", Profile::service)]
    {
        let free = (0..3).map(|run| refused_freely(&made, tasks, run, profile)).collect();
        let what = format!("claims refused, {name} profile, threads");
        let row = Row::value(what, Unit::Percent, median(free));
        rows.push(row.limit("0-1 %").reach(Reach::AtMost(2.0)));
        let rounds = tasks / WORKERS as usize / 4;
        let steps = refused_in_step((&made, rounds), settings(0), profile);
        let row =
            Row::value(format!("claims refused, {name} profile, lock step"), Unit::Percent, steps);
        rows.push(row.limit("0-1 %").reach(Reach::AtMost(2.0)));
    }
    // This run has no home shards. Its difference from the run of the batch profile above is the benefit of home
    // shards.
    let steps = refused_in_step(
        (&made, tasks / WORKERS as usize / 4),
        settings(0).into_iter().map(homeless).collect(),
        Profile::batch,
    );
    let what = "  batch profile, lock step, without homes";
    rows.push(Row::value(what, Unit::Percent, steps));
    rows.push(speed_up(options, &made));
    rows
}

fn settings(run: u64) -> Vec<Settings> {
    let worker = |i| Settings {
        claims_max: 1,
        ..Settings::worker("default", i, WORKERS).with_seed(SEED + run)
    };
    (0..WORKERS).map(worker).collect()
}

fn homeless(mut settings: Settings) -> Settings {
    settings.placement.home = Home::EVERYWHERE;
    settings
}

fn percent(conflicts: usize, placed: usize) -> f64 {
    100.0 * conflicts as f64 / (conflicts + placed) as f64
}

fn refused_freely(made: &Made, tasks: usize, run: u64, profile: fn() -> Profile) -> f64 {
    let load = Load { tasks, job_tasks: 1, wave: whole::WAVE, workers: settings(run) };
    let done = whole::run(made, &load, profile);
    percent(done.conflicts, done.placed)
}

/// Share of rejected claims when all workers decide on the same version, over a number of rounds.
pub(crate) fn refused_in_step(
    (made, rounds): (&Made, usize),
    settings: Vec<Settings>,
    profile: fn() -> Profile,
) -> f64 {
    let cell = SharedCell::new(made.copy());
    // There are two jobs for each worker and round, so that every worker always has a job.
    let jobs = cells::small_jobs(0, 2 * rounds * WORKERS as usize, 1);
    cell.apply_all(jobs.map(Command::SubmitJob));
    let (decided, committed) = (Barrier::new(WORKERS as usize), Barrier::new(WORKERS as usize));
    // No commit is answered before every worker has sent one.
    let handle = CommitHook::new(&cell, |cell: &SharedCell, txns: &[&Transaction]| {
        decided.wait();
        let commits = cell.commit_all(txns);
        committed.wait();
        commits
    });
    let work = |settings: Settings| {
        let mut scheduler = Scheduler::new(&cell, profile(), settings).expect("a worker registers");
        let mut sums = (0, 0);
        for round in 0..rounds {
            let now = round as u64 * 10_000_000;
            let step = scheduler.step(&handle, now, &mut Unobserved).expect("the cell answers");
            sums = (sums.0 + step.conflicts, sums.1 + step.placed);
        }
        sums
    };
    let (conflicts, placed) = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> =
            settings.into_iter().map(|settings| scope.spawn(move || work(settings))).collect();
        let parts = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        parts.fold((0, 0), |sums, part| (sums.0 + part.0, sums.1 + part.1))
    });
    percent(conflicts, placed)
}

/// Wall time of one worker divided by that of four, in a case where decisions take most of the time.
fn speed_up(options: &Options, made: &Made) -> Row {
    let wall = |workers: u32| {
        let settings = |i| {
            let mut settings = Settings::worker("default", i, workers).with_search(Search::Full);
            // If earlier results were reused, the full scan would be a small part of the work.
            settings.placement.reuse = false;
            Settings { claims_max: 1, ..settings }
        };
        let workers = (0..workers).map(settings).collect();
        let tasks = options.work(20_000);
        let load = Load { tasks, job_tasks: 1, wave: whole::WAVE, workers };
        whole::run(made, &load, Profile::batch).each()
    };
    let runs: Vec<(Figure, Figure)> = (0..options.runs()).map(|_| (wall(1), wall(4))).collect();
    let ratio = median(runs.iter().map(|(one, four)| one.wall / four.wall).collect());
    let one = median(runs.iter().map(|(one, _)| one.wall / 1000.0).collect());
    let what = format!("4 workers to 1, full scans ({one:.1} us a placement)");
    Row::value(what, Unit::Times, ratio).reach(Reach::AtLeast(1.5))
}
