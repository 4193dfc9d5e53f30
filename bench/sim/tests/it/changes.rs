//! Machines that are added, removed and changed during the run: small runs computed by hand, and frequent changes under
//! every architecture.

use omega_core::{
    Amounts, ConflictCheck, Granularity, Job, KindId, Kinds, Machine, TaskGroup, TaskState,
};
use omega_sim::engine::{DecisionTime, Retries};
use omega_sim::scenario::{ArchitectureKind, Outcome, ScenarioSettings, simulate};
use omega_workload::synth::{SynthOptions, synthesize};
use omega_workload::{Arrival, MachineChange, MachineEvent, RunTime, Workload};

/// One scheduler of each kind, with decisions of a tenth of a second.
pub(crate) fn settings(architecture: ArchitectureKind, end_s: f64) -> ScenarioSettings {
    let decides = DecisionTime { job_s: 0.1, task_s: 0.0 };
    ScenarioSettings {
        architecture,
        batch_schedulers: 1,
        service_schedulers: 1,
        batch_decides: decides,
        service_decides: decides,
        check: ConflictCheck::ResourceFit,
        granularity: Granularity::Incremental,
        pickiness: 0.0,
        retries: Retries::Unlimited,
        near_best: 1,
        parts: 2,
        probes: 2,
        end_s: Some(end_s),
        seed: 1,
        profiles: omega_schedulers::config::Profiles::default(),
    }
}

fn cores(cores: u64) -> Amounts {
    Amounts::new([cores * 1000, cores << 30])
}

pub(crate) fn machine(name: &str, of: u64) -> Machine {
    Machine::new(name, cores(of))
}

fn add(at_ms: u64, name: &str, of: u64) -> MachineEvent {
    MachineEvent { at_ms, change: MachineChange::Add(machine(name, of)) }
}

pub(crate) fn remove(at_ms: u64, name: &str) -> MachineEvent {
    MachineEvent { at_ms, change: MachineChange::Remove(name.into()) }
}

/// A job that arrives after a second, with tasks of four cores each.
fn four_cores(tasks: u32, run: RunTime) -> Arrival {
    let job = Job::batch("job", TaskGroup::new(tasks, cores(4)));
    Arrival { at_ms: 1000, job, placed: Vec::new(), run }
}

/// A cell with these machines of four cores each.
pub(crate) fn workload(
    machines: &[&str],
    changes: Vec<MachineEvent>,
    arrivals: Vec<Arrival>,
) -> Workload {
    Workload {
        name: "changes".into(),
        kinds: Kinds::standard(),
        policy: omega_core::Policy::default(),
        machines: machines.iter().map(|name| machine(name, 4)).collect(),
        machine_events: changes,
        arrivals,
        volumes: Default::default(),
        budgets: Vec::new(),
        notes: Vec::new(),
    }
}

pub(crate) fn run(workload: &Workload, end_s: f64) -> Outcome {
    simulate(workload, &settings(ArchitectureKind::SharedState, end_s)).expect("it is sound")
}

/// Numbers of placed and of pending tasks.
pub(crate) fn tasks(outcome: &Outcome) -> (usize, usize) {
    let waits = |state: &TaskState| *state == TaskState::Pending;
    let jobs = outcome.cell.snapshot_state().jobs;
    let waiting = jobs.iter().flat_map(|job| &job.tasks).filter(|task| waits(&task.state)).count();
    (outcome.cell.read(|cell| cell.machines().map(|machine| machine.tasks.len()).sum()), waiting)
}

#[test]
fn a_task_that_lost_its_machine_is_placed_again_when_there_is_room() {
    let changes = vec![remove(11_000, "b"), add(20_000, "b", 4)];
    let workload = workload(&["a", "b"], changes, vec![four_cores(2, RunTime::Same(50_000))]);
    let at = |end_s| run(&workload, end_s);
    assert_eq!(tasks(&at(9.0)), (2, 0));
    assert_eq!(tasks(&at(15.0)), (1, 1));
    // The attempt at 11.1 s fails. The one at 20.1 s, after a machine was added, succeeds.
    let again = at(25.0);
    let batch = &again.report.schedulers[0];
    assert_eq!((tasks(&again), again.report.lost), ((2, 0), 1));
    assert_eq!((batch.tasks_placed, batch.no_room), (3, 1));
    // One task started at 1.1 s, the other at 20.1 s.
    assert_eq!(tasks(&at(50.0)), (2, 0));
    assert_eq!(tasks(&at(52.0)), (1, 0));
    assert_eq!(tasks(&at(69.0)), (1, 0));
    assert_eq!(tasks(&at(72.0)), (0, 0));
}

#[test]
fn what_was_there_at_the_start_is_placed_again_by_its_scheduler() {
    let service = Arrival { at_ms: 0, ..four_cores(1, RunTime::Forever) };
    let workload = workload(&["a"], vec![add(5000, "b", 4), remove(8000, "a")], vec![service]);
    let before = run(&workload, 5.5);
    assert_eq!((tasks(&before), before.report.jobs_at_start), ((1, 0), 1));
    let after = run(&workload, 9.0);
    assert_eq!((tasks(&after), after.report.lost), ((1, 0), 1));
    assert_eq!(after.report.schedulers[0].tasks_placed, 1);
}

#[test]
fn a_machine_that_is_new_or_grows_takes_what_had_no_room() {
    let workload = workload(
        &["a"],
        vec![add(10_000, "new", 4), add(20_000, "a", 8)],
        vec![four_cores(3, RunTime::Forever)],
    );
    assert_eq!(tasks(&run(&workload, 9.0)), (1, 2));
    assert_eq!(tasks(&run(&workload, 19.0)), (2, 1));
    let end = run(&workload, 29.0);
    assert_eq!((tasks(&end), end.report.lost), ((3, 0), 0));
    // Shares refer to the capacity at the time: first four cores, then eight, then twelve.
    assert!((0.85..=1.0).contains(&end.report.cpu_used), "{}", end.report.cpu_used);
}

#[test]
fn the_mean_use_is_an_integral_over_time_until_exactly_the_end() {
    // The task of four cores runs from 1.1 s to 6.1 s on the only machine.
    let workload = workload(&["a"], Vec::new(), vec![four_cores(1, RunTime::Same(5000))]);
    for (end_s, used_s) in [(1.0, 0.0), (2.1, 1.0), (4.5, 3.4), (6.1, 5.0), (10.0, 5.0)] {
        let report = run(&workload, end_s).report;
        assert_eq!(report.seconds, end_s);
        for used in [report.cpu_used, report.memory_used] {
            assert!((used - used_s / end_s).abs() < 1e-9, "{used} until {end_s}");
        }
    }
}

#[test]
fn events_at_the_end_happen_and_later_ones_do_not() {
    let job = |number: u64, at_ms| {
        let group = TaskGroup::new(1, cores(1));
        let job = Job::batch(format!("job-{number}"), group);
        Arrival { at_ms, job, placed: Vec::new(), run: RunTime::Forever }
    };
    let changes = vec![add(5000, "b", 4), add(5001, "c", 4)];
    let workload = workload(&["a"], changes, vec![job(1, 1000), job(2, 5000), job(3, 5001)]);
    let outcome = run(&workload, 5.0);
    let machines = outcome.cell.read(|cell| cell.machines().count());
    let jobs: u64 = outcome.report.schedulers.iter().map(|one| one.jobs).sum();
    assert_eq!((machines, jobs, tasks(&outcome)), (2, 2, (1, 1)));
}

#[test]
fn a_change_of_what_is_not_there_is_none() {
    let changes = vec![remove(2000, "nobody"), remove(3000, "a"), remove(4000, "a")];
    let outcome = run(&workload(&["a"], changes, vec![four_cores(1, RunTime::Forever)]), 5.0);
    assert_eq!((tasks(&outcome), outcome.report.lost), ((0, 1), 1));
}

/// A cell with little load. Its machines are removed and added again one after the other, and one in four is smaller
/// for some time.
fn restless(seed: u64) -> Workload {
    let options = SynthOptions { machines: 40, seed, span_hours: 2, utilisation_percent: 25 };
    let mut workload = synthesize(&options);
    let mut changes = Vec::new();
    for (at, machine) in (1..).zip(&workload.machines) {
        let at_ms = at * 120_000;
        let mut changed = machine.clone();
        changed.capacity.set(KindId::CPU, machine.capacity.get(KindId::CPU) / 2);
        let first = match at % 4 {
            0 => MachineChange::Add(changed),
            _ => MachineChange::Remove(machine.name.clone()),
        };
        changes.push(MachineEvent { at_ms, change: first });
        let back = MachineChange::Add(machine.clone());
        changes.push(MachineEvent { at_ms: at_ms + 60_000, change: back });
    }
    changes.sort_by_key(|event| event.at_ms);
    workload.machine_events = changes;
    workload
}

#[test]
fn the_tasks_of_a_gang_may_be_in_several_parts_of_a_copy() {
    let mut gang = four_cores(4, RunTime::Forever);
    gang.job.gang_min = Some(4);
    let workload = workload(&["a", "b", "c", "d"], Vec::new(), vec![gang]);
    let run =
        |architecture| simulate(&workload, &settings(architecture, 20.0)).expect("it is sound");
    let parts = run(ArchitectureKind::PartitionedSync);
    assert_eq!((tasks(&parts), parts.report.notes.len()), ((4, 0), 0));
    let sampled = run(ArchitectureKind::Sampling);
    assert_eq!(tasks(&sampled), (0, 4));
    let note = "--arch sparrow places tasks one by one, so it places no gangs: 1 job";
    assert_eq!(sampled.report.notes, [note]);
    // Without a success, there is no ratio.
    assert_eq!(sampled.report.schedulers[1].conflict_fraction, None);
}

#[test]
fn no_architecture_loses_a_task_with_its_machine() {
    for seed in 1..=3 {
        let workload = restless(seed);
        let all: u64 = workload.arrivals.iter().map(|arrival| arrival.job.task_count()).sum();
        for architecture in [
            ArchitectureKind::Mono,
            ArchitectureKind::MonoMulti,
            ArchitectureKind::Partitions,
            ArchitectureKind::TwoLevel,
            ArchitectureKind::SharedState,
            ArchitectureKind::PartitionedSync,
            ArchitectureKind::Sampling,
        ] {
            println!("seed {seed}, {architecture:?}");
            // The cell is audited at the end of each run.
            let run = || simulate(&workload, &settings(architecture, 3.0 * 3600.0));
            let outcome = run().expect("the workload is sound");
            assert!(outcome.report.lost > 20, "{} are too few to tell", outcome.report.lost);
            let (_, waiting) = tasks(&outcome);
            assert!((waiting as u64) < all / 20, "{waiting} of {all} tasks wait");
            assert_eq!(outcome.state_hash, run().expect("it was sound").state_hash);
        }
    }
}
