//! Runs that end although tasks are pending, reports on runs, and runs on disks with the workload of a run in memory.

use crate::backend::DurableBackend;
use crate::replicas::Durability;
use crate::report::RunReport;
use crate::{
    CLIENTS, Evict, Pace, PlacedFile, Rebalancing, RunError, RunOptions, Stop, Workers, run,
};
use omega_core::limits::{AMOUNT_MAX, GANG_TIMEOUT_MS_MAX};
use omega_core::{
    Amounts, Groups, Job, JobKind, KindId, Kinds, Machine, Port, ResourceKind, TaskGroup,
};
use omega_schedulers::config::{Plugin, Point, Profiles, Registry};
use omega_schedulers::rebalance::Objectives;
use omega_schedulers::{Claimed, Events, Profile, Refused, Reserve};
use omega_store::directory::EngineKind;
use omega_workload::synth::{SynthOptions, synthesize};
use omega_workload::{Arrival, MachineChange, MachineEvent, RunTime, Workload};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// No arguments.
#[derive(Deserialize)]
struct NoArguments {}

/// Plugin that rejects every claim until some time has passed.
#[derive(Clone)]
struct Never;

impl Reserve for Never {
    fn name(&self) -> &'static str {
        "never"
    }

    fn reserve(&mut self, _: &Claimed<'_>) -> Result<(), Refused> {
        Err(Refused(Events::TIME))
    }

    fn unreserve(&mut self, _: &Claimed<'_>) {}
}

/// Runs a small cell with an hour of work. `list` is TOML that is added to the profile of the services.
fn run_with(list: &str) -> RunReport {
    let options = SynthOptions { machines: 20, seed: 1, span_hours: 1, utilisation_percent: 30 };
    let workload: Workload = synthesize(&options);
    let never = |_: &NoArguments, _: &Kinds| Ok(Never);
    let never = Plugin::around(Point::Reserve, "never", never, Profile::with_reserve);
    let registry = Registry::built_in().with(never).unwrap();
    let file = format!("[[profile]]\nname = 'service'\nbase = 'service'\n{list}");
    let profiles = Profiles::parse(&file, &registry).unwrap();
    run(workload, &RunOptions { profiles, ..RunOptions::default() }, &mut |_| {}).unwrap()
}

#[test]
fn a_plugin_that_always_refuses_does_not_keep_a_run_from_its_end() {
    let report = run_with("[[profile.reserve]]\nplugin = 'never'\n");
    let service = report.schedulers.iter().find(|scheduler| scheduler.name == "service-0").unwrap();
    assert_eq!(service.placements, 0);
    assert!(report.pending > 0 && report.placements > 0);
}

#[test]
fn what_a_filter_of_the_profile_refuses_is_laid_to_it() {
    let filter = "[[profile.filter]]\nplugin = 'node_label'\nargs = { present = ['nowhere'] }\n";
    let report = run_with(filter);
    assert!(report.pending > 0);
    assert!(report.unplaced.iter().any(|entry| entry.reason == "refused by node_label"));
    assert!(report.unplaced.iter().all(|entry| !entry.reason.contains("no machines")));
}

/// A workload whose machines are removed and added again; some jobs arrive at the moment at which others end.
fn restless() -> Workload {
    let options = SynthOptions { machines: 20, seed: 1, span_hours: 2, utilisation_percent: 20 };
    let mut workload = synthesize(&options);
    for (at, machine) in (1..).zip(workload.machines.iter().take(10)) {
        let at_ms = at * 600_000;
        let remove = MachineChange::Remove(machine.name.clone());
        let add = MachineChange::Add(machine.clone());
        workload.machine_events.push(MachineEvent { at_ms, change: remove });
        // Of three changes of one machine within two milliseconds, only the last remains.
        workload.machine_events.push(MachineEvent { at_ms: at_ms + 1, change: add.clone() });
        workload.machine_events.push(MachineEvent { at_ms: at_ms + 1, change: add });
    }
    workload
}

#[test]
fn replicas_are_fed_what_a_cell_in_memory_is() {
    let engine = EngineKind::Segment;
    let on_disks = |replicas| -> Option<Arc<dyn DurableBackend>> {
        Some(Arc::new(Durability { dir: None, replicas, engine }))
    };
    for backend in [None, on_disks(1), on_disks(3)] {
        let options = RunOptions { backend, ..RunOptions::default() };
        let report = run(restless(), &options, &mut |_| {}).unwrap();
        // Each task is placed once, and again each time it was lost with its machine. (A task that is placed while its
        // machine is being removed is not counted as lost.)
        let wanted = report.tasks as u64 + report.lost;
        let placed = report.placements + report.placed_at_start as u64;
        let what = format!("{placed} of {wanted} placed, {:?}", options.backend);
        assert!(placed >= wanted && report.pending == 0, "{what}");
        assert_eq!(report.machines, 20);
        assert!(report.finished > 0);
    }
}

#[test]
fn a_job_that_is_refused_on_its_way_ends_the_run_and_is_named() {
    let mut workload = restless();
    let twice = workload.arrivals.last().unwrap().clone();
    let name = twice.job.name.clone();
    // A job without tasks, which every cell rejects.
    workload.arrivals.push(Arrival { job: Job { groups: Groups::new(), ..twice.job }, ..twice });
    let alone = Durability { dir: None, replicas: 1, engine: EngineKind::Segment };
    let alone: Arc<dyn DurableBackend> = Arc::new(alone);
    for backend in [None, Some(alone)] {
        let options = RunOptions { backend, ..RunOptions::default() };
        let refused = run(workload.clone(), &options, &mut |_| {}).map(drop);
        assert!(
            matches!(&refused, Err(RunError::Job { name: of, .. }) if *of == name),
            "{refused:?}"
        );
    }
}

/// The part of a report that is not measured by a clock.
fn without_clocks(report: RunReport) -> String {
    let mut report = RunReport { wall_s: 0.0, cpu_s: None, placements_per_s: 0.0, ..report };
    for scheduler in &mut report.schedulers {
        (scheduler.decision_us_p50, scheduler.decision_us_p99) = (None, None);
        (scheduler.deciding_s, scheduler.wasted_s) = (0.0, 0.0);
    }
    report.series.iter_mut().for_each(|sample| sample.wall_s = 0.0);
    format!("{report:?}")
}

#[test]
fn workers_in_lock_step_give_one_report_for_a_seed() {
    let mut workload = restless();
    // The workload also has jobs for the frontends: for frameworks and for applications.
    let last_ms = workload.arrivals.last().unwrap().at_ms;
    for (i, client) in (0..10).zip(CLIENTS.into_iter().cycle()) {
        let group = TaskGroup::new(2, Amounts::new([100, 1 << 20]));
        let job = Job { scheduler: client.into(), ..Job::batch(format!("{client}-{i}"), group) };
        let at_ms = last_ms + i * 1000;
        workload.arrivals.push(Arrival {
            at_ms,
            job,
            placed: Vec::new(),
            run: RunTime::Same(1500),
        });
    }
    for pace in [Pace::Fastest, Pace::InTurns] {
        let options = RunOptions { workers: Workers::LockStep, pace, ..RunOptions::default() };
        let report = run(workload.clone(), &options, &mut |_| {}).unwrap();
        let names = report.schedulers.iter().filter(|one| one.placements > 0);
        assert!(CLIENTS.iter().all(|client| names.clone().any(|one| one.name == *client)));
        let again = run(workload.clone(), &options, &mut |_| {}).unwrap();
        assert!(without_clocks(report) == without_clocks(again), "{pace:?}");
    }
    let timed = Pace::Speed(1.0);
    let options = RunOptions { workers: Workers::LockStep, pace: timed, ..RunOptions::default() };
    let refused = run(workload, &options, &mut |_| {}).map(drop);
    assert!(matches!(refused, Err(RunError::NoLockStep)), "{refused:?}");
}

#[test]
fn no_machine_stays_idle_until_the_next_arrival() {
    let mut workload = restless();
    workload.machine_events.clear();
    let scheduler = workload.arrivals.iter().find(|one| one.job.kind == JobKind::Batch);
    let scheduler = scheduler.unwrap().job.scheduler.clone();
    workload.machines = vec![Machine::new("m", Amounts::new([4000, 8 << 30]))];
    let request = Amounts::new([4000, 1 << 30]);
    let job = |name: &str, count, at_ms| Arrival {
        at_ms,
        job: Job {
            scheduler: scheduler.clone(),
            ..Job::batch(name, TaskGroup::new(count, request.clone()))
        },
        placed: Vec::new(),
        run: RunTime::Same(100_000),
    };
    // The machine has room for one task at a time.
    workload.arrivals = vec![job("ten", 10, 0), job("last", 1, 5_500_000)];
    for workers in [Workers::Threads, Workers::LockStep] {
        for pace in [Pace::Fastest, Pace::InTurns] {
            let options = RunOptions { workers, pace, ..RunOptions::default() };
            let report = run(workload.clone(), &options, &mut |_| {}).unwrap();
            let ended = (report.placements, report.finished, report.pending);
            assert_eq!(ended, (11, 10, 0), "{workers:?}, {pace:?}");
        }
    }
}

/// A batch job of one task that requests a core, and runs for this time.
fn one_core(name: u64, at_ms: u64, run_ms: u64) -> Arrival {
    let group = TaskGroup::new(1, Amounts::new([1000, 1 << 20]));
    let job = Job { scheduler: "batch".into(), ..Job::batch(format!("j{name}"), group) };
    Arrival { at_ms, job, placed: Vec::new(), run: RunTime::Same(run_ms) }
}

/// Machines of four cores each, and these jobs.
fn four_cores(machines: u64, arrivals: Vec<Arrival>) -> Workload {
    let machine = |i| Machine::new(format!("m{i}"), Amounts::new([4000, 8 << 30]));
    let machines = (0..machines).map(machine).collect();
    Workload { machines, machine_events: Vec::new(), arrivals, ..restless() }
}

/// All ways to run the workers without the wall clock, with one batch scheduler and with three.
fn ways() -> impl Iterator<Item = RunOptions> {
    let workers = [Workers::Threads, Workers::LockStep].into_iter();
    let paced = workers.flat_map(|of| [Pace::Fastest, Pace::InTurns].map(|pace| (of, pace)));
    paced.flat_map(|(workers, pace)| {
        [1, 3].map(|batch_schedulers| RunOptions {
            workers,
            pace,
            batch_schedulers,
            ..RunOptions::default()
        })
    })
}

#[test]
fn jobs_on_empty_machines_do_not_wait_for_the_next_arrival() {
    let arrivals = vec![one_core(0, 0, 10_000), one_core(1, 1, 10_000), one_core(2, 3_600_000, 1)];
    for options in ways() {
        let report = run(four_cores(10, arrivals.clone()), &options, &mut |_| {}).unwrap();
        let longest = report.tenants[0].wait_s_max.unwrap();
        assert!(longest <= 0.1, "{:?}, {:?}: {longest}", options.workers, options.pace);
    }
}

/// Machines of a hundred cores each, a gang of 12,000 tasks that request a core, and small jobs at these times.
fn large_gang(machines: u64, run_ms: u64, small_at_ms: &[u64]) -> Workload {
    let machine = |i| Machine::new(format!("m{i}"), Amounts::new([100_000, 1 << 40]));
    let gang = Job {
        scheduler: "batch".into(),
        gang_min: Some(12_000),
        gang_timeout_ms: Some(GANG_TIMEOUT_MS_MAX),
        ..Job::batch("gang", TaskGroup::new(12_000, Amounts::new([1000, 1 << 20])))
    };
    let run = RunTime::Same(run_ms);
    let mut arrivals = vec![Arrival { at_ms: 1, job: gang, placed: Vec::new(), run }];
    for (name, at_ms) in (0..).zip(small_at_ms) {
        let mut small = one_core(name, *at_ms, 1);
        small.job.groups[0].request = Amounts::new([0, 1 << 20]);
        arrivals.push(small);
    }
    Workload {
        machines: (0..machines).map(machine).collect(),
        machine_events: Vec::new(),
        arrivals,
        ..restless()
    }
}

#[test]
fn tasks_of_an_incomplete_gang_do_not_run() {
    // The gang waits from the first minute on, gives up after an hour, and waits again.
    let workload = large_gang(110, 20_000, &[100_000, 200_000, 4_000_000, 4_100_000]);
    let options =
        RunOptions { workers: Workers::LockStep, batch_schedulers: 1, ..RunOptions::default() };
    let report = run(workload, &options, &mut |_| {}).unwrap();
    // The last small job arrives at the end.
    assert_eq!(report.finished, 3);
    assert!(report.pending >= 1000, "{}", report.pending);
}

#[test]
fn all_tasks_of_a_gang_run_from_the_time_at_which_it_is_complete() {
    // A job has a tenth of the machines for 500 s. Then the gang is complete, and runs for 600 s.
    let finished = |last_ms| {
        let mut workload = large_gang(120, 600_000, &[last_ms]);
        let mut block = one_core(9, 0, 500_000);
        block.job.groups[0].count = 1000;
        workload.arrivals.insert(0, block);
        let options =
            RunOptions { workers: Workers::LockStep, batch_schedulers: 1, ..RunOptions::default() };
        run(workload, &options, &mut |_| {}).unwrap().finished
    };
    assert_eq!(finished(1_090_000), 1000);
    assert_eq!(finished(1_120_000), 13_000);
}

/// Number of tasks that a single queue would start by the last arrival, and their longest wait in seconds.
fn first_come_first_served(cores: usize, arrivals: &[Arrival], run_ms: u64) -> (u64, f64) {
    let last_ms = arrivals.last().unwrap().at_ms;
    let mut free_at: Vec<u64> = vec![0; cores];
    let (mut started, mut longest_ms) = (0, 0);
    for arrival in arrivals {
        let first = free_at.iter_mut().min().unwrap();
        let at_ms = arrival.at_ms.max(*first);
        *first = at_ms + run_ms;
        if at_ms <= last_ms {
            started += 1;
            longest_ms = longest_ms.max(at_ms - arrival.at_ms);
        }
    }
    (started, longest_ms as f64 / 1000.0)
}

#[test]
fn a_loaded_cell_serves_waiting_jobs_before_younger_ones() {
    const RUN_MS: u64 = 60_000;
    let (mut at_ms, mut random) = (0, 7_u64);
    let arrival = |name| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // On average, 40 cores get a job of a minute each 1.6 seconds: a load of 94 %.
        at_ms += (random >> 33) % 3200;
        one_core(name, at_ms, RUN_MS)
    };
    let arrivals: Vec<Arrival> = (0..2000).map(arrival).collect();
    let (started, longest) = first_come_first_served(40, &arrivals, RUN_MS);
    for options in ways() {
        let report = run(four_cores(10, arrivals.clone()), &options, &mut |_| {}).unwrap();
        let way = format!("{:?}, {:?}", options.workers, options.pace);
        // The clock may be ahead of the workers by a fiftieth of the run time.
        assert!(report.placements + 5 >= started, "{way}: {} of {started}", report.placements);
        let waited = report.tenants[0].wait_s_max.unwrap();
        let bound = f64::from(options.batch_schedulers) * (longest + 30.0);
        assert!(waited <= bound, "{way}: {waited} of {longest}");
    }
}

#[test]
fn a_kind_that_is_nominal_or_that_no_machine_has_is_not_reported() {
    let mut workload = restless();
    workload.machine_events.clear();
    workload.arrivals.clear();
    let mut kinds: Vec<ResourceKind> =
        Kinds::standard().iter().map(|(_, kind)| kind.clone()).collect();
    kinds.push(ResourceKind { name: "cpu (nominal)".into(), ..kinds[0].clone() });
    workload.kinds = Kinds::new(kinds).unwrap();
    let machine =
        |name: &str, memory| Machine::new(name, Amounts::new([4000, memory, 0, 0, AMOUNT_MAX]));
    let names = |machines: Vec<Machine>| -> Vec<String> {
        let workload = Workload { machines, ..workload.clone() };
        let report = run(workload, &RunOptions::default(), &mut |_| {}).unwrap();
        report.resources.into_iter().map(|resource| resource.name).collect()
    };
    assert_eq!(names(vec![machine("a", 0), machine("b", 0)]), ["cpu"]);
    assert_eq!(names(vec![machine("a", AMOUNT_MAX), machine("b", 0)]), ["cpu", "memory"]);
    assert_eq!(names(vec![machine("a", AMOUNT_MAX), machine("b", 1 << 30)]), ["cpu", "memory"]);
}

#[test]
fn shares_are_those_of_the_reported_kinds() {
    // The machine has no disk, so the GPU is the third reported kind, and the fourth kind of the cell.
    let machine = Machine::new("a", Amounts::new([4000, 8 << 30])).with_devices(KindId::GPU, 4);
    let group = TaskGroup::new(1, Amounts::new([1000, 2 << 30])).with_devices(KindId::GPU, 3);
    let job = Job::batch("job", group);
    let arrivals = vec![Arrival { at_ms: 0, job, placed: vec![(0, 0)], run: RunTime::Forever }];
    let workload = Workload { machines: vec![machine], ..four_cores(1, arrivals) };
    let report = run(workload, &RunOptions::default(), &mut |_| {}).unwrap();
    let names: Vec<&str> = report.resources.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["cpu", "memory", "gpu"]);
    let shares = [0.25, 0.25, 0.75];
    let at_end: Vec<f64> = report.resources.iter().map(|one| one.used_at_end).collect();
    assert_eq!(at_end, shares);
    assert!(report.series.iter().all(|sample| sample.used.len() == 3), "{:?}", report.series);
    assert!(report.series.last().is_none_or(|last| last.used == shares), "{:?}", report.series);
    assert_eq!(report.heat[0].used, shares.map(Some));
}

#[test]
fn a_run_that_is_stopped_reports_what_was_done() {
    let alone = Durability { dir: None, replicas: 1, engine: EngineKind::Segment };
    let alone: Arc<dyn DurableBackend> = Arc::new(alone);
    let ways =
        [(Workers::Threads, None), (Workers::LockStep, None), (Workers::Threads, Some(alone))];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("placed.csv");
    for (workers, backend) in ways {
        let stop = Stop::default();
        let placed = Some(PlacedFile::Path(file.clone()));
        let stop_too = stop.clone();
        let options =
            RunOptions { workers, backend, placed, stop: stop_too, ..RunOptions::default() };
        let all = restless().arrivals.len();
        let mut after_some = |progress: super::Progress| {
            if progress.submitted > progress.tasks / 4 {
                stop.request();
            }
        };
        let report = run(restless(), &options, &mut after_some).unwrap();
        assert!(report.interrupted && (1..all).contains(&report.jobs), "{workers:?}");
        let placed = report.placements + report.placed_at_start as u64;
        let came = report.tasks as u64 + report.lost;
        assert!(placed + report.pending as u64 >= came, "{workers:?}");
        let unplaced: usize = report.unplaced.iter().map(|entry| entry.tasks).sum();
        assert_eq!(unplaced, report.pending, "{workers:?}");
        let last = report.series.last().unwrap();
        assert_eq!((last.placements, last.pending), (report.placements, report.pending));
        assert_eq!(rows(&file).len() as u64, report.placements, "{workers:?}");
    }
}

/// A row of a file of placements.
struct Row {
    at_s: f64,
    /// The job and the number of the task.
    task: (String, u32),
    machine: String,
}

/// The rows of a file of placements.
fn rows(file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.strip_prefix("at_s,job,task,machine\n").expect("the file has column names");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [at_s, job, task, machine] = fields[..] else { panic!("four fields: {line}") };
        let task = (job.to_owned(), task.parse().unwrap());
        Row { at_s: at_s.parse().unwrap(), task, machine: machine.to_owned() }
    };
    lines.lines().map(row).collect()
}

/// A workload in which a rebalancer moves tasks, and machines are removed and added again.
fn moving() -> Workload {
    let options = SynthOptions { machines: 30, seed: 4, span_hours: 2, utilisation_percent: 40 };
    let changes = restless().machine_events;
    Workload { machine_events: changes, ..synthesize(&options) }
}

#[test]
fn each_placement_has_a_row_and_the_last_row_of_a_task_has_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("placed.csv");
    let three = Durability { dir: None, replicas: 3, engine: EngineKind::Segment };
    let three: Arc<dyn DurableBackend> = Arc::new(three);
    let ways =
        [(Workers::Threads, None), (Workers::LockStep, None), (Workers::Threads, Some(three))];
    for (workers, backend) in ways {
        let options = RunOptions {
            workers,
            backend,
            evict: Evict::Always,
            rebalancing: rebalancing(),
            placed: Some(PlacedFile::Path(file.clone())),
            ..RunOptions::default()
        };
        let ended = super::run_to_the_end(moving(), &options, &mut |_| {}).unwrap();
        let (fed, rows) = (ended.fed, rows(&file));
        let moves = fed.rebalancing.as_ref().unwrap().moves;
        assert!(moves > 0 && fed.counts.placements > 0, "{workers:?}");
        assert_eq!(rows.len() as u64, fed.counts.placements + moves, "{workers:?}");
        assert!(rows.iter().map(|row| row.at_s).is_sorted(), "{workers:?}");
        let last: HashMap<_, _> = rows.iter().map(|row| (&row.task, &*row.machine)).collect();
        let mut running = 0;
        fed.cell.read(|cell| {
            for machine in cell.machines() {
                for task in machine.tasks {
                    let job = cell.job(task.job).unwrap().name.to_string();
                    // A task that runs since the start has no row.
                    let Some(at) = last.get(&(job, task.index)) else { continue };
                    assert_eq!(*at, &*machine.machine.name, "{workers:?}: {task}");
                    running += 1;
                }
            }
        });
        assert!(running > 0, "{workers:?}");
    }
}

#[test]
fn placements_in_lock_step_are_the_same_bytes_for_a_seed() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |name: &str| {
        let file = folder.path().join(name);
        let placed = Some(PlacedFile::Path(file.clone()));
        let (workers, rebalancing) = (Workers::LockStep, rebalancing());
        let options = RunOptions { workers, rebalancing, placed, ..RunOptions::default() };
        run(moving(), &options, &mut |_| {}).unwrap();
        std::fs::read(&file).unwrap()
    };
    assert!(bytes("first") == bytes("second"));
}

#[test]
fn a_file_of_placements_that_cannot_be_written_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let placed = Some(PlacedFile::Path(folder.path().join("none/placed.csv")));
    let options = RunOptions { placed, ..RunOptions::default() };
    let refused = run(restless(), &options, &mut |_| {}).map(drop);
    assert!(matches!(refused, Err(RunError::Placed { .. })), "{refused:?}");
}

#[test]
fn at_a_speed_waits_and_rows_are_by_the_wall_clock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("placed.csv");
    let placed = Some(PlacedFile::Path(file.clone()));
    // A placement takes more than a microsecond, which is a second of the workload.
    let options = RunOptions { pace: Pace::Speed(1e6), placed, ..RunOptions::default() };
    let arrivals = vec![one_core(0, 0, 1), one_core(1, 86_400_000, 1)];
    let report = run(four_cores(1, arrivals), &options, &mut |_| {}).unwrap();
    let at_s: Vec<f64> = rows(&file).iter().map(|row| row.at_s).collect();
    assert!(at_s.len() == 2 && at_s[0] >= 1.0 && at_s[1] >= 86_401.0, "{at_s:?}");
    let waited = report.tenants[0].wait_s_p50.unwrap();
    assert!(waited >= 1.0, "{waited}");
    for scheduler in report.schedulers.iter().filter(|scheduler| scheduler.decisions == 0) {
        assert_eq!((scheduler.decision_us_p50, scheduler.decision_us_p99), (None, None));
    }
}

#[test]
fn few_of_many_pending_jobs_are_examined() {
    let on_port = |name| {
        let mut arrival = one_core(name, 0, 1000);
        arrival.job.groups[0].rules.ports = vec![Port::tcp(80)];
        arrival
    };
    // The machine has the port for one of the jobs.
    let workload = four_cores(1, (0..301).map(on_port).collect());
    let options =
        RunOptions { workers: Workers::LockStep, batch_schedulers: 1, ..RunOptions::default() };
    let ended = super::run_to_the_end(workload, &options, &mut |_| {}).unwrap();
    let super::FinishedRun { fed, mut workers, .. } = ended;
    let mut counts = |stop: &Stop| {
        let list = super::outcome::unplaced(&fed, &mut workers, stop);
        let rest = list.iter().filter(|entry| entry.reason.starts_with("not examined, "));
        let rest: usize = rest.map(|entry| entry.jobs).sum();
        let all: usize = list.iter().map(|entry| entry.jobs).sum();
        (all - rest, rest)
    };
    let stop = Stop::default();
    assert_eq!(counts(&stop), (200, 100));
    stop.request();
    assert_eq!(counts(&stop), (20, 280));
}

/// A rebalancer whose objectives make machines full or empty.
fn rebalancing() -> Option<Rebalancing> {
    Some(Rebalancing { every_ms: 600_000, objectives: Objectives::defragment() })
}

/// Runs a small cell with jobs of this kind, and with a rebalancer if one is given.
fn run_of(kind: JobKind, rebalancing: Option<Rebalancing>) -> RunReport {
    let options = SynthOptions { machines: 30, seed: 4, span_hours: 4, utilisation_percent: 40 };
    let mut workload = synthesize(&options);
    workload.arrivals.iter_mut().for_each(|arrival| arrival.job.kind = kind);
    let options = RunOptions { workers: Workers::LockStep, rebalancing, ..RunOptions::default() };
    run(workload, &options, &mut |_| {}).unwrap()
}

#[test]
fn a_rebalancer_moves_tasks_during_a_run() {
    let report = run_of(JobKind::Batch, rebalancing());
    let passes = report.rebalancing.expect("the run had one");
    assert!(passes.passes > 15 && passes.moves > 100, "{passes:?}");
    assert!(passes.cost_after < passes.cost_before, "{passes:?}");
    assert_eq!((report.pending, report.placements), (0, report.tasks as u64));
}

#[test]
fn moved_services_keep_their_ends_and_moved_batch_tasks_start_over() {
    let finished = |kind, rebalancing| run_of(kind, rebalancing).finished;
    let of_services = finished(JobKind::Service, None);
    // Moves may make room for a pending service, which then ends earlier.
    assert!(finished(JobKind::Service, rebalancing()) >= of_services);
    assert!(finished(JobKind::Batch, rebalancing()) < finished(JobKind::Batch, None));
}
