//! Question: what does the cell spend on a claim, from the check to the change list?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED, bare};
use omega_cellstate::Cell;
use omega_core::{
    Amounts, Claim, Command, JobId, MachineId, Outcome, Resize, SequenceNumber, TaskId,
    Transaction, TransactionId,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub(crate) const WORKLOAD: &str = "per claim; cells in use; tasks of submitted jobs on random machines; incremental, resource fit";

const SIZES: [usize; 3] = [1000, 10_000, 100_000];

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for machines in SIZES {
        let made = cells::in_use(machines);
        let claims = (options.work(100_000)).min(machines * 10);
        for each in [1, 10, 100] {
            let bare = || bare::commit(machines, claims, SEED);
            let jobs = [1, 100];
            for tasks in jobs.into_iter().filter(|tasks| each == 1 || *tasks > 1) {
                let ours = || run(&made, claims, Sizes { each, tasks });
                let (ours, bare) = by_turns(options.runs(), ours, bare);
                let what = format!("{machines} machines, {each} claims, {tasks}-task jobs");
                let row = Row::time(what, Unit::Nanos, ours).beside(bare);
                rows.push(row.limit("190 ns").reach(Reach::AtMost(400.0)));
            }
        }
    }
    let made = cells::in_use(10_000);
    let resizes = options.work(100_000);
    let figures: Vec<Figure> = (0..options.runs()).map(|_| resize(&made, resizes)).collect();
    rows.push(Row::time("10000 machines, 10 resizes", Unit::Nanos, Figure::median(&figures)));
    rows
}

/// Cost of resizes of running tasks, with ten in a transaction. The first resizes shrink tasks to an amount of 0, so
/// that later resizes have room.
fn resize(made: &Made, count: usize) -> Figure {
    let mut cell = made.copy();
    for txn in transactions(&mut cell, made.machines, count, Sizes::each(100)) {
        cell.commit(&txn).expect("it is checked");
    }
    let placed: Vec<TaskId> = cell.machines().flat_map(|machine| machine.tasks.to_vec()).collect();
    let Ok(Outcome::Scheduler { id: scheduler, .. }) =
        cell.apply(Command::RegisterScheduler { name: "resizing".into() })
    else {
        unreachable!("a scheduler registers")
    };
    let txn = |(number, tasks): (u64, &[TaskId])| {
        let id = TransactionId { scheduler, number };
        let mut txn = Transaction::new(id, cell.version(), Vec::new());
        txn.resizes.extend(tasks.iter().map(|task| Resize { task: *task, to: Amounts::zero() }));
        txn
    };
    let txns: Vec<Transaction> = (0..).zip(placed.chunks(10).take(count / 10)).map(txn).collect();
    let resized: usize = txns.iter().map(|txn| txn.resizes.len()).sum();
    let (refused, span) = timed(|| {
        let commits = txns.iter().map(|txn| cell.commit(txn).expect("it is checked"));
        commits.map(|commit| commit.conflicts.len()).sum::<usize>()
    });
    assert_eq!(refused, 0, "to hold less is never refused");
    span.each(resized)
}

/// Cost of commits that place `claims` tasks, per claim.
pub(super) fn run(made: &Made, claims: usize, sizes: Sizes) -> Figure {
    let mut cell = made.copy();
    let txns = transactions(&mut cell, made.machines, claims, sizes);
    let (refused, span) = timed(|| {
        let commits = txns.iter().map(|txn| cell.commit(txn).expect("it is checked"));
        commits.map(|commit| commit.conflicts.len()).sum::<usize>()
    });
    assert!(refused * 100 < claims, "{refused} of {claims} small tasks did not fit");
    span.each(claims)
}

/// Sizes of transactions and jobs.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Number of claims of a transaction.
    pub(super) each: usize,
    /// Number of tasks of a job.
    pub(super) tasks: usize,
}

impl Sizes {
    /// One claim in a transaction, and one task in a job.
    pub(super) const ONE: Sizes = Sizes::each(1);

    /// This many claims in a transaction, and as many tasks in a job.
    pub(super) const fn each(count: usize) -> Sizes {
        Sizes { each: count, tasks: count }
    }
}

/// Transactions that place tasks on random machines. Their jobs are submitted to the cell.
pub(super) fn transactions(
    cell: &mut Cell,
    machines: usize,
    claims: usize,
    sizes: Sizes,
) -> Vec<Transaction> {
    let jobs = cells::small_jobs(0, claims, sizes.tasks);
    let jobs: Vec<_> = jobs.map(|job| cells::submit(cell, job)).collect();
    claims_of(cell, machines, &jobs, sizes)
}

/// Claims for the tasks of these jobs.
pub(super) fn claims_of(
    cell: &mut Cell,
    machines: usize,
    jobs: &[JobId],
    Sizes { each, tasks }: Sizes,
) -> Vec<Transaction> {
    let mut rng = Pcg64::seed_from_u64(SEED);
    let name = "measured".into();
    let Ok(Outcome::Scheduler { id: scheduler, .. }) =
        cell.apply(Command::RegisterScheduler { name })
    else {
        unreachable!("a scheduler registers")
    };
    let base = cell.version();
    let mut claim = |i: usize| {
        Claim::new(
            TaskId { job: jobs[i / tasks], index: (i % tasks) as u32 },
            MachineId::first(rng.random_range(0..machines as u32)),
            SequenceNumber(0),
        )
    };
    let transaction = |t: usize| {
        let claims = (t * each..(t + 1) * each).map(&mut claim).collect();
        Transaction::new(TransactionId { scheduler, number: t as u64 }, base, claims)
    };
    (0..jobs.len() * tasks / each).map(transaction).collect()
}
