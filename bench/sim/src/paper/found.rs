//! Results of a run of an experiment, for batch jobs and for service jobs.

use crate::compat::{Figure, Got};
use crate::engine::{JobRecord, SchedulerRecord};

/// Results of a run for each kind of job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) batch: Group,
    pub(super) service: Group,
}

/// Results of one kind of job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Share of the time in which a scheduler decides.
    pub(super) busy: f64,
    /// Mean seconds from the submission of a job to its first decision. The next field is the 90th percentile.
    pub(super) wait_s: f64,
    pub(super) wait_p90_s: f64,
    /// Ratio of transactions with a conflict to transactions without.
    pub(super) conflicts: f64,
    /// Abandoned jobs.
    pub(super) abandoned: f64,
    /// The share of the jobs all of whose tasks were placed.
    pub(super) placed: f64,
}

/// Figures of a group of schedulers and of the jobs of a kind, in a run that took this many seconds.
pub(super) fn figures(schedulers: &[SchedulerRecord], jobs: &[JobRecord], seconds: f64) -> Group {
    let figure = |figure: Figure| match figure.of(schedulers, jobs, 0, seconds) {
        Got::Number(number) => number,
        Got::Undefined => 0.0,
    };
    let tried = jobs.iter().filter(|job| job.attempts > 0);
    let mut waits: Vec<f64> = tried.map(|job| job.wait_s).collect();
    waits.sort_by(f64::total_cmp);
    Group {
        busy: figure(Figure::Busy),
        wait_s: figure(Figure::WaitMean),
        wait_p90_s: waits.get(waits.len() * 9 / 10).copied().unwrap_or(0.0),
        conflicts: figure(Figure::ConflictFraction),
        abandoned: figure(Figure::Abandoned),
        placed: figure(Figure::JobsFully) / jobs.len().max(1) as f64,
    }
}
