//! Selection of measurements, and output format.

use clap::Args;
use std::path::PathBuf;

/// The seed of every workload and every choice in the table.
pub(super) const SEED: u64 = 20_130_415;

/// Selection of measurements, and output format.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Run only the groups whose names contain PATTERN: scan, sync, commit, whole, decide, preempt, rebalance, kube,
    /// levers, reservations, cluster_resources, peaks, backfill, tenants, runtime_affinity, gangs, waits,
    /// demand_profiles, cores, fronts, workers, scaling, runs, sizes, memory, log, snapshot, replicate, api, sim, matrix
    /// [default: all]. The table describes what each group measures.
    #[arg(long, value_name = "PATTERN")]
    pub(super) only: Option<String>,
    /// Make fewer and shorter runs, whose figures are too inexact to publish.
    #[arg(long)]
    pub(super) quick: bool,
    /// Print the table as Markdown.
    #[arg(long)]
    pub(super) markdown: bool,
    /// Folder for the files of the groups `log`, `snapshot` (only its test of a restart) and `replicate`. Choose a
    /// folder on the disk that you want to measure [default: a folder in `target`].
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Folder that contains the folder `omega-sim`, with the published runs of the Omega paper's simulator. If a file
    /// of these runs is missing, the rows of the group `sim` that need it are skipped.
    #[arg(long, value_name = "DIR", env = "OMEGA_DATA", default_value = "../shared/data")]
    pub(super) data: PathBuf,
}

impl Options {
    /// The options of a measurement outside of the table.
    pub(super) fn outside_of_table(quick: bool) -> Options {
        Options { only: None, quick, markdown: false, dir: None, data: PathBuf::new() }
    }

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
