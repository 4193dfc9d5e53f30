//! Comparison of two futures.

use super::{Change, Now};
use crate::capacity::{Objective, Of};
use crate::scenario::{Outcome, ScenarioSettings, simulate_from};
use crate::sheet::{Cell, Sheet};
use crate::shipped::ShippedError;
use omega_core::JobKind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Percentiles of the time until an event, over a group of jobs, in seconds; `None` if the group is empty. The time of
/// a job without this event counts as infinite; JSON shows it as `null`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Median.
    pub p50_s: Option<f64>,
    /// 90th percentile.
    pub p90_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
}

/// Results of the jobs of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfKind {
    /// Number of jobs.
    pub jobs: u64,
    /// Number of jobs that were placed completely.
    pub placed: u64,
    /// Time from submission to the placement of the last task, or to the end of the run if a task is still pending
    /// then, over the jobs with tasks to place.
    pub wait: Times,
    /// Time from submission to the placement of the last task, over the jobs with tasks to place. It is infinite if a
    /// task is pending at the end.
    pub whole: Times,
}

/// Result of one future.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Number of machines.
    pub machines: usize,
    /// The batch jobs.
    pub batch: OfKind,
    /// The service jobs.
    pub service: OfKind,
    /// Number of tasks pending at the end, grouped by the reason for which most machines reject them.
    pub pending: BTreeMap<String, u64>,
    /// Mean allocated share of the processors.
    pub cpu_used: f64,
    /// Mean allocated share of the memory.
    pub memory_used: f64,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of transactions with a conflict.
    pub conflicts: u64,
}

/// The results of both futures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the cell.
    pub cell: String,
    /// Simulated time, in seconds.
    pub seconds: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// The unchanged cell.
    pub unchanged: Side,
    /// The changed cell.
    pub changed: Side,
    /// Assumptions about what the cell does not record.
    pub notes: Vec<String>,
}

impl Side {
    fn of(outcome: &Outcome) -> Side {
        let report = &outcome.report;
        let schedulers = &report.schedulers;
        let conflicts = schedulers.iter().map(|one| one.failed).sum();
        Side {
            machines: report.machines,
            batch: OfKind::of(outcome, JobKind::Batch),
            service: OfKind::of(outcome, JobKind::Service),
            pending: outcome.pending.clone(),
            cpu_used: report.cpu_used,
            memory_used: report.memory_used,
            transactions: schedulers.iter().map(|one| one.succeeded).sum::<u64>() + conflicts,
            conflicts,
        }
    }

    fn jobs(&self, kind: JobKind) -> &OfKind {
        match kind {
            JobKind::Batch => &self.batch,
            JobKind::Service => &self.service,
        }
    }

    fn pending(&self) -> u64 {
        self.pending.values().sum()
    }
}

impl OfKind {
    fn of(outcome: &Outcome, kind: JobKind) -> OfKind {
        let mine = || outcome.jobs().filter(|job| job.kind == kind);
        let times = |of| {
            let any = mine().any(|job| job.waited());
            let at = |percent| {
                let time = Objective::Times { of, kind: Some(kind), percent, most_s: 0.0 };
                any.then(|| time.figure(outcome))
            };
            Times { p50_s: at(50), p90_s: at(90), p99_s: at(99) }
        };
        OfKind {
            jobs: mine().count() as u64,
            placed: mine().filter(|job| job.placed_s.is_finite()).count() as u64,
            wait: times(Of::Wait),
            whole: times(Of::Placed),
        }
    }
}

impl Comparison {
    /// Runs both futures, until the end in the settings.
    ///
    /// # Errors
    /// If the cell rejects a part of either future.
    pub fn of(
        now: (&Now, &ScenarioSettings),
        then: (&Now, &ScenarioSettings),
    ) -> Result<Comparison, ShippedError> {
        let run = |(of, settings): (&Now, &ScenarioSettings)| {
            simulate_from(&of.workload, settings, &of.start)
        };
        let (unchanged, changed) = rayon::join(|| run(now), || run(then));
        let (unchanged, changed) = (unchanged?, changed?);
        Ok(Comparison {
            cell: now.0.workload.name.clone(),
            seconds: now.1.end_of(&now.0.workload),
            seed: now.1.seed,
            version: env!("CARGO_PKG_VERSION").into(),
            unchanged: Side::of(&unchanged),
            changed: Side::of(&changed),
            notes: now.0.workload.notes.clone(),
        })
    }

    /// The figures of both futures, as a table.
    #[must_use]
    pub fn figures(&self) -> Sheet {
        let mut sheet = Sheet::new(&["figure", "unchanged", "changed"]);
        let sides = [&self.unchanged, &self.changed];
        let mut row = |name: String, of: &dyn Fn(&Side) -> String| {
            let cells = sides.map(|side| Cell::Text(of(side)));
            sheet.push([Cell::Text(name)].into_iter().chain(cells).collect());
        };
        row("machines".into(), &|side| side.machines.to_string());
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        row("cpu used".into(), &|side| percent(side.cpu_used));
        row("memory used".into(), &|side| percent(side.memory_used));
        row("transactions".into(), &|side| side.transactions.to_string());
        row("conflicts".into(), &|side| side.conflicts.to_string());
        let kinds = [("batch", JobKind::Batch), ("service", JobKind::Service)];
        let there = |kind| sides.iter().any(|side| side.jobs(kind).jobs > 0);
        for (name, kind) in kinds.into_iter().filter(|(_, kind)| there(*kind)) {
            row(format!("{name} jobs"), &|side| side.jobs(kind).jobs.to_string());
            row(format!("{name} jobs placed whole"), &|side| side.jobs(kind).placed.to_string());
            row(format!("{name} wait p50, p90, p99 s"), &|side| side.jobs(kind).wait.words());
            row(format!("{name} whole p50, p90, p99 s"), &|side| side.jobs(kind).whole.words());
        }
        row("tasks pending at the end".into(), &|side| side.pending().to_string());
        sheet
    }

    /// Number of tasks pending at the end of each future, by reason; `None` if there are none.
    #[must_use]
    pub fn pending(&self) -> Option<Sheet> {
        let (unchanged, changed) = (&self.unchanged.pending, &self.changed.pending);
        let reasons: BTreeSet<&String> = unchanged.keys().chain(changed.keys()).collect();
        let mut sheet = Sheet::new(&["pending because", "unchanged", "changed"]);
        for reason in &reasons {
            let count =
                |of: &BTreeMap<String, u64>| Cell::Count(of.get(*reason).copied().unwrap_or(0));
            sheet.push(vec![Cell::Text((*reason).clone()), count(unchanged), count(changed)]);
        }
        (!reasons.is_empty()).then_some(sheet)
    }
}

impl Times {
    fn words(self) -> String {
        let word = |time: Option<f64>| match time {
            None => "-".to_owned(),
            Some(seconds) if seconds.is_finite() => format!("{seconds:.3}"),
            Some(_) => "never".to_owned(),
        };
        [self.p50_s, self.p90_s, self.p99_s].map(word).join(", ")
    }
}

impl Change {
    /// Whether the change is empty.
    #[must_use]
    pub fn is_none(&self) -> bool {
        let Change { machines, add, drain, remove, load } = self;
        machines.is_none()
            && add.is_empty()
            && drain.is_empty()
            && remove.is_empty()
            && load.is_none()
    }
}
