//! Tests with cells of a few machines, whose futures are known.

use super::*;
use crate::engine::{DecisionTime, Retries};
use crate::scenario::{ArchitectureKind, ScenarioSettings, simulate_from};
use omega_core::limits::TEXT_BYTES_MAX;
use omega_core::{
    Amounts, Command, ConflictCheck, Granularity, Kinds, Machine, MachineId, Outcome, RollStep,
    TaskId, TaskReport,
};

/// A cell with machines of four cores named m0, m1, ….
fn cell(machines: usize) -> Cell {
    let mut cell = Cell::new(Kinds::standard());
    for i in 0..machines {
        let machine = Machine::new(format!("m{i}"), Amounts::new([4000, 8 << 30]));
        cell.apply(Command::RegisterMachine(machine)).unwrap();
    }
    cell
}

fn machine(cell: &Cell, name: &str) -> MachineId {
    cell.machine_by_name(name).expect("it was registered")
}

/// Submits a job of two-core tasks. Each task is placed on its machine in `on`, or is pending if that is `None`.
fn job(cell: &mut Cell, job: Job, on: &[Option<&str>]) -> JobId {
    let Ok(Outcome::Job(id)) = cell.apply(Command::SubmitJob(job)) else { panic!("it is refused") };
    for (index, name) in (0..).zip(on) {
        if let Some(name) = name {
            let (task, machine) = (TaskId { job: id, index }, machine(cell, name));
            cell.apply(Command::AdoptTask { task, machine }).unwrap();
        }
    }
    id
}

fn tasks(count: u32) -> omega_core::TaskGroup {
    omega_core::TaskGroup::new(count, Amounts::new([2000, 1 << 30]))
}

fn service(name: &str, count: u32) -> Job {
    Job { kind: JobKind::Service, ..Job::batch(name, tasks(count)) }
}

fn settings(end_s: f64) -> ScenarioSettings {
    let decides = DecisionTime { job_s: 0.1, task_s: 0.005 };
    ScenarioSettings {
        architecture: ArchitectureKind::SharedState,
        batch_schedulers: 1,
        service_schedulers: 1,
        batch_decides: decides,
        service_decides: decides,
        check: ConflictCheck::ResourceFit,
        granularity: Granularity::Incremental,
        pickiness: 0.0,
        retries: Retries::Unlimited,
        near_best: 1,
        parts: 1,
        probes: 2,
        end_s: Some(end_s),
        seed: 1,
        profiles: omega_schedulers::config::Profiles::default(),
    }
}

fn compared(cell: &Cell, change: &Change, run_ms: Option<u64>) -> Comparison {
    let now = Now::of(cell, "small".into(), Assumed { run_ms });
    let then = change.made(&now).unwrap();
    Comparison::of((&now, &settings(60.0)), (&then, &settings(60.0))).unwrap()
}

fn pending(side: &Side) -> Vec<(&str, u64)> {
    side.pending.iter().map(|(reason, tasks)| (reason.as_str(), *tasks)).collect()
}

/// A cell with two full machines and a pending task.
fn full() -> Cell {
    let mut cell = cell(2);
    job(&mut cell, service("web", 5), &[Some("m0"), Some("m0"), Some("m1"), Some("m1"), None]);
    cell
}

#[test]
fn what_waits_for_room_is_placed_on_a_machine_more() {
    let change = Change { add: vec!["1,cpu=4,memory=8Gi".parse().unwrap()], ..Change::default() };
    let both = compared(&full(), &change, None);
    assert_eq!(pending(&both.unchanged), [("too little cpu left", 1)]);
    assert_eq!(pending(&both.changed), []);
    assert_eq!((both.unchanged.service.placed, both.changed.service.placed), (0, 1));
    assert_eq!((both.unchanged.machines, both.changed.machines), (2, 3));
    // Before the change, four tasks of two cores run on eight cores. After it, five run on twelve, except at the very
    // start.
    assert!((both.unchanged.cpu_used - 1.0).abs() < 0.02, "{}", both.unchanged.cpu_used);
    assert!((both.changed.cpu_used - 10.0 / 12.0).abs() < 0.02, "{}", both.changed.cpu_used);
}

#[test]
fn what_ran_on_a_machine_that_is_gone_waits_and_on_a_drained_one_stays() {
    let mut cell = cell(3);
    job(&mut cell, service("web", 2), &[Some("m0"), Some("m0")]);
    job(&mut cell, service("new", 5), &[]);
    // Three machines can run two tasks each, so six of seven tasks run.
    let without = |drain: &[&str], remove: &[&str]| {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let change = Change { drain: names(drain), remove: names(remove), ..Change::default() };
        pending(&compared(&cell, &change, None).changed).iter().map(|(_, n)| n).sum::<u64>()
    };
    assert_eq!(without(&[], &[]), 1);
    assert_eq!(without(&["m1"], &[]), 3, "m0 is full and m1 takes nothing");
    assert_eq!(without(&["m0"], &[]), 1, "what runs there stays");
    assert_eq!(without(&[], &["m0"]), 3, "what ran there waits, too");
}

#[test]
fn a_machine_that_is_drained_already_takes_nothing_in_either_future() {
    let mut cell = cell(2);
    let id = machine(&cell, "m1");
    cell.apply(Command::DrainMachine { id, draining: true }).unwrap();
    job(&mut cell, service("web", 3), &[]);
    let more = Change { load: Some(1000), ..Change::default() };
    let both = compared(&cell, &more, None);
    assert_eq!(both.unchanged, both.changed);
    assert_eq!(both.unchanged.pending.values().sum::<u64>(), 1);
}

#[test]
fn copies_do_not_get_the_room_of_tasks_that_run() {
    let mut cell = cell(2);
    job(&mut cell, service("web", 3), &[Some("m0"), Some("m0"), None]);
    job(&mut cell, service("full", 2), &[Some("m1"), Some("m1")]);
    let both = compared(&cell, &Change { load: Some(2000), ..Change::default() }, None);
    assert_eq!((both.unchanged.cpu_used, both.changed.cpu_used), (1.0, 1.0));
    assert_eq!(pending(&both.unchanged), [("too little cpu left", 1)]);
}

#[test]
fn added_machines_have_names_that_no_machine_has() {
    let mut cell = cell(1);
    let taken = Machine::new("added-0", Amounts::new([4000, 8 << 30]));
    cell.apply(Command::RegisterMachine(taken)).unwrap();
    let add = vec!["2,cpu=4,memory=8Gi".parse().unwrap(), "1,cpu=8,memory=8Gi".parse().unwrap()];
    let now = Now::of(&cell, "small".into(), Assumed::default());
    let then = Change { add, ..Change::default() }.made(&now).unwrap();
    let names: Vec<&str> = then.workload.machines.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["m0", "added-0", "added-0+", "added-1", "added-2"]);
}

#[test]
fn a_quota_holds_in_the_future_too() {
    let mut cell = cell(2);
    let limit = Some(Amounts::new([4000, 8 << 30]));
    cell.apply(Command::SetQuota { tenant: "default".into(), limit }).unwrap();
    job(&mut cell, service("web", 4), &[]);
    let both = compared(&cell, &Change { load: Some(1000), ..Change::default() }, None);
    assert_eq!(both.unchanged.pending.values().sum::<u64>(), 2);
}

#[test]
fn tasks_that_have_ended_are_over_and_a_gang_needs_no_more_than_are_left() {
    let mut cell = cell(2);
    let gang = Job { gang_min: Some(4), ..Job::batch("gang", tasks(4)) };
    let on = [Some("m0"), Some("m0"), Some("m1"), Some("m1")];
    let id = job(&mut cell, gang, &on);
    let m0 = machine(&cell, "m0");
    let task = TaskId { job: id, index: 0 };
    let report = TaskReport::Finished;
    cell.apply(Command::ReportTask { task, machine: m0, placed_ms: 0, report }).unwrap();
    let now = Now::of(&cell, "small".into(), Assumed::default());
    let [arrival] = &now.workload.arrivals[..] else { panic!("one job") };
    assert_eq!((arrival.job.task_count(), arrival.job.gang_min), (3, Some(3)));
    assert_eq!(arrival.placed, [(0, 0), (1, 1), (2, 1)]);
}

/// Name, count and version of a group.
type GroupOf = (String, u32, u32);

/// The only job of a cell as a run simulates it: its groups and placed tasks. The run must accept the job.
fn simulated(cell: &Cell) -> (Vec<GroupOf>, Vec<(u32, u32)>) {
    compared(cell, &Change { load: Some(1000), ..Change::default() }, None);
    let now = Now::of(cell, "small".into(), Assumed::default());
    let [arrival] = &now.workload.arrivals[..] else { panic!("one job") };
    let groups = arrival.job.groups.iter();
    let groups = groups.map(|group| (group.name.to_string(), group.count, group.version));
    (groups.collect(), arrival.placed.clone())
}

#[test]
fn an_updated_service_goes_on_as_its_groups_of_both_versions() {
    let mut cell = cell(2);
    let id = job(&mut cell, service("web", 2), &[Some("m0"), Some("m0")]);
    let mut spec = service("web", 2);
    spec.groups[0].request = Amounts::new([1000, 1 << 30]);
    cell.apply(Command::UpdateJob { job: id, version: None, spec }).unwrap();
    let main = |count| ("main".to_owned(), count, 0);
    assert_eq!(simulated(&cell), (vec![main(2)], vec![(0, 0), (1, 0)]));

    let roll = |cell: &mut Cell, index| {
        let stopped = TaskId { job: id, index };
        let step = RollStep::of(1).with_tasks("main", 1).with_stop(stopped);
        cell.apply(Command::RollJob { job: id, step }).unwrap();
    };
    roll(&mut cell, 0);
    let (task, m1) = (TaskId { job: id, index: 2 }, machine(&cell, "m1"));
    cell.apply(Command::AdoptTask { task, machine: m1 }).unwrap();
    let new = ("main (version 1)".to_owned(), 1, 0);
    assert_eq!(simulated(&cell), (vec![main(1), new], vec![(0, 0), (1, 1)]));

    // After the update, the second task of the new version is pending.
    roll(&mut cell, 1);
    assert_eq!(simulated(&cell), (vec![main(2)], vec![(0, 1)]));
}

#[test]
fn groups_of_one_name_get_different_names() {
    let long = "x".repeat(TEXT_BYTES_MAX);
    let names = [("a (version 3)", 0), ("a", 0), ("a", 3), (&*long, 1), (&*long, 2)];
    let group = |(name, version): (&str, u32)| -> SharedGroup {
        omega_core::TaskGroup { name: name.into(), version, ..tasks(1) }.into()
    };
    let mut groups: Groups = names.into_iter().map(group).collect();
    as_submitted(&mut groups);
    let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names[..3], ["a (version 3)", "a", "a (version 3)+"]);
    assert_eq!((names[3], names[4].len()), (&*long, TEXT_BYTES_MAX));
    assert!(names[4].ends_with("xx (version 2)"), "{}", names[4]);
    assert!(groups.iter().all(|group| group.version == 0));
}

#[test]
fn tasks_end_when_their_job_says_or_as_assumed() {
    let mut cell = cell(1);
    job(&mut cell, Job::batch("old", tasks(2)), &[Some("m0"), Some("m0")]);
    job(&mut cell, Job::batch("new", tasks(1)), &[]);
    let nothing = Change { load: Some(1000), ..Change::default() };
    // By default, tasks run forever, and the pending one is never placed. With a run time of ten seconds, it is placed
    // within ten seconds.
    assert_eq!(compared(&cell, &nothing, None).unchanged.batch.placed, 1);
    let ten = compared(&cell, &nothing, Some(10_000));
    assert_eq!(ten.unchanged.batch.placed, 2);
    let whole_s = ten.unchanged.batch.whole.p99_s.unwrap();
    assert!((0.1..12.0).contains(&whole_s), "{ten:?}");
    assert_eq!(
        ten.notes,
        [
            "2 running tasks have an unknown start time: their remaining times are spread evenly \
             over their run times",
            "10 s is assumed for tasks of batch jobs without a runtime estimate: 3",
        ]
    );
    let known = Job { runtime_estimate_ms: Some(5000), ..Job::batch("known", tasks(1)) };
    job(&mut cell, known, &[]);
    let now = Now::of(&cell, "small".into(), Assumed::default());
    let run = &now.workload.arrivals.iter().find(|one| &*one.job.name == "known").unwrap().run;
    assert_eq!(run.of(0), Some(5000));
}

#[test]
fn a_task_that_loses_its_machine_or_repeats_another_runs_its_whole_time() {
    let mut cell = cell(2);
    let known = Job { runtime_estimate_ms: Some(5000), ..Job::batch("known", tasks(2)) };
    job(&mut cell, known, &[Some("m0"), Some("m1")]);
    let now = Now::of(&cell, "small".into(), Assumed::default());
    let runs = |now: &Now| -> Vec<Vec<Option<u64>>> {
        let arrivals = now.workload.arrivals.iter();
        arrivals.map(|one| vec![one.run.of(0), one.run.of(1)]).collect()
    };
    let before = runs(&now);
    assert!(before[0].iter().all(|left| *left < Some(5000)), "{before:?}");
    let change = Change { remove: vec!["m0".into()], load: Some(2000), ..Change::default() };
    let after = runs(&change.made(&now).unwrap());
    assert_eq!(after, [vec![Some(5000), before[0][1]], vec![Some(5000); 2]]);
}

#[test]
fn a_future_that_has_not_begun_is_the_cell() {
    let cell = full();
    let now = Now::of(&cell, "small".into(), Assumed::default());
    // Before any decision, only the initially running tasks run.
    let outcome = simulate_from(&now.workload, &settings(0.01), &now.start).unwrap();
    let placed: usize = now.workload.arrivals.iter().map(|one| one.placed.len()).sum();
    assert_eq!((placed, now.workload.machines.len()), (4, 2));
    assert_eq!(outcome.pending.values().sum::<u64>(), 1);
}

#[test]
fn more_of_the_jobs_fill_the_cell_and_fewer_leave_room() {
    let mut cell = cell(4);
    for i in 0..6 {
        job(&mut cell, service(&format!("web-{i}"), 1), &[]);
    }
    let of = |load| {
        let change = Change { load: Some(load), ..Change::default() };
        let now = Now::of(&cell, "small".into(), Assumed::default());
        let then = change.made(&now).unwrap();
        // A load above 1000 adds copies of jobs, each at most five minutes after its original.
        let side = Comparison::of((&now, &settings(400.0)), (&then, &settings(400.0))).unwrap();
        (side.changed.service.jobs, side.changed.pending.values().sum::<u64>())
    };
    assert_eq!(of(1000), (6, 0));
    assert_eq!(of(2000), (12, 4));
    let (jobs, waiting) = of(500);
    assert!(jobs < 6 && waiting == 0, "{jobs}");
}

#[test]
fn a_change_that_cannot_be_made_is_told() {
    let now = Now::of(&cell(1), "small".into(), Assumed::default());
    let remove = |name: &str| Change { remove: vec![name.into()], ..Change::default() };
    let fault = |change: Change| change.made(&now).unwrap_err().to_string();
    assert_eq!(fault(remove("m7")), "the cell has no machine \"m7\"");
    assert_eq!(fault(remove("m0")), "the change would remove every machine: leave at least one");
    let drain = Change { drain: vec!["x".into()], ..Change::default() };
    assert_eq!(fault(drain), "the cell has no machine \"x\"");
}
