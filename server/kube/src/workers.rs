//! Worker threads: schedulers that decide in parallel on one cell, with kube-scheduler's filters and scores.

use crate::adapter::Shared;
use crate::profiles::KubeProfile;
use omega_cellstate::SharedCell;
use omega_core::{Commit, JobId, MachineId, TaskId, Transaction};
use omega_schedulers::{Observer, Scheduler, Settings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An accepted claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The task.
    pub task: TaskId,
    /// The machine on which the task was placed.
    pub machine: MachineId,
}

/// Observer that collects a scheduler's decisions.
#[derive(Debug, Default)]
pub struct Collect {
    /// Accepted claims.
    pub accepted: Vec<Accepted>,
    /// Jobs for which no machine was feasible.
    pub unplaced: Vec<JobId>,
    /// Number of claims that conflicted with claims of other workers.
    pub conflicts: usize,
    /// The time of each job's decision.
    pub times: BTreeMap<JobId, DecisionTime>,
    began: Option<Instant>,
}

/// The time of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionTime {
    /// The time at which the decision began.
    pub began: Instant,
    /// Duration of the decision.
    pub took: Duration,
}

impl Collect {
    /// Whether the observer has collected no decision and no conflict.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accepted.is_empty() && self.unplaced.is_empty() && self.conflicts == 0
    }
}

impl Observer for Collect {
    fn deciding(&mut self) {
        self.began = Some(Instant::now());
    }

    fn decided(&mut self, job: JobId, _asked: usize, placed: usize) {
        if let Some(began) = self.began.take() {
            self.times.insert(job, DecisionTime { began, took: began.elapsed() });
        }
        if placed == 0 {
            self.unplaced.push(job);
        }
    }

    fn committed(&mut self, txn: &Transaction, commit: &Commit) {
        let before = self.accepted.len();
        let claims = txn.claims.iter().enumerate();
        let accepted = claims.filter(|(i, _)| commit.conflict_of_claim(*i).is_none());
        self.accepted.extend(accepted.map(|(_, c)| Accepted { task: c.task, machine: c.machine }));
        self.conflicts += txn.claims.len() - (self.accepted.len() - before);
    }
}

/// Returns the scheduler of one worker of a profile.
///
/// # Errors
/// If the cell rejects the worker's name.
pub fn worker(
    shared: &Shared,
    profile: &KubeProfile,
    index: u32,
    of: u32,
) -> Result<Scheduler, omega_cellstate::HandleError> {
    let bound = shared.cell.read(|cell| profile.bind(cell.kinds()));
    let bound = bound.with_volumes(&shared.volumes);
    Scheduler::new(&shared.cell, bound, profile.apply(Settings::worker(&profile.name, index, of)))
}

/// A signal that the cell has changed.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<u64>,
    changed: Condvar,
    stopped: AtomicBool,
}

/// The running workers, which stop when this value is dropped.
#[derive(Debug)]
pub struct Workers {
    bell: Arc<Bell>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` workers for each profile. They pass their decisions to `decided`.
    ///
    /// # Errors
    /// If the cell rejects a worker's name, or the operating system cannot start a thread.
    pub fn start(
        shared: &Shared,
        profiles: &[KubeProfile],
        count: u32,
        decided: impl Fn(Collect) + Clone + Send + 'static,
    ) -> std::io::Result<Workers> {
        let bell = Arc::<Bell>::default();
        let mut threads = Vec::new();
        let all = profiles.iter().flat_map(|profile| (0..count).map(move |index| (profile, index)));
        for (profile, index) in all {
            let scheduler = worker(shared, profile, index, count).map_err(std::io::Error::other)?;
            let (cell, bell, decided) = (shared.cell.clone(), Arc::clone(&bell), decided.clone());
            let name = format!("worker-{}", threads.len());
            let work = move || work(scheduler, &cell, &bell, &decided);
            threads.push(std::thread::Builder::new().name(name).spawn(work)?);
        }
        Ok(Workers { bell, threads })
    }

    /// Wakes idle workers.
    pub fn wake(&self) {
        *self.bell.rung.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.bell.changed.notify_all();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.bell.stopped.store(true, Ordering::Relaxed);
        self.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Steps a scheduler until the workers stop.
fn work(mut scheduler: Scheduler, cell: &SharedCell, bell: &Bell, decided: &impl Fn(Collect)) {
    let started = Instant::now();
    let now = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let read = || *bell.rung.lock().unwrap_or_else(PoisonError::into_inner);
    while !bell.stopped.load(Ordering::Relaxed) {
        // If the cell changes after this line, the wait below does not block.
        let rung = read();
        let mut collect = Collect::default();
        let step = scheduler.step(cell, now(), &mut collect);
        if !collect.is_empty() {
            decided(collect);
        }
        match step {
            Ok(step) if step.idle => {
                let wait = step.until.map(|until| until.saturating_sub(now()));
                let wait =
                    Duration::from_nanos(wait.unwrap_or(u64::MAX)).min(Duration::from_secs(1));
                let guard = bell.rung.lock().unwrap_or_else(PoisonError::into_inner);
                drop(bell.changed.wait_timeout_while(guard, wait, |now| *now == rung));
            }
            Ok(_) => {}
            // The panic ends the process (`run::end_on_panic`). Without this worker, pods would wait without notice.
            Err(why) => panic!("a worker cannot use the cell: {why}"),
        }
    }
}
