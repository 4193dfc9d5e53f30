//! Submission times of jobs, as this replica observed them. They are more exact than those in the cell, whose time
//! advances in steps, but start with the replica.
//!
//! The cell numbers jobs in order. So it is enough to record the next number from time to time, without an entry for
//! each job.

use omega_core::JobId;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Maximum number of entries. With one entry each second, they cover eighteen hours of a busy cell. When the index is
/// full, every second entry is dropped, so that old times become less exact.
const ENTRIES_MAX: usize = 65_536;

/// The index. Each entry is the id of the next job at a point in time.
#[derive(Debug)]
pub(crate) struct SubmitIndex {
    /// Entries, ascending by job and time.
    entries: Mutex<Vec<(JobId, Instant)>>,
}

impl SubmitIndex {
    /// Creates an index with a first entry for the next job.
    pub(crate) fn begin(next: JobId, now: Instant) -> SubmitIndex {
        SubmitIndex { entries: Mutex::new(vec![(next, now)]) }
    }

    /// Records the id of the next job.
    pub(crate) fn record(&self, next: JobId, now: Instant) {
        let mut entries = self.entries.lock();
        if entries.last().is_some_and(|(job, _)| *job >= next) {
            return;
        }
        if entries.len() >= ENTRIES_MAX {
            let mut index = 0;
            entries.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        entries.push((next, now));
    }

    /// Upper bound of the time since a job was submitted; `None` if it was submitted before the first entry.
    pub(crate) fn age(&self, job: JobId, now: Instant) -> Option<Duration> {
        let entries = self.entries.lock();
        let later = entries.partition_point(|(next, _)| *next <= job);
        if later == 0 {
            return None;
        }
        // A job that was submitted after the last entry counts as submitted just now.
        let seen = entries.get(later).map(|(_, seen)| now.saturating_duration_since(*seen));
        Some(seen.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_as_old_as_the_first_note_that_has_it() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let index = SubmitIndex::begin(JobId(5), at(0));
        index.record(JobId(5), at(1));
        index.record(JobId(8), at(10));
        index.record(JobId(9), at(20));
        let age = |job| index.age(JobId(job), at(30)).map(|age| age.as_secs());
        assert_eq!([age(0), age(4)], [None; 2], "submitted before");
        assert_eq!([age(5), age(7), age(8), age(9)], [20, 20, 10, 0].map(Some));
    }

    #[test]
    fn entries_are_bounded() {
        let began = Instant::now();
        let index = SubmitIndex::begin(JobId(0), began);
        for job in 1..=(2 * ENTRIES_MAX as u64) {
            index.record(JobId(job), began + Duration::from_secs(job));
        }
        assert!(index.entries.lock().len() <= ENTRIES_MAX);
        let now = began + Duration::from_secs(2 * ENTRIES_MAX as u64);
        let age = index.age(JobId(1000), now).expect("the index has it").as_secs();
        assert!(age.abs_diff(2 * ENTRIES_MAX as u64 - 1000) < 100, "{age}");
    }
}
