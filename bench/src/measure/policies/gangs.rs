//! Question: what does a gang cost if several transactions place it, compared with a gang placed by one transaction?
//! And what do bands and an eviction limit cost other commits?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED, commit};
use omega_cellstate::SharedCell;
use omega_core::{Band, Command, EvictionCap, Job, Policy, Precedence, TaskGroup};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};

pub(crate) const WORKLOAD: &str = "10,000 machines in use; gangs of 1,000 small tasks, a scheduler's time per task; commits of single claims, time per claim";

const MACHINES: usize = 10_000;

const TASKS: u32 = 1000;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let gangs = options.work(20);
    let (held, at_once) = by_turns(
        options.runs(),
        || placed(&made, gangs, Some(60_000)),
        || placed(&made, gangs, None),
    );
    let claims = options.work(100_000).min(MACHINES * 10);
    let (on, off) = by_turns(
        options.runs(),
        || claimed(&made, claims, On::All),
        || claimed(&made, claims, On::Nothing),
    );
    let ratio = |figure: Figure, to: Figure| {
        let row = Row::value("  to that, time".to_owned(), Unit::Times, figure.cpu / to.cpu);
        row.reach(Reach::AtMost(1.1))
    };
    vec![
        Row::time("gangs in one transaction each".to_owned(), Unit::Micros, at_once),
        Row::time("gangs that hold places, 100 at once".to_owned(), Unit::Micros, held),
        Row::value("  to that, time".to_owned(), Unit::Times, held.cpu / at_once.cpu),
        Row::time("commits of a claim, no bands, no cap".to_owned(), Unit::Nanos, off),
        Row::time("commits of a claim, 16 bands and a cap".to_owned(), Unit::Nanos, on),
        ratio(on, off),
    ]
}

/// Scheduler time per task of some gangs.
fn placed(made: &Made, gangs: usize, gang_timeout_ms: Option<u32>) -> Figure {
    let cell = SharedCell::new(made.copy());
    let mut settings = Settings::new("default").with_seed(SEED);
    settings.claims_max = if gang_timeout_ms.is_some() { 100 } else { TASKS as usize };
    let mut scheduler =
        Scheduler::new(&cell, Profile::batch(), settings).expect("a scheduler registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    for number in 0..gangs {
        let group = TaskGroup::new(TASKS, cells::small_request());
        let gang = Job::batch(format!("gang-{number}"), group);
        let gang = Job { gang_min: Some(TASKS), gang_timeout_ms, ..gang };
        cell.apply(Command::SubmitJob(gang)).expect("a job");
    }
    let ((), span) = timed(run);
    let left = cell.read(|cell| cell.waiting_gangs().len());
    assert_eq!(left, 0, "there is room for all of them");
    span.each(gangs * TASKS as usize)
}

/// Feature that is enabled for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Nothing,
    All,
}

/// Commit time per claim, with transactions that evict no task.
fn claimed(made: &Made, claims: usize, on: On) -> Figure {
    let mut cell = made.copy();
    if on == On::All {
        let band = |at: i32| Band { from: Precedence(at * 10), to: Precedence(at * 10 + 9) };
        let cap = EvictionCap { count: 10, per_ms: 60_000 };
        let policy = Policy {
            bands: (0..16).map(band).collect(),
            eviction_cap: Some(cap),
            ..cell.policy().clone()
        };
        cell.apply(Command::SetPolicy(policy)).expect("it is a policy");
    }
    let txns = commit::transactions(&mut cell, made.machines, claims, commit::Sizes::ONE);
    let (refused, span) = timed(|| {
        let commits = txns.iter().map(|txn| cell.commit(txn).expect("it is checked"));
        commits.map(|commit| commit.conflicts.len()).sum::<usize>()
    });
    assert!(refused * 100 < claims, "{refused} of {claims} small tasks did not fit");
    span.each(claims)
}
