//! `omega-sim sweep`: every combination of the values that a file lists, each a run of its own.
//!
//! ```text
//!   FILE.toml ──file.rs──▶ points ──run, several at a time──▶ kept.rs: a file for each point
//!                                                                │ once all are there
//!                                      table.rs: CSV, Parquet ◀──┴──▶ report.rs: a page with plots
//! ```
//!
//! Several processes may run a sweep together: each runs a shard (`shard.rs`), and one merges them (`merge.rs`).

mod drawn;
mod file;
mod groups;
mod kept;
mod layout;
mod merge;
mod progress;
mod report;
mod shard;
mod table;

use super::SimError;
use super::folder::write_report;
use super::streams::stdout;
use crate::scenario::simulate;
use crate::sheet::Output;
use clap::Args;
use file::{Point, SweepFile};
use kept::{Done, Folder};
use omega_workload::Workload;
use omega_workload::input::{InputArgs, InputError};
use omega_workload::words::plural;
use progress::Progress;
use rayon::prelude::*;
use shard::Shard;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of a sweep.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  omega-sim sweep sweep.toml --out results\n\nExample of a file:\n  [input]\n  synthetic = 2000\n  hours = 4\n\n  [sweep]\n  \
    arch = [\"mono-multi\", \"omega\"]\n  t_job_service = [0.1, 1, 10]\n  seed = [1, 2, 3]"
)]
pub struct SweepArgs {
    /// File with the input, and the values of each setting.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Folder of the results: `results.csv` and `results.parquet` with equal contents, report.html with each plot as
    /// SVG and PNG, and a file for each point (combination of values). Points with a file in the folder are not run
    /// again.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Run only part INDEX (from 0) of COUNT parts of the points, so that several processes share the work. --merge
    /// then writes the results [default: run all points].
    #[arg(long, value_name = "INDEX/COUNT")]
    shard: Option<Shard>,
    /// Folders of earlier runs with --shard, whose results are combined; no point is run. Each point must be in exactly
    /// one of the folders.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with = "shard")]
    merge: Vec<PathBuf>,
}

pub(super) fn run(args: &SweepArgs) -> Result<ExitCode, SimError> {
    let (text, sweep) = file::read(&args.file)?;
    let points = sweep.sweep.points();
    if !args.merge.is_empty() {
        let done = merge::collect(&args.merge, &text, &points)?;
        let folder = Folder::own(&args.out, &text, None)?;
        let results = write(&folder, &text, &done)?;
        let all = plural(done.len() as u64, "point");
        let shards = plural(args.merge.len() as u64, "folder");
        told(format!("{}: {all} of {shards}", results.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = Folder::own(&args.out, &text, args.shard)?;
    let is_mine = |number: &usize| args.shard.is_none_or(|shard| shard.has(*number));
    let mine: Vec<(usize, Point)> =
        points.into_iter().enumerate().filter(|(number, _)| is_mine(number)).collect();
    let (done, there) = run_points(&folder, args.shard, &sweep, &mine)?;
    let all = plural(done.len() as u64, "point");
    let what = match args.shard {
        Some(shard) => format!("{}: shard {shard}", folder.dir().display()),
        None => write(&folder, &text, &done)?.display().to_string(),
    };
    told(format!("{what}: {all}, of which already there: {there}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line.
fn told(line: String) -> std::io::Result<()> {
    writeln!(stdout(), "{line}")
}

/// Runs the points that the folder does not have yet. Returns all points in order, and the number of points that the
/// folder already had.
fn run_points(
    folder: &Folder,
    shard: Option<Shard>,
    sweep: &SweepFile,
    points: &[(usize, Point)],
) -> Result<(Vec<Done>, usize), SimError> {
    let kept: Vec<Option<Done>> =
        points.iter().map(|(number, point)| folder.kept(*number, point)).collect();
    let there = kept.iter().flatten().count();
    let missing = points.iter().zip(&kept).filter(|(_, kept)| kept.is_none());
    folder.prepare(missing.clone().next().map(|((number, _), _)| *number), shard)?;
    let workloads = workloads(&sweep.input, missing.map(|((_, point), _)| point))?;
    let progress = Progress::new(points.len(), there);
    let each = kept.into_par_iter().zip(points);
    let done = each.map(|(kept, (number, point))| {
        if let Some(done) = kept {
            return Ok(done);
        }
        let workload = &workloads[&sweep.input.seed_of_workload(point.seed())];
        let report = simulate(workload, &point.settings(sweep.end))?.report;
        let done = Done { point: point.clone(), report };
        folder.keep(*number, &done)?;
        progress.done();
        Ok(done)
    });
    let done: Vec<Done> = done.collect::<Result<_, SimError>>()?;
    Ok((done, there))
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

/// The workload of each seed. With a trace as input, all seeds have the same workload.
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
