//! Question: what does it cost to use machine loads in decisions, to wait for preferred machines, and to hold
//! transactions back, with and without an effect? And how many preferences are satisfied with and without a wait?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::SharedCell;
use omega_core::{
    Amounts, Command, Job, KindId, Machine, MachineId, MachineSelector, Preferred, Requirement,
    TaskReport,
};
use omega_schedulers::plugins::{HalfLife, Limit, LoadAware, LoadLimit};
use omega_schedulers::{
    Delay, Nanos, Observer, Profile, Scheduler, Settings, Unobserved, WaitFigures,
};

pub(crate) const WORKLOAD: &str =
    "10,000 machines in use; single-task jobs; a scheduler's time per job";

const MACHINES: usize = 10_000;

const MS: Nanos = 1_000_000;

/// Function that makes a profile, which is compared with the profile for services.
type Make = fn() -> Profile;

fn with_load() -> Profile {
    let limit = Limit { kind: KindId::CPU, service_percent: 400, batch_percent: 400 };
    let half_life = HalfLife::seconds(300);
    let aware = LoadAware::new(half_life, &[(KindId::CPU, 1), (KindId::MEMORY, 1)]);
    Profile::service().with_filter(LoadLimit::new(half_life, &[limit])).with_score(aware, 1)
}

fn with_delay() -> Profile {
    Profile::service().with_delay(Delay::new(30 * MS, None))
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let jobs: Vec<Job> = cells::small_jobs(0, options.work(20_000), 1).collect();
    let plain = Case { make: Profile::service, loads: Loads::Unknown, hold: 0 };
    let compared = |case: Case| {
        by_turns(options.runs(), || cost(&made, &jobs, case), || cost(&made, &jobs, plain))
    };
    let loaded = Case { make: with_load, ..plain };
    let (load, off) = compared(Case { loads: Loads::Reported, ..loaded });
    let (unreported, _) = compared(loaded);
    let (delay, _) = compared(Case { make: with_delay, ..plain });
    let (hold, _) = compared(Case { hold: MS, ..plain });
    let ratio =
        |what: &str, figure: Figure| Row::value(what.to_owned(), Unit::Times, figure.cpu / off.cpu);
    let unused = |what: &str, figure: Figure| ratio(what, figure).reach(Reach::AtMost(1.1));
    let mut rows = vec![
        Row::time("for services".to_owned(), Unit::Micros, off),
        ratio("with load_limit and load_aware, all machines report, time", load),
        ratio("  the same, none reports", unreported),
        unused("with delay, nobody prefers anything, time", delay),
        unused("with transactions held for 1 ms, all full, time", hold),
    ];
    for (what, make) in [("without", Profile::service as Make), ("with", with_delay as Make)] {
        let figures = preferences(options, make);
        let all = (figures.met + figures.missed).max(1) as f64;
        let met = format!("tasks on the machine that they prefer, {what} delay of 30 ms");
        rows.push(Row::value(met, Unit::Percent, 100.0 * figures.met as f64 / all));
    }
    rows
}

/// A scheduler to be measured, and its cell.
#[derive(Clone, Copy)]
struct Case {
    make: Make,
    loads: Loads,
    hold: Nanos,
}

/// Whether machines report their load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loads {
    Reported,
    Unknown,
}

/// Scheduler time per job.
fn cost(made: &Made, jobs: &[Job], Case { make, loads, hold }: Case) -> Figure {
    let cell = SharedCell::new(made.copy());
    if loads == Loads::Reported {
        let ids: Vec<MachineId> = cell.read(|cell| cell.machines().map(|m| m.id).collect());
        let load = |id: MachineId| Amounts::new([u64::from(id.slot % 8) * 100, 1 << 30]);
        let reports = ids.into_iter().map(|id| Command::ReportLoad { id, load: load(id) });
        cell.apply_all(reports);
    }
    let settings = Settings { hold, ..Settings::new("default").with_seed(SEED) };
    let mut scheduler = Scheduler::new(&cell, make(), settings).expect("a scheduler registers");
    let mut now = 0;
    let mut run = || loop {
        let step = scheduler.step(&cell, now, &mut Unobserved).expect("it answers");
        if step.holds {
            now = step.until.unwrap_or(now);
        } else if step.idle {
            return;
        }
    };
    run();
    cell.apply_all(jobs.iter().cloned().map(Command::SubmitJob));
    let ((), span) = timed(run);
    span.each(jobs.len())
}

/// Observer that counts which preferences were satisfied.
#[derive(Default)]
struct Met(WaitFigures);

impl Observer for Met {
    fn waits(&mut self, figures: WaitFigures) {
        self.0 = figures;
    }
}

/// Runs jobs that arrive a millisecond apart and prefer one of a hundred machines each. A machine runs one task at a
/// time, for 50 ms.
fn preferences(options: &Options, make: Make) -> WaitFigures {
    const MACHINES: u64 = 100;
    let machine = |i: u64| Machine::new(format!("m{i}"), Amounts::new([1000, 1 << 30]));
    let cell = SharedCell::new(cells::empty((0..MACHINES).map(machine).collect()).copy());
    // Preferences are counted by the filter for delay scheduling, so the profile without a wait has that filter with a
    // wait of 0.
    let profile = if make().evaluator().filters().any(|filter| filter.name() == "delay") {
        make()
    } else {
        make().with_delay(Delay::new(0, None))
    };
    let settings = Settings::new("default").with_seed(SEED);
    let mut scheduler = Scheduler::new(&cell, profile, settings).expect("a scheduler registers");
    let mut met = Met::default();
    let mut running = std::collections::VecDeque::new();
    let mut chance = SEED;
    for number in 0..options.work(5000) as u64 {
        let now = number * MS;
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let group = omega_core::TaskGroup::new(1, Amounts::new([1000]));
        let mut job = Job::batch(format!("j{number}"), group);
        let names = vec![Requirement::equals("name", format!("m{}", (chance >> 33) % MACHINES))];
        let machines = MachineSelector { labels: Vec::new(), names };
        job.groups[0].rules.affinity.preferred = vec![Preferred { weight: 100, machines }];
        let Ok(omega_core::Outcome::Job(id)) = cell.apply(Command::SubmitJob(job)) else {
            continue;
        };
        running.push_back((now, id));
        while !scheduler.step(&cell, now, &mut met).expect("it answers").idle {}
        let ready = |(since, id): &(Nanos, omega_core::JobId)| {
            let task = omega_core::TaskId { job: *id, index: 0 };
            let machine =
                cell.read(|cell| cell.task(task).and_then(omega_core::TaskState::machine));
            (now >= since + 50 * MS).then_some(()).and(machine).map(|machine| (task, machine))
        };
        let ended: Vec<_> = running.iter().filter_map(ready).collect();
        running.retain(|(_, id)| !ended.iter().any(|(task, _)| task.job == *id));
        for (task, machine) in ended {
            let report = TaskReport::Finished;
            cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report })
                .expect("it runs there");
        }
    }
    scheduler.step(&cell, u64::MAX / 2, &mut met).expect("it answers");
    met.0
}
