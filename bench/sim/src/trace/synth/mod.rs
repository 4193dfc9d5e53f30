//! Generation of a longer or larger trace from an existing one, as the two tables that every command reads.
//!
//! Two things are fitted: the arrivals (the daily curve, if the trace covers a day, and the gaps with the curve
//! removed), and the jobs (tasks, requests, run time, kind, precedence, tenant, rules). The properties of a job are
//! kept together. The generator draws runs of consecutive jobs (`fit`), so that bursts are kept, and large jobs stay
//! with their users; no textbook distribution is assumed. Runs are drawn without replacement until each was drawn once,
//! so that the rare jobs that make half of the load keep their frequency. The time before the first job is kept at the
//! beginning of the new trace.
//!
//! A larger trace has more jobs in the same time, not larger jobs: gaps are divided by the factor. A larger cell gets
//! proportionally more jobs, unless the load is set otherwise. Equal options and an equal trace give equal bytes.

mod chance;
mod clock;
mod draft;
mod error;
mod fit;
mod form;
mod lives;
pub mod marginals;
mod write;

use super::collector;
use super::info::Info;
use chance::Chance;
pub use error::SynthError;
use fit::Fit;
pub use form::Form;
use omega_core::Kinds;
use omega_core::limits::MACHINES_MAX;
use omega_workload::csv;
use omega_workload::input::InputError;
use omega_workload::stream::{Stream, Window};
use std::path::{Path, PathBuf};

/// Number of machines of the new trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A multiple of the trace's number of machines, in thousandths.
    Times(u64),
    /// An absolute number.
    Count(u32),
}

/// Options for generating a trace.
#[derive(Clone, Debug)]
pub struct SynthOptions {
    /// Folder into which the tables are written.
    pub out: PathBuf,
    /// Whether the tables are compressed.
    pub form: Form,
    /// Number of machines.
    pub size: Size,
    /// Number of jobs per machine, in thousandths of the trace's number of jobs per machine.
    pub load_permille: u64,
    /// Length in milliseconds; `None` for the length of the trace.
    pub span_ms: Option<u64>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The generated trace and its source.
#[derive(Debug, serde::Serialize)]
pub struct Report {
    /// Path of the table of machines.
    pub machines_file: PathBuf,
    /// Path of the table of jobs.
    pub jobs_file: PathBuf,
    /// Statistics of the source.
    pub original: Info,
    /// Statistics of the generated trace, as read back from its tables.
    pub made: Info,
    /// Each fitted distribution over the rows of the table of jobs, for the source and for the generated trace.
    pub fit: Vec<marginals::Pair>,
    /// Notes on properties that the generated trace lacks.
    pub notes: Vec<String>,
}

/// Generates a trace like the one that `open` opens. That trace is read twice. Returns a report and the trace's
/// resource kinds.
///
/// # Errors
/// If the trace cannot be read, or the new trace cannot be written. Incomplete files are then removed.
pub fn make(
    open: &dyn Fn() -> Result<Box<dyn Stream>, InputError>,
    options: &SynthOptions,
) -> Result<(Report, Kinds), SynthError> {
    let files = write::Files::new(&options.out, options.form)?;
    let mut chance = Chance::new(options.seed);
    let mut first = open()?;
    let original_count = first.head().machines.len();
    let size = size(options.size, original_count, &first.head().name)?;
    let look = fit::look(&mut *first)?;
    drop(first);
    let mut second = open()?;
    let fit = Fit::of(&mut *second, &look, &mut chance)?;
    let original = look.info;
    if fit.is_empty() {
        return Err(SynthError::NoJobs(original.name));
    }
    let scale = write::Scale::new(options.load_permille, size, original_count);
    let span_ms = options.span_ms.unwrap_or(original.span_ms);
    if span_ms > original.span_ms && original.jobs_per_hour > JOBS_PER_HOUR_MAX {
        return Err(SynthError::NoTimes { name: original.name, span_ms: original.span_ms });
    }
    // The time before the first job is the same share of the new span as of the original span.
    let first_ms = u128::from(original.first_ms) * u128::from(span_ms);
    let first_ms = (first_ms / u128::from(original.span_ms.max(1))) as u64;
    let made = write::Made { machines: size, scale, span_ms, first_ms };
    let mut notes = fit.notes();
    if second.head().machines.iter().any(|machine| machine.overcommit.iter().next().is_some()) {
        let what = "the capacity of machines includes overcommit, which the tables cannot express";
        notes.push(what.to_owned());
    }
    if span_ms > original.span_ms && fit.has_endless_arrivals() {
        notes.push(
            "tasks without an end accumulate if the generated trace is longer than the \
             original"
                .to_owned(),
        );
    }
    let written = write::write(
        &files,
        (&second.head().machines, &second.head().kinds),
        &fit,
        (&made, &mut chance),
    );
    let drawn = match written {
        Ok(drawn) => drawn,
        Err(error) => {
            files.remove();
            return Err(error);
        }
    };
    let made = collector::read(&mut csv::open(&files.machines, &files.jobs, Window::Bounded)?)?;
    let kinds = second.head().kinds.clone();
    let fit = fit.marginals().beside(&drawn, &kinds);
    let (machines_file, jobs_file) = (files.machines, files.jobs);
    Ok((Report { machines_file, jobs_file, original, made, fit, notes }, kinds))
}

/// Largest rate of arrivals that is continued beyond the end of an example. A trace with more jobs per hour, such as
/// openb, has its jobs in order but without times, only to fill the cell.
const JOBS_PER_HOUR_MAX: f64 = 1e6;

/// The number of machines of the new trace.
fn size(size: Size, original: usize, name: &str) -> Result<u64, SynthError> {
    if original == 0 {
        return Err(SynthError::NoMachines(name.to_owned()));
    }
    let count = match size {
        Size::Times(permille) => (original as u64 * permille).div_ceil(1000),
        Size::Count(count) => u64::from(count),
    };
    if count > MACHINES_MAX as u64 { Err(SynthError::TooLarge(count)) } else { Ok(count.max(1)) }
}

/// Formats the report for people.
#[must_use]
pub fn show(report: &Report, kinds: &Kinds) -> String {
    use super::show::{amount, table};
    let shown = |file: &Path| file.display().to_string();
    let mut text = format!("{}\n{}\n\n", shown(&report.machines_file), shown(&report.jobs_file));
    let mut rows = vec![["", "trace", "made"].map(str::to_owned).to_vec()];
    let (a, b) = (&report.original, &report.made);
    let mut row = |what: &str, of: &dyn Fn(&Info) -> String| {
        rows.push(vec![what.to_owned(), of(a), of(b)]);
    };
    row("machines", &|info| info.machines.count.to_string());
    row("jobs", &|info| info.jobs.all.to_string());
    row("tasks", &|info| info.tasks.all.to_string());
    row("hours", &|info| format!("{:.1}", info.span_ms as f64 / 3_600_000.0));
    row("jobs per hour", &|info| format!("{:.1}", info.jobs_per_hour));
    for load in &report.original.load {
        let share = |info: &Info| {
            let load = info.load.iter().find(|of| of.kind == load.kind);
            let share = load.and_then(|load| load.mean_share);
            share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
        };
        row(&format!("{} asked, mean", load.kind), &share);
    }
    text += &table(&rows);
    let head = [
        "by rows of the table of jobs",
        "50 %",
        "made",
        "90 %",
        "made",
        "99 %",
        "made",
        "mean",
        "made",
        "KS",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for pair in report.fit.iter().filter(|pair| pair.original.count > 0) {
        let (a, b) = (&pair.original, &pair.made);
        let mut row = vec![a.what.clone()];
        for (a, b) in [(a.p50, b.p50), (a.p90, b.p90), (a.p99, b.p99)] {
            row.extend([a, b].map(|value| amount(value as f64, pair.original.unit, kinds)));
        }
        row.extend([a.mean, b.mean].map(|mean| amount(mean, pair.original.unit, kinds)));
        row.push(format!("{:.4}", pair.distance));
        rows.push(row);
    }
    text += "\n";
    text += &table(&rows);
    if !report.notes.is_empty() {
        text += "\nnotes\n";
        report.notes.iter().for_each(|note| text += &format!("  {note}\n"));
    }
    text
}

#[cfg(test)]
mod tests;
