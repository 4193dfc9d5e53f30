//! Question: what does it cost if tasks limit the number of other tasks in their rack, or have runtime affinity to
//! them?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::{CellHandle, SharedCell, View};
use omega_core::{
    Amounts, Command, Job, JobId, LabelSelector, Labels, MachineId, Near, Outcome, Requirement,
    TaskGroup, TaskId, TaskRule, TaskSelector, Tenants, TopologyLevel, Transaction,
};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};

pub(crate) const WORKLOAD: &str = "10,000 machines in use, a database on one in ten; single-task jobs; a scheduler's time per job, and a release in a \
     commit";

const MACHINES: usize = 10_000;

/// One machine in this many has a database.
const APART: usize = 10;

/// Feature that is enabled for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Nothing,
    /// The measured jobs have no rules, but other jobs have runtime affinity and limit the number of databases.
    Unused,
    /// Each job limits the number of databases in its rack.
    Beside,
    /// Each job needs a database in its rack.
    RuntimeAffinity,
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let jobs: Vec<Job> = cells::small_jobs(0, options.work(20_000), 1).collect();
    let of = |on| {
        by_turns(options.runs(), || cost(&made, &jobs, on), || cost(&made, &jobs, On::Nothing))
    };
    let (unused, off) = of(On::Unused);
    let (beside, beside_off) = of(On::Beside);
    let (runtime_affinity, runtime_affinity_off) = of(On::RuntimeAffinity);
    let ratio = |on: Figure, off: Figure| {
        Row::value("  to none, time".to_owned(), Unit::Times, on.cpu / off.cpu)
    };
    let releases = options.work(20_000);
    let (needed, plain) = by_turns(
        options.runs(),
        || released(&made, releases, On::Unused),
        || released(&made, releases, On::Nothing),
    );
    vec![
        Row::time("no rule about others".to_owned(), Unit::Micros, off),
        Row::time("other jobs have both rules".to_owned(), Unit::Micros, unused),
        ratio(unused, off).reach(Reach::AtMost(1.1)),
        Row::time("each bears 1,000 databases in its rack".to_owned(), Unit::Micros, beside),
        ratio(beside, beside_off),
        Row::time("each needs a database in its rack".to_owned(), Unit::Micros, runtime_affinity),
        ratio(runtime_affinity, runtime_affinity_off),
        Row::time("a commit that releases a task".to_owned(), Unit::Nanos, plain),
        Row::time("the same, where others need runtime affinity".to_owned(), Unit::Nanos, needed),
        ratio(needed, plain).reach(Reach::AtMost(1.1)),
    ]
}

fn databases() -> TaskSelector {
    let labels = LabelSelector { requirements: vec![Requirement::equals("app", "db")] };
    TaskSelector::Labels { tenants: Tenants::Any, labels }
}

fn rack() -> TopologyLevel {
    TopologyLevel::Label("rack".into())
}

fn beside() -> TaskRule {
    TaskRule::MaxColocated { of: databases(), level: rack(), count: 1000 }
}

fn runtime_affinity() -> TaskRule {
    TaskRule::RuntimeAffinity(Near { tasks: databases(), level: rack() })
}

/// Submits a job of the scheduler `filler` and adopts its tasks, one on each of these machines.
fn adopt(cell: &SharedCell, job: Job, rows: impl Iterator<Item = usize>) -> JobId {
    let id = match cell.apply(Command::SubmitJob(Job { scheduler: "filler".into(), ..job })) {
        Ok(Outcome::Job(id)) => id,
        other => unreachable!("a made-up job is submitted: {other:?}"),
    };
    for (index, row) in (0..).zip(rows) {
        let task = TaskId { job: id, index };
        let machine = MachineId::first(row as u32);
        cell.apply(Command::AdoptTask { task, machine }).expect("a pending task is taken in");
    }
    id
}

/// A cell with databases and, unless `on` is [`On::Nothing`], with other jobs that have runtime affinity and limit the
/// number of databases.
fn furnished(made: &Made, on: On) -> SharedCell {
    let cell = SharedCell::new(made.copy());
    let mut group = TaskGroup::new((MACHINES / APART) as u32, Amounts::new([1]));
    group.labels = Labels::new([("app", "db")]);
    adopt(&cell, Job::batch("db", group), (0..MACHINES).step_by(APART));
    if on != On::Nothing {
        for (name, rule) in [("bears", beside()), ("needs", runtime_affinity())] {
            let mut group = TaskGroup::new(10, Amounts::new([1]));
            group.rules.tasks.push(rule);
            adopt(&cell, Job::batch(name, group), 0..10);
        }
    }
    cell
}

/// Scheduler time per job.
fn cost(made: &Made, jobs: &[Job], on: On) -> Figure {
    let cell = furnished(made, on);
    let settings = Settings::new("default").with_seed(SEED);
    let mut scheduler =
        Scheduler::new(&cell, Profile::service(), settings).expect("a scheduler registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    let ruled = |mut job: Job| {
        let rule = match on {
            On::Nothing | On::Unused => None,
            On::Beside => Some(beside()),
            On::RuntimeAffinity => Some(runtime_affinity()),
        };
        job.groups[0].rules.tasks.extend(rule);
        Command::SubmitJob(job)
    };
    cell.apply_all(jobs.iter().cloned().map(ruled));
    let ((), span) = timed(run);
    span.each(jobs.len())
}

/// Commit time of a transaction that releases one task to which no other task has affinity.
fn released(made: &Made, count: usize, on: On) -> Figure {
    let cell = furnished(made, on);
    let group = TaskGroup::new(count as u32, Amounts::new([1]));
    let job = adopt(&cell, Job::batch("leaves", group), (0..count).map(|row| row % MACHINES));
    let (id, number) = cell.register("releaser".into()).expect("it registers");
    let mut view = View::new(id, number);
    view.sync(&cell).expect("a cell in this process answers");
    let release =
        |index| Transaction { releases: vec![TaskId { job, index }], ..view.take_transaction() };
    let transactions: Vec<Transaction> = (0..count as u32).map(release).collect();
    let ((), span) = timed(|| {
        for txn in &transactions {
            let commit = cell.commit(txn).expect("a release is checked");
            assert!(commit.is_complete(), "nobody needs it");
        }
    });
    span.each(count)
}
