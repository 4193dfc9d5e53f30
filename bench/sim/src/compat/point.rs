//! Simulation of one point, from its job lists to the results of each group of schedulers.

use super::figure::{Figure, Got, jobs_of};
use super::{Architecture, JobList, JobLists, Point};
use crate::engine::{
    Access, CommitMode, Granularity, Job, JobRecord, Kind, OfferSettings, Plan, Records, Retries,
    Scheduler, SchedulerRecord, SizedCell, SizedRun, Sizing, Survey, run_offers, run_queues,
};
use crate::reference::{CellPlacer, ReferenceCell, ReferenceJob, Request};
use omega_core::ConflictCheck;

/// Capacity of every machine of the reference.
const MACHINE: Request = Request { cpu: 4.0, memory: 16.0 };

/// Result of a point.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Records of the run.
    pub records: Records,
    /// Number of batch jobs, which come first among the jobs.
    batch_jobs: usize,
    /// Number of tasks of all batch jobs, and of all service jobs.
    tasks: [u64; 2],
    /// Number of batch schedulers; the schedulers after them have service jobs.
    batch_schedulers: usize,
    /// Time of the last event in seconds, the denominator of shares of time.
    end_s: f64,
    /// Largest overcommitment of any machine at the end.
    pub overcommitted: f64,
}

impl Outcome {
    /// A figure of the schedulers and jobs of a kind.
    #[must_use]
    pub fn figure(&self, figure: Figure, kind: Kind) -> Got {
        let tasks = match kind {
            Kind::Batch => self.tasks[0],
            Kind::Service => self.tasks[1],
        };
        figure.of(self.schedulers(kind), self.jobs(kind), tasks, self.end_s)
    }

    /// Results of each scheduler of a kind.
    #[must_use]
    pub fn schedulers(&self, kind: Kind) -> &[SchedulerRecord] {
        let (batch, service) = self.records.schedulers.split_at(self.batch_schedulers);
        match kind {
            // A monolithic scheduler has jobs of both kinds.
            Kind::Service if !service.is_empty() => service,
            _ => batch,
        }
    }

    /// Outcome of each job of a kind.
    #[must_use]
    pub fn jobs(&self, kind: Kind) -> &[JobRecord] {
        jobs_of(&self.records, self.batch_jobs, kind)
    }

    /// Number of placed tasks, without initial tasks.
    #[must_use]
    pub fn placed(&self) -> u64 {
        self.records.schedulers.iter().map(|record| record.claims_taken).sum()
    }
}

/// The jobs of a point, batch jobs first, with other data that the event loop needs.
pub struct Load {
    /// The jobs; the caller may change them before the run.
    pub jobs: Vec<Job>,
    /// Request and run time of a task of each job.
    pub tasks: Vec<ReferenceJob>,
    arrivals: Vec<u32>,
    owners: Vec<u32>,
    batch_jobs: usize,
}

/// Returns a job list by its name.
fn list<'a>(lists: &'a JobLists, name: &str) -> &'a JobList {
    lists.get(name).expect("the lists of all points were read")
}

/// Runs a point.
///
/// # Panics
/// If a list of the point is not among the lists.
#[must_use]
pub fn run_point(point: &Point, lists: &JobLists) -> Outcome {
    let load = Load::of_point(point, lists);
    let (schedulers, placers) = schedulers(point);
    let plan = plan(point, &load, &schedulers);
    let mut cell = cell(point, lists, &load, &placers);
    let records = match point.architecture {
        Architecture::TwoLevel => run_offers(&plan, OFFERS, &mut cell),
        _ => run_queues(&plan, access(point.architecture), &mut cell),
    };
    let end_s = records.now_s;
    let tasks = |jobs: &[Job]| jobs.iter().map(|job| u64::from(job.tasks)).sum();
    let (batch, service) = load.jobs.split_at(load.batch_jobs);
    Outcome {
        overcommitted: cell.overcommitted(),
        records,
        batch_jobs: load.batch_jobs,
        tasks: [tasks(batch), tasks(service)],
        batch_schedulers: schedulers.len() - usize::from(schedulers.len() > 1),
        end_s,
    }
}

/// Runs a point with these jobs. The point's architecture must not be two-level, because each scheduler gets a queue.
///
/// # Panics
/// If a list of the point is not among the lists.
#[must_use]
pub fn run_sized(
    point: &Point,
    lists: &JobLists,
    load: &Load,
    sizing: impl Sizing,
) -> (Records, SizedRun) {
    let (schedulers, placers) = schedulers(point);
    let plan = plan(point, load, &schedulers);
    let cell = cell(point, lists, load, &placers);
    let mut cell = SizedCell::new(cell, sizing, load.jobs.len());
    let records = run_queues(&plan, access(point.architecture), &mut cell);
    (records, cell.finish())
}

fn plan<'a>(point: &Point, load: &'a Load, schedulers: &'a [Scheduler]) -> Plan<'a> {
    Plan {
        jobs: &load.jobs,
        arrivals: &load.arrivals,
        owners: &load.owners,
        schedulers,
        changes: &[],
        end_s: point.end_s,
        survey: Survey::EverySecond,
        used_until_s: f64::INFINITY,
        retries: Retries::Limited,
    }
}

/// The cell of a point with its initial tasks.
fn cell<'a>(
    point: &Point,
    lists: &JobLists,
    load: &'a Load,
    placers: &[CellPlacer],
) -> ReferenceCell<'a> {
    let mode = match point.architecture {
        Architecture::SharedState(mode) => mode,
        Architecture::Monolithic | Architecture::TwoLevel => UNDISTURBED,
    };
    let mut cell = ReferenceCell::new(point.machines, MACHINE, placers, mode, &load.tasks);
    let prefill = list(lists, &point.prefill);
    let tasks = prefill.jobs.iter().map(|job| job.tasks);
    let prefill: Vec<_> = prefill.tasks.iter().map(|task| task.request).zip(tasks).collect();
    cell.prefill(&prefill, point.seed);
    cell
}

fn access(architecture: Architecture) -> Access {
    match architecture {
        Architecture::SharedState(_) => Access::Copy,
        Architecture::Monolithic | Architecture::TwoLevel => Access::Live,
    }
}

/// Settings of the reference's allocator.
const OFFERS: OfferSettings =
    OfferSettings { gather_s: 1.0, decide_s: 0.001, processors_min: 100.0 };

/// Conflict check for a scheduler that has no concurrent schedulers.
const UNDISTURBED: CommitMode =
    CommitMode { check: ConflictCheck::ResourceFit, granularity: Granularity::Incremental };

/// Returns the schedulers of a point: first the schedulers for batch jobs, then the scheduler for service jobs. A
/// single scheduler is treated as the scheduler for service jobs, so it also leaves out the machines of the point's
/// `pickiness`.
fn schedulers(point: &Point) -> (Vec<Scheduler>, Vec<CellPlacer>) {
    let left_out = (point.pickiness * f64::from(point.machines)).floor() as u32;
    let scheduler = Scheduler { batch: point.batch_decides, service: point.service_decides };
    let of_service = CellPlacer { seed: point.seed, left_out };
    let of_batch = CellPlacer { left_out: 0, ..of_service };
    let mut placers = match point.architecture {
        Architecture::Monolithic => Vec::new(),
        _ => vec![of_batch; point.batch_schedulers as usize],
    };
    placers.push(of_service);
    (vec![scheduler; placers.len()], placers)
}

impl Load {
    /// The jobs of a point.
    ///
    /// # Panics
    /// If a list of the point is not among the lists.
    #[must_use]
    pub fn of_point(point: &Point, lists: &JobLists) -> Load {
        Load::new(list(lists, &point.batch), list(lists, &point.service), point)
    }

    /// Assigns jobs round-robin to the schedulers of their kind, batch jobs first. The counter advances before each
    /// assignment, so the first job goes to the second of several schedulers.
    fn new(batch: &JobList, service: &JobList, point: &Point) -> Load {
        let of_kind = |list: &JobList, kind| {
            list.jobs.clone().into_iter().map(move |job| Job { kind, ..job })
        };
        let mut jobs: Vec<Job> = of_kind(batch, Kind::Batch).collect();
        jobs.extend(of_kind(service, Kind::Service));
        let tasks = [&batch.tasks[..], &service.tasks[..]].concat();
        let mut arrivals: Vec<u32> = (0..jobs.len() as u32).collect();
        arrivals.sort_by(|a, b| jobs[*a as usize].submit_s.total_cmp(&jobs[*b as usize].submit_s));
        let owner = |(at, job): (usize, &Job)| match (point.architecture, job.kind) {
            (Architecture::Monolithic, _) => 0,
            (_, Kind::Batch) => (at as u32 + 1) % point.batch_schedulers,
            (_, Kind::Service) => point.batch_schedulers,
        };
        let owners = jobs.iter().enumerate().map(owner).collect();
        Load { batch_jobs: batch.jobs.len(), jobs, tasks, arrivals, owners }
    }
}
