//! A workload on the shipped cell under an architecture: settings, run and results.

mod job_outcome;
mod report;
mod settings;
mod submit_index;

pub use job_outcome::JobOutcome;
use report::{About, Ran};
pub use report::{Report, SchedulerReport, TenantReport, Waits};
pub use settings::{ArchitectureKind, ScenarioSettings, default_end_s};

use crate::engine::{
    CommitMode, OfferSettings, Plan, Records, Retries, SamplingSettings, Scheduler, Survey,
    run_offers, run_queues, run_sampling,
};
use crate::shipped::{
    BuiltIn, Described, Feed, HeldJobs, PlacerSettings, ShippedCell, ShippedError, Start,
    StreamedJobs,
};
use omega_cellstate::SharedCell;
use omega_core::{Kinds, Policy};
use omega_schedulers::Home;
use omega_workload::stream::{Event, Names, Stream};
use omega_workload::words::plural;
use omega_workload::{LoadError, Workload};
use std::collections::BTreeMap;
pub(crate) use submit_index::SubmitIndex;

/// Settings of the two-level allocator, as in the reference.
const OFFERS: OfferSettings =
    OfferSettings { gather_s: 1.0, decide_s: 0.001, processors_min: f64::MIN_POSITIVE };

/// Result of a run, with the cell at its end.
pub struct Outcome {
    /// The report on the run.
    pub report: Report,
    /// Hash of the cell's state at the end; equal runs have equal hashes.
    pub state_hash: u64,
    /// The cell at the end of the run.
    pub cell: SharedCell,
    /// Number of tasks pending at the end, grouped by each task's most frequent reason for rejection; empty unless
    /// requested.
    pub pending: BTreeMap<String, u64>,
    /// Records of the run.
    pub(crate) records: Records,
    /// Index of the jobs for the event loop.
    pub(crate) submits: SubmitIndex,
    /// Jobs present from the start that have an unplaced task at the end, ascending.
    lacking: Vec<u32>,
}

/// Simulates a workload in memory.
///
/// # Panics
/// If the audit of the cell finds an error after the run.
///
/// # Errors
/// If the cell rejects a part of the workload.
pub fn simulate(workload: &Workload, settings: &ScenarioSettings) -> Result<Outcome, ShippedError> {
    simulate_from(workload, settings, &Start::default())
}

/// Simulates a workload on a cell that has the quotas and draining machines of `start`.
///
/// # Panics
/// As [`simulate`].
///
/// # Errors
/// If the cell rejects a part of the workload, or a profile names a resource kind that the cell does not have.
pub fn simulate_from(
    workload: &Workload,
    settings: &ScenarioSettings,
    start: &Start,
) -> Result<Outcome, ShippedError> {
    let mut submits = SubmitIndex::new(start);
    workload.arrivals.iter().for_each(|arrival| submits.add(arrival, settings));
    let about = About {
        name: &workload.name,
        machines: &workload.machines,
        changes: &workload.machine_events,
        notes: workload.notes.clone(),
    };
    let (kinds, policy) = (&workload.kinds, &workload.policy);
    let ground = Ground { kinds, policy, start };
    run(&about, ground, (submits, Box::new(HeldJobs::new(&workload.arrivals))), settings)
}

/// Simulates a workload that is read twice. The first pass checks it and collects the data for the event loop;
/// the second reads the jobs one by one, as time passes.
///
/// # Panics
/// If the audit of the cell finds an error after the run.
///
/// # Errors
/// If the workload cannot be read, two jobs have the same name, or the cell rejects a part of the workload.
pub fn simulate_stream<E: From<LoadError> + From<ShippedError>>(
    open: impl Fn() -> Result<Box<dyn Stream>, E>,
    settings: &ScenarioSettings,
) -> Result<Outcome, E> {
    let mut stream = open()?;
    let start = &Start::default();
    let (mut submits, mut names, mut changes) =
        (SubmitIndex::new(start), Names::default(), Vec::new());
    while let Some(event) = stream.next_event()? {
        match event {
            // Changes of machines are few, and small compared with the cell's data about machines, so all of them are
            // in memory.
            Event::Machine(event) => changes.push(event),
            Event::Job(job) => {
                names.admit(&job, &stream.head().jobs_at)?;
                submits.add(&job.arrival, settings);
            }
        }
    }
    let (head, notes) = (stream.head().clone(), stream.notes());
    drop((stream, names));
    let about = About { name: &head.name, machines: &head.machines, changes: &changes, notes };
    let jobs = Box::new(StreamedJobs::new(open()?));
    let ground = Ground { kinds: &head.kinds, policy: &head.policy, start };
    Ok(run(&about, ground, (submits, jobs), settings)?)
}

/// The cell of a workload before its first job.
#[derive(Clone, Copy)]
struct Ground<'a> {
    kinds: &'a Kinds,
    policy: &'a Policy,
    start: &'a Start,
}

fn run<'a>(
    about: &About<'a>,
    Ground { kinds, policy, start }: Ground<'_>,
    (mut submits, jobs): (SubmitIndex, Box<dyn Feed + 'a>),
    settings: &ScenarioSettings,
) -> Result<Outcome, ShippedError> {
    let mode = CommitMode { check: settings.check, granularity: settings.granularity };
    settings.profiles.check(kinds).map_err(ShippedError::Profile)?;
    let mut cell =
        ShippedCell::new(Described { kinds, policy, machines: about.machines }, jobs, mode)?;
    cell.prepare(start)?;
    cell.set_changes(about.changes);
    let changes: Vec<f64> = about.changes.iter().map(|event| event.at_ms as f64 / 1000.0).collect();
    let roles = settings.roles(cell.rows());
    for role in &roles {
        cell.add_scheduler(&role.placer);
    }
    // This scheduler places the initial jobs, and its decisions take no time.
    cell.add_scheduler(&PlacerSettings {
        built_in: BuiltIn::Service,
        rows: cell.rows(),
        home: Home::EVERYWHERE,
        near_best: 1,
        parts: 1,
        seed: settings.seed,
        profiles: settings.profiles.clone(),
    });
    cell.adopt_first(&submits.running);
    submits.queue(&cell.place_first(roles.len(), &submits.found));
    let schedulers: Vec<Scheduler> = roles.iter().map(|role| role.times).collect();
    let plan = Plan {
        jobs: &submits.jobs,
        arrivals: &submits.arrivals,
        owners: &submits.owners,
        schedulers: &schedulers,
        changes: &changes,
        end_s: settings.end_s(submits.last_ms),
        survey: Survey::Always,
        used_until_s: start.used_until_s.unwrap_or(f64::INFINITY),
        retries: retries(settings),
    };
    let records = match settings.architecture {
        ArchitectureKind::TwoLevel => run_offers(&plan, OFFERS, &mut cell),
        ArchitectureKind::Sampling => {
            run_sampling(&plan, SamplingSettings { probes: settings.probes }, &mut cell)
        }
        kind => run_queues(&plan, kind.access(), &mut cell),
    };
    cell.check()?;
    let audit = cell.shared().read(omega_cellstate::Cell::audit);
    assert!(audit.is_ok(), "the cell is not sound after the run: {audit:?}");
    let names = roles.into_iter().map(|role| role.name).collect();
    let mut report = Report::new(
        (about, settings),
        Ran { plan: &plan, names, records: &records },
        submits.found.len(),
    );
    report.notes.extend(unplaceable_gangs(settings.architecture, submits.gangs));
    report.fragmented = cell.fragmented();
    report.tenants = TenantReport::all(&submits, &records, &cell.take_accounting());
    let state_hash = cell.shared().read(omega_cellstate::Cell::state_hash);
    report.state_hash = format!("{state_hash:016x}");
    let lacks = |number: &&u32| cell.pending(**number as usize).is_some_and(|tasks| tasks > 0);
    let lacking = submits.found.iter().filter(lacks).copied().collect();
    let pending = if start.explain { cell.why_pending() } else { BTreeMap::new() };
    let cell = cell.shared().clone();
    Ok(Outcome { report, state_hash, cell, pending, records, submits, lacking })
}

/// When a job that is not completely placed is tried again.
fn retries(settings: &ScenarioSettings) -> Retries {
    match (settings.retries, settings.architecture) {
        // An attempt uses one part of the cell, and there may be room in another one.
        (Retries::Unlimited, ArchitectureKind::PartitionedSync) => Retries::EachSecond,
        (retries, _) => retries,
    }
}

/// Note on jobs that the architecture never places, because they are gangs.
fn unplaceable_gangs(architecture: ArchitectureKind, gangs: u64) -> Option<String> {
    let places_none = architecture == ArchitectureKind::Sampling && gangs > 0;
    places_none.then(|| {
        let gangs = plural(gangs, "job");
        format!("--arch sparrow places tasks one by one, so it places no gangs: {gangs}")
    })
}
