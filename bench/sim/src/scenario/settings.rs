//! Settings: the architecture, its schedulers and their decision times, and conflict detection.

use crate::engine::{Access, DecisionTime, Retries, Scheduler};
use crate::shipped::{BuiltIn, PlacerSettings, Rows};
use omega_core::{ConflictCheck, Granularity};
use omega_schedulers::Home;
use omega_schedulers::config::Profiles;
use omega_workload::Workload;
use serde::{Deserialize, Serialize};

/// A scheduler's name, decision times and placement settings.
pub(super) struct Role {
    pub(super) name: String,
    pub(super) times: Scheduler,
    pub(super) placer: PlacerSettings,
}

/// Scheduler architecture: how schedulers share a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ArchitectureKind {
    /// One scheduler with a single path: every decision takes as long as a decision on a service job.
    Mono,
    /// One scheduler with different decision times for batch jobs and for service jobs.
    MonoMulti,
    /// Every scheduler has its own partition of the machines.
    Partitions,
    /// All free resources are offered to one scheduler after the other.
    #[value(name = "mesos")]
    #[serde(rename = "mesos")]
    TwoLevel,
    /// Every scheduler decides on a copy of the whole cell.
    #[value(name = "omega")]
    #[serde(rename = "omega")]
    SharedState,
    /// Every scheduler has a copy of the cell, divided into parts. Before each decision, one part is updated.
    #[value(name = "parsync")]
    #[serde(rename = "parsync")]
    PartitionedSync,
    /// No scheduler has the state of the cell. Each task is queued on random machines, and starts on the first with
    /// room.
    #[value(name = "sparrow")]
    #[serde(rename = "sparrow")]
    Sampling,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct ScenarioSettings {
    /// Scheduler architecture.
    pub architecture: ArchitectureKind,
    /// Number of batch schedulers.
    pub batch_schedulers: u32,
    /// Number of service schedulers.
    pub service_schedulers: u32,
    /// Duration of a decision on a batch job.
    pub batch_decides: DecisionTime,
    /// Duration of a decision on a service job.
    pub service_decides: DecisionTime,
    /// Conflict check of claims.
    pub check: ConflictCheck,
    /// Whether a transaction with a conflict commits its other claims.
    pub granularity: Granularity,
    /// Share of the machines on which service schedulers place no tasks.
    pub pickiness: f64,
    /// Number of best machines among which a scheduler chooses the machine of a single task.
    pub near_best: u32,
    /// Number of parts of a view, for partitioned sync.
    pub parts: u32,
    /// Number of machines probed for each task, for sampling.
    pub probes: u32,
    /// When jobs that are not completely placed are tried again.
    pub retries: Retries,
    /// Duration of the run in seconds; `None` means until [`default_end_s`].
    pub end_s: Option<f64>,
    /// Seed of all generators.
    pub seed: u64,
    /// Profiles of the schedulers named `batch` and `service`; built-in profiles by default.
    pub profiles: Profiles,
}

impl ArchitectureKind {
    /// Whether one scheduler has all jobs.
    #[must_use]
    pub fn is_monolithic(self) -> bool {
        matches!(self, ArchitectureKind::Mono | ArchitectureKind::MonoMulti)
    }

    /// Access of a scheduler to the cell. A scheduler reads the current state if no other scheduler works on its
    /// machines at the same time.
    #[must_use]
    pub fn access(self) -> Access {
        match self {
            ArchitectureKind::SharedState | ArchitectureKind::PartitionedSync => Access::Copy,
            _ => Access::Live,
        }
    }
}

/// End of a run in seconds, if none is set: the next full second after the last arrival, so that the last job can be
/// placed.
#[must_use]
pub fn default_end_s(last_ms: u64) -> f64 {
    (last_ms / 1000 + 1) as f64
}

impl ScenarioSettings {
    /// End of the run, given the last arrival.
    pub(super) fn end_s(&self, last_ms: u64) -> f64 {
        self.end_s.unwrap_or(default_end_s(last_ms))
    }

    /// Returns the time at which the run of a workload ends, in seconds.
    pub(crate) fn end_of(&self, workload: &Workload) -> f64 {
        self.end_s(workload.arrivals.last().map_or(0, |last| last.at_ms))
    }

    /// Numbers of batch schedulers and of service schedulers, each at least one.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.batch_schedulers.max(1), self.service_schedulers.max(1))
    }

    /// Returns the schedulers in the order of their numbers. They place tasks on these rows.
    pub(super) fn roles(&self, rows: Rows) -> Vec<Role> {
        let (batch, service) = self.counts();
        if self.architecture.is_monolithic() {
            let placer = self.placer(rows, BuiltIn::Batch, (0, 1));
            return vec![Role { name: "monolithic".into(), times: self.times(), placer }];
        }
        let all = batch + service;
        let role = |number: u32| {
            let (name, built_in) = if number < batch {
                (format!("batch-{}", number + 1), BuiltIn::Batch)
            } else {
                (format!("service-{}", number - batch + 1), BuiltIn::Service)
            };
            Role { name, times: self.times(), placer: self.placer(rows, built_in, (number, all)) }
        };
        (0..all).map(role).collect()
    }

    /// The decision times of every scheduler. With a single path, the longer of the two times applies to both kinds of
    /// jobs.
    fn times(&self) -> Scheduler {
        let batch = match self.architecture {
            ArchitectureKind::Mono => self.service_decides,
            _ => self.batch_decides,
        };
        Scheduler { batch, service: self.service_decides }
    }

    fn placer(&self, rows: Rows, built_in: BuiltIn, (index, of): (u32, u32)) -> PlacerSettings {
        let own = match self.architecture {
            ArchitectureKind::Partitions => Rows::part(rows.to, index as usize, of as usize),
            _ => rows,
        };
        let machines = own.to - own.from;
        let left_out = match built_in {
            BuiltIn::Service => (self.pickiness * machines as f64).floor() as usize,
            BuiltIn::Batch => 0,
        };
        PlacerSettings {
            built_in,
            rows: Rows { from: own.from, to: own.to - left_out.min(machines) },
            home: Home { index, of },
            near_best: self.near_best,
            parts: match self.architecture {
                ArchitectureKind::PartitionedSync => self.parts as usize,
                _ => 1,
            },
            seed: self.seed.wrapping_add(u64::from(index)),
            profiles: self.profiles.clone(),
        }
    }
}
