//! The event loop: jobs arrive and end, and a policy starts them.
//!
//! Among events of one time, all ends are handled first, then all arrivals, and then the policy is called once. So the
//! processors of an ending job are available to a job that arrives at the same time.

use super::trace::SimJob;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Position of a job in the list of simulated jobs.
pub type Place = usize;

/// Policy that starts jobs. It gets the user's estimate of a run time, not the run time itself.
pub trait Policy {
    /// Handles the submission of a job.
    fn submitted(&mut self, place: Place, now_ms: u64);

    /// Handles the end of a started job.
    fn ended(&mut self, place: Place, now_ms: u64);

    /// Adds the jobs that start now to `starting`. They must fit in the free processors.
    fn start(&mut self, now_ms: u64, starting: &mut Vec<Place>);

    /// Returns the time at which the policy is called even if no job arrives or ends before then; `None` if there is no
    /// such time.
    fn wakes_ms(&self) -> Option<u64> {
        None
    }
}

/// Runs all jobs, which must be in the order of submission and fit the machine. Returns the start of each.
///
/// # Panics
/// If the policy starts a job that does not fit, or never starts a job.
#[must_use]
pub fn simulate(jobs: &[SimJob], processors: u64, policy: &mut dyn Policy) -> Vec<u64> {
    let mut starts: Vec<Option<u64>> = vec![None; jobs.len()];
    let mut running: BinaryHeap<Reverse<(u64, Place)>> = BinaryHeap::new();
    let mut free = processors;
    let mut coming = 0;
    let mut starting = Vec::new();
    loop {
        let next = [
            running.peek().map(|Reverse((end_ms, _))| *end_ms),
            jobs.get(coming).map(|job| job.submit_ms),
            policy.wakes_ms(),
        ];
        let Some(now_ms) = next.into_iter().flatten().min() else { break };
        while let Some(Reverse((end_ms, place))) = running.peek().copied()
            && end_ms == now_ms
        {
            running.pop();
            free += jobs[place].processors;
            policy.ended(place, now_ms);
        }
        while jobs.get(coming).is_some_and(|job| job.submit_ms == now_ms) {
            policy.submitted(coming, now_ms);
            coming += 1;
        }
        policy.start(now_ms, &mut starting);
        for place in starting.drain(..) {
            let job = &jobs[place];
            assert!(job.processors <= free, "a policy started a job for which there is no room");
            free -= job.processors;
            assert!(starts[place].replace(now_ms).is_none(), "a policy started a job twice");
            running.push(Reverse((now_ms + job.run_ms, place)));
        }
    }
    starts.into_iter().map(|start| start.expect("every job that fits starts at last")).collect()
}
