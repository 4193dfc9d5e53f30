//! Queue orders by deadline and by run time.
//!
//! The queue does not re-sort jobs, so the keys of both orders must not change with time.
//!
//! **Least slack** (least laxity, Mok 1983; with equal run times, earliest deadline first): the slack of a job is the
//! time until its deadline, less its run time. As time passes, all jobs lose slack equally. So the key is `due - run`,
//! the latest possible start.
//!
//! **Shortest first, with aging.** The response ratio (Brinch Hansen's HRRN, 1971) prefers short jobs without
//! starvation, but its order changes with time. Linear aging has a fixed key: the job's number, plus one for each
//! `step_ms` of its run time. So the number of younger jobs that can overtake a job is at most its run time divided by
//! `step_ms`.

use crate::framework::points::{Order, Queued};
use omega_core::Job;
use std::cmp::{Ordering, Reverse};

/// Order by precedence, then by slack, the least first. Jobs without a deadline come last, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastSlack;

/// Latest start with which a job meets its deadline. A job without a run time counts as taking no time.
fn latest_start(job: &Job) -> Option<i128> {
    let due = i128::from(job.deadline_ms?);
    Some(due - i128::from(job.runtime_estimate_ms.unwrap_or(0)))
}

impl Order for LeastSlack {
    fn name(&self) -> &'static str {
        "least_slack"
    }

    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
        let key = |of: Queued<'_>| {
            let latest = latest_start(of.job);
            (Reverse(of.job.precedence), latest.is_none(), latest)
        };
        key(a).cmp(&key(b))
    }
}

/// Order by precedence, then by run time, the shortest first. For each step of its run time, a job may be overtaken by
/// one younger job.
#[derive(Clone, Copy, Debug)]
pub struct ShortestFirst {
    step_ms: u64,
    unknown_ms: u64,
}

impl Default for ShortestFirst {
    /// By default, sixty younger jobs may overtake a one-hour job, and a job without a run time counts as taking one
    /// hour.
    fn default() -> ShortestFirst {
        ShortestFirst::new(60_000, 3_600_000)
    }
}

impl ShortestFirst {
    /// Creates an order in which a job may be overtaken by one younger job for each `step_ms` of its run time. A job
    /// without an estimate counts as taking `unknown_ms`.
    #[must_use]
    pub fn new(step_ms: u64, unknown_ms: u64) -> ShortestFirst {
        ShortestFirst { step_ms: step_ms.max(1), unknown_ms }
    }

    fn key(self, queued: Queued<'_>) -> u128 {
        let run_ms = queued.job.runtime_estimate_ms.unwrap_or(self.unknown_ms);
        u128::from(queued.id.0) + u128::from(run_ms / self.step_ms)
    }
}

impl Order for ShortestFirst {
    fn name(&self) -> &'static str {
        "shortest_first"
    }

    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
        b.job.precedence.cmp(&a.job.precedence).then_with(|| self.key(a).cmp(&self.key(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::active::ActiveQueue;
    use omega_core::{Amounts, JobId, Precedence, TaskGroup};
    use proptest::prelude::*;
    use std::sync::Arc;

    type Times = (i32, Option<u64>, Option<u64>);

    fn job((precedence, runtime_estimate_ms, deadline_ms): Times) -> Arc<Job> {
        let job = Job::batch("job", TaskGroup::new(1, Amounts::zero()));
        Arc::new(Job {
            precedence: Precedence(precedence),
            runtime_estimate_ms,
            deadline_ms,
            ..job
        })
    }

    /// Order in which jobs have their turns, if they arrive in the given order.
    fn turns(order: impl Order + 'static, jobs: &[Times]) -> Vec<u64> {
        let mut turns = ActiveQueue::new(Some(Arc::new(order)));
        let jobs: Vec<_> = (0..).map(JobId).zip(jobs.iter().map(|times| job(*times))).collect();
        jobs.iter().for_each(|(id, job)| turns.insert(job, *id));
        let mut taken = Vec::new();
        while let Some(id) = turns.first() {
            turns.remove(&jobs[id.0 as usize].1, id);
            taken.push(id.0);
        }
        taken
    }

    #[test]
    fn who_can_wait_least_goes_first() {
        let jobs = [
            (0, Some(10), None),
            (0, Some(10), Some(100)),
            (0, Some(50), Some(120)),
            (0, None, Some(80)),
            (0, Some(500), Some(100)),
            (1, None, None),
        ];
        assert_eq!(turns(LeastSlack, &jobs), [5, 4, 2, 3, 1, 0]);
    }

    #[test]
    fn the_short_go_first_and_the_long_let_so_many_pass() {
        let long = (0, Some(3_000), None);
        let mut jobs = vec![long];
        jobs.extend([(0, Some(0), None); 5]);
        assert_eq!(turns(ShortestFirst::new(1000, 0), &jobs), [1, 2, 0, 3, 4, 5]);
        let unknown = [(0, None, None), (0, Some(0), None), (1, Some(9_000), None)];
        assert_eq!(turns(ShortestFirst::new(1000, 5_000), &unknown), [2, 1, 0]);
    }

    proptest! {
        /// The number of younger jobs of equal precedence that overtake a job is at most its run time in steps. The
        /// order by slack does not change with time.
        #[test]
        fn nobody_is_overtaken_without_end(
            jobs in prop::collection::vec(
                (0..2, prop::option::of(0u64..20_000), prop::option::of(0u64..50_000)), 1..60),
            now in 0i128..100_000,
        ) {
            let order = turns(ShortestFirst::new(1000, 7_000), &jobs);
            for (place, id) in order.iter().enumerate() {
                let (precedence, run_ms, _) = jobs[*id as usize];
                let younger = |other: &&u64| **other > *id && jobs[**other as usize].0 == precedence;
                let passed = order[..place].iter().filter(younger).count() as u64;
                prop_assert!(passed <= run_ms.unwrap_or(7_000) / 1000);
            }
            let slack = |id: &u64| {
                let (_, run, due) = jobs[*id as usize];
                due.map(|due| i128::from(due) - now - i128::from(run.unwrap_or(0)))
            };
            let order = turns(LeastSlack, &jobs);
            for precedence in 0..2 {
                let due = order.iter().filter(|id| jobs[**id as usize].0 == precedence);
                let slacks: Vec<i128> = due.filter_map(slack).collect();
                prop_assert!(slacks.is_sorted());
            }
        }
    }
}
