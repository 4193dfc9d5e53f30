//! Selection of measurements, and output format.

use clap::Args;
use std::path::PathBuf;

/// The seed of every workload and every choice in the table.
pub(super) const SEED: u64 = 20_130_415;

/// Selection of measurements, and output format.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Run only groups whose name contains this: scan, sync, commit, whole, decide, preempt, rebalance, kube, levers,
    /// reservations, cluster_resources, peaks, backfill, tenants, runtime_affinity, gangs, waits, demand_profiles,
    /// cores, fronts, workers, scaling, runs, memory, log, snapshot, replicate, api, sim, matrix.
    #[arg(long, value_name = "PATTERN")]
    pub(super) only: Option<String>,
    /// Do fewer and shorter runs. Such figures are too inexact to publish.
    #[arg(long)]
    pub(super) quick: bool,
    /// Print the table as Markdown.
    #[arg(long)]
    pub(super) markdown: bool,
    /// Folder for the files of the groups `log`, `snapshot` (its restart) and `replicate`, on the disk to be measured
    /// [default: a folder in `target`].
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Folder in which the group `sim` finds the published runs of the reference simulator, below `omega-sim`. Without
    /// it, the first rows of the group are skipped.
    #[arg(long, value_name = "DIR", env = "OMEGA_DATA", default_value = "../shared/data")]
    pub(super) data: PathBuf,
}

impl Options {
    /// Number of runs for each figure, which is enough that one disturbed run does not change the median; three with
    /// --quick.
    pub(super) fn runs(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// A folder on the disk to be measured.
    pub(super) fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| PathBuf::from("target"))
    }

    /// Amount of work of one run, reduced with --quick.
    pub(super) fn work(&self, full: usize) -> usize {
        if self.quick { full / 5 } else { full }
    }
}
