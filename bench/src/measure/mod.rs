//! The table of figures: costs of the released code, compared with bare loops measured in the same run.
//!
//! Question: how far is each figure from its target, and from what the hardware allows? Each row has Omega's figure
//! (processor time, as the median of several runs, and wall time), the figure of a bare loop over arrays with the
//! minimum of necessary work, the best figure of prototypes, and the target. The bare loop is measured in the same
//! process, between runs of Omega, so that a slow or shared computer slows both. The ratio of the two figures can be
//! compared between computers.
//!
//! Each group of rows has a file; `cells` makes the measured cells, and `bare` has the bare loops.

mod api;
mod backfill;
mod bare;
mod cells;
mod clock;
mod cluster_resources;
mod commit;
mod cores;
mod decide;
mod demand_profiles;
mod forms;
mod fronts;
mod gangs;
mod kube;
mod levers;
mod log;
pub(crate) mod memory;
mod peaks;
mod preempt;
mod rebalance;
mod replicate;
mod reservations;
mod restart;
mod runs;
mod runtime_affinity;
mod scaling;
mod scan;
mod show;
mod sim;
mod snapshot;
mod sync;
mod tenants;
mod waits;
mod whole;
mod workers;

use clap::Args;
use show::Row;
use std::path::PathBuf;

/// The seed of every workload and every choice in the table.
const SEED: u64 = 20_130_415;

/// Selection of measurements, and output format.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Run only groups whose name contains this: scan, sync, commit, whole, decide, preempt, rebalance, kube, levers,
    /// reservations, cluster_resources, peaks, backfill, tenants, runtime_affinity, gangs, waits, demand_profiles,
    /// cores, fronts, workers, scaling, runs, memory, log, snapshot, replicate, api, sim, matrix.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Do fewer and shorter runs. Such figures are too inexact to publish.
    #[arg(long)]
    quick: bool,
    /// Print the table as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Folder for the files of the groups `log`, `snapshot` (its restart) and `replicate`, on the disk to be measured
    /// [default: a folder in `target`].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Folder in which the group `sim` finds the published runs of the reference simulator, below `omega-sim`. Without
    /// it, the first rows of the group are skipped.
    #[arg(long, value_name = "DIR", env = "OMEGA_DATA", default_value = "../shared/data")]
    data: PathBuf,
}

impl Options {
    /// Number of runs for each figure, which is enough that one disturbed run does not change the median; three with
    /// --quick.
    fn runs(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// A folder on the disk to be measured.
    fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| PathBuf::from("target"))
    }

    /// Amount of work of one run, reduced with --quick.
    fn work(&self, full: usize) -> usize {
        if self.quick { full / 5 } else { full }
    }
}

/// A group of rows that are measured together.
struct Group {
    name: &'static str,
    /// Description of the measured workload, for the heading.
    workload: &'static str,
    measure: fn(&Options) -> Vec<Row>,
}

const GROUPS: [Group; 30] = [
    Group { name: "scan", workload: scan::WORKLOAD, measure: scan::rows },
    Group { name: "sync", workload: sync::WORKLOAD, measure: sync::rows },
    Group { name: "commit", workload: commit::WORKLOAD, measure: commit::rows },
    Group { name: "whole", workload: whole::WORKLOAD, measure: whole::rows },
    Group { name: "decide", workload: decide::WORKLOAD, measure: decide::rows },
    Group { name: "preempt", workload: preempt::WORKLOAD, measure: preempt::rows },
    Group { name: "rebalance", workload: rebalance::WORKLOAD, measure: rebalance::rows },
    Group { name: "kube", workload: kube::WORKLOAD, measure: kube::rows },
    Group { name: "levers", workload: levers::WORKLOAD, measure: levers::rows },
    Group { name: "reservations", workload: reservations::WORKLOAD, measure: reservations::rows },
    Group {
        name: "cluster_resources",
        workload: cluster_resources::WORKLOAD,
        measure: cluster_resources::rows,
    },
    Group { name: "peaks", workload: peaks::WORKLOAD, measure: peaks::rows },
    Group { name: "backfill", workload: backfill::WORKLOAD, measure: backfill::rows },
    Group { name: "tenants", workload: tenants::WORKLOAD, measure: tenants::rows },
    Group {
        name: "runtime_affinity",
        workload: runtime_affinity::WORKLOAD,
        measure: runtime_affinity::rows,
    },
    Group { name: "waits", workload: waits::WORKLOAD, measure: waits::rows },
    Group { name: "gangs", workload: gangs::WORKLOAD, measure: gangs::rows },
    Group {
        name: "demand_profiles",
        workload: demand_profiles::WORKLOAD,
        measure: demand_profiles::rows,
    },
    Group { name: "cores", workload: cores::WORKLOAD, measure: cores::rows },
    Group { name: "fronts", workload: fronts::WORKLOAD, measure: fronts::rows },
    Group { name: "workers", workload: workers::WORKLOAD, measure: workers::rows },
    Group { name: "scaling", workload: scaling::WORKLOAD, measure: scaling::rows },
    Group { name: "runs", workload: runs::WORKLOAD, measure: runs::rows },
    Group { name: "memory", workload: memory::WORKLOAD, measure: memory::rows },
    Group { name: "snapshot", workload: snapshot::WORKLOAD, measure: snapshot::rows },
    Group { name: "log", workload: log::WORKLOAD, measure: log::rows },
    Group { name: "replicate", workload: replicate::WORKLOAD, measure: replicate::rows },
    Group { name: "api", workload: api::WORKLOAD, measure: api::rows },
    Group { name: "sim", workload: sim::WORKLOAD, measure: sim::rows },
    Group { name: "matrix", workload: whole::WORKLOAD, measure: whole::matrix },
];

/// Measures the table and prints it.
pub(crate) fn table(options: &Options) {
    let wanted =
        |group: &&Group| options.only.as_deref().is_none_or(|pattern| group.name.contains(pattern));
    show::head(options, SEED);
    for group in GROUPS.iter().filter(wanted) {
        let rows = (group.measure)(options);
        show::group(options, (group.name, group.workload), &rows);
    }
}
