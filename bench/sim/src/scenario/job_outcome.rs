//! Outcome of each job, for reports by job instead of by scheduler.

use super::Outcome;
use crate::engine::Kind;
use omega_core::JobKind;

/// Outcome of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobOutcome {
    /// Kind of the job.
    pub kind: JobKind,
    /// Whether the job had tasks to place during the run. Other jobs did not wait: they were placed before the run, or
    /// all their tasks already ran when they arrived.
    pub came: bool,
    /// Seconds from submission to the first attempt; infinite if there was no attempt.
    pub wait_s: f64,
    /// Seconds from submission to the placement of the last task; infinite if a task is not placed.
    pub placed_s: f64,
    /// Seconds for which a task of the job was pending: until the placement of the last task, or until the end of the
    /// run if a task still is pending then. Infinite if the job was abandoned.
    pub pending_s: f64,
}

impl JobOutcome {
    /// Whether the job waited: it had tasks to place during the run. A job that was there from the start waited if it
    /// still waits at the end.
    #[must_use]
    pub fn waited(&self) -> bool {
        self.came || self.pending_s > 0.0
    }
}

impl Outcome {
    /// Outcomes of the jobs that arrived before the end, by number.
    pub fn jobs(&self) -> impl Iterator<Item = JobOutcome> + '_ {
        (0..self.submits.jobs.len()).filter_map(|number| self.fare(number))
    }

    fn fare(&self, number: usize) -> Option<JobOutcome> {
        let job = &self.submits.jobs[number];
        let kind = match job.kind {
            Kind::Batch => JobKind::Batch,
            Kind::Service => JobKind::Service,
        };
        let never_if = |not: bool, seconds: f64| if not { f64::INFINITY } else { seconds };
        let is_in = |numbers: &[u32]| numbers.binary_search(&(number as u32)).is_ok();
        if is_in(&self.submits.found) {
            let lacks = is_in(&self.lacking);
            let (placed_s, pending_s) =
                if lacks { (f64::INFINITY, self.records.now_s) } else { (0.0, 0.0) };
            return Some(JobOutcome { kind, came: false, wait_s: 0.0, placed_s, pending_s });
        }
        if job.submit_s > self.records.now_s {
            return None;
        }
        let record = &self.records.jobs[number];
        Some(JobOutcome {
            kind,
            came: record.attempts > 0 || record.unplaced > 0,
            wait_s: never_if(record.attempts == 0, record.wait_s),
            placed_s: never_if(record.unplaced > 0, record.placed_s),
            pending_s: match record.unplaced {
                0 => record.placed_s,
                _ => never_if(record.abandoned, self.records.now_s - job.submit_s),
            },
        })
    }
}
