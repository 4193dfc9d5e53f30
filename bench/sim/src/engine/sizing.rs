//! Jobs whose number of tasks is chosen at their first decision, by a rule that considers the idle resources. Jobs are
//! elastic: with more tasks, each task takes less time.
//!
//! The cell of this file wraps another cell. It returns the chosen number of tasks to the event loop, and scales the
//! run times.

use super::{Access, Attempt, Cell, Ended, Lost, Running, Taken};
use std::cell::RefCell;

/// A rule that chooses the number of tasks of a job from the requested number and the allocated shares of processors
/// and memory.
pub trait Sizing {
    /// Returns the number of tasks of this job, which is at least one.
    fn tasks(&mut self, job: usize, asked: u32, used: [f64; 2]) -> u32;
}

/// A cell that chooses the sizes of jobs.
pub struct SizedCell<C, S> {
    inner: C,
    sizing: S,
    /// Speed-up of each job's tasks; 1 if the job has its requested number.
    speeds: Vec<f64>,
    /// Speed-up of the tasks of each commit, by the commit's number.
    of_runs: Vec<f64>,
    /// Allocated share of the processors at each sample.
    looks: RefCell<Vec<f32>>,
}

/// The chosen sizes of a run's jobs, and the usage of the cell.
pub struct SizedRun {
    /// Speed-up of each job's tasks.
    pub speeds: Vec<f64>,
    /// Allocated share of the processors at each sample.
    pub looks: Vec<f32>,
}

impl<C: Cell, S: Sizing> SizedCell<C, S> {
    /// Creates a cell for `jobs` jobs.
    pub fn new(inner: C, sizing: S, jobs: usize) -> SizedCell<C, S> {
        SizedCell {
            inner,
            sizing,
            speeds: vec![1.0; jobs],
            of_runs: Vec::new(),
            looks: RefCell::default(),
        }
    }

    /// Ends the run. Returns the sizes of jobs and the usage.
    pub fn finish(self) -> SizedRun {
        SizedRun { speeds: self.speeds, looks: self.looks.into_inner() }
    }
}

impl<C: Cell, S: Sizing> Cell for SizedCell<C, S> {
    fn arrive(&mut self, job: usize) -> Running {
        self.inner.arrive(job)
    }

    fn size(&mut self, job: usize, tasks: u32) -> u32 {
        let sized = self.sizing.tasks(job, tasks, self.inner.used()).max(1);
        self.speeds[job] = f64::from(sized) / f64::from(tasks);
        sized
    }

    fn copy(&mut self, scheduler: usize) {
        self.inner.copy(scheduler);
    }

    fn attempt(&mut self, scheduler: usize, job: usize, tasks: u32, access: Access) -> Attempt {
        let attempt = self.inner.attempt(scheduler, job, tasks, access);
        if let Some(Taken(run)) = attempt.run {
            let run = run as usize;
            self.of_runs.resize(self.of_runs.len().max(run + 1), 1.0);
            self.of_runs[run] = self.speeds[job];
        }
        attempt
    }

    fn runs_for(&self, run: Taken) -> Option<f64> {
        let speed = self.of_runs.get(run.0 as usize).copied().unwrap_or(1.0);
        self.inner.runs_for(run).map(|seconds| seconds / speed)
    }

    fn end(&mut self, run: Taken) -> Ended {
        self.inner.end(run)
    }

    fn change(&mut self, number: usize) -> Vec<Lost> {
        self.inner.change(number)
    }

    fn pass(&mut self, now_s: f64) {
        self.inner.pass(now_s);
    }

    fn used(&self) -> [f64; 2] {
        let used = self.inner.used();
        self.looks.borrow_mut().push(used[0] as f32);
        used
    }
}
