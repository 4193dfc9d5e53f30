//! Architectures on the shipped cell: each behaves as reported in the literature, and runs are deterministic.

use crate::changes;
use crate::support::{omega_sim, text};
use omega_core::{Amounts, ConflictCheck, Granularity, Job, TaskGroup};
use omega_sim::engine::{DecisionTime, Retries};
use omega_sim::scenario::{
    ArchitectureKind, Outcome, Report, ScenarioSettings, Waits, simulate, simulate_stream,
};
use omega_sim::shipped::ShippedError;
use omega_workload::public_data;
use omega_workload::stream::{Held, Stream};
use omega_workload::synth::{SynthOptions, open, synthesize};
use omega_workload::{Arrival, RunTime, Workload, omega_sim as lists};

fn settings(architecture: ArchitectureKind) -> ScenarioSettings {
    let fast = DecisionTime { job_s: 0.1, task_s: 0.005 };
    ScenarioSettings {
        architecture,
        batch_schedulers: 2,
        service_schedulers: 1,
        batch_decides: fast,
        service_decides: DecisionTime { job_s: 20.0, ..fast },
        check: ConflictCheck::ResourceFit,
        granularity: Granularity::Incremental,
        pickiness: 0.0,
        retries: Retries::Unlimited,
        near_best: 1,
        parts: 4,
        probes: 2,
        end_s: None,
        seed: 1,
        profiles: omega_schedulers::config::Profiles::default(),
    }
}

/// A small cell of a few hours.
fn workload() -> Workload {
    let options = SynthOptions { machines: 400, span_hours: 4, seed: 3, utilisation_percent: 60 };
    synthesize(&options)
}

fn run(settings: &ScenarioSettings) -> Outcome {
    simulate(&workload(), settings).expect("the workload is sound")
}

fn report(architecture: ArchitectureKind) -> Report {
    run(&settings(architecture)).report
}

/// Figures of the schedulers whose names begin with a prefix: number of conflicts, mean wait of their jobs, and number
/// of abandoned jobs.
fn sum(report: &Report, names: &str) -> (u64, f64, u64) {
    let mine = || report.schedulers.iter().filter(|scheduler| scheduler.name.starts_with(names));
    let jobs: u64 = mine().map(|scheduler| scheduler.jobs).sum();
    let waited = mine().map(|scheduler| scheduler.wait.mean_s * scheduler.jobs as f64).sum::<f64>();
    let count = |of: fn(&omega_sim::scenario::SchedulerReport) -> u64| mine().map(of).sum();
    (count(|one| one.failed), waited / jobs as f64, count(|one| one.abandoned))
}

const ALL: [ArchitectureKind; 7] = [
    ArchitectureKind::Mono,
    ArchitectureKind::MonoMulti,
    ArchitectureKind::Partitions,
    ArchitectureKind::TwoLevel,
    ArchitectureKind::SharedState,
    ArchitectureKind::PartitionedSync,
    ArchitectureKind::Sampling,
];

#[test]
fn the_same_input_gives_the_same_run() {
    let options = SynthOptions { machines: 100, span_hours: 1, seed: 3, utilisation_percent: 60 };
    let workload = synthesize(&options);
    let run = |settings: &ScenarioSettings| simulate(&workload, settings).expect("it is sound");
    for architecture in ALL {
        let (once, twice) = (run(&settings(architecture)), run(&settings(architecture)));
        assert_eq!(format!("{:?}", once.report), format!("{:?}", twice.report));
        assert_eq!(once.state_hash, twice.state_hash, "{architecture:?}");
        let other = run(&ScenarioSettings { seed: 2, ..settings(architecture) });
        assert_ne!(
            once.state_hash, other.state_hash,
            "{architecture:?}: another seed places elsewhere"
        );
    }
}

#[test]
fn a_run_that_reads_its_jobs_is_that_of_the_whole() {
    let options = SynthOptions { machines: 100, span_hours: 1, seed: 3, utilisation_percent: 60 };
    let workload = synthesize(&options);
    let open = || -> Result<Box<dyn Stream>, ShippedError> { Ok(Box::new(open(&options))) };
    for architecture in ALL {
        let settings = settings(architecture);
        let whole = simulate(&workload, &settings).expect("it is sound");
        let read = simulate_stream(open, &settings).expect("it is sound");
        assert_eq!(format!("{:?}", whole.report), format!("{:?}", read.report));
        assert_eq!(whole.state_hash, read.state_hash, "{architecture:?}");
    }
}

#[test]
fn jobs_that_were_read_but_never_come_again_are_an_error() {
    let options = SynthOptions { machines: 100, span_hours: 1, seed: 3, utilisation_percent: 60 };
    let readings = std::cell::Cell::new(0);
    let open = || -> Result<Box<dyn Stream>, ShippedError> {
        readings.set(readings.get() + 1);
        let mut workload = synthesize(&options);
        if readings.get() > 1 {
            workload.arrivals.pop();
        }
        Ok(Box::new(Held::new(workload, "made-up".as_ref())))
    };
    let run = simulate_stream(open, &settings(ArchitectureKind::SharedState));
    let error = run.err().expect("it has fewer jobs than before");
    assert!(matches!(error, ShippedError::Changed), "{error}");
}

#[test]
fn jobs_are_placed_after_their_decisions_and_what_is_used_runs() {
    let cores = |cores: u64| Amounts::new([cores * 1000, cores << 30]);
    let job = |name| Arrival {
        at_ms: 1000,
        job: Job::batch(name, TaskGroup::new(4, cores(1))),
        placed: Vec::new(),
        run: RunTime::Same(50_000),
    };
    let workload = changes::workload(&["a", "b", "c", "d"], Vec::new(), vec![job("j"), job("k")]);
    let decides = DecisionTime { job_s: 10.0, task_s: 0.0 };
    for architecture in ALL {
        let settings = ScenarioSettings {
            batch_schedulers: 1,
            batch_decides: decides,
            service_decides: decides,
            end_s: Some(200.0),
            ..settings(architecture)
        };
        let report = simulate(&workload, &settings).expect("it is sound").report;
        let busy = &report.schedulers[0];
        assert_eq!((busy.jobs_tried, busy.jobs_placed), (2, 2), "{architecture:?}");
        // Each of the decisions takes ten seconds, and the second one begins after the first.
        let decided = [busy.placed.p50_s - busy.wait.p50_s, busy.placed.p99_s];
        assert!(
            decided[0] >= 10.0 - 1e-9 && decided[1] >= 20.0 - 1e-9,
            "{architecture:?}: {busy:?}"
        );
        // Eight tasks of a core run for 50 s; the machines have 16 cores.
        let used = report.cpu_used * 200.0 * 16.0;
        assert!((used - 400.0).abs() < 1e-6, "{architecture:?}: {used}");
    }
}

#[test]
fn batch_jobs_wait_for_services_unless_the_state_is_shared() {
    let (mono, multi) = (report(ArchitectureKind::Mono), report(ArchitectureKind::MonoMulti));
    let (shared, offers) =
        (report(ArchitectureKind::SharedState), report(ArchitectureKind::TwoLevel));
    let [single, multi] = [mono, multi].map(|report| sum(&report, "monolithic").1);
    let [shared_s, offers_s] = [&shared, &offers].map(|report| sum(report, "batch").1);
    assert!(single > 10.0 * multi, "a single path saturates: {single} s, several paths {multi} s");
    assert!(multi > 4.0 * shared_s, "head of the line: {multi} s, shared state {shared_s} s");
    assert!(offers_s > 4.0 * shared_s, "locked by others: {offers_s} s, shared state {shared_s} s");
    assert!(offers.cpu_locked > 0.01 && shared.cpu_locked == 0.0);
}

#[test]
fn only_copies_conflict() {
    for architecture in ALL {
        let conflicts = sum(&report(architecture), "").0;
        let copies = [ArchitectureKind::SharedState, ArchitectureKind::PartitionedSync];
        assert_eq!(conflicts > 0, copies.contains(&architecture), "{architecture:?}: {conflicts}");
    }
}

#[test]
fn coarse_checks_conflict_more_than_fine_ones() {
    let slow = DecisionTime { job_s: 5.0, task_s: 0.005 };
    let shared = settings(ArchitectureKind::SharedState);
    let fine = ScenarioSettings { batch_schedulers: 8, batch_decides: slow, ..shared };
    let coarse = ScenarioSettings { check: ConflictCheck::SequenceNumber, ..fine.clone() };
    let whole = ScenarioSettings { granularity: Granularity::AllOrNothing, ..coarse.clone() };
    let [fine, coarse, whole] =
        [fine, coarse, whole].map(|settings| sum(&run(&settings).report, "").0);
    assert!(
        fine > 10 && 2 * coarse > 3 * fine && 2 * whole > 3 * fine,
        "fine {fine}, coarse {coarse}, whole {whole}"
    );
}

#[test]
fn more_schedulers_are_less_busy_each() {
    let slow = DecisionTime { job_s: 5.0, task_s: 0.005 };
    let of = |batch_schedulers| {
        let shared = settings(ArchitectureKind::SharedState);
        let settings = ScenarioSettings { batch_schedulers, batch_decides: slow, ..shared };
        run(&settings).report.schedulers[0].busy
    };
    let (two, eight) = (of(2), of(8));
    assert!(eight < two / 2.0, "two are busy for {two} each, eight for {eight}");
}

#[test]
fn partitions_of_a_full_cell_give_up_more_jobs_than_a_shared_one() {
    let given_up = |architecture| {
        let limited = ScenarioSettings { retries: Retries::Limited, ..settings(architecture) };
        sum(&run(&limited).report, "").2
    };
    let shared = given_up(ArchitectureKind::SharedState);
    let parts = given_up(ArchitectureKind::Partitions);
    assert!(parts > shared, "partitions {parts}, shared state {shared}");
}

#[test]
fn more_probes_find_room_sooner() {
    let of = |probes| {
        let settings = ScenarioSettings { probes, ..settings(ArchitectureKind::Sampling) };
        let report = run(&settings).report;
        let left: u64 = report.schedulers.iter().map(|one| one.left_in_queue + one.abandoned).sum();
        (left, report.schedulers[0].placed.mean_s)
    };
    let (one, four) = (of(1), of(4));
    assert!(four.0 < one.0, "jobs left with one probe: {}, with four: {}", one.0, four.0);
}

#[test]
fn a_picky_scheduler_leaves_machines_out() {
    let shared = settings(ArchitectureKind::SharedState);
    let picky = ScenarioSettings { pickiness: 0.99, ..shared.clone() };
    let [all, few] = [shared, picky].map(|settings| run(&settings).report.schedulers[2].no_room);
    assert!(few > all, "attempts without room: {few} with four machines, {all} with all");
}

#[test]
fn on_the_published_lists_the_shipped_cell_is_as_busy_as_the_reference() {
    let Some(dir) = public_data("omega-sim") else { return };
    let workload = lists::load(&dir, "M").expect("the lists are sound");
    let batch_decides = DecisionTime { job_s: 0.1, task_s: 0.005 };
    let service_decides = DecisionTime { job_s: 10.0, task_s: 0.005 };
    let day = ScenarioSettings {
        batch_schedulers: 1,
        batch_decides,
        service_decides,
        end_s: Some(86_400.0),
        ..settings(ArchitectureKind::MonoMulti)
    };
    let report = simulate(&workload, &day).expect("the workload is sound").report;
    let reference = std::fs::read_to_string(dir.join("ref_mono.csv")).expect("it is there");
    let row =
        reference.lines().find(|row| row.contains(",mono,1,10.0,0.005,0.1,")).expect("it is there");
    let busy: f64 = row.split(',').nth(14).and_then(|field| field.parse().ok()).expect("a number");
    let ours = report.schedulers[0].busy;
    assert!((ours / busy - 1.0).abs() < 0.02, "busy {ours}, the reference {busy}");
}

#[test]
fn quantiles_are_of_the_waits_themselves() {
    let waits = Waits::of((0..=100).rev().map(f64::from).collect());
    assert_eq!((waits.mean_s, waits.p50_s, waits.p90_s, waits.p99_s), (50.0, 50.0, 90.0, 99.0));
    let few = Waits::of(vec![9.0, 1.0]);
    assert_eq!((few.p50_s, few.p90_s, few.p99_s), (1.0, 9.0, 9.0), "one of two is more than 10 %");
    assert_eq!(Waits::of(Vec::new()), Waits::default());
}

#[test]
fn the_command_prints_a_table_or_json() {
    let args = ["run", "--arch", "mesos", "--synthetic", "50", "--hours", "1", "--batch", "2"];
    let table = omega_sim(&args);
    assert_eq!((table.status.code(), text(&table.stderr).as_str()), (Some(0), ""));
    for word in [
        "50 machines",
        "mesos, seed 1",
        "state at the end ",
        "used: ",
        " in a second; ",
        "  wait p50 s  p90 s",
        "  placed p50 s  p90 s",
        "batch-1",
        "batch-2",
        "service-1",
    ] {
        assert!(text(&table.stdout).contains(word), "{word}: {}", text(&table.stdout));
    }
    let json = omega_sim(&[&args[..], &["-o", "json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(json["machines"], 50);
    assert_eq!(json["schedulers"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_job_that_the_cell_refuses_is_an_error() {
    let mut workload = workload();
    let twice = workload.arrivals.last().expect("it has jobs").clone();
    let name = twice.job.name.to_string();
    workload.arrivals.push(twice);
    let error =
        simulate(&workload, &settings(ArchitectureKind::SharedState)).err().expect("an error");
    assert!(error.to_string().starts_with(&format!("job {name:?} is invalid: ")), "{error}");
    workload.machines.clear();
    let error =
        simulate(&workload, &settings(ArchitectureKind::SharedState)).err().expect("an error");
    let why = error.to_string();
    assert!(why.starts_with("the input has no machines: give them with --on"), "{why}");
}

#[test]
fn bad_arguments_of_a_run_are_told() {
    let cases = [
        (&["run", "--arch", "borg"][..], "invalid value 'borg' for '--arch <ARCH>'"),
        (&["run", "--t-job-batch", "-1"], "must be from 0 to 316224000"),
        (&["run", "--t-job-batch=nan"], "must be from 0 to 316224000"),
        (&["run", "--pickiness", "2"], "must be from 0 to 1"),
        (&["run", "--batch", "0"], "0 is not in 1..=1024"),
        (&["run", "--hours", "0"], "0 is not in 1..=8760"),
        (&["run", "--end", "0"], "must be more than 0 hours, and at most 8760"),
        (&["run", "--trace", "omega-sim"], "--data <DIR>"),
        (
            &["run", "--trace", "omega-sim", "--data", "/nowhere"],
            "/nowhere/M_prefill.csv.gz: cannot be read",
        ),
        (
            &["run", "--trace", "omega-sim", "--data", ".", "--cell", "X"],
            "there is no cell \"X\"; the cells are: M, L, L4",
        ),
    ];
    for (args, expected) in cases {
        let output = omega_sim(args);
        let complained = text(&output.stderr);
        assert!(complained.contains(expected), "{args:?}: {complained}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    }
}
