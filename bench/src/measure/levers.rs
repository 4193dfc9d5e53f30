//! Question: how much does each optimisation of decisions or conflicts gain?
//!
//! Each optimisation is switched off in a case that it affects, with all others at their defaults. The figure is the
//! processor time of a scheduler's steps, from the sync that brings the jobs until no job is left to try.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Row, Unit};
use crate::measure::workers::{self, WORKERS};
use crate::measure::{Options, SEED};
use omega_cellstate::SharedCell;
use omega_core::{Amounts, Command, Job, JobId, KindId, TaskGroup, TaskId};
use omega_schedulers::{
    GroupPlacement, Placement, Placer, Profile, Scheduler, Search, Settings, Unobserved,
};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str =
    "10,000 machines; a way to decide faster or with fewer conflicts, with and without it";

const MACHINES: usize = 10_000;

/// Number of tasks of the job, which is placed by one decision, and then task by task.
const IDENTICAL: u32 = 100;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let mut rows = Vec::new();
    let mut pair = |what: &str, (with, without): (Figure, Figure)| {
        rows.push(Row::time(format!("{what}, with"), Unit::Micros, with));
        rows.push(Row::time("  without", Unit::Micros, without));
        let times = without.cpu / with.cpu;
        rows.push(Row::value("  without to with, time", Unit::Times, times));
    };
    pair("score reuse: a full search", score_reuse(options, &made));
    pair("failure cache: a job that fits nowhere", failures(options));
    pair("a full cell: 10,000 equal jobs wait", full_cell(options));
    pair("one search for 100 identical tasks", identical(options, &made));
    pair("bounds of blocks: 1 in 1,000 has room", bounds(options));
    pair("sampling: 64 feasible, not all", sampling(options, &made));
    rows.extend(conflicts(options, &made));
    rows
}

/// Scheduler time per job.
fn loop_cost(made: &Made, jobs: &[Job], settings: Settings) -> Figure {
    let cell = SharedCell::new(made.copy());
    let mut scheduler =
        Scheduler::new(&cell, Profile::service(), settings).expect("a scheduler registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    cell.apply_all(jobs.iter().cloned().map(Command::SubmitJob));
    let ((), span) = timed(run);
    span.each(jobs.len())
}

/// Cost of each job with the optimisation, and without it (`switch_off` disables it), in runs that alternate.
fn by_switch(
    options: &Options,
    (made, jobs): (&Made, &[Job]),
    settings: &Settings,
    switch_off: impl Fn(&mut Settings),
) -> (Figure, Figure) {
    let mut without = settings.clone();
    switch_off(&mut without);
    by_turns(
        options.runs(),
        || loop_cost(made, jobs, settings.clone()),
        || loop_cost(made, jobs, without.clone()),
    )
}

fn settings(search: Search) -> Settings {
    Settings::new("default").with_search(search).with_seed(SEED)
}

fn score_reuse(options: &Options, made: &Made) -> (Figure, Figure) {
    let jobs: Vec<_> = cells::small_jobs(0, options.work(10_000), 1).collect();
    by_switch(options, (made, &jobs), &settings(Search::Full), |off| off.placement.reuse = false)
}

/// Cost of jobs for which no machine is feasible. Half of the machines have the requested processors, and the other
/// half the memory, so every block has both, but no machine does.
fn failures(options: &Options) -> (Figure, Figure) {
    let mut machines = cells::machines(MACHINES);
    for (slot, machine) in machines.iter_mut().enumerate() {
        let (cpu, gib) = if slot.is_multiple_of(2) { (64_000, 8) } else { (4000, 512) };
        machine.capacity.set(KindId::CPU, cpu);
        machine.capacity.set(KindId::MEMORY, gib << 30);
    }
    let made = cells::filled(machines, |_| 550..650);
    let request = Amounts::new([8000, 16 << 30]);
    let job = |i| Job::batch(format!("large-{i}"), TaskGroup::new(1, request.clone()));
    let jobs: Vec<_> = (0..options.work(10_000)).map(job).collect();
    let settings = settings(Search::Adaptive);
    by_switch(options, (&made, &jobs), &settings, |off| off.failures = false)
}

/// Cost of a place that becomes free in a full cell in which many equal jobs wait, with the failure cache and without
/// it.
fn full_cell(options: &Options) -> (Figure, Figure) {
    const PLACES: usize = 100;
    let mut machines = cells::machines(PLACES);
    machines.iter_mut().for_each(|machine| machine.capacity.set(KindId::CPU, 1000));
    let group = TaskGroup::new(1, Amounts::new([1000]));
    let job = |i| Command::SubmitJob(Job::batch(format!("equal-{i}"), group.clone()));
    let places = options.work(PLACES);
    let waiting = options.work(10_000);
    let cost = |failures: bool| {
        let cell = SharedCell::new(cells::empty(machines.clone()).cell);
        cell.apply_all((0..PLACES + waiting + places).map(job));
        let settings = Settings { failures, ..settings(Search::Adaptive) };
        let mut scheduler =
            Scheduler::new(&cell, Profile::service(), settings).expect("a scheduler registers");
        let mut now = 0;
        let mut run = || loop {
            let step = scheduler.step(&cell, now, &mut Unobserved).expect("it answers");
            // If every job waits for a later time, the clock is advanced.
            now += if step.idle { 10_000_000 } else { 1000 };
            if step.idle && scheduler.queue().is_settled() {
                break;
            }
        };
        run();
        // Jobs are placed in order, so those killed have a place.
        let kill = |job| cell.apply(Command::KillJob { job: JobId(job as u64) });
        let ((), span) = timed(|| {
            for place in 0..places {
                kill(place).expect("a known job is killed");
                run();
            }
        });
        span.each(places)
    };
    by_turns(options.runs(), || cost(true), || cost(false))
}

/// Cost of one decision for many identical tasks, and of one decision for each task.
fn identical(options: &Options, made: &Made) -> (Figure, Figure) {
    let (_, mut view) = cells::viewed(made);
    let profile = Profile::service();
    profile.prepare(&mut view);
    let job = Job::batch("one", TaskGroup::new(IDENTICAL, cells::small_request()));
    let id = JobId(u64::MAX);
    let group = view.compile(id, &Arc::new(job), 0);
    let tasks: Vec<_> = (0..IDENTICAL).map(|index| TaskId { job: id, index }).collect();
    let how = Placement { search: Search::Full, ..Placement::default() };
    let count = options.work(50);
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut placer = Placer::default();
    let mut cost = |at_once: usize| {
        let ((), span) = timed(|| {
            for _ in 0..count {
                for part in tasks.chunks(at_once) {
                    let wanted = GroupPlacement { profile: &profile, placement: how, group };
                    let placed = placer.place(&mut view, wanted, part, &mut rng);
                    assert_eq!(placed, part.len(), "the cell has room for them");
                }
                view.drop_claims(tasks.len());
            }
        });
        span.each(count)
    };
    let figures = (0..options.runs()).map(|_| (cost(tasks.len()), cost(1)));
    let (with, without): (Vec<_>, Vec<_>) = figures.unzip();
    (Figure::median(&with), Figure::median(&without))
}

/// Cost of tasks that request memory which only one machine in a thousand has.
fn bounds(options: &Options) -> (Figure, Figure) {
    let mut machines = cells::machines(MACHINES);
    let most = machines.iter().map(|machine| machine.capacity.get(KindId::MEMORY)).max();
    let most = most.expect("there are machines");
    for machine in machines.iter_mut().step_by(1000) {
        machine.capacity.set(KindId::MEMORY, 1000 * most);
    }
    let made = cells::filled(machines, |_| 550..650);
    let request = Amounts::new([1, most + 1]);
    let job = |i| Job::batch(format!("rare-{i}"), TaskGroup::new(1, request.clone()));
    let jobs: Vec<_> = (0..options.work(1000)).map(job).collect();
    let mut settings = settings(Search::Indexed { feasible: 1 });
    settings.placement.reuse = false;
    by_switch(options, (&made, &jobs), &settings, |off| {
        off.placement.search = Search::Sampled { feasible: 1 };
    })
}

fn sampling(options: &Options, made: &Made) -> (Figure, Figure) {
    let jobs: Vec<_> = cells::small_jobs(0, options.work(5000), 1).collect();
    let mut settings = settings(Search::Adaptive);
    settings.placement.reuse = false;
    by_switch(options, (made, &jobs), &settings, |off| off.placement.search = Search::Full)
}

/// Share of rejected claims if all workers search all machines, for each method of avoiding collisions.
fn conflicts(options: &Options, made: &Made) -> Vec<Row> {
    let rounds = options.work(1000);
    let refused = |homes: bool, near_best: u32| {
        let worker = |i| {
            let of = if homes { WORKERS } else { 1 };
            let mut settings = Settings::worker("default", i, WORKERS).with_search(Search::Full);
            settings.placement.home.of = of;
            settings.placement.near_best = near_best;
            Settings { claims_max: 1, ..settings.with_seed(SEED) }
        };
        let settings = (0..WORKERS).map(worker).collect();
        workers::refused_in_step((made, rounds), settings, Profile::batch)
    };
    let row = |what: &str, percent| Row::value(what, Unit::Percent, percent);
    vec![
        row("claims refused, 8 in lock step, the best of all", refused(false, 1)),
        row("  each begins at a home of its own", refused(true, 1)),
        row("  one of the 32 best at random, without homes", refused(false, 32)),
    ]
}
