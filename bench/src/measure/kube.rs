//! Question: how many decisions per core-second are made with the default profile of Kubernetes?
//!
//! One task after another is placed on a view and removed, with every applicable filter and score. Kubernetes' own
//! scheduler places 511 pods a second on 5,000 nodes, and 61 if all nodes are scored.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::{GroupRef, View};
use omega_core::limits::AMOUNT_MAX;
use omega_core::{
    Amounts, Command, Job, KindId, Kinds, LabelSelector, Labels, Machine, MachineSelector, Near,
    Outcome, Preferred, Requirement, ResourceKind, Spread, Taint, TaintEffect, TaskGroup, TaskId,
    TaskRule, TaskSelector, Tenants, TopologyLevel, Unit as KindUnit, WhenUnsatisfiable,
};
use omega_schedulers::{GroupPlacement, Home, Placement, Placer, Profile, Search};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str =
    "the default profile of Kubernetes; one task placed on a view and taken back; limit: its own";

/// Number of tasks of a service that already run when one more task of it is placed.
const AT_WORK: u32 = 1000;

/// Number of identical tasks that are placed by one decision.
const BATCH: u32 = 1000;

/// Kubernetes' default: for each task, the search finds and scores as many feasible machines as Kubernetes does in a
/// cell of this size.
const DEFAULT: Placement = placement(Search::Percentage(0));

/// The default with the score cache.
const REUSED: Placement = Placement { reuse: true, ..DEFAULT };

/// A search of all machines.
const FULL: Placement = placement(Search::Full);

const fn placement(search: Search) -> Placement {
    Placement { search, near_best: 1, home: Home::EVERYWHERE, reuse: false }
}

/// Resource kinds of a cell that was read from a Kubernetes cluster.
fn kinds() -> Kinds {
    let kind =
        |name: &str, unit, compressible| ResourceKind { name: name.to_owned(), unit, compressible };
    let kinds = vec![
        kind("cpu", KindUnit::Milli, true),
        kind("memory", KindUnit::Bytes, false),
        kind("ephemeral-storage", KindUnit::Bytes, false),
        kind("pods", KindUnit::Count, false),
        kind("cpu (nominal)", KindUnit::Milli, false),
        kind("memory (nominal)", KindUnit::Bytes, false),
    ];
    Kinds::new(kinds).expect("six kinds with different names")
}

/// Request of a task.
fn request(cpu: u64, memory: u64) -> Amounts {
    Amounts::new([cpu, memory, 1 << 30, 1, cpu, memory])
}

/// A cell whose machines have these thousandths of their capacity allocated.
fn cell(count: usize, milli: std::ops::Range<u64>) -> Made {
    let mut machines = cells::machines(count);
    machines.iter_mut().for_each(as_node);
    // All machines have one region, as in Kubernetes' own benchmark of affinity.
    cells::label(&mut machines, "region", |_| true);
    let empty = cells::empty_of(kinds(), machines.clone());
    cells::fill(empty, machines, |_| milli.clone(), request)
}

/// Gives a machine the amounts of a Kubernetes node.
fn as_node(machine: &mut Machine) {
    machine.capacity.set(KindId(3), 1000);
    machine.capacity.set(KindId(4), AMOUNT_MAX);
    machine.capacity.set(KindId(5), AMOUNT_MAX);
}

/// A small task.
fn small() -> TaskGroup {
    let mut group = TaskGroup::new(1, request(100, 256 << 20));
    group.labels = Labels::new([("app", "web")]);
    group
}

/// A task that prefers some machines.
fn choosy() -> TaskGroup {
    let mut group = small();
    for (zone, weight) in [("z0", 10), ("z1", 3)] {
        let machines = MachineSelector::label("zone", zone);
        group.rules.affinity.preferred.push(Preferred { weight, machines });
    }
    group
}

/// Selects the tasks of the service.
fn service() -> TaskSelector {
    let labels = LabelSelector { requirements: vec![Requirement::equals("app", "web")] };
    TaskSelector::Labels { tenants: Tenants::Own, labels }
}

/// A task that is spread over zones and machines. The spread is soft, the default for services in Kubernetes, or hard.
fn spread(when: WhenUnsatisfiable) -> TaskGroup {
    let mut group = small();
    for (level, skew) in [(TopologyLevel::Machine, 3), (TopologyLevel::Label("zone".into()), 5)] {
        let spread = Spread { when, ..Spread::new(service(), level, skew) };
        group.rules.tasks.push(TaskRule::Spread(spread));
    }
    group
}

/// A task with anti-affinity to its service: at most one per machine.
fn apart() -> TaskGroup {
    let mut group = small();
    let level = TopologyLevel::Machine;
    group.rules.tasks.push(TaskRule::AntiAffinity { from: service(), level });
    group
}

/// A task with affinity to its service.
fn together(level: &str) -> TaskGroup {
    let mut group = small();
    let near = Near { tasks: service(), level: TopologyLevel::Label(level.into()) };
    group.rules.tasks.push(TaskRule::Affinity(vec![near]));
    group
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    let made = cell(5000, 550..650);
    let run = |what: &str, made: &Made, group: &TaskGroup, how| {
        Row::time(what, Unit::ThousandsPerSecond, decisions(options, made, group, how))
    };
    let default = run("5,000 machines, 60 % full, 500 scored", &made, &small(), DEFAULT);
    rows.push(default.limit("0.511 k/s").reach(Reach::AtLeast(200.0)));
    let reused = decisions(options, &made, &small(), REUSED);
    rows.push(Row::time(
        "  as a scheduler does it: scores reused",
        Unit::ThousandsPerSecond,
        reused,
    ));
    let full = run("  all scored", &made, &small(), FULL);
    rows.push(full.limit("0.061 k/s").reach(Reach::AtLeast(50.0)));
    rows.push(run("  with preferred machines, 500 scored", &made, &choosy(), DEFAULT));
    let wished = spread(WhenUnsatisfiable::ScheduleAnyway);
    rows.push(run("  with wished spreads, 500 scored", &made, &wished, DEFAULT));
    for (what, group) in [
        ("  with hard spreads, 500 scored", spread(WhenUnsatisfiable::DoNotSchedule)),
        ("  with anti-affinity, 500 scored", apart()),
        ("  with affinity, 500 scored", together("region")),
    ] {
        rows.push(run(what, &made, &group, DEFAULT).reach(Reach::AtLeast(100.0)));
    }
    let one_zone = together("zone");
    rows.push(run("  the same to one zone of four", &made, &one_zone, DEFAULT));
    rows.push(run("  1 machine in 10 marked, 500 scored", &marked(), &small(), DEFAULT));
    let at_once = Row::time(
        "  1,000 identical tasks at once, all scored",
        Unit::Millis,
        together_at_once(options, &made),
    );
    rows.push(at_once.reach(Reach::AtMost(1.0)));
    let empty = decisions(options, &cell(5000, 0..1), &small(), DEFAULT);
    let full = decisions(options, &cell(5000, 860..861), &small(), DEFAULT);
    rows.push(Row::time("5,000 machines, empty, 500 scored", Unit::ThousandsPerSecond, empty));
    rows.push(Row::time("  86 % full", Unit::ThousandsPerSecond, full));
    let times = Row::value("  86 % full to empty, time", Unit::Times, full.cpu / empty.cpu);
    rows.push(times.reach(Reach::AtMost(1.5)));
    let made = cell(100_000, 550..650);
    rows.push(run("100,000 machines, 60 % full, 5,000 scored", &made, &small(), DEFAULT));
    // A sample of 64 machines should cost the same in cells of any size, so a small cell and a large one are compared.
    let mut costs = Vec::new();
    for (size, made) in [("5,000", &cell(5000, 550..650)), ("100,000", &made)] {
        let figure = decisions(options, made, &small(), placement(Search::Adaptive));
        let what = format!("{size} machines, 60 % full, 64 scored");
        rows.push(Row::time(what, Unit::ThousandsPerSecond, figure));
        costs.push(figure.cpu);
    }
    let times = Row::value("  100,000 machines to 5,000, time", Unit::Times, costs[1] / costs[0]);
    rows.push(times.reach(Reach::AtMost(2.0)));
    // A scan of this size is divided among the cores, so the processor time of one thread is only a part of its cost.
    let scan = decisions(options, &made, &small(), FULL);
    let wall = Figure { cpu: f64::NAN, ..scan };
    rows.push(Row::time("  all scored, by all cores", Unit::ThousandsPerSecond, wall));
    rows
}

/// A cell in which some machines have taints.
fn marked() -> Made {
    let mut machines = cells::machines(5000);
    machines.iter_mut().for_each(as_node);
    for machine in machines.iter_mut().step_by(10) {
        let taint =
            Taint { key: "old".into(), value: "".into(), effect: TaintEffect::PreferNoSchedule };
        machine.taints = [taint].into();
    }
    let empty = cells::empty_of(kinds(), machines.clone());
    cells::fill(empty, machines, |_| 550..650, request)
}

/// Cost of a decision if some tasks of the group are already placed.
fn decisions(options: &Options, made: &Made, group: &TaskGroup, how: Placement) -> Figure {
    let mut group = group.clone();
    group.count = AT_WORK + 1;
    let (mut view, profile, group) = prepared(made, group);
    let count = (options.work(20_000_000) / made.machines).clamp(200, 20_000);
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut placer = Placer::default();
    let job = view.job_id(group);
    let at_work: Vec<_> = (0..AT_WORK).map(|index| TaskId { job, index }).collect();
    let wanted = GroupPlacement { profile: &profile, placement: how, group };
    let placed = placer.place(&mut view, wanted, &at_work, &mut rng);
    assert_eq!(placed, at_work.len(), "the cell has room for a service");
    let mut run = |view: &mut View| {
        let tasks = [TaskId { job, index: AT_WORK }];
        let ((), span) = timed(|| {
            for _ in 0..count {
                let placed = placer.place(view, wanted, &tasks, &mut rng);
                assert_eq!(placed, 1, "a machine takes the task");
                view.drop_claims(1);
            }
        });
        span.each(count)
    };
    let figures: Vec<_> = (0..options.runs()).map(|_| run(&mut view)).collect();
    Figure::median(&figures)
}

/// A view of a cell with a job of one group, and the profile.
fn prepared(made: &Made, group: TaskGroup) -> (View, Profile, GroupRef) {
    let (cell, mut view) = cells::viewed(made);
    let profile = Profile::kube(&kinds());
    profile.prepare(&mut view);
    let job = Job::batch("one", group);
    let outcome = cell.apply(Command::SubmitJob(job.clone()));
    let Ok(Outcome::Job(id)) = outcome else {
        unreachable!("a made-up job is submitted: {outcome:?}");
    };
    view.sync(&cell).expect("a cell in this process answers");
    let group = view.compile(id, &Arc::new(job), 0);
    (view, profile, group)
}

/// Cost of a decision for many identical tasks, if all machines are scored.
fn together_at_once(options: &Options, made: &Made) -> Figure {
    let (mut view, profile, group) = prepared(made, TaskGroup { count: BATCH, ..small() });
    let wanted = GroupPlacement { profile: &profile, placement: FULL, group };
    let job = view.job_id(group);
    let tasks: Vec<_> = (0..BATCH).map(|index| TaskId { job, index }).collect();
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut placer = Placer::default();
    let mut run = || {
        let count = options.work(50);
        let ((), span) = timed(|| {
            for _ in 0..count {
                let placed = placer.place(&mut view, wanted, &tasks, &mut rng);
                assert_eq!(placed, tasks.len(), "the cell has room for them");
                view.drop_claims(placed);
            }
        });
        span.each(count)
    };
    let figures: Vec<_> = (0..options.runs()).map(|_| run()).collect();
    Figure::median(&figures)
}
