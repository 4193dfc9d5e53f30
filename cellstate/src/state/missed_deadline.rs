//! Counts of met and missed deadlines, for metrics. They are not part of the cell's state.

use omega_core::Job;

/// Counts of ended jobs that had a deadline, since this process started. Times are the cell's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineCounts {
    /// Jobs that ended by their deadline.
    pub in_time: u64,
    /// Jobs that ended after their deadline.
    pub late: u64,
    /// Sum of the delays of late jobs, in milliseconds.
    pub late_ms: u64,
}

impl DeadlineCounts {
    /// Counts the end of a job.
    pub(crate) fn note(&mut self, job: &Job, now_ms: u64) {
        let Some(deadline_ms) = job.deadline_ms else { return };
        let late_ms = now_ms.saturating_sub(deadline_ms);
        self.in_time += u64::from(late_ms == 0);
        self.late += u64::from(late_ms > 0);
        self.late_ms = self.late_ms.saturating_add(late_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    #[test]
    fn only_jobs_that_are_due_count_and_to_the_millisecond() {
        let mut counts = DeadlineCounts::default();
        for (deadline_ms, now_ms) in
            [(None, 50), (Some(100), 100), (Some(100), 101), (Some(100), 400)]
        {
            let job = Job::batch("job", TaskGroup::new(1, Amounts::zero()));
            counts.note(&Job { deadline_ms, ..job }, now_ms);
        }
        assert_eq!(counts, DeadlineCounts { in_time: 1, late: 2, late_ms: 301 });
    }
}
