//! Memory of traces and of runs. The memory for a trace does not grow with the length of the trace. The memory for a
//! run grows only a little with each job.
//!
//! The test is a binary of its own, because its allocator counts all memory, so no other test may run in the process.

use omega_core::{ConflictCheck, Granularity};
use omega_sim::engine::{DecisionTime, Retries};
use omega_sim::scenario::{ArchitectureKind, ScenarioSettings, simulate_stream};
use omega_sim::shipped::ShippedError;
use omega_sim::trace::collector;
use omega_sim::trace::synth::{self, Form, Size, SynthOptions};
use omega_workload::LoadError;
use omega_workload::csv;
use omega_workload::input::InputError;
use omega_workload::stream::{Stream, Window};
use peak_alloc::PeakAlloc;
use std::io::Write;
use std::path::Path;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory of a run per job, except for jobs that are present: 24 bytes of the index, 40 of the records, 8 of the cell,
/// and 32 of the name. Buffers that grow by doubling may take twice this sum.
const JOB_BYTES: usize = 208;

/// Error type of a run; no error occurs here.
#[derive(Debug)]
struct RunError;

impl From<InputError> for RunError {
    fn from(_: InputError) -> RunError {
        RunError
    }
}

impl From<LoadError> for RunError {
    fn from(_: LoadError) -> RunError {
        RunError
    }
}

impl From<ShippedError> for RunError {
    fn from(_: ShippedError) -> RunError {
        RunError
    }
}

fn settings() -> ScenarioSettings {
    let quick = DecisionTime { job_s: 0.1, task_s: 0.005 };
    ScenarioSettings {
        architecture: ArchitectureKind::SharedState,
        batch_schedulers: 1,
        service_schedulers: 1,
        batch_decides: quick,
        service_decides: quick,
        check: ConflictCheck::ResourceFit,
        granularity: Granularity::Incremental,
        pickiness: 0.0,
        retries: Retries::Unlimited,
        near_best: 1,
        parts: 1,
        probes: 1,
        end_s: None,
        seed: 1,
        profiles: omega_schedulers::config::Profiles::default(),
    }
}

/// Peak memory while `what` runs, minus the memory before it, and the result of `what`.
fn peak<T>(what: impl FnOnce() -> T) -> (usize, T) {
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let result = what();
    (PeakAlloc.peak_usage().saturating_sub(before), result)
}

/// Writes two tables with a number of jobs.
fn write(dir: &Path, jobs: u64) -> std::io::Result<()> {
    std::fs::create_dir(dir)?;
    std::fs::write(dir.join("m.csv"), "name,cpu,memory,count\nm,64,256Gi,100\n")?;
    let file = std::fs::File::create(dir.join("j.csv"))?;
    let mut file = std::io::BufWriter::new(file);
    writeln!(file, "name,count,cpu,memory,arrival_s,run_s,tenant")?;
    for i in 0..jobs {
        let (size, run_s, user) = (1 + i % 7, 60 + i * 31 % 9000, i % 50);
        writeln!(file, "job-{i},{size},0.5,1Gi,{},{run_s},user-{user}", i * 3 + i % 2)?;
    }
    file.flush()
}

fn open(dir: &Path) -> Result<Box<dyn Stream>, InputError> {
    Ok(Box::new(csv::open(&dir.join("m.csv"), &dir.join("j.csv"), Window::Bounded)?))
}

#[test]
fn a_trace_ten_times_as_long_takes_no_more_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (short, long) = (dir.path().join("short"), dir.path().join("long"));
    write(&short, 20_000).unwrap();
    write(&long, 200_000).unwrap();

    let look = |dir: &Path| collector::read(&mut *open(dir).unwrap()).unwrap().jobs.all;
    let (little, jobs) = peak(|| look(&short));
    assert_eq!(jobs, 20_000);
    let (much, jobs) = peak(|| look(&long));
    assert_eq!(jobs, 200_000);
    println!("trace info: {little} bytes for 20,000 jobs, {much} for 200,000");
    assert!(much < little * 11 / 10 + (1 << 20), "{little} bytes grew to {much}");

    // Each row of a generated trace is written as soon as it is generated. Only a sample of at most 65,536 rows, the
    // jobs present at the start, is kept in memory.
    let make = |hours: u64| {
        let options = SynthOptions {
            out: dir.path().join(format!("out{hours}")),
            form: Form::Plain,
            size: Size::Times(1000),
            load_permille: 1000,
            span_ms: Some(hours * 3_600_000),
            seed: 1,
        };
        synth::make(&|| open(&long), &options).unwrap().0.made.jobs.all
    };
    let (little, _) = peak(|| make(16));
    let (much, jobs) = peak(|| make(160));
    println!("trace synth: {little} bytes for 16 hours, {much} for 160 hours and {jobs} jobs");
    assert!(jobs > 150_000, "{jobs}");
    assert!(much < little * 11 / 10 + (1 << 20), "{little} bytes grew to {much}");

    // A run has the present jobs in memory, and a few numbers for each other job.
    let run = |dir: &Path| {
        let open = || -> Result<_, RunError> { Ok(open(dir)?) };
        simulate_stream(open, &settings()).unwrap().report.schedulers[0].jobs
    };
    let (little, jobs) = peak(|| run(&short));
    assert_eq!(jobs, 20_000);
    let (much, jobs) = peak(|| run(&long));
    assert_eq!(jobs, 200_000);
    println!("run: {little} bytes for 20,000 jobs, {much} for 200,000");
    assert!(much < little + 180_000 * JOB_BYTES, "{little} bytes grew to {much}");
}
