//! Comparison of the live driver with the simulator, which must differ only in how time passes. A live run places a
//! workload with scheduler threads on a durable cell; the simulator places it on its own cell. Both must end in the
//! same state: the same tasks on the same machines, the same sequence numbers, and the same removed jobs.
//!
//! Neither run uses decisions of the other run. Both use the same profiles on cells of one block of machines, where a
//! search examines all machines and nothing is random. So that each job finds the same cell in both, jobs arrive far
//! apart, and the live run waits at each time step until the schedulers are done ([`Pace::InTurns`]). At busy time
//! steps two jobs arrive, one for each of two schedulers. Both schedulers decide on the same version, and often claim
//! the same machine; then the second claim conflicts and is retried. In the simulator, its clock causes this; in the
//! live run, a plugin ([`Meeting`]) makes each thread wait for the other.
//!
//! Intended differences are not compared: the number of versions, the names of schedulers, and the replies that the
//! cell recorded for them.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

use omega_cellstate::{Cell, SharedCell, SnapshotState, View};
use omega_core::{Command, ConflictCheck, Granularity, JobId, JobKind, KindId, Kinds, Version};
use omega_run::replicas::Durability;
use omega_run::report::RunReport;
use omega_run::{Pace, RunOptions, run};
use omega_schedulers::config::{Plugin, Point, Profiles, Registry};
use omega_schedulers::{Admit, Claimed, Profile, Queued, Refused, Reserve, Settings, Waiting};
use omega_sim::engine::{DecisionTime, Retries};
use omega_sim::scenario::{ArchitectureKind, Outcome, ScenarioSettings, simulate};
use omega_store::directory::EngineKind;
use omega_store::history::{self, ReplayOptions, ReplayScope};
use omega_workload::synth::{SynthOptions, synthesize};
use omega_workload::{Arrival, RunTime, Workload};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

/// Number of machines: one block, so that each search examines all of them.
const MACHINES: u32 = 60;
/// Time between two arrivals of jobs. Decisions take two seconds of it, including a retry after a conflict.
const MOMENT_MS: u64 = 20_000;
/// Number of batch schedulers: one has the jobs with even numbers, the other those with odd numbers.
const BATCH: u32 = 2;

/// Conflict check and granularity of a run.
type Mode = (ConflictCheck, Granularity);

// --- The workload ------------------------------------------------------------------------------

/// Jobs of a generated day. Most are batch jobs that arrive in pairs, each pair at its own time. At every fourth time,
/// two services arrive instead, one after the other. As they are two, the first job of each later pair still has an
/// even job number, and the pair's jobs belong to different schedulers. Ends of tasks are between arrivals.
fn workload(seed: u64) -> Workload {
    let options =
        SynthOptions { machines: MACHINES, seed, span_hours: 24, utilisation_percent: 30 };
    let mut workload = synthesize(&options);
    let all = std::mem::take(&mut workload.arrivals);
    let (batch, services): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|arrival| arrival.job.kind == JobKind::Batch);
    let twos = |jobs: &[Arrival]| jobs.chunks_exact(2).map(<[_]>::to_vec).collect::<Vec<_>>();
    let (mut batch, mut services) = (twos(&batch).into_iter(), twos(&services).into_iter());
    for moment in 1..=80 {
        let two = if moment % 4 == 0 { services.next() } else { batch.next() };
        for (index, mut arrival) in (0..).zip(two.into_iter().flatten()) {
            // The jobs of a pair arrive at the same time; services arrive one after the other.
            let later = if arrival.job.kind == JobKind::Service { index } else { 0 };
            arrival.at_ms = (2 * moment + later) * MOMENT_MS;
            workload.arrivals.push(simple(arrival));
        }
    }
    // Ended jobs are removed from the cell, as in the simulator.
    workload.policy.ttl_after_finished_ms = 0;
    workload
}

/// Changes a job so that it has few tasks that fit on any machine of the cell, and that end halfway between two
/// samples.
fn simple(mut arrival: Arrival) -> Arrival {
    arrival.placed.clear();
    for group in &mut arrival.job.groups {
        group.count = group.count.min(12);
        group.rules.affinity.required = None;
        // Machines are small, so that two jobs often claim the same resources.
        for (kind, of) in [(KindId::CPU, 3000..=8000), (KindId::MEMORY, 1 << 30..=16 << 30)] {
            let amount = group.request.get(kind).clamp(*of.start(), *of.end());
            group.request.set(kind, amount);
        }
    }
    arrival.job.gang_min = arrival.job.gang_min.map(|_| arrival.job.task_count() as u32);
    let run_ms = arrival.run.of(0).map_or(0, |run_ms| run_ms / 20);
    arrival.run = RunTime::Same(run_ms / MOMENT_MS * MOMENT_MS + MOMENT_MS / 2);
    arrival
}

// --- Two schedulers that decide at the same time -----------------------------------------------

/// A barrier for the two schedulers of a pair of jobs. Both sync before either commits, and the scheduler of the odd
/// job commits after the other scheduler's commit was answered.
#[derive(Debug, Default)]
struct Meeting {
    places: Mutex<Places>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Places {
    /// Jobs on which the first decision has begun.
    began: BTreeSet<JobId>,
    /// Jobs whose first commit was answered.
    answered: BTreeSet<JobId>,
}

impl Meeting {
    fn note(&self, change: impl FnOnce(&mut Places)) {
        change(&mut self.places.lock().unwrap());
        self.moved.notify_all();
    }

    fn wait_until(&self, is_so: impl Fn(&Places) -> bool) {
        let places = self.places.lock().unwrap();
        drop(self.moved.wait_while(places, |places| !is_so(places)).unwrap());
    }
}

/// Returns the other job of a pair.
fn other(job: JobId) -> JobId {
    JobId(job.0 ^ 1)
}

/// Plugin by which a scheduler takes part in a [`Meeting`].
#[derive(Clone)]
struct Meets {
    meeting: Arc<Meeting>,
    /// Parity of the numbers of the scheduler's jobs.
    parity: u64,
}

impl Admit for Meets {
    fn name(&self) -> &'static str {
        "meets"
    }

    fn admit(&mut self, queued: Queued<'_>, _: &View) -> Result<(), Refused> {
        self.meeting.note(|places| _ = places.began.insert(queued.id));
        self.meeting.wait_until(|places| places.began.contains(&other(queued.id)));
        Ok(())
    }
}

impl Reserve for Meets {
    fn name(&self) -> &'static str {
        "meets"
    }

    fn start(&mut self, of: &Settings, _: &Waiting) {
        self.parity = u64::from(of.share.index);
    }

    /// A step of the scheduler begins, so its transaction in the step before was answered.
    fn synced(&mut self, _: &View) {
        self.meeting.note(|Places { began, answered }| {
            answered.extend(began.iter().filter(|job| job.0 % 2 == self.parity));
        });
    }

    fn reserve(&mut self, claimed: &Claimed<'_>) -> Result<(), Refused> {
        let job = claimed.task.job;
        if job.0 % 2 == 1 {
            self.meeting.wait_until(|places| places.answered.contains(&other(job)));
        }
        Ok(())
    }

    fn unreserve(&mut self, _: &Claimed<'_>) {}
}

/// The built-in profile of batch jobs, for schedulers that wait for each other.
fn profiles() -> Profiles {
    #[derive(serde::Deserialize)]
    struct None {}

    let meeting = Arc::new(Meeting::default());
    let meets = move |_: &None, _: &Kinds| Ok(Meets { meeting: meeting.clone(), parity: 0 });
    let admit = Plugin::around(Point::Admit, "meets", meets.clone(), Profile::with_admit);
    let reserve = Plugin::around(Point::Reserve, "meets", meets, Profile::with_reserve);
    let registry = Registry::built_in().with(admit).unwrap().with(reserve).unwrap();
    let file = "[[profile]]\nname = 'batch'\nbase = 'batch'\n\
        [[profile.admit]]\nplugin = 'meets'\n[[profile.reserve]]\nplugin = 'meets'\n";
    Profiles::parse(file, &registry).unwrap()
}

// --- The two runs ------------------------------------------------------------------------------

/// The cell after a live run, read from its replica's directory.
fn live(workload: Workload, (check, granularity): Mode) -> (RunReport, Cell) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("replica");
    let engine = EngineKind::Segment;
    let options = RunOptions {
        service_schedulers: 1,
        batch_schedulers: BATCH,
        check,
        granularity,
        profiles: profiles(),
        pace: Pace::InTurns,
        backend: Some(Arc::new(Durability { dir: Some(dir.clone()), replicas: 1, engine })),
        ..RunOptions::default()
    };
    let report = run(workload, &options, &mut |_| {}).unwrap();
    let all = ReplayOptions { scope: ReplayScope::All, ..ReplayOptions::default() };
    (report, history::open(&dir).unwrap().replay(&all).unwrap().into_cell())
}

/// Simulated run of the workload.
fn simulated(workload: &Workload, (check, granularity): Mode) -> Outcome {
    let decides = DecisionTime { job_s: 0.1, task_s: 0.0 };
    let last_ms = workload.arrivals.last().unwrap().at_ms;
    let settings = ScenarioSettings {
        architecture: ArchitectureKind::SharedState,
        batch_schedulers: BATCH,
        service_schedulers: 1,
        batch_decides: decides,
        service_decides: decides,
        check,
        granularity,
        pickiness: 0.0,
        near_best: 1,
        parts: 1,
        probes: 1,
        retries: Retries::Unlimited,
        // The run lasts until the last job is placed, and ends before any later task end.
        end_s: Some((last_ms + MOMENT_MS / 4) as f64 / 1000.0),
        seed: 1,
        profiles: Profiles::default(),
    };
    simulate(workload, &settings).unwrap()
}

/// Hash of the state that must be equal in both runs, after ended jobs were removed.
fn common(cell: Cell) -> u64 {
    let cell = SharedCell::new(cell);
    cell.apply(Command::Expire { now_ms: u64::MAX }).unwrap();
    let mut state = SnapshotState {
        version: Version(0),
        now_ms: 0,
        schedulers: Vec::new(),
        ..cell.snapshot_state()
    };
    // Both runs place a task at almost the same time.
    state.jobs.iter_mut().flat_map(|job| &mut job.tasks).for_each(|task| task.placed_ms = 0);
    state.state_hash()
}

fn hash_of(outcome: &Outcome) -> u64 {
    common(outcome.cell.read(Cell::clone))
}

/// All combinations of conflict rules.
const MODES: [Mode; 4] = [
    (ConflictCheck::ResourceFit, Granularity::Incremental),
    (ConflictCheck::ResourceFit, Granularity::AllOrNothing),
    (ConflictCheck::SequenceNumber, Granularity::Incremental),
    (ConflictCheck::SequenceNumber, Granularity::AllOrNothing),
];

// --- The tests ---------------------------------------------------------------------------------

/// Checks that both runs did the intended work, with equal numbers of placements and transactions.
fn check_work(live: &RunReport, simulated: &Outcome) {
    let all = live.all_schedulers();
    let of = |of: fn(&omega_sim::scenario::SchedulerReport) -> u64| {
        simulated.report.schedulers.iter().map(of).sum::<u64>()
    };
    assert_eq!((of(|one| one.no_room), live.pending), (0, 0), "the cell has room for all");
    assert_eq!(all.placements, of(|one| one.tasks_placed));
    assert_eq!(all.transactions, of(|one| one.succeeded + one.failed));
    let conflicts = of(|one| one.failed);
    assert!(conflicts >= 10 && all.conflicts >= conflicts, "{conflicts} are too few to tell");
    assert!(live.finished > 100, "{} tasks that ended are too few to tell", live.finished);
}

#[test]
fn a_live_run_and_a_simulated_one_end_in_the_same_state() {
    // `OMEGA_SEEDS_TIMES` multiplies the number of workloads.
    let times = std::env::var("OMEGA_SEEDS_TIMES").map_or(1, |times| times.parse().unwrap());
    for seed in 1..=times {
        let workload = workload(seed);
        for mode in MODES {
            println!("seed {seed}, {mode:?}");
            let simulated = simulated(&workload, mode);
            let (report, cell) = live(workload.clone(), mode);
            check_work(&report, &simulated);
            assert_eq!(common(cell), hash_of(&simulated));
        }
    }
}

#[test]
fn what_one_of_them_decides_otherwise_shows() {
    let mode = MODES[0];
    let run = |workload: &Workload, mode| hash_of(&simulated(workload, mode));
    let workload = workload(1);
    let state = run(&workload, mode);
    assert_eq!(state, run(&workload, mode));

    // Another conflict check changes the number of conflicts, and so the state.
    assert_ne!(state, run(&workload, MODES[2]));
    // One task runs until after the time step of the last job.
    let mut longer = workload.clone();
    let ends = longer.arrivals.iter_mut().find(|arrival| arrival.run.of(0) < Some(MOMENT_MS));
    ends.unwrap().run = RunTime::Same(1 << 40);
    assert_ne!(state, run(&longer, mode));
    // Two jobs arrive in the opposite order.
    let mut turned = workload;
    turned.arrivals.swap(0, 1);
    assert_ne!(state, run(&turned, mode));
}
