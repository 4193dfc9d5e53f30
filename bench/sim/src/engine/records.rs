//! Records of a run: of each scheduler, of each job, and of the cell's use.

use super::{Cell, Job, Plan, Retries};
use std::collections::VecDeque;

/// Record of one scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SchedulerRecord {
    /// Seconds of decisions without conflicts.
    pub useful_s: f64,
    /// Seconds of decisions that met a conflict.
    pub wasted_s: f64,
    /// Transactions without a conflict.
    pub succeeded: u64,
    /// Transactions with a conflict.
    pub failed: u64,
    /// Attempts that found no feasible machine.
    pub no_room: u64,
    /// Transactions of jobs that had an attempt before.
    pub retried: u64,
    /// Rejected claims.
    pub claims_refused: u64,
    /// Accepted claims.
    pub claims_taken: u64,
    /// Abandoned jobs.
    pub abandoned: u64,
    /// Jobs in the scheduler's queue at the end.
    pub left_in_queue: u64,
}

/// Record of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobRecord {
    /// Number of the job's tasks: the requested number, unless the cell changed it.
    pub tasks: u32,
    /// Tasks without a machine.
    pub unplaced: u32,
    /// Completed attempts.
    pub attempts: u32,
    /// Seconds from submission to the start of the first attempt. In an offer, all attempts start with the first, as in
    /// the published simulator.
    pub wait_s: f64,
    /// Seconds from submission to the end of the attempt that placed the last task. In an offer, all attempts end when
    /// the offer is answered.
    pub placed_s: f64,
    /// Whether the job was abandoned.
    pub abandoned: bool,
}

/// All records of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// Records by scheduler.
    pub schedulers: Vec<SchedulerRecord>,
    /// Records by job.
    pub jobs: Vec<JobRecord>,
    /// Time of the last event, in seconds.
    pub now_s: f64,
    /// Events that happened.
    pub events: u64,
    /// Time up to which the cell's use is measured, if it is measured at all times.
    used_until_s: f64,
    /// Number of samples of the cell's use, or seconds for which it was measured.
    pub measured: f64,
    /// Sums over the samples, or over time, of the allocated shares of processors and memory.
    pub used: [f64; 2],
    /// Sum over the samples, or over time, of the share of processors that was locked in offers.
    pub locked: f64,
    /// Tasks that ended.
    pub ended: u64,
    /// Tasks that lost their machine.
    pub lost: u64,
    /// Tasks that were already running when their jobs arrived.
    pub found_running: u64,
}

/// A scheduler's queue of jobs, with its present decision.
#[derive(Clone, Debug)]
pub(super) struct SchedulerQueue<D> {
    pub(super) queue: VecDeque<u32>,
    /// The decision that the scheduler has begun, if any.
    pub(super) deciding: Option<D>,
}

impl<D> SchedulerQueue<D> {
    /// Empty queues of this many idle schedulers.
    pub(super) fn all(schedulers: usize) -> Vec<SchedulerQueue<D>> {
        let empty = || SchedulerQueue { queue: VecDeque::new(), deciding: None };
        std::iter::repeat_with(empty).take(schedulers).collect()
    }

    /// Removes and returns the next job if the scheduler is idle.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.deciding.is_some() { None } else { self.queue.pop_front() }
    }
}

impl Records {
    /// Creates empty records for the schedulers and jobs of a plan.
    pub(crate) fn new(plan: &Plan<'_>) -> Records {
        let of_job = |job: &Job| {
            let tasks = job.tasks;
            JobRecord { tasks, unplaced: tasks, ..JobRecord::default() }
        };
        Records {
            schedulers: vec![SchedulerRecord::default(); plan.schedulers.len()],
            jobs: plan.jobs.iter().map(of_job).collect(),
            used_until_s: plan.used_until_s,
            ..Records::default()
        }
    }

    /// Records the arrival of a job with running tasks. Returns whether the job has other tasks, which are pending.
    pub(crate) fn arrive(&mut self, job: usize, running: u32) -> bool {
        let record = &mut self.jobs[job];
        record.unplaced -= running;
        self.found_running += u64::from(running);
        record.unplaced > 0
    }

    /// Records that tasks of a job lost their machine. Returns whether the job must be queued for these tasks. A job
    /// with other pending tasks is not queued again: it is already queued, or was abandoned.
    pub(crate) fn lose(&mut self, lost: super::Lost) -> bool {
        self.jobs[lost.job as usize].unplaced = lost.waiting + lost.tasks;
        self.lost += u64::from(lost.tasks);
        lost.waiting == 0
    }

    /// Changes the number of tasks of a job without running tasks.
    pub(crate) fn size(&mut self, job: usize, tasks: u32) {
        let record = &mut self.jobs[job];
        (record.tasks, record.unplaced) = (tasks, tasks);
    }

    /// Records an attempt with its decision time. Returns whether the job is to be retried.
    pub(crate) fn attempt(
        &mut self,
        scheduler: usize,
        job: usize,
        outcome: super::Attempt,
        decided_s: f64,
    ) -> bool {
        let (record, mine) = (&mut self.jobs[job], &mut self.schedulers[scheduler]);
        let refused = outcome.claimed - outcome.taken;
        record.attempts += 1;
        record.unplaced -= outcome.taken;
        mine.claims_taken += u64::from(outcome.taken);
        mine.claims_refused += u64::from(refused);
        if outcome.claimed == 0 {
            mine.no_room += 1;
        } else {
            mine.retried += u64::from(record.attempts > 1);
            if refused > 0 {
                mine.failed += 1;
                mine.wasted_s += decided_s;
            } else {
                mine.succeeded += 1;
                mine.useful_s += decided_s;
            }
        }
        record.unplaced > 0
    }

    /// Records a sample of the cell's use.
    pub(crate) fn look(&mut self, used: [f64; 2], locked: f64) {
        self.measure(used, locked, 1.0);
    }

    /// Advances to the time of the next event. The use has not changed since the previous event.
    pub(crate) fn pass<C: Cell>(&mut self, now_s: f64, cell: &mut C, locked: f64) {
        if now_s > self.now_s {
            cell.pass(now_s);
            let seconds = now_s.min(self.used_until_s) - self.now_s;
            self.measure(cell.used(), locked, seconds.max(0.0));
        }
        self.now_s = now_s;
    }

    fn measure(&mut self, used: [f64; 2], locked: f64, weight: f64) {
        self.measured += weight;
        self.used = [self.used[0] + used[0] * weight, self.used[1] + used[1] * weight];
        self.locked += locked * weight;
    }

    /// Records an attempt that probed sampled machines, with its decision time. `asked` is the number of probes that
    /// added the job to a machine's queue.
    pub(crate) fn sampled(&mut self, scheduler: usize, job: usize, asked: u32, decided_s: f64) {
        let (record, mine) = (&mut self.jobs[job], &mut self.schedulers[scheduler]);
        record.attempts += 1;
        if asked == 0 {
            mine.no_room += 1;
        } else {
            mine.succeeded += 1;
            mine.useful_s += decided_s;
            mine.retried += u64::from(record.attempts > 1);
        }
    }

    /// Records that a machine started a task, and the time since the job's submission.
    pub(crate) fn started(&mut self, scheduler: usize, job: usize, after_s: f64) {
        let record = &mut self.jobs[job];
        record.unplaced -= 1;
        self.schedulers[scheduler].claims_taken += 1;
        if record.unplaced == 0 {
            record.placed_s = after_s;
        }
    }

    /// Abandons a job that had too many attempts, if these are limited. Returns whether the job is abandoned.
    pub(crate) fn give_up(&mut self, retries: Retries, scheduler: usize, job: usize) -> bool {
        if retries != Retries::Limited {
            return false;
        }
        let record = &mut self.jobs[job];
        let vain = record.attempts > super::ATTEMPTS_VAIN_MAX && record.unplaced == record.tasks;
        record.abandoned = vain || record.attempts > super::ATTEMPTS_MAX;
        self.schedulers[scheduler].abandoned += u64::from(record.abandoned);
        record.abandoned
    }
}
