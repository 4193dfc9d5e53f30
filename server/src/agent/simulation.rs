//! Simulated tasks on simulated machines: a plain data structure that gets the time as an argument.
//!
//! The result of a run depends only on the seed, the task, its machine and the number of its failures there. So the
//! same runs fail, whatever the order in which tasks start.

use omega_client::agent::{RunId, Task};
use omega_core::{Amounts, JobKind, MachineId, TaskId, TaskReport};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Run time of a batch task whose job has no runtime estimate.
const RUN_MS: u64 = 60_000;

/// Bounds of a task's usage, in percent of its request. Machines of real cells are about half used.
const USE_PERCENT_MIN: u64 = 40;
const USE_PERCENT_MAX: u64 = 80;

/// Parameters of the simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behaviour {
    pub(super) seed: u64,
    /// Factor for run times.
    pub(super) run_time_scale: f64,
    /// Percentage of runs that fail, each after half of its run time.
    pub(super) fail_percent: u8,
}

/// A run of a task.
#[derive(Clone, Debug)]
struct Run {
    id: RunId,
    number: u64,
    report: TaskReport,
    used: Vec<u64>,
}

/// All tasks that run on the simulated machines.
#[derive(Debug)]
pub(super) struct Simulation {
    behaviour: Behaviour,
    running: BTreeMap<(MachineId, TaskId), Run>,
    /// Times at which runs end, each with the number of the run. An entry is outdated if its task is gone, or has a run
    /// with another number.
    ends: BinaryHeap<Reverse<(u64, u64, MachineId, TaskId)>>,
    failures: BTreeMap<(MachineId, TaskId), u32>,
    used: BTreeMap<MachineId, Vec<u64>>,
    /// Machines whose load has changed since the last call of [`Simulation::take_loads`].
    changed: BTreeSet<MachineId>,
    runs: u64,
}

impl Simulation {
    pub(super) fn new(behaviour: Behaviour) -> Simulation {
        Simulation {
            behaviour,
            running: BTreeMap::new(),
            ends: BinaryHeap::new(),
            failures: BTreeMap::new(),
            used: BTreeMap::new(),
            changed: BTreeSet::new(),
            runs: 0,
        }
    }

    /// Starts a task. A service that does not fail runs until it is stopped.
    pub(super) fn start(&mut self, task: &Task, now_ms: u64) {
        let key = (task.machine, task.id);
        self.stop(task.run_id());
        let chance = self.chance(key);
        let fails = chance % 100 < u64::from(self.behaviour.fail_percent);
        let expected = task.runtime_estimate_ms.unwrap_or(RUN_MS) as f64;
        let run_ms = (expected * self.behaviour.run_time_scale) as u64;
        let end = match (fails, task.kind) {
            (true, _) => Some((run_ms / 2, TaskReport::Failed)),
            (false, JobKind::Batch) => Some((run_ms, TaskReport::Finished)),
            (false, JobKind::Service) => None,
        };
        self.runs += 1;
        let number = self.runs;
        if let Some((after_ms, _)) = end {
            self.ends.push(Reverse((
                now_ms.saturating_add(after_ms),
                number,
                task.machine,
                task.id,
            )));
        }
        let percent = USE_PERCENT_MIN + (chance >> 32) % (USE_PERCENT_MAX - USE_PERCENT_MIN + 1);
        let used: Vec<u64> =
            task.request.as_slice().iter().map(|amount| amount * percent / 100).collect();
        let all = self.used.entry(task.machine).or_default();
        all.resize(all.len().max(used.len()), 0);
        all.iter_mut().zip(&used).for_each(|(all, used)| *all += used);
        self.changed.insert(task.machine);
        let report = end.map_or(TaskReport::Lost, |(_, report)| report);
        self.running.insert(key, Run { id: task.run_id(), number, report, used });
    }

    /// Changes the allocation of a task. The task's usage stays the same percentage of the allocation.
    pub(super) fn resize(&mut self, run: RunId, to: &Amounts) {
        let key = (run.machine, run.task);
        let percent =
            USE_PERCENT_MIN + (self.chance(key) >> 32) % (USE_PERCENT_MAX - USE_PERCENT_MIN + 1);
        let Some(run) = self.running.get_mut(&key) else { return };
        let used: Vec<u64> = to.as_slice().iter().map(|amount| amount * percent / 100).collect();
        let before = std::mem::replace(&mut run.used, used.clone());
        let all = self.used.entry(key.0).or_default();
        all.resize(all.len().max(used.len()), 0);
        all.iter_mut().zip(&before).for_each(|(all, used)| *all -= used);
        all.iter_mut().zip(&used).for_each(|(all, used)| *all += used);
        self.changed.insert(key.0);
    }

    /// Begins the termination of a task. The termination takes from 20 to 119 percent of the grace period. A task that
    /// would take more than 100 percent is killed by the cell before it ends.
    pub(super) fn end(&mut self, run: RunId, grace_ms: u32, now_ms: u64) {
        let key = (run.machine, run.task);
        let percent = 20 + (self.chance(key) >> 16) % 100;
        let at = now_ms.saturating_add(u64::from(grace_ms) * percent / 100);
        let Some(run) = self.running.get_mut(&key) else { return };
        self.runs += 1;
        (run.number, run.report) = (self.runs, TaskReport::Finished);
        self.ends.push(Reverse((at, self.runs, key.0, key.1)));
    }

    /// Stops a task if it runs.
    pub(super) fn stop(&mut self, run: RunId) {
        let RunId { task, machine, .. } = run;
        let Some(run) = self.running.remove(&(machine, task)) else { return };
        if let Some(all) = self.used.get_mut(&machine) {
            all.iter_mut().zip(&run.used).for_each(|(all, used)| *all -= used);
        }
        self.changed.insert(machine);
    }

    /// Removes a machine whose tasks have all been stopped.
    pub(super) fn forget(&mut self, machine: MachineId) {
        self.used.remove(&machine);
        self.changed.remove(&machine);
    }

    /// The earliest time at which a run ends.
    pub(super) fn next_end_ms(&self) -> Option<u64> {
        self.ends.peek().map(|Reverse((at, ..))| *at)
    }

    /// Ends all runs that are due, and returns them with their reports.
    pub(super) fn step(&mut self, now_ms: u64) -> Vec<(RunId, TaskReport)> {
        let mut ended = Vec::new();
        while let Some(Reverse((at, number, machine, task))) = self.ends.peek().copied() {
            if at > now_ms {
                break;
            }
            self.ends.pop();
            let run = self.running.get(&(machine, task)).filter(|run| run.number == number);
            let Some(Run { id, report, .. }) = run else { continue };
            let (id, report) = (*id, *report);
            self.stop(id);
            match report {
                TaskReport::Failed => *self.failures.entry((machine, task)).or_default() += 1,
                _ => _ = self.failures.remove(&(machine, task)),
            }
            ended.push((id, report));
        }
        ended
    }

    /// Returns the loads that have changed since the last call.
    pub(super) fn take_loads(&mut self) -> Vec<(MachineId, Amounts)> {
        let load = |machine| {
            let used = self.used.get(&machine)?;
            Some((machine, Amounts::new(used.iter().copied())))
        };
        std::mem::take(&mut self.changed).into_iter().filter_map(load).collect()
    }

    /// A pseudorandom number that depends only on the seed, the task, its machine and its failures there.
    fn chance(&self, key: (MachineId, TaskId)) -> u64 {
        let (machine, task) = key;
        let failures = self.failures.get(&key).copied().unwrap_or(0);
        let mut bytes = Vec::with_capacity(20);
        bytes.extend(task.job.0.to_le_bytes());
        bytes.extend(task.index.to_le_bytes());
        bytes.extend(machine.slot.to_le_bytes());
        bytes.extend(failures.to_le_bytes());
        xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, self.behaviour.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::JobId;

    fn task(index: u32, kind: JobKind) -> Task {
        Task {
            id: TaskId { job: JobId(3), index },
            machine: MachineId::first(index % 2),
            placed_ms: 5,
            job_name: "job".into(),
            group: "main".into(),
            kind,
            runtime_estimate_ms: Some(1000),
            images: Vec::new(),
            request: Amounts::new([1000, 1 << 20]),
            devices: Vec::new(),
            cores: Vec::new(),
            ports: Vec::new(),
            grace_ms: 0,
            program: Default::default(),
        }
    }

    fn simulation(fail_percent: u8) -> Simulation {
        Simulation::new(Behaviour { seed: 7, run_time_scale: 0.5, fail_percent })
    }

    #[test]
    fn batch_tasks_end_and_services_stay() {
        let mut simulation = simulation(0);
        simulation.start(&task(0, JobKind::Batch), 0);
        simulation.start(&task(2, JobKind::Service), 0);
        simulation.start(&task(4, JobKind::Batch), 100);
        simulation.stop(task(4, JobKind::Batch).run_id());
        assert_eq!(simulation.next_end_ms(), Some(500));
        assert_eq!(simulation.step(499), []);
        let ended = [(task(0, JobKind::Batch).run_id(), TaskReport::Finished)];
        assert_eq!(simulation.step(10_000), ended);
        assert_eq!(simulation.next_end_ms(), None);
    }

    #[test]
    fn a_stopped_task_takes_some_of_its_grace_or_more() {
        let mut simulation = simulation(0);
        let tasks: Vec<Task> = (0..200).map(|index| task(index, JobKind::Service)).collect();
        tasks.iter().for_each(|task| simulation.start(task, 0));
        tasks.iter().for_each(|task| simulation.end(task.run_id(), 1000, 5000));
        assert_eq!(simulation.step(5199), []);
        let early = simulation.step(5999).len();
        assert!((120..200).contains(&early), "{early} of 200");
        let late = simulation.step(6200);
        assert_eq!(early + late.len(), 200);
        assert!(late.iter().all(|(.., report)| *report == TaskReport::Finished));
    }

    #[test]
    fn loads_are_reported_once_and_return_to_nothing() {
        let mut simulation = simulation(0);
        (0..10).for_each(|index| simulation.start(&task(index, JobKind::Batch), 0));
        let loads = simulation.take_loads();
        assert_eq!(loads.len(), 2);
        assert!(
            loads.iter().all(|(_, load)| (2000..=4000).contains(&load.as_slice()[0])),
            "{loads:?}"
        );
        assert_eq!(simulation.take_loads(), []);
        simulation.step(1000);
        assert!(simulation.take_loads().iter().all(|(_, load)| load.is_zero()));
    }

    #[test]
    fn the_seed_tells_which_runs_fail() {
        let run = |order: Vec<u32>| {
            let mut simulation = simulation(30);
            order.iter().for_each(|index| simulation.start(&task(*index, JobKind::Batch), 0));
            let mut ended = simulation.step(1000);
            ended.sort_by_key(|(run, _)| *run);
            ended
        };
        let one = run((0..200).collect());
        assert_eq!(one, run((0..200).rev().collect()));
        let failed = one.iter().filter(|(.., report)| *report == TaskReport::Failed).count();
        assert!((35..85).contains(&failed), "{failed} of 200");
    }
}
