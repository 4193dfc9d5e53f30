//! `omega-sim sweep`: every combination of the values that a file lists, each a run of its own.
//!
//! ```text
//!   FILE.toml ──file.rs──▶ points ──run, several at a time──▶ kept.rs: a file for each point
//!                                                                │ once all are there
//!                                      table.rs: CSV, Parquet ◀──┴──▶ report.rs: a page with plots
//! ```

mod drawn;
mod file;
mod groups;
mod kept;
mod layout;
mod progress;
mod report;
mod table;

use super::SimError;
use super::folder::write_report;
use crate::scenario::simulate;
use crate::sheet::Output;
use clap::Args;
use file::Point;
use kept::{Done, Folder};
use omega_workload::Workload;
use omega_workload::input::{InputArgs, InputError};
use progress::Progress;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of a sweep.
#[derive(Debug, Args)]
#[command(
    after_help = "Example of a file:\n  [input]\n  synthetic = 2000\n  hours = 4\n\n  [sweep]\n  \
    arch = [\"mono-multi\", \"omega\"]\n  t_job_service = [0.1, 1, 10]\n  seed = [1, 2, 3]"
)]
pub struct SweepArgs {
    /// File with the values.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Folder of the results: `results.csv`, the same as `results.parquet`, report.html with each
    /// plot as SVG and PNG, and a file for each point. Points already there are not run again.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) fn run(args: &SweepArgs) -> Result<ExitCode, SimError> {
    let (text, sweep) = file::read(&args.file)?;
    let points = sweep.sweep.points();
    let folder = Folder::own(&args.out, &text)?;
    let kept: Vec<Option<Done>> =
        points.iter().enumerate().map(|(number, point)| folder.kept(number, point)).collect();
    let there = kept.iter().flatten().count();
    let missing = points.iter().zip(&kept).filter(|(_, kept)| kept.is_none());
    let workloads = workloads(&sweep.input, missing.map(|(point, _)| point))?;
    let progress = Progress::new(points.len(), there);
    let each = kept.into_par_iter().zip(&points).enumerate();
    let done = each.map(|(number, (kept, point))| {
        if let Some(done) = kept {
            return Ok(done);
        }
        let workload = &workloads[&sweep.input.seed_of_workload(point.seed())];
        let report = simulate(workload, &point.settings(sweep.end))?.report;
        let done = Done { point: point.clone(), report };
        folder.keep(number, &done)?;
        progress.done();
        Ok(done)
    });
    let done: Vec<Done> = done.collect::<Result<_, SimError>>()?;
    drop(progress);
    let results = write(&folder, &text, &done)?;
    let mut out = std::io::stdout().lock();
    let (all, results) = (done.len(), results.display());
    writeln!(out, "{results}: {all} points, of which {there} were there already")?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the results of all points. Returns the path of the table.
fn write(folder: &Folder, text: &str, done: &[Done]) -> Result<PathBuf, SimError> {
    let sheet = table::sheet(done);
    let remarks = [("omega.sweep", text), ("omega.version", env!("CARGO_PKG_VERSION"))];
    let parquet = sheet.parquet(&table::kinds(), &remarks).map_err(std::io::Error::other)?;
    folder.write("results.parquet", &parquet)?;
    write_report(folder.dir(), &report::page(done))?;
    folder.write("results.csv", sheet.print(Output::Csv).as_bytes())
}

/// The workload of each seed; a trace is the same for all.
fn workloads<'a>(
    input: &InputArgs,
    points: impl Iterator<Item = &'a Point>,
) -> Result<BTreeMap<u64, Workload>, InputError> {
    let mut workloads = BTreeMap::new();
    for point in points {
        let seed = input.seed_of_workload(point.seed());
        if let std::collections::btree_map::Entry::Vacant(entry) = workloads.entry(seed) {
            entry.insert(input.load(seed)?);
        }
    }
    Ok(workloads)
}
