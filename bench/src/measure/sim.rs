//! Question: how many tasks does the simulator place in a core-second?
//!
//! The first rows are the published runs of the reference, on its model of a cell, compared with the reference's own
//! rate. Then comes the released cell, where each task is a checked claim and a command that ends the task. The time to
//! read the workload is excluded, except for the month's workload, which is read during the run. The points of a sweep
//! share only their workload; the last rows show whether two threads take half the time of one.

use crate::measure::clock::{Figure, median, timed, timed_on_all_threads};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_core::{ConflictCheck, Granularity};
use omega_schedulers::config::Profiles;
use omega_sim::compat::{JobList, JobLists, ReferenceFile, run_point};
use omega_sim::engine::{DecisionTime, Retries};
use omega_sim::scenario::{ArchitectureKind, Outcome, ScenarioSettings, simulate, simulate_stream};
use omega_sim::shipped::ShippedError;
use omega_workload::stream::Stream;
use omega_workload::synth::{self, SynthOptions, synthesize};
use omega_workload::{LoadError, Workload};
use rayon::prelude::*;
use std::path::Path;

pub(crate) const WORKLOAD: &str = "tasks placed in simulated runs, 3 of each figure, or 1; limit: the reference simulator's own rate";

/// Placements of the reference simulator per core-second, in thousands.
const REFERENCE_K: f64 = 722.0;

/// Number of runs per figure; each run takes seconds.
fn runs(options: &Options) -> usize {
    if options.quick { 1 } else { 3 }
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for file in [("ref_omega", 10.0), ("ref_lambda", 20.0)] {
        rows.extend(as_the_reference(options, file));
    }
    rows.extend(shipped(options));
    rows.extend(sweep(options));
    rows
}

/// Rows for the runs of a published file, with the target speed relative to the reference.
fn as_the_reference(options: &Options, (name, times_wanted): (&str, f64)) -> Vec<Row> {
    let folder = options.data.join("omega-sim");
    let (file, lists) = match read(&folder, name, options.quick) {
        Ok(read) => read,
        Err(why) => {
            let what = format!("{name}: skipped: {why}");
            return vec![Row::value(what, Unit::MillionsPerSecond, f64::NAN)];
        }
    };
    let once = |_| {
        let all = || file.points.iter().map(|point| run_point(point, &lists).placed()).sum();
        let (tasks, span): (u64, _) = timed(all);
        span.each(tasks as usize)
    };
    let ours = Figure::median(&(0..runs(options)).map(once).collect::<Vec<_>>());
    let points = file.points.len();
    let rate = Row::time(format!("{name}, {points} points"), Unit::MillionsPerSecond, ours);
    let times = 1e6 / ours.cpu / REFERENCE_K;
    vec![
        rate.limit("0.722 M/s"),
        Row::value("  to the reference's rate", Unit::Times, times)
            .reach(Reach::AtLeast(times_wanted)),
    ]
}

/// Reads a reference file with its job lists; with `quick`, only its first rows.
fn read(folder: &Path, name: &str, quick: bool) -> Result<(ReferenceFile, JobLists), LoadError> {
    let rows = quick.then_some(12);
    let file = ReferenceFile::read(&folder.join(format!("{name}.csv")), rows)?;
    let list = |name: &&str| Ok((name.to_string(), JobList::read(folder, name)?));
    let lists = file.lists().iter().map(list).collect::<Result<_, LoadError>>()?;
    Ok((file, lists))
}

/// Settings for shared state with this many batch schedulers. A decision takes a tenth of a second, and 5 ms for each
/// task.
fn settings(batch: u32, seed: u64) -> ScenarioSettings {
    let decides = DecisionTime { job_s: 0.1, task_s: 0.005 };
    ScenarioSettings {
        architecture: ArchitectureKind::SharedState,
        batch_schedulers: batch,
        service_schedulers: 1,
        batch_decides: decides,
        service_decides: decides,
        check: ConflictCheck::ResourceFit,
        granularity: Granularity::Incremental,
        pickiness: 0.0,
        near_best: 1,
        parts: 1,
        probes: 1,
        retries: Retries::Unlimited,
        end_s: None,
        seed,
        profiles: Profiles::default(),
    }
}

fn synthetic(machines: u32, hours: u32) -> SynthOptions {
    SynthOptions { machines, seed: SEED, span_hours: hours, ..SynthOptions::default() }
}

/// Tasks that the schedulers placed.
fn placed(outcome: &Outcome) -> usize {
    outcome.report.schedulers.iter().map(|one| one.tasks_placed as usize).sum()
}

fn run(workload: &Workload, settings: &ScenarioSettings) -> usize {
    placed(&simulate(workload, settings).expect("a cell takes a made-up workload"))
}

fn shipped(options: &Options) -> Vec<Row> {
    let hours = if options.quick { 4 } else { 24 };
    let workload = synthesize(&synthetic(10_000, hours));
    let rate = |batch: u32| {
        let once = |_| {
            let (tasks, span) = timed(|| run(&workload, &settings(batch, SEED)));
            span.each(tasks)
        };
        let ours = Figure::median(&(0..runs(options)).map(once).collect::<Vec<_>>());
        let what = format!("shipped cell, {hours} h of 10,000 machines, {batch} for batch");
        Row::time(what, Unit::MillionsPerSecond, ours)
    };
    let mut rows = vec![rate(4), rate(16)];
    if !options.quick {
        rows.extend(month());
    }
    rows
}

/// A synthetic month of a cell of Google's size, generated during the run.
fn month() -> [Row; 2] {
    let open =
        || Ok::<Box<dyn Stream>, ShippedError>(Box::new(synth::open(&synthetic(12_500, 720))));
    let whole = || simulate_stream(open, &settings(4, SEED));
    let (outcome, span) = timed(whole);
    let tasks = placed(&outcome.expect("a cell takes a made-up workload"));
    let what = "shipped cell, a month of 12,500 machines";
    [
        Row::time(what, Unit::MillionsPerSecond, span.each(tasks)),
        Row::time("  all of it", Unit::Seconds, span.each(1)),
    ]
}

/// Speed-up of a sweep by two threads, and its processor time.
fn sweep(options: &Options) -> [Row; 2] {
    let workload = synthesize(&synthetic(2000, if options.quick { 4 } else { 24 }));
    let points: Vec<ScenarioSettings> = (0..8).map(|seed| settings(4, seed)).collect();
    let by = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("the system has two threads");
        let all = || points.par_iter().map(|point| run(&workload, point)).sum::<usize>();
        let (_, span) = timed_on_all_threads(|| pool.install(all));
        (span.wall.as_secs_f64(), span.cpu.as_secs_f64())
    };
    let times = (0..runs(options)).map(|_| {
        let ((wall, cpu), (wall_of_two, cpu_of_two)) = (by(1), by(2));
        (wall / wall_of_two, cpu_of_two / cpu)
    });
    let (sooner, more): (Vec<f64>, Vec<f64>) = times.unzip();
    let what = "8 points of a sweep by 2 threads, speed-up";
    [
        Row::value(what, Unit::Times, median(sooner)).reach(Reach::AtLeast(1.8)),
        Row::value("  processor time of 2 threads to 1", Unit::Times, median(more))
            .reach(Reach::AtMost(1.1)),
    ]
}
