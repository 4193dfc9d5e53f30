//! Forecasts of a served cell: its jobs continue in the simulator, once unchanged and once with changes.
//!
//! ```text
//!                                  ┌──────────── simulate ──▶ the unchanged future ─┐
//!   Cell ──now()──▶ machines, jobs ┤                                                ├──▶ comparison
//!                                  └─ Change ── simulate ──▶ the changed future ────┘
//! ```
//!
//! A cell does not record everything that its future depends on. The run time of a task is its job's runtime estimate,
//! or an assumption for jobs without an estimate. The time for which a task has already run is not used: the remaining
//! run times of running tasks are spread evenly between zero and the whole run time. Future jobs are unknown, so the
//! load consists of the present jobs only.

mod change;
mod compare;

pub use change::{Change, ChangeError};
pub use compare::{Comparison, Side, Times};

use crate::free_name::free_name;
use crate::golden_ratio::GOLDEN_RATIO;
use crate::shipped::Start;
use omega_cellstate::{Cell, MachineStatus};
use omega_core::{Groups, Job, JobId, JobKind, SharedGroup, TaskState};
use omega_workload::volumes::VolumesAtStart;
use omega_workload::{Arrival, RunTime, Workload};
use std::collections::HashMap;

/// Assumptions about facts that the cell does not record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assumed {
    /// Run time of tasks of batch jobs without a runtime estimate, in milliseconds; `None` means that they run forever.
    /// Tasks of services run forever.
    pub run_ms: Option<u64>,
}

impl Assumed {
    /// Run time of a task from its start; `None` means that it runs forever.
    fn whole_ms(self, job: &Job) -> Option<u64> {
        job.runtime_estimate_ms.or(self.run_ms.filter(|_| job.kind == JobKind::Batch))
    }
}

/// A cell at the start of a run.
#[derive(Clone, Debug)]
pub struct Now {
    /// The cell's machines, and its jobs with their running tasks.
    pub workload: Workload,
    /// The cell's quotas and drained machines.
    pub start: Start,
    /// Assumptions.
    assumed: Assumed,
}

/// Arrival time in milliseconds of jobs with pending tasks. Jobs that have only running tasks arrive before them. The
/// running tasks of all jobs run from the start.
const WAITING_AT_MS: u64 = 1;

impl Now {
    /// Reads the present state of a cell.
    #[must_use]
    pub fn of(cell: &Cell, name: String, assumed: Assumed) -> Now {
        let (mut machines, mut draining, mut place) = (Vec::new(), Vec::new(), HashMap::new());
        for state in cell.machines() {
            let position = machines.len() as u32;
            place.insert(state.id, position);
            if state.status == MachineStatus::Draining {
                draining.push(position);
            }
            machines.push((**state.machine).clone());
        }
        let position = |state: TaskState| place.get(&state.machine()?).copied();
        let mut left = Left { assumed, spread: 0, running: 0, guessed: 0 };
        let jobs = cell.jobs();
        let mut arrivals: Vec<Arrival> =
            jobs.filter_map(|(id, job)| left.of_job(cell, (id, job), position)).collect();
        arrivals.sort_by_key(|arrival| arrival.at_ms);
        let quotas =
            cell.tenants().filter_map(|(name, limit, _)| Some((name.clone(), limit?.clone())));
        Now {
            assumed,
            start: Start {
                quotas: quotas.collect(),
                draining,
                running_until_ms: WAITING_AT_MS,
                used_until_s: None,
                explain: true,
            },
            workload: Workload {
                name,
                kinds: cell.kinds().clone(),
                policy: cell.policy().clone(),
                machines,
                machine_events: Vec::new(),
                notes: left.notes(),
                arrivals,
                volumes: VolumesAtStart::default(),
                budgets: Vec::new(),
            },
        }
    }
}

/// Remaining work of a cell's jobs.
struct Left {
    assumed: Assumed,
    /// Number of tasks counted so far. It determines the remaining run time of the next task.
    spread: u64,
    /// Number of running tasks, which are assumed to be partly done.
    running: u64,
    /// Number of tasks whose run time is assumed.
    guessed: u64,
}

impl Left {
    /// The tasks of a job that have not ended; `None` if all have ended.
    fn of_job(
        &mut self,
        cell: &Cell,
        (id, job): (JobId, &Job),
        position: impl Fn(TaskState) -> Option<u32>,
    ) -> Option<Arrival> {
        let mut by_group: Vec<Vec<Option<u32>>> = vec![Vec::new(); job.groups.len()];
        for (task, state) in cell.tasks(id).filter(|(_, state)| !state.ended()) {
            by_group[cell.task_group(task)?].push(position(state));
        }
        let with_tasks = |(group, tasks): (&SharedGroup, &Vec<Option<u32>>)| {
            // In the simulation, each task is allocated the request of its group.
            let count = tasks.len() as u32;
            (count > 0).then(|| {
                let mut group = group.clone();
                (group.count, group.optional) = (count, None);
                group
            })
        };
        let mut groups: Groups = job.groups.iter().zip(&by_group).filter_map(with_tasks).collect();
        as_submitted(&mut groups);
        let tasks: Vec<Option<u32>> = by_group.into_iter().flatten().collect();
        if tasks.is_empty() {
            return None;
        }
        let placed = (0..).zip(&tasks).filter_map(|(index, at): (u32, _)| Some((index, (*at)?)));
        let waits = tasks.contains(&None);
        Some(Arrival {
            at_ms: if waits { WAITING_AT_MS } else { 0 },
            placed: placed.collect(),
            run: self.run_time(job, &tasks),
            job: Job {
                groups,
                gang_min: job.gang_min.map(|min| min.min(tasks.len() as u32)),
                // The gang timeout is left out: a simulated cell has no timeouts, because simulated gangs are placed at
                // once.
                gang_timeout_ms: None,
                ..job.clone()
            },
        })
    }

    fn run_time(&mut self, job: &Job, tasks: &[Option<u32>]) -> RunTime {
        if job.runtime_estimate_ms.is_none() && job.kind == JobKind::Batch {
            self.guessed += tasks.len() as u64;
        }
        let Some(whole_ms) = self.assumed.whole_ms(job) else { return RunTime::Forever };
        let mut left = |task: &Option<u32>| {
            if task.is_none() {
                return Some(whole_ms);
            }
            self.running += 1;
            self.spread = self.spread.wrapping_add(GOLDEN_RATIO);
            let part = (u128::from(whole_ms) * u128::from(self.spread)) >> 64;
            Some((part as u64).max(1))
        };
        RunTime::Each(tasks.iter().map(&mut left).collect())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.running > 0 {
            notes.push(format!(
                "{} running tasks have an unknown start time: their remaining times are spread \
                 evenly over their run times",
                self.running
            ));
        }
        if self.guessed > 0 {
            let time = match self.assumed.run_ms {
                Some(ms) => format!("{} s", ms as f64 / 1000.0),
                None => "for ever".to_owned(),
            };
            notes.push(format!(
                "{time} is assumed for tasks of batch jobs without a runtime estimate: {}",
                self.guessed
            ));
        }
        notes
    }
}

/// Changes groups to groups of a new job: clears their versions, and makes their names different. During an update, a
/// job has groups of several versions, with equal names.
fn as_submitted(groups: &mut Groups) {
    for i in 0..groups.len() {
        if groups[..i].iter().any(|earlier| earlier.name == groups[i].name) {
            let mark = format!(" (version {})", groups[i].version);
            let is_taken = |name: &str| groups.iter().any(|other| *other.name == *name);
            let name = free_name(&groups[i].name, &mark, is_taken);
            groups[i].name = name;
        }
        groups[i].version = 0;
    }
}

#[cfg(test)]
mod tests;
