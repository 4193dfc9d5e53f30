//! Prometheus metrics of a scheduler's workers.
//!
//! A worker is busy while it decides. The time of a decision is divided among its claims: the share of accepted claims
//! counts as useful, and the share of conflicts as wasted. A decision that finds no machine counts as unschedulable.
//! docs/metrics.md has all names.

use super::panic_log;
use super::plugins::PluginTimes;
use omega_cellstate::View;
use omega_client::convert::reason_name;
use omega_core::{Commit, JobId, Text, Transaction};
use omega_schedulers::{BackfillFigures, Observer, Queue, WaitFigures};
use omega_service::openmetrics::{self, Figure, Figures, MetricWriter};
use omega_store::replica::{Durations, Histogram};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Metrics of the whole process. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct SchedulerFigures {
    /// Workers by name. Locked to add a worker, and to read all.
    workers: Arc<Mutex<Workers>>,
    pub(super) plugins: Arc<PluginTimes>,
}

type Workers = Vec<(String, Arc<Counted>)>;

/// Counters of a worker.
#[derive(Debug, Default)]
struct Counted {
    /// Locked to add to the counts, or to copy them.
    counts: Mutex<Counts>,
    /// Time from a job's arrival to its first decision.
    job_wait: Durations,
    /// Age of the view at a decision.
    view_age: Durations,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    useful: Duration,
    wasted: Duration,
    unschedulable: Duration,
    decisions: u64,
    committed: u64,
    conflicted: u64,
    claims: u64,
    placements: u64,
    /// Sum, over all transactions, of the number of versions between the decision's view and the result.
    behind: u64,
    conflicts: BTreeMap<&'static str, u64>,
    pending_tasks: usize,
    active_jobs: usize,
    /// Counters of jobs' waits for preferred machines.
    waits: WaitFigures,
    /// Counters of backfill.
    backfill: BackfillFigures,
}

impl SchedulerFigures {
    /// Creates the meter of a further worker.
    pub(super) fn worker(&self, name: &str) -> WorkerMeter {
        let counted = Arc::new(Counted::default());
        self.workers.lock().push((name.to_owned(), counted.clone()));
        let now = Instant::now();
        WorkerMeter {
            name: name.into(),
            counted,
            synced: now,
            began: now,
            open: Open::default(),
            waiting: HashMap::new(),
        }
    }

    /// The metrics as text for Prometheus.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        openmetrics::text(self.clone())
    }
}

/// A decision with claims that have no result yet: the time of the decision, and the number of these claims.
#[derive(Debug, Default)]
struct Open {
    took: Duration,
    claims: usize,
}

impl Open {
    /// Subtracts the share of the time for this number of claims, and returns it.
    fn take(&mut self, claims: usize) -> Duration {
        let share = claims as f64 / self.claims.max(claims).max(1) as f64;
        let took = self.took.mul_f64(share);
        self.took -= took.min(self.took);
        self.claims = self.claims.saturating_sub(claims);
        took
    }
}

/// Measures one worker.
#[derive(Debug)]
pub(super) struct WorkerMeter {
    /// The name of the worker's scheduler.
    name: Text,
    counted: Arc<Counted>,
    synced: Instant,
    began: Instant,
    open: Open,
    /// Arrival times of jobs without a decision so far. The map has at most one entry for each job in the cell.
    waiting: HashMap<JobId, Instant>,
}

impl Observer for WorkerMeter {
    fn synced(&mut self, view: &View, queue: &Queue) {
        self.synced = Instant::now();
        let delta = view.delta();
        if delta.full {
            // All entries are dropped, because a full delta does not list ended jobs.
            self.waiting.clear();
        }
        for change in &delta.jobs {
            match queue.job(change.id) {
                Some(_) if change.job.is_some() => {
                    self.waiting.entry(change.id).or_insert(self.synced);
                }
                _ => drop(self.waiting.remove(&change.id)),
            }
        }
        let mut counts = self.counted.counts.lock();
        counts.pending_tasks = queue.pending_tasks();
        counts.active_jobs = queue.active_jobs();
    }

    fn waits(&mut self, figures: WaitFigures) {
        self.counted.counts.lock().waits = figures;
    }

    fn backfill(&mut self, figures: BackfillFigures) {
        self.counted.counts.lock().backfill = figures;
    }

    fn set_aside(&mut self, job: JobId, panic: &str) {
        panic_log::log_panic(&self.name, job, panic);
    }

    fn deciding(&mut self) {
        self.began = Instant::now();
        self.counted.view_age.note(self.began.duration_since(self.synced));
    }

    fn decided(&mut self, job: JobId, _asked: usize, placed: usize) {
        let took = self.began.elapsed();
        if let Some(since) = self.waiting.remove(&job) {
            self.counted.job_wait.note(self.began.duration_since(since));
        }
        let mut counts = self.counted.counts.lock();
        counts.decisions += 1;
        match placed {
            0 => counts.unschedulable += took,
            placed => {
                self.open.took += took;
                self.open.claims += placed;
            }
        }
    }

    fn committed(&mut self, txn: &Transaction, commit: &Commit) {
        let claims = txn.claims.len();
        let taken = (0..claims).filter(|index| commit.conflict_of_claim(*index).is_none()).count();
        let took = self.open.take(claims);
        let useful = took.mul_f64(taken as f64 / claims.max(1) as f64);
        let mut counts = self.counted.counts.lock();
        counts.useful += useful;
        counts.wasted += took.saturating_sub(useful);
        if commit.is_complete() {
            counts.committed += 1
        } else {
            counts.conflicted += 1
        }
        counts.claims += claims as u64;
        counts.placements += taken as u64;
        counts.behind += commit.version.0.saturating_sub(txn.base.0);
        for conflict in &commit.conflicts {
            *counts.conflicts.entry(reason_name(conflict.reason)).or_default() += 1;
        }
    }
}

/// Copy of a worker's counters, from which the metrics are written.
struct WorkerSnapshot {
    name: String,
    counts: Counts,
    job_wait: Histogram,
    view_age: Histogram,
}

impl SchedulerFigures {
    fn snapshot(&self) -> Vec<WorkerSnapshot> {
        let of = |(name, counted): &(String, Arc<Counted>)| WorkerSnapshot {
            name: name.clone(),
            counts: counted.counts.lock().clone(),
            job_wait: counted.job_wait.histogram(),
            view_age: counted.view_age.histogram(),
        };
        self.workers.lock().iter().map(of).collect()
    }
}

impl Figures for SchedulerFigures {
    fn write(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let all = self.snapshot();
        let help = "Workers that place tasks; 0 while this process is a standby";
        pen.gauge(Figure::new("scheduler_workers", help), all.len() as f64)?;
        write_busyness(&all, pen)?;
        write_commits(&all, pen)?;
        write_waits(&all, pen)?;
        write_preferences(&all, pen)?;
        write_plans(&all, pen)?;
        self.plugins.write(pen)
    }
}

fn write_busyness(all: &[WorkerSnapshot], pen: &mut MetricWriter<'_>) -> fmt::Result {
    let busy = all.iter().flat_map(|worker| {
        let Counts { useful, wasted, unschedulable, .. } = &worker.counts;
        let of = |outcome, time: &Duration| {
            ([("worker", worker.name.as_str()), ("outcome", outcome)], time.as_secs_f64())
        };
        [of("useful", useful), of("wasted", wasted), of("unschedulable", unschedulable)]
    });
    let help = "Time of decisions, by outcome: useful (claims were committed), wasted (they conflicted) or \
                unschedulable (no machine was found)";
    pen.counters(Figure::seconds("worker_busy", help), busy)?;
    let decisions = all.iter().map(|worker| (own(worker), worker.counts.decisions as f64));
    pen.counters(Figure::new("worker_decisions", "Decisions about a job"), decisions)
}

fn own(worker: &WorkerSnapshot) -> [(&'static str, &str); 1] {
    [("worker", worker.name.as_str())]
}

fn write_commits(all: &[WorkerSnapshot], pen: &mut MetricWriter<'_>) -> fmt::Result {
    let results = all.iter().flat_map(|worker| {
        let of =
            |result, count| ([("worker", worker.name.as_str()), ("result", result)], count as f64);
        [of("committed", worker.counts.committed), of("conflicted", worker.counts.conflicted)]
    });
    let help = "Answered transactions, by result: committed as a whole, or conflicted";
    pen.counters(Figure::new("worker_transactions", help), results)?;
    let claims = all.iter().map(|worker| (own(worker), worker.counts.claims as f64));
    pen.counters(Figure::new("worker_claims", "Claims in answered transactions"), claims)?;
    let placements = all.iter().map(|worker| (own(worker), worker.counts.placements as f64));
    pen.counters(Figure::new("worker_placements", "Committed claims"), placements)?;
    let conflicts = all.iter().flat_map(|worker| {
        worker.counts.conflicts.iter().map(|(reason, items)| {
            ([("worker", worker.name.as_str()), ("reason", *reason)], *items as f64)
        })
    });
    let help = "Rejected items of transactions, by reason";
    pen.counters(Figure::new("worker_conflicts", help), conflicts)?;
    let behind = all.iter().map(|worker| (own(worker), worker.counts.behind as f64));
    let help = "Staleness of transactions: sum of the versions by which the cell was ahead of \
         their views";
    pen.counters(Figure::new("worker_transactions_behind_versions", help), behind)
}

fn write_preferences(all: &[WorkerSnapshot], pen: &mut MetricWriter<'_>) -> fmt::Result {
    let placed = all.iter().flat_map(|worker| {
        let WaitFigures { met, missed, .. } = worker.counts.waits;
        let of =
            |result, count| ([("worker", worker.name.as_str()), ("result", result)], count as f64);
        [of("met", met), of("missed", missed)]
    });
    let help = "Placed tasks with preferred machines, by whether they got one; only in profiles \
         with delay";
    pen.counters(Figure::new("worker_preferences", help), placed)?;
    let waits = all.iter().map(|worker| (own(worker), worker.counts.waits.waits as f64));
    let help = "Jobs that left free machines unused to wait for a preferred one";
    pen.counters(Figure::new("worker_preference_waits", help), waits)?;
    let waited = all.iter().map(|worker| (own(worker), worker.counts.waits.waited as f64 / 1e9));
    let help = "Sum of the times that jobs waited for a preferred machine";
    pen.counters(Figure::seconds("worker_preference_wait", help), waited)
}

fn write_plans(all: &[WorkerSnapshot], pen: &mut MetricWriter<'_>) -> fmt::Result {
    let each = |of: fn(&BackfillFigures) -> f64| {
        all.iter().map(move |worker| (own(worker), of(&worker.counts.backfill)))
    };
    let help = "Pending jobs with a plan; only in profiles with backfill";
    pen.gauges(Figure::new("scheduler_plans", help), each(|figures| figures.held as f64))?;
    let help = "Plans made or changed";
    pen.counters(Figure::new("scheduler_plans_made", help), each(|figures| figures.made as f64))?;
    let help = "Tasks placed by backfill, so that they delay no plan";
    let backfilled = each(|figures| figures.backfilled as f64);
    pen.counters(Figure::new("scheduler_backfilled", help), backfilled)?;
    let results = all.iter().flat_map(|worker| {
        let BackfillFigures { started, late, .. } = worker.counts.backfill;
        let of =
            |result, count| ([("worker", worker.name.as_str()), ("result", result)], count as f64);
        [of("kept", started - late), of("late", late)]
    });
    let help =
        "Placed jobs that had a plan, by whether they were placed by the time of their first plan";
    pen.counters(Figure::new("scheduler_planned_jobs", help), results)?;
    let help = "Sum of the times by which jobs were placed later than in their first plan";
    let late = each(|figures| figures.late_ms as f64 / 1000.0);
    pen.counters(Figure::seconds("scheduler_planned_late", help), late)
}

fn write_waits(all: &[WorkerSnapshot], pen: &mut MetricWriter<'_>) -> fmt::Result {
    let pending = all.iter().map(|worker| (own(worker), worker.counts.pending_tasks as f64));
    pen.gauges(Figure::new("worker_pending_tasks", "Tasks in the queue"), pending)?;
    let active = all.iter().map(|worker| (own(worker), worker.counts.active_jobs as f64));
    let help = "Jobs in the queue that can be tried now; the other jobs wait for an event";
    pen.gauges(Figure::new("worker_active_jobs", help), active)?;
    let waits = all.iter().map(|worker| (own(worker), worker.job_wait.clone()));
    let help = "Time from a job's arrival at a worker to its first decision";
    pen.histograms(Figure::seconds("worker_job_wait", help), waits)?;
    let ages = all.iter().map(|worker| (own(worker), worker.view_age.clone()));
    let help = "Age of the view at a decision";
    pen.histograms(Figure::seconds("worker_view_age", help), ages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_with_claims_and_none_is_lost() {
        let mut open = Open { took: Duration::from_secs(10), claims: 5 };
        assert_eq!(open.take(2), Duration::from_secs(4));
        assert_eq!(open.take(0), Duration::ZERO);
        assert_eq!(open.take(3), Duration::from_secs(6));
        assert_eq!(open.take(1), Duration::ZERO);
    }
}
