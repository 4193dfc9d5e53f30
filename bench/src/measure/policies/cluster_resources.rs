//! Question: what do cluster resources cost the cell and a scheduler, used and unused?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED, commit};
use omega_cellstate::SharedCell;
use omega_core::{Amounts, Command, Job, JobId, KindId};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};

pub(crate) const WORKLOAD: &str = "10,000 machines in use; commits of a claim, and a scheduler's time per single-task job, where each task claims one of a kind of the cell";

const MACHINES: usize = 10_000;

/// An amount that suffices for all tasks.
const PLENTY: u64 = 1 << 40;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let claims = options.work(100_000).min(MACHINES * 10);
    let (with, without) =
        by_turns(options.runs(), || committed(&made, claims, 1), || committed(&made, claims, 0));
    let jobs = options.work(20_000);
    let (placed, plain) =
        by_turns(options.runs(), || decided(&made, jobs, 1), || decided(&made, jobs, 0));
    let ratio = |what: &str, of: Figure, to: Figure| {
        Row::value(what.to_owned(), Unit::Times, of.cpu / to.cpu)
    };
    vec![
        Row::time("commits of a claim, nothing of the cell", Unit::Nanos, without),
        ratio("  with a claim of the cell", with, without).reach(Reach::AtMost(1.5)),
        Row::time("a scheduler, nothing of the cell", Unit::Micros, plain),
        ratio("  with a claim of the cell", placed, plain).reach(Reach::AtMost(1.5)),
    ]
}

/// A job whose tasks each claim this amount of a cluster resource.
fn claiming(mut job: Job, amount: u64) -> Job {
    job.groups[0].cluster_request = Amounts::zero().with(KindId::GPU, amount);
    job
}

fn plenty() -> Command {
    Command::SetClusterCapacity { kind: KindId::GPU, amount: PLENTY }
}

/// Commit time per claim of a small task.
fn committed(made: &Made, claims: usize, amount: u64) -> Figure {
    let mut cell = made.copy();
    cell.apply(plenty()).expect("a kind of the cell");
    let jobs = cells::small_jobs(0, claims, 1);
    let jobs: Vec<JobId> =
        jobs.map(|job| cells::submit(&mut cell, claiming(job, amount))).collect();
    let txns = commit::claims_of(&mut cell, made.machines, &jobs, commit::Sizes::ONE);
    let (refused, span) = timed(|| {
        let commits = txns.iter().map(|txn| cell.commit(txn).expect("it is checked"));
        commits.map(|commit| commit.conflicts.len()).sum::<usize>()
    });
    assert!(refused * 100 < claims, "{refused} of {claims} small tasks did not fit");
    span.each(claims)
}

/// Scheduler time per job.
fn decided(made: &Made, jobs: usize, amount: u64) -> Figure {
    let cell = SharedCell::new(made.copy());
    cell.apply(plenty()).expect("a kind of the cell");
    let settings = Settings::new("default").with_seed(SEED);
    let mut scheduler = Scheduler::new(&cell, Profile::service(), settings).expect("it registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    let submitted = cells::small_jobs(0, jobs, 1).map(|job| claiming(job, amount));
    cell.apply_all(submitted.map(Command::SubmitJob));
    let ((), span) = timed(run);
    span.each(jobs)
}
