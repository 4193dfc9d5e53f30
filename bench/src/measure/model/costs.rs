//! Question: how long does a placement lock the cell, and how long does it take otherwise, if several workers share it?
//!
//! The workers take turns on one thread, so no worker waits, and no cache line changes its processor. Each worker
//! applies the claims of all others to its view. All views share the caches of one processor, so the costs of many
//! workers are higher than on separate processors.

use crate::measure::Options;
use crate::measure::cells::{self, Made};
use crate::measure::clock::median;
use crate::measure::scaling;
use crate::measure::scan;
use crate::measure::whole::Load;
use omega_cellstate::{CellHandle, CommitsAndSync, Delta, HandleError, Interest, SharedCell};
use omega_core::{Command, Commit, SchedulerId, Text, Transaction, Version};
use omega_schedulers::{Scheduler, Unobserved};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Costs of a placement, for a number of workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Nanoseconds of a placement in the parts of commits and syncs that lock the cell.
    pub(super) locked: f64,
    /// Nanoseconds of a placement without the lock.
    pub(super) unlocked: f64,
    /// Number of placements each time that the cell is locked.
    pub(super) at_once: f64,
}

impl Costs {
    /// Medians of several runs.
    pub(super) fn median(runs: &[Costs]) -> Costs {
        let of = |figure: fn(&Costs) -> f64| median(runs.iter().map(figure).collect());
        Costs {
            locked: of(|costs| costs.locked),
            unlocked: of(|costs| costs.unlocked),
            at_once: of(|costs| costs.at_once),
        }
    }
}

/// A cell that measures the time of the parts of its calls that lock it.
struct MeasuredCell {
    cell: SharedCell,
    nanos: AtomicU64,
    /// Number of measured parts.
    parts: AtomicU64,
}

impl MeasuredCell {
    fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let answer = call();
        self.nanos.fetch_add(before.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.parts.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

impl CellHandle for MeasuredCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.time(|| self.cell.begin_sync(since, interest, delta)).finish(delta);
        Ok(())
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.time(|| self.cell.commit(txn))
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        self.time(|| self.cell.commit_all(txns))
    }

    fn commit_and_sync(
        &self,
        txns: &[&Transaction],
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> CommitsAndSync {
        let (commits, pending) =
            self.time(|| self.cell.commit_and_begin_sync(txns, since, interest, delta));
        pending.finish(delta);
        CommitsAndSync { commits, synced: Ok(()) }
    }
}

/// Measures the costs of workers that place tasks by turns on this thread.
pub(super) fn by_turns(options: &Options, made: &Made, workers: usize, claims: usize) -> Costs {
    let load =
        Load { wave: scaling::WAVE, ..Load::sampled(options.work(100_000), workers, claims) };
    let shared = SharedCell::new(made.copy());
    let cell = MeasuredCell { cell: shared, nanos: AtomicU64::new(0), parts: AtomicU64::new(0) };
    let worker = |settings| {
        let mut worker =
            Scheduler::new(&cell, scan::profile(), settings).expect("a worker registers");
        worker.step(&cell, 0, &mut Unobserved).expect("a cell in this process answers");
        worker
    };
    let mut workers: Vec<Scheduler> = load.workers.into_iter().map(worker).collect();
    let waves = load.tasks.div_ceil(load.wave);
    let wave_tasks = load.tasks / waves / claims * claims;
    let (mut nanos, mut placed, mut now) = (0, 0, 0);
    cell.nanos.store(0, Ordering::Relaxed);
    cell.parts.store(0, Ordering::Relaxed);
    for wave in 0..waves {
        let jobs = cells::small_jobs(wave * wave_tasks / claims, wave_tasks, claims);
        cell.cell.apply_all(jobs.map(Command::SubmitJob));
        let begin = Instant::now();
        let mut busy: Vec<&mut Scheduler> = workers.iter_mut().collect();
        while !busy.is_empty() {
            busy.retain_mut(|worker| {
                let step = worker
                    .go_on(&cell, now, &mut Unobserved)
                    .expect("a cell in this process answers");
                placed += step.placed;
                // The time of the workers is advanced after an idle step, so that no job waits.
                now += if step.idle { 10_000_000 } else { 1000 };
                !step.idle || worker.queue().pending_tasks() > 0
            });
        }
        nanos += begin.elapsed().as_nanos() as u64;
    }
    assert_eq!(placed, waves * wave_tasks, "every task finds a machine");
    let parts = cell.parts.into_inner() as f64;
    // To read the clock takes time, and a part of this time was counted as time with the lock.
    let Clock { whole: clock, counted } = Clock::measure();
    let locked = cell.nanos.into_inner() as f64 - parts * counted;
    let unlocked = nanos as f64 - parts * clock - locked;
    let each = |nanos: f64| nanos / placed as f64;
    Costs { locked: each(locked), unlocked: each(unlocked), at_once: placed as f64 / parts }
}

/// Nanoseconds to measure the time of a part.
struct Clock {
    whole: f64,
    /// The part that counts as time with the lock.
    counted: f64,
}

impl Clock {
    fn measure() -> Clock {
        const CALLS: u32 = 10_000;
        let mut counted = 0;
        let begin = Instant::now();
        for _ in 0..CALLS {
            counted += Instant::now().elapsed().as_nanos();
        }
        let whole = begin.elapsed().as_nanos() as f64;
        Clock { whole: whole / f64::from(CALLS), counted: counted as f64 / f64::from(CALLS) }
    }
}
