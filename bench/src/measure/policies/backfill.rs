//! Question: what does backfill cost a scheduler if no job is pending, or if pending wide jobs have plans, and what
//! does each plan cost?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::SharedCell;
use omega_core::{Amounts, Command, Job, KindId, TaskGroup};
use omega_schedulers::{Backfill, Profile, Scheduler, Settings, Unobserved};

pub(crate) const WORKLOAD: &str = "10,000 machines in use; gangs of 64 tasks of a whole machine wait; single-task jobs of half an hour, a scheduler's time per job";

const MACHINES: usize = 10_000;

/// Number of pending gangs. The next constant is the number of tasks of each gang.
const GANGS: usize = 16;
const TASKS: u32 = 64;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let jobs: Vec<Job> = cells::small_jobs(0, options.work(20_000), 1)
        .map(|job| Job { runtime_estimate_ms: Some(1_800_000), ..job })
        .collect();
    let compared = |depth: Option<usize>, gangs: usize| {
        by_turns(
            options.runs(),
            || cost(&made, &jobs, (depth, gangs)).1,
            || cost(&made, &jobs, (None, 0)).1,
        )
    };
    let (unused, off) = compared(Some(1), 0);
    let (first, _) = compared(Some(1), GANGS);
    let (all, waiting) = by_turns(
        options.runs(),
        || cost(&made, &jobs, (Some(GANGS), GANGS)).1,
        || cost(&made, &jobs, (None, GANGS)).1,
    );
    let (plans, none) = by_turns(
        options.runs(),
        || cost(&made, &jobs[..1], (Some(GANGS), GANGS)).0,
        || cost(&made, &jobs[..1], (None, GANGS)).0,
    );
    let ratio = |what: &str, figure: Figure, to: Figure| {
        Row::value(what.to_owned(), Unit::Times, figure.cpu / to.cpu)
    };
    vec![
        Row::time("for batch, no plugin".to_owned(), Unit::Micros, off),
        ratio("the plugin, nobody waits, time", unused, off).reach(Reach::AtMost(1.1)),
        ratio("  16 gangs wait, the first has a plan, time", first, waiting),
        ratio("  16 gangs wait, all of them have plans, time", all, waiting)
            .reach(Reach::AtMost(4.0)),
        Row::time("a gang that finds no room, no plugin".to_owned(), Unit::Micros, none),
        Row::time("a gang that finds no room, and its plan".to_owned(), Unit::Micros, plans),
    ]
}

/// Scheduler time per gang, and then per job.
fn cost(made: &Made, jobs: &[Job], (depth, gangs): (Option<usize>, usize)) -> (Figure, Figure) {
    let cell = SharedCell::new(made.copy());
    let profile = match depth {
        Some(depth) => Profile::batch().with_backfill(Backfill::new(depth)),
        None => Profile::batch(),
    };
    let settings = Settings::new("default").with_seed(SEED);
    let mut scheduler = Scheduler::new(&cell, profile, settings).expect("a scheduler registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    let largest = |kind: KindId| {
        cell.read(|cell| cell.machines().map(|m| m.machine.capacity.get(kind)).max().unwrap_or(0))
    };
    let whole = Amounts::new([largest(KindId::CPU)]);
    for number in 0..gangs {
        let gang = Job::batch(format!("gang-{number}"), TaskGroup::new(TASKS, whole.clone()));
        let gang = Job { gang_min: Some(TASKS), runtime_estimate_ms: Some(7_200_000), ..gang };
        cell.apply(Command::SubmitJob(gang)).expect("a job");
    }
    let ((), planned) = timed(&mut run);
    cell.apply_all(jobs.iter().cloned().map(Command::SubmitJob));
    let ((), placed) = timed(run);
    (planned.each(gangs.max(1)), placed.each(jobs.len()))
}
