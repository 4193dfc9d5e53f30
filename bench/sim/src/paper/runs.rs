//! Runs of experiments: two cells with their job lists, and many points that are run in parallel.

use super::{lists, ours};
use crate::compat::{Architecture, Figure, Got, JobList, JobLists, Outcome, Point, run_point};
use crate::engine::{DecisionTime, Granularity, JobRecord, Judgement, Kind, SchedulerRecord};
use omega_core::ConflictCheck;
use omega_workload::stream::whole;
use omega_workload::{LoadError, Workload, google2011};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Size of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellSize {
    /// 2,000 machines for a day.
    Medium,
    /// 10,000 machines for six hours.
    Large,
}

impl CellSize {
    fn name(self) -> &'static str {
        match self {
            CellSize::Medium => "M",
            CellSize::Large => "L",
        }
    }

    pub(super) fn machines(self) -> u32 {
        match self {
            CellSize::Medium => 2_000,
            CellSize::Large => 10_000,
        }
    }

    fn seconds(self) -> f64 {
        match self {
            CellSize::Medium => 86_400.0,
            CellSize::Large => 21_600.0,
        }
    }
}

/// Optimistic commits with the paper's defaults: conflicts by fit, incremental transactions.
pub(super) const SHARED: Architecture =
    shared(ConflictCheck::ResourceFit, Granularity::Incremental);

pub(super) const fn shared(check: ConflictCheck, granularity: Granularity) -> Architecture {
    Architecture::SharedState(Judgement { check, granularity })
}

/// The paper's decision time, unless an experiment varies it: 0.1 s per job and 5 ms per task.
pub(super) const USUAL: DecisionTime = DecisionTime { job_s: 0.1, task_s: 0.005 };

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) cell: CellSize,
    pub(super) architecture: Architecture,
    pub(super) batch: DecisionTime,
    pub(super) service: DecisionTime,
    pub(super) batch_schedulers: u32,
    /// Batch jobs, as a multiple of the usual number.
    pub(super) load: u32,
}

impl Setting {
    /// The usual settings with this architecture.
    pub(super) const fn of(architecture: Architecture) -> Setting {
        Setting {
            cell: CellSize::Medium,
            architecture,
            batch: USUAL,
            service: USUAL,
            batch_schedulers: 1,
            load: 1,
        }
    }
}

/// Results of a run for each kind of job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) batch: Group,
    pub(super) service: Group,
}

/// Results of one kind of job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Share of the time in which a scheduler decides.
    pub(super) busy: f64,
    /// Seconds from the submission of a job to its first decision: mean, and 90th percentile.
    pub(super) wait_s: f64,
    pub(super) wait_p90_s: f64,
    /// Ratio of transactions with a conflict to those without.
    pub(super) conflicts: f64,
    /// Abandoned jobs.
    pub(super) abandoned: f64,
    /// The share of the jobs all of whose tasks were placed.
    pub(super) placed: f64,
}

/// Results of the same points on two cells.
pub(super) struct Both {
    /// Results on the cell of the reference simulator.
    pub(super) reference: Vec<Found>,
    /// Results on the shipped cell.
    pub(super) shipped: Vec<Found>,
}

impl Both {
    /// Returns for each cell the suffix of its plots' names, its title, and its results.
    pub(super) fn each(&self) -> [(&'static str, &'static str, &[Found]); 2] {
        [("", "reference", &self.reference), ("-shipped", "shipped", &self.shipped)]
    }
}

/// Cells with their job lists.
pub struct CellPair {
    lists: JobLists,
    seed: u64,
    /// Description of where the lists come from, in a few words.
    source: String,
    /// The jobs of Google's trace.
    trace: Option<Workload>,
}

impl CellPair {
    /// Creates the cells with generated lists.
    #[must_use]
    pub fn generated(seed: u64) -> CellPair {
        let source = format!("generated job lists, seed {seed}");
        let mut lab = CellPair { lists: JobLists::new(), seed, source, trace: None };
        for cell in [CellSize::Medium, CellSize::Large] {
            for list in [CellPair::service(cell), CellPair::prefill(cell), CellPair::batch(cell, 1)]
            {
                lab.add(&list, cell, 1);
            }
        }
        for load in LOADS {
            lab.add(&CellPair::batch(CellSize::Large, load), CellSize::Large, load);
        }
        lab
    }

    /// Creates the cells with the lists of a folder. Lists for loads that the folder does not have are generated.
    ///
    /// # Errors
    /// If a list is missing or invalid; the error names the place.
    pub fn of_files(dir: &Path, seed: u64) -> Result<CellPair, LoadError> {
        let mut lab = CellPair::generated(seed);
        for (file, name) in FILES {
            lab.lists.insert(name.to_owned(), JobList::read(dir, file)?);
        }
        lab.source = "the job lists that the reference was run on".to_owned();
        Ok(lab)
    }

    /// Returns `self` with the jobs of Google's trace of May 2011, from a folder.
    ///
    /// # Errors
    /// If a file is missing or invalid; the error names the place.
    pub fn with_trace(self, dir: &Path) -> Result<CellPair, LoadError> {
        let trace = whole(&mut google2011::jobs::open(dir)?)?;
        Ok(CellPair { trace: Some(trace), ..self })
    }

    /// The jobs of Google's trace, if given.
    pub(super) fn trace(&self) -> Option<&Workload> {
        self.trace.as_ref()
    }

    /// Description of where the lists come from, in a few words.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    fn add(&mut self, name: &str, cell: CellSize, load: u32) {
        let list = match name {
            _ if name == CellPair::service(cell) => lists::service(cell.seconds(), self.seed),
            _ if name == CellPair::prefill(cell) => lists::prefill(cell.machines(), self.seed),
            _ => lists::batch(cell.seconds(), f64::from(load), self.seed),
        };
        self.lists.insert(name.to_owned(), list);
    }

    fn batch(cell: CellSize, load: u32) -> String {
        format!("{}-batch-{load}", cell.name())
    }

    fn service(cell: CellSize) -> String {
        format!("{}-service", cell.name())
    }

    fn prefill(cell: CellSize) -> String {
        format!("{}-prefill", cell.name())
    }

    /// Runs all points in parallel. Returns the results in order.
    pub(super) fn run(&self, settings: &[Setting]) -> Vec<Found> {
        settings
            .par_iter()
            .map(|setting| found(&run_point(&self.point(setting), &self.lists)))
            .collect()
    }

    /// Runs the settings on both cells.
    pub(super) fn run_both(&self, settings: &[Setting]) -> Both {
        let mut workloads = BTreeMap::new();
        for setting in settings {
            let names = [
                CellPair::prefill(setting.cell),
                CellPair::batch(setting.cell, setting.load),
                CellPair::service(setting.cell),
            ];
            let make = || {
                let lists = [&names[0], &names[1], &names[2]].map(|name| &self.lists[name]);
                ours::workload(setting.cell.machines(), lists, names[1].clone())
            };
            workloads.entry(names[1].clone()).or_insert_with(make);
        }
        let shipped = |setting: &Setting| {
            let workload = &workloads[&CellPair::batch(setting.cell, setting.load)];
            ours::run(workload, setting, setting.cell.seconds())
        };
        let shipped = settings.par_iter().map(shipped).collect();
        Both { reference: self.run(settings), shipped }
    }

    /// A point on a cell with `times` as many machines, and its job lists by name.
    pub(super) fn point_on(&self, setting: &Setting, times: u32) -> (Point, &JobLists) {
        let machines = setting.cell.machines() * times;
        (Point { machines, ..self.point(setting) }, &self.lists)
    }

    /// Seed of all random generators.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    fn point(&self, setting: &Setting) -> Point {
        Point {
            batch: CellPair::batch(setting.cell, setting.load),
            service: CellPair::service(setting.cell),
            prefill: CellPair::prefill(setting.cell),
            machines: setting.cell.machines(),
            end_s: setting.cell.seconds(),
            architecture: setting.architecture,
            batch_schedulers: setting.batch_schedulers,
            service_decides: setting.service,
            batch_decides: setting.batch,
            pickiness: 0.0,
            seed: 1,
        }
    }
}

/// The loads of batch jobs for which a large cell has lists.
pub(super) const LOADS: [u32; 6] = [1, 2, 3, 4, 5, 6];

/// File names of the reference's lists, each with the name that is used here.
const FILES: [(&str, &str); 7] = [
    ("M_batch", "M-batch-1"),
    ("M_service", "M-service"),
    ("M_prefill", "M-prefill"),
    ("L_batch_x1", "L-batch-1"),
    ("L_batch_x4", "L-batch-4"),
    ("L_service", "L-service"),
    ("L_prefill", "L-prefill"),
];

fn found(outcome: &Outcome) -> Found {
    let group = |kind| figures(outcome.schedulers(kind), outcome.jobs(kind), outcome.books.now_s);
    Found { batch: group(Kind::Batch), service: group(Kind::Service) }
}

/// Figures of a group of schedulers and of the jobs of a kind, in a run that took this many seconds.
pub(super) fn figures(schedulers: &[SchedulerRecord], jobs: &[JobRecord], seconds: f64) -> Group {
    let figure = |figure: Figure| match figure.of(schedulers, jobs, 0, seconds) {
        Got::Number(number) => number,
        Got::Undefined => 0.0,
    };
    let tried = jobs.iter().filter(|job| job.attempts > 0);
    let mut waits: Vec<f64> = tried.map(|job| job.wait_s).collect();
    waits.sort_by(f64::total_cmp);
    Group {
        busy: figure(Figure::Busy),
        wait_s: figure(Figure::WaitMean),
        wait_p90_s: waits.get(waits.len() * 9 / 10).copied().unwrap_or(0.0),
        conflicts: figure(Figure::ConflictFraction),
        abandoned: figure(Figure::Abandoned),
        placed: figure(Figure::JobsFully) / jobs.len().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_that_an_experiment_may_ask_for_is_there() {
        let lab = CellPair::generated(1);
        for load in LOADS {
            assert!(lab.lists.contains_key(&CellPair::batch(CellSize::Large, load)));
        }
        for (_, name) in FILES {
            assert!(lab.lists.contains_key(name), "{name}");
        }
    }
}
