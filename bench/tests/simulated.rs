//! The live driver and the simulator must differ only in how time passes. A live run places a
//! workload with scheduler threads on a durable cell; the simulator places it on its own cell. Both
//! must end in the same state: the same tasks on the same machines, the same sequence numbers, and
//! the same forgotten jobs.
//!
//! Neither uses decisions of the other. Both use the same profiles on cells of one block of
//! machines, where a search examines all machines and nothing is random. To give each job the same
//! cell in both, jobs arrive far apart, and the live run waits at each time step until the
//! schedulers are done ([`Pace::InTurns`]). At busy time steps two jobs arrive, one for each of two
//! schedulers. Both decide on the same version, and often claim the same machine: then the second
//! conflicts and retries. The simulator's clock causes this; in the live run a plugin ([`Meeting`])
//! makes each thread wait for the other.
//!
//! Differences by design are not compared: the number of versions, the names of schedulers, and
//! their recorded answers.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

use omega_cellstate::{Cell, Image, SharedCell, View};
use omega_core::{Command, ConflictCheck, Granularity, JobId, JobKind, KindId, Kinds, Version};
use omega_run::replicas::Durability;
use omega_run::report::RunReport;
use omega_run::{Pace, RunOptions, run};
use omega_schedulers::config::{Plugin, Point, Profiles, Registry};
use omega_schedulers::{Admit, Claimed, Profile, Queued, Refused, Reserve, Settings, Waiting};
use omega_sim::engine::DecisionTime;
use omega_sim::scenario::{ArchitectureKind, Outcome, ScenarioSettings, simulate};
use omega_store::directory::EngineKind;
use omega_store::history::{self, ReplayOptions, Which};
use omega_workload::synth::{SynthOptions, synthesize};
use omega_workload::{Arrival, RunTime, Workload};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

/// One block of machines, so that each search examines all.
const MACHINES: u32 = 60;
/// Time between two arrivals of jobs. Decisions, including a retry after a conflict, take two
/// seconds of it.
const MOMENT_MS: u64 = 20_000;
/// Two schedulers of batch jobs, which have the jobs of even and of odd numbers.
const BATCH: u32 = 2;

/// Conflict check and granularity.
type Judged = (ConflictCheck, Granularity);

// --- The workload ------------------------------------------------------------------------------

/// Jobs of a generated day. Most are batch jobs that arrive in pairs, each pair at its own time.
/// Then two services arrive one after the other, so that pairs still begin with an even number.
/// Ends are between arrivals.
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
            // Both of a pair at once; one service after the other.
            let later = if arrival.job.kind == JobKind::Service { index } else { 0 };
            arrival.at_ms = (2 * moment + later) * MOMENT_MS;
            workload.arrivals.push(simple(arrival));
        }
    }
    // Ended jobs are forgotten, as in the simulator.
    workload.policy.ttl_after_finished_ms = 0;
    workload
}

/// A job with few tasks that fit any machine of the cell and end halfway between two sampled times.
fn simple(mut arrival: Arrival) -> Arrival {
    arrival.placed.clear();
    for group in &mut arrival.job.groups {
        group.count = group.count.min(12);
        group.rules.affinity.required = None;
        // Small machines, so that two jobs often claim the same room.
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

/// Where the schedulers of a pair of jobs meet: both have seen the cell before either commits, and that of the odd job
/// commits when the other was answered.
#[derive(Debug, Default)]
struct Meeting {
    places: Mutex<Places>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Places {
    /// Jobs with a started first decision.
    began: BTreeSet<JobId>,
    /// Answered jobs.
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

/// The other job of a pair.
fn other(job: JobId) -> JobId {
    JobId(job.0 ^ 1)
}

/// A scheduler at a meeting.
#[derive(Clone)]
struct Meets {
    meeting: Arc<Meeting>,
    /// Which of the jobs it has.
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

    /// A step of its scheduler begins, so that before it was answered.
    fn heard(&mut self, _: &View) {
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

/// The ready-made profile of batch jobs, by schedulers that meet.
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

/// The cell after a live run, as its replica has it on the disk.
fn live(workload: Workload, (check, granularity): Judged) -> (RunReport, Cell) {
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
        keeper: Some(Arc::new(Durability { dir: Some(dir.clone()), replicas: 1, engine })),
        ..RunOptions::default()
    };
    let report = run(workload, &options, &mut |_| {}).unwrap();
    let all = ReplayOptions { which: Which::All, ..ReplayOptions::default() };
    (report, history::open(&dir).unwrap().replay(&all).unwrap().into_cell())
}

/// Simulated run of the workload.
fn simulated(workload: &Workload, (check, granularity): Judged) -> Outcome {
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
        // Until the last job is placed, and before any later end.
        end_s: Some((last_ms + MOMENT_MS / 4) as f64 / 1000.0),
        seed: 1,
        profiles: Profiles::default(),
    };
    simulate(workload, &settings).unwrap()
}

/// Hash of the state that both must share, after removal of ended jobs.
fn common(cell: Cell) -> u64 {
    let cell = SharedCell::new(cell);
    cell.apply(Command::Expire { now_ms: u64::MAX }).unwrap();
    let image = Image { version: Version(0), now_ms: 0, schedulers: Vec::new(), ..cell.image() };
    image.state_hash()
}

fn hash_of(outcome: &Outcome) -> u64 {
    common(outcome.cell.read(Cell::clone))
}

/// All combinations of conflict rules.
const JUDGED: [Judged; 4] = [
    (ConflictCheck::ResourceFit, Granularity::Incremental),
    (ConflictCheck::ResourceFit, Granularity::AllOrNothing),
    (ConflictCheck::SequenceNumber, Granularity::Incremental),
    (ConflictCheck::SequenceNumber, Granularity::AllOrNothing),
];

// --- The tests ---------------------------------------------------------------------------------

/// Checks that both did the intended work, equally often.
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
    for seed in 1..=4 {
        let workload = workload(seed);
        for judged in JUDGED {
            println!("seed {seed}, {judged:?}");
            let simulated = simulated(&workload, judged);
            let (report, cell) = live(workload.clone(), judged);
            check_work(&report, &simulated);
            assert_eq!(common(cell), hash_of(&simulated));
        }
    }
}

#[test]
fn what_one_of_them_decides_otherwise_shows() {
    let judged = JUDGED[0];
    let run = |workload: &Workload, judged| hash_of(&simulated(workload, judged));
    let workload = workload(1);
    let state = run(&workload, judged);
    assert_eq!(state, run(&workload, judged));

    // A conflict more or less.
    assert_ne!(state, run(&workload, JUDGED[2]));
    // A task that runs until the moment after the last one.
    let mut longer = workload.clone();
    let ends = longer.arrivals.iter_mut().find(|arrival| arrival.run.of(0) < Some(MOMENT_MS));
    ends.unwrap().run = RunTime::Same(1 << 40);
    assert_ne!(state, run(&longer, judged));
    // Two jobs in the opposite order of arrival.
    let mut turned = workload;
    turned.arrivals.swap(0, 1);
    assert_ne!(state, run(&turned, judged));
}
