//! Report on a run: busyness of schedulers, conflicts, waits of jobs, and allocations of tenants.

use super::{ArchitectureKind, ScenarioSettings, SubmitIndex};
use crate::engine::{JobRecord, Plan, Records, SchedulerRecord};
use crate::shipped::TenantUse;
use omega_core::{Machine, Text};
use omega_workload::MachineEvent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parts of a workload other than its jobs.
pub(super) struct About<'a> {
    pub(super) name: &'a str,
    pub(super) machines: &'a [Machine],
    /// Changes of the machines over time.
    pub(super) changes: &'a [MachineEvent],
    pub(super) notes: Vec<String>,
}

/// Waits of jobs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Mean.
    pub mean_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 90th percentile.
    pub p90_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
}

/// Figures of one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulerReport {
    /// Name.
    pub name: String,
    /// Jobs that arrived before the end.
    pub jobs: u64,
    /// Jobs with at least one attempt, whose wait is known.
    pub jobs_tried: u64,
    /// Jobs that were placed completely.
    pub jobs_placed: u64,
    /// Share of the run's time that the scheduler spent on decisions.
    pub busy: f64,
    /// Share of the run's time that the scheduler spent on decisions without a conflict.
    pub useful: f64,
    /// Share of the run's time that the scheduler spent on decisions with a conflict.
    pub wasted: f64,
    /// Transactions without a conflict.
    pub succeeded: u64,
    /// Transactions with a conflict.
    pub failed: u64,
    /// Ratio of transactions with a conflict to transactions without; `None` if there are none without.
    pub conflict_fraction: Option<f64>,
    /// Attempts that found no feasible machine.
    pub no_room: u64,
    /// Tasks that were placed.
    pub tasks_placed: u64,
    /// Abandoned jobs.
    pub abandoned: u64,
    /// Jobs in the scheduler's queue at the end.
    pub left_in_queue: u64,
    /// Time from the submission of a job to its first attempt.
    pub wait: Waits,
    /// Time from the submission of a job to the placement of its last task.
    pub placed: Waits,
}

/// Figures of one tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantReport {
    /// Name.
    pub name: String,
    /// Jobs that arrived before the end.
    pub jobs: u64,
    /// Jobs with at least one attempt, whose wait is known.
    #[serde(default)]
    pub jobs_tried: u64,
    /// Jobs that were placed completely.
    pub jobs_placed: u64,
    /// Tasks of the tenant's jobs.
    pub tasks: u64,
    /// Number of the tenant's tasks that are pending at the end.
    pub tasks_waiting: u64,
    /// Time from the submission of a job to its first attempt; `None` if no job had an attempt.
    pub wait: Option<Waits>,
    /// Time from the submission of a job to the placement of its last task; `None` if no attempt placed a last task.
    pub placed: Option<Waits>,
    /// Mean of the tenant's dominant share over the run. A dominant share is the tenant's largest share of any resource
    /// kind.
    pub share_mean: f64,
    /// Largest dominant share of the tenant during the run.
    pub share_peak: f64,
    /// Satisfied share of the placed tasks' preferences for machines, by weight; `None` if there were no preferences.
    pub preferences_met: Option<f64>,
}

/// The report of a whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Description of the run.
    pub workload: String,
    /// Scheduler architecture.
    pub architecture: ArchitectureKind,
    /// Seed of all random choices.
    pub seed: u64,
    /// Version of the program. Together with the seed and the settings, it determines the run.
    pub version: String,
    /// Hash of the cell's state at the end.
    pub state_hash: String,
    /// Number of machines of the cell.
    pub machines: usize,
    /// Duration of the run in simulated seconds.
    pub seconds: f64,
    /// Number of jobs placed before the run began.
    pub jobs_at_start: usize,
    /// Mean allocated share of the processors.
    pub cpu_used: f64,
    /// Mean allocated share of the memory.
    pub memory_used: f64,
    /// The mean share of the processors that was locked in offers.
    pub cpu_locked: f64,
    /// Fragmentation of each resource kind at the end: the share of its free amount that is on machines where a task
    /// does not fit, as the mean over the tasks that request the kind.
    #[serde(default)]
    pub fragmented: BTreeMap<String, f64>,
    /// Number of times that a task lost its machine because the machine was removed, and became pending again.
    #[serde(default)]
    pub lost: u64,
    /// Figures of each scheduler.
    pub schedulers: Vec<SchedulerReport>,
    /// Figures of each tenant. The tenant with the largest mean share is first.
    #[serde(default)]
    pub tenants: Vec<TenantReport>,
    /// Notes on parts of the input that were not converted.
    pub notes: Vec<String>,
}

impl Waits {
    /// Percentiles of waits in seconds; `None` if there are no waits.
    fn of_any(waits: Vec<f64>) -> Option<Waits> {
        (!waits.is_empty()).then(|| Waits::of(waits))
    }

    /// Percentiles of waits in seconds.
    #[must_use]
    pub fn of(mut waits: Vec<f64>) -> Waits {
        if waits.is_empty() {
            return Waits::default();
        }
        waits.sort_unstable_by(f64::total_cmp);
        // The smallest wait such that at least this percentage of the waits are not longer.
        let at = |percent: usize| waits[(waits.len() * percent).div_ceil(100).max(1) - 1];
        Waits {
            mean_s: waits.iter().sum::<f64>() / waits.len() as f64,
            p50_s: at(50),
            p90_s: at(90),
            p99_s: at(99),
        }
    }
}

/// A run that has ended.
pub(super) struct Ran<'a> {
    pub(super) plan: &'a Plan<'a>,
    /// The name of each scheduler.
    pub(super) names: Vec<String>,
    pub(super) records: &'a Records,
}

impl Report {
    pub(super) fn new(
        (about, settings): (&About<'_>, &ScenarioSettings),
        Ran { plan, names, records }: Ran<'_>,
        jobs_at_start: usize,
    ) -> Report {
        let measured = if records.measured > 0.0 { records.measured } else { 1.0 };
        let mut jobs: Vec<Vec<&JobRecord>> = vec![Vec::new(); records.schedulers.len()];
        // A run may end before the last arrival, so only jobs that arrived are counted.
        let came = |job: &&u32| plan.jobs[**job as usize].submit_s <= records.now_s;
        for job in plan.arrivals.iter().filter(came) {
            let job = *job as usize;
            jobs[plan.owners[job] as usize].push(&records.jobs[job]);
        }
        let of = |(number, name): (usize, String)| {
            SchedulerReport::new(name, &records.schedulers[number], &jobs[number], records.now_s)
        };
        Report {
            workload: about.name.to_owned(),
            architecture: settings.architecture,
            seed: settings.seed,
            version: env!("CARGO_PKG_VERSION").into(),
            state_hash: String::new(),
            machines: about.machines.len(),
            seconds: records.now_s,
            jobs_at_start,
            cpu_used: records.used[0] / measured,
            memory_used: records.used[1] / measured,
            cpu_locked: records.locked / measured,
            schedulers: names.into_iter().enumerate().map(of).collect(),
            fragmented: BTreeMap::new(),
            lost: records.lost,
            tenants: Vec::new(),
            notes: about.notes.clone(),
        }
    }
}

impl TenantReport {
    /// Reports on all tenants of a run, from its records and its accounting.
    pub(super) fn all(
        submits: &SubmitIndex,
        records: &Records,
        used: &BTreeMap<Text, TenantUse>,
    ) -> Vec<TenantReport> {
        let mut jobs: Vec<Vec<&JobRecord>> = vec![Vec::new(); submits.tenants.len()];
        let came = |job: &&u32| submits.jobs[**job as usize].submit_s <= records.now_s;
        for job in submits.arrivals.iter().filter(came) {
            jobs[submits.payers[*job as usize] as usize].push(&records.jobs[*job as usize]);
        }
        let of = |(name, jobs): (&Text, &Vec<&JobRecord>)| {
            let used = used.get(name).copied().unwrap_or_default();
            let tried = jobs.iter().filter(|job| job.attempts > 0);
            let placed = jobs.iter().filter(|job| job.unplaced == 0);
            let decided = placed.clone().filter(|job| job.attempts > 0);
            TenantReport {
                name: name.to_string(),
                jobs: jobs.len() as u64,
                jobs_tried: tried.clone().count() as u64,
                jobs_placed: placed.count() as u64,
                tasks: jobs.iter().map(|job| u64::from(job.tasks)).sum(),
                tasks_waiting: jobs.iter().map(|job| u64::from(job.unplaced)).sum(),
                wait: Waits::of_any(tried.map(|job| job.wait_s).collect()),
                placed: Waits::of_any(decided.map(|job| job.placed_s).collect()),
                share_mean: used.share_mean,
                share_peak: used.share_peak,
                preferences_met: (used.asked > 0).then(|| used.met as f64 / used.asked as f64),
            }
        };
        let mut tenants: Vec<TenantReport> = submits.tenants.iter().zip(&jobs).map(of).collect();
        tenants.sort_by(|a, b| {
            b.share_mean.total_cmp(&a.share_mean).then_with(|| a.name.cmp(&b.name))
        });
        tenants
    }
}

impl SchedulerReport {
    fn new(
        name: String,
        record: &SchedulerRecord,
        jobs: &[&JobRecord],
        seconds: f64,
    ) -> SchedulerReport {
        let tried = jobs.iter().filter(|job| job.attempts > 0);
        let placed = jobs.iter().filter(|job| job.attempts > 0 && job.unplaced == 0);
        SchedulerReport {
            name,
            jobs: jobs.len() as u64,
            jobs_tried: tried.clone().count() as u64,
            jobs_placed: jobs.iter().filter(|job| job.unplaced == 0).count() as u64,
            busy: (record.useful_s + record.wasted_s) / seconds,
            useful: record.useful_s / seconds,
            wasted: record.wasted_s / seconds,
            succeeded: record.succeeded,
            failed: record.failed,
            conflict_fraction: (record.succeeded > 0)
                .then(|| record.failed as f64 / record.succeeded as f64),
            no_room: record.no_room,
            tasks_placed: record.claims_taken,
            abandoned: record.abandoned,
            left_in_queue: jobs.iter().filter(|job| job.unplaced > 0 && !job.abandoned).count()
                as u64,
            wait: Waits::of(tried.map(|job| job.wait_s).collect()),
            placed: Waits::of(placed.map(|job| job.placed_s).collect()),
        }
    }
}
