//! Runs of experiments: two cells with their job lists, and many points that are run in parallel.

use super::found::{Found, figures};
use super::setting::{CellSize, Setting};
use super::{lists, ours};
use crate::compat::{Architecture, JobList, JobLists, Outcome, Point, run_point};
use crate::engine::{CommitMode, Granularity, Kind};
use omega_core::ConflictCheck;
use omega_workload::stream::whole;
use omega_workload::{LoadError, Workload, google2011};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Optimistic commits with the paper's defaults: conflicts by fit, incremental transactions.
pub(super) const SHARED: Architecture =
    shared(ConflictCheck::ResourceFit, Granularity::Incremental);

pub(super) const fn shared(check: ConflictCheck, granularity: Granularity) -> Architecture {
    Architecture::SharedState(CommitMode { check, granularity })
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
    /// If a list is missing or invalid; the error names file, line and field.
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
    /// If a file is missing or invalid; the error names file, line and field.
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

    /// Returns a point on a cell with `times` times as many machines, and all job lists by name.
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
    let group = |kind| figures(outcome.schedulers(kind), outcome.jobs(kind), outcome.records.now_s);
    Found { batch: group(Kind::Batch), service: group(Kind::Service) }
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
