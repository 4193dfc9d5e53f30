//! `omega-sim compat`: runs of a reference file, repeated and compared row by row.

use super::streams::stdout;
use super::{SimError, cpu};
use crate::compat::{
    Architecture, Expected, JobList, JobLists, Outcome, ReferenceFile, ReferenceRow, run_point,
    shape,
};
use clap::Args;
use indicatif::{ParallelProgressIterator, ProgressBar, ProgressStyle};
use rayon::prelude::*;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Maximum number of differences that are printed; only the number of the others is printed.
const DIFFERENCES_TOLD: usize = 20;

/// Arguments of `compat`.
#[derive(Debug, Args)]
#[command(after_help = "\
    Example:\n  omega-sim compat --ref data/ref_omega.csv --data data")]
pub struct CompatArgs {
    /// Reference file with the published results.
    #[arg(long = "ref", value_name = "FILE.csv")]
    reference: PathBuf,
    /// Folder with the job lists that the reference file names.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Compare only the first N rows [default: all].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    rows: Option<NonZeroUsize>,
    /// Also print the number of tasks and the processor time of each run.
    #[arg(short, long)]
    verbose: bool,
}

/// A figure that differs.
struct Difference<'a> {
    row: &'a ReferenceRow,
    expected: &'a Expected,
    got: String,
}

pub(super) fn run(args: &CompatArgs) -> Result<ExitCode, SimError> {
    let file = ReferenceFile::read(&args.reference, args.rows.map(NonZeroUsize::get))?;
    let read = |name: &&str| Ok((name.to_string(), JobList::read(&args.data, name)?));
    let lists: JobLists = file.lists().iter().map(read).collect::<Result<_, SimError>>()?;
    let outcomes = run_points(&file, &lists);
    let mut out = stdout();
    let equal = tell(args, &file, &outcomes, &mut out)?;
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all points. Returns each result with its processor time.
fn run_points(file: &ReferenceFile, lists: &JobLists) -> Vec<(Outcome, f64)> {
    let bar = ProgressBar::new(file.points.len() as u64);
    let style = "running {bar:40} {human_pos} of {human_len} points, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    let points = file.points.par_iter().progress_with(bar.clone());
    let outcomes = points.map(|point| cpu::timed(|| run_point(point, lists))).collect();
    bar.finish_and_clear();
    outcomes
}

/// Prints the differences. Returns whether there are no differences.
fn tell(
    args: &CompatArgs,
    file: &ReferenceFile,
    outcomes: &[(Outcome, f64)],
    out: &mut impl Write,
) -> Result<bool, SimError> {
    let (mut fields, mut equal_rows) = (0, 0);
    let mut differences = Vec::new();
    for row in &file.rows {
        let before = differences.len();
        let outcome = &outcomes[row.point].0;
        fields += row.expected.len();
        let by_shape = file.points[row.point].architecture == Architecture::TwoLevel;
        let figure = |figure| outcome.figure(figure, row.group.kind);
        for expected in &row.expected {
            let got = figure(expected.figure);
            let agrees = if by_shape {
                shape::agrees(&row.expected, expected, figure)
            } else {
                got.is(&expected.text)
            };
            if !agrees {
                differences.push(Difference { row, expected, got: got.like(&expected.text) });
            }
        }
        equal_rows += usize::from(differences.len() == before);
    }
    let name = args.reference.display();
    for Difference { row, expected, got } in differences.iter().take(DIFFERENCES_TOLD) {
        let column = expected.figure.column();
        writeln!(
            out,
            "{name}:{}: {}: {column}: expected {}, got {got}",
            row.line, row.group.name, expected.text
        )?;
    }
    if differences.len() > DIFFERENCES_TOLD {
        writeln!(out, "... and {} more differences", differences.len() - DIFFERENCES_TOLD)?;
    }
    let (rows, points) = (file.rows.len(), file.points.len());
    let equal_fields = fields - differences.len();
    writeln!(
        out,
        "{name}: {equal_rows} of {rows} rows equal ({equal_fields} of {fields} fields, {points} points)"
    )?;
    if file.points.iter().any(|point| point.architecture == Architecture::TwoLevel) {
        writeln!(out, "{}", shape::ALLOWED)?;
    }
    if args.verbose {
        tell_cost(file, outcomes, out)?;
    }
    Ok(differences.is_empty())
}

/// Prints the processor time of each point, and the sum.
fn tell_cost(
    file: &ReferenceFile,
    outcomes: &[(Outcome, f64)],
    out: &mut impl Write,
) -> Result<(), SimError> {
    writeln!(
        out,
        "{:>18} {:>12} {:>4} {:>9} {:>10} {:>12}",
        "architecture", "batch", "by", "tasks", "cpu_s", "tasks/cpu_s"
    )?;
    let mut all = (0, 0.0);
    for (point, (outcome, seconds)) in file.points.iter().zip(outcomes) {
        let (name, tasks) = (point.architecture.name(), outcome.placed());
        let rate = tasks as f64 / seconds;
        let by = point.batch_schedulers;
        writeln!(
            out,
            "{name:>18} {:>12} {by:>4} {tasks:>9} {seconds:>10.4} {rate:>12.0}",
            point.batch
        )?;
        all = (all.0 + tasks, all.1 + seconds);
    }
    let (tasks, seconds) = all;
    writeln!(
        out,
        "all: {tasks} tasks in {seconds:.3} s of a processor, {:.0} a second",
        tasks as f64 / seconds
    )?;
    Ok(())
}
