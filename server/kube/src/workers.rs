//! Worker threads: schedulers that decide in parallel on one cell, with kube-scheduler's filters and scores.
//!
//! Each worker orders only its own pods by priority. Pods that already wait at the start are therefore first tried by
//! one scheduler in one order. Otherwise, after each failover, one worker could bind pods that another worker's pods of
//! higher priority preempt at once.

use crate::adapter::Shared;
use crate::profiles::KubeProfile;
use omega_cellstate::SharedCell;
use omega_core::{Commit, JobId, MachineId, TaskId, Transaction};
use omega_schedulers::{Observer, Scheduler, Settings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
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

/// Returns the scheduler that tries the pods of a profile that wait at the start.
fn first_scheduler(
    shared: &Shared,
    profile: &KubeProfile,
) -> Result<Scheduler, omega_cellstate::HandleError> {
    let bound = shared.cell.read(|cell| profile.bind(cell.kinds()));
    let bound = bound.with_volumes(&shared.volumes);
    let name = format!("omega-kube/first/{}", profile.name).into();
    let settings = Settings { name, ..Settings::worker(&profile.name, 0, 1) };
    Scheduler::new(&shared.cell, bound, profile.apply(settings))
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
        for profile in profiles {
            // One worker alone has one order in any case.
            let mut first = (count > 1).then(|| first_scheduler(shared, profile)).transpose();
            let tried = Arc::new(Barrier::new(count as usize));
            for index in 0..count {
                let scheduler = worker(shared, profile, index, count);
                let scheduler = scheduler.map_err(std::io::Error::other)?;
                let first =
                    std::mem::replace(&mut first, Ok(None)).map_err(std::io::Error::other)?;
                let (cell, bell) = (shared.cell.clone(), Arc::clone(&bell));
                let (decided, tried) = (decided.clone(), Arc::clone(&tried));
                let name = format!("worker-{}", threads.len());
                let work = move || {
                    if let Some(first) = first {
                        try_all(first, &cell, &bell, &decided);
                    }
                    tried.wait();
                    work(scheduler, &cell, &bell, &decided);
                };
                threads.push(std::thread::Builder::new().name(name).spawn(work)?);
            }
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

/// Steps a scheduler until it has tried each pod that waits now, or the workers stop.
fn try_all(mut scheduler: Scheduler, cell: &SharedCell, bell: &Bell, decided: &impl Fn(Collect)) {
    let started = Instant::now();
    let (mut tried, mut waiting) = (0, None);
    while waiting.is_none_or(|waiting| tried < waiting) && !bell.stopped.load(Ordering::Relaxed) {
        let now = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut collect = Collect::default();
        let step = scheduler.step(cell, now, &mut collect);
        tried += collect.times.len();
        // The queue is known from the first step on.
        waiting = waiting.or(Some(tried + scheduler.queue().active_jobs()));
        if !collect.is_empty() {
            decided(collect);
        }
        // The workers find the same failure, and end the process.
        if !step.is_ok_and(|step| !step.idle) {
            return;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Adapter, Settings as AdapterSettings};
    use omega_workload::kube::api::{Node, Pod};
    use omega_workload::kube::live::Converter;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn pod(name: &str, priority: i32) -> Pod {
        let pod = json!({"metadata": {"name": name, "namespace": "t", "resourceVersion": "1"},
            "spec": {"schedulerName": "omega", "priority": priority,
                "containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn the_pod_of_the_highest_priority_is_bound_first_at_the_start() {
        let resources: Value = json!({"cpu": "1", "memory": "1Gi", "pods": "110"});
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": resources}});
        let node: Node = serde_json::from_value(node).expect("a node");
        // The workers share the pods by their numbers.
        for urgent in 0..7 {
            let pods = (0..7).map(|n| pod(&format!("p{n}"), if n == urgent { 1000 } else { 0 }));
            let pods: Vec<Pod> = pods.collect();
            let converter = Converter::new(std::slice::from_ref(&node), &pods, &[]).expect("kinds");
            let settings = AdapterSettings {
                scheduler_names: BTreeSet::from(["omega".to_owned()]),
                request_timeout_ms: 1,
                preempts: false,
                repairs: false,
                binds: true,
            };
            let mut adapter = Adapter::new(converter, settings);
            adapter.nodes_listed(std::slice::from_ref(&node));
            adapter.pods_listed(pods.into_iter().map(Arc::new).collect(), "1");
            let (told, accepted) = std::sync::mpsc::channel();
            let decided = move |collect: Collect| {
                collect.accepted.iter().for_each(|claim| told.send(claim.task.job).unwrap_or(()));
            };
            let profiles = [KubeProfile::new("omega")];
            let workers = Workers::start(&adapter.shared(), &profiles, 4, decided);
            let job = accepted.recv().expect("a decision");
            let name = adapter.pod_of(job).expect("a pod").name.clone();
            assert_eq!(name, format!("p{urgent}"));
            drop(workers);
        }
    }
}
