//! `omega sim sweep`: every combination of the values that a file lists, each a run of its own.
//!
//! A point is written to a file of its own as soon as it is done, so a sweep that was interrupted goes on where it was. The
//! folder keeps the file that it belongs to, and takes no other.

use super::SimError;
use super::how::{CheckArg, GranularityArg, HowArgs, is_end, is_seconds, name};
use crate::input::{InputArgs, InputError};
use crate::scenario::{ArchitectureKind, Report, ScenarioSettings, simulate};
use clap::Args;
use indicatif::{ParallelProgressIterator, ProgressBar, ProgressStyle};
use omega_workload::{LoadError, Workload};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Points of a sweep: a day of runs of a second each.
const POINTS_MAX: usize = 100_000;

/// What is swept.
#[derive(Debug, Args)]
#[command(
    after_help = "Example of a file:\n  [input]\n  synthetic = 2000\n  hours = 4\n\n  [sweep]\n  \
    arch = [\"mono-multi\", \"omega\"]\n  t_job_service = [0.1, 1, 10]\n  seed = [1, 2, 3]"
)]
pub struct SweepArgs {
    /// The values.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// The folder of the results: `results.csv`, and a file for each point. What is there already is not run again.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    /// When a run ends, in hours.
    #[serde(default)]
    end: Option<f64>,
    #[serde(default)]
    input: InputArgs,
    sweep: Lists,
}

/// One value, or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Values<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Clone> Values<T> {
    fn list(&self) -> Vec<T> {
        match self {
            Values::One(value) => vec![value.clone()],
            Values::Many(values) => values.clone(),
        }
    }
}

/// Names each field once: what a file may list, with its default, and what a point has of it.
macro_rules! swept {
    ($($name:ident: $type:ty = $default:expr),* $(,)?) => {
        /// The values of each setting of `omega sim run`; what is not there has its default.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Lists { $(#[serde(default)] $name: Option<Values<$type>>,)* }

        /// The settings of one run.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        struct Point { $($name: $type,)* }

        impl Point {
            /// The same as the flags of one run.
            fn how(&self) -> HowArgs {
                HowArgs { $($name: self.$name,)* }
            }
        }

        impl Lists {
            /// How many combinations there are.
            fn count(&self) -> usize {
                let counts = [$(self.$name.as_ref().map_or(1, |values| values.list().len()),)*];
                counts.into_iter().fold(1, usize::saturating_mul)
            }

            /// All combinations; the last setting changes fastest.
            fn points(&self) -> Vec<Point> {
                let mut points = vec![Point { $($name: $default,)* }];
                $(if let Some(values) = &self.$name {
                    let with = |point: &Point| {
                        let point = point.clone();
                        values.list().into_iter().map(move |$name| Point { $name, ..point.clone() })
                    };
                    points = points.iter().flat_map(with).collect();
                })*
                points
            }
        }
    };
}

swept! {
    arch: ArchitectureKind = ArchitectureKind::SharedState,
    batch: u32 = 1,
    service: u32 = 1,
    t_job_batch: f64 = 0.1,
    t_task_batch: f64 = 0.005,
    t_job_service: f64 = 0.1,
    t_task_service: f64 = 0.005,
    check: CheckArg = CheckArg::Fit,
    granularity: GranularityArg = GranularityArg::Incremental,
    pickiness: f64 = 0.0,
    near_best: u32 = 1,
    parts: u32 = 8,
    probes: u32 = 2,
    seed: u64 = 1,
}

/// A point that was run, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Done {
    point: Point,
    report: Report,
}

impl Point {
    fn settings(&self, end_hours: Option<f64>) -> ScenarioSettings {
        self.how().settings(end_hours.map(|hours| hours * 3600.0))
    }

    /// What is wrong with its values, by the name of the first.
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        let times = [
            ("t_job_batch", self.t_job_batch),
            ("t_task_batch", self.t_task_batch),
            ("t_job_service", self.t_job_service),
            ("t_task_service", self.t_task_service),
        ];
        let wrong = times.into_iter().find(|(_, time)| !is_seconds(*time));
        if let Some((name, _)) = wrong {
            return Some((name, "must be a number of seconds from 0 to ten years"));
        }
        let counts = [
            ("batch", self.batch, 1024),
            ("service", self.service, 1024),
            ("near_best", self.near_best, u32::MAX),
            ("parts", self.parts, 64),
            ("probes", self.probes, 64),
        ];
        let wrong = counts.into_iter().find(|(_, count, most)| !(1..=*most).contains(count));
        if let Some((name, _, _)) = wrong {
            return Some((name, "must be 1 or more: up to 1024 schedulers, 64 parts, 64 probes"));
        }
        let share = (0.0..=1.0).contains(&self.pickiness);
        (!share).then_some(("pickiness", "must be a share from 0 to 1"))
    }
}

pub(super) fn run(args: &SweepArgs) -> Result<ExitCode, SimError> {
    let (text, sweep) = read(&args.file)?;
    let points = sweep.sweep.points();
    own(&args.out, &text)?;
    let workloads = workloads(&sweep.input, &points)?;
    let bar = ProgressBar::new(points.len() as u64);
    let style = "running {bar:40} {human_pos} of {human_len} points, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    let each = points.par_iter().enumerate().progress_with(bar.clone());
    let done = each.map(|(number, point)| {
        let file = args.out.join(format!("point-{number:05}.json"));
        let workload = &workloads[&sweep.input.seed_of_workload(point.seed)];
        run_point(&file, point, || Ok(simulate(workload, &point.settings(sweep.end))?.report))
    });
    let done: Vec<(Done, bool)> = done.collect::<Result<_, SimError>>()?;
    bar.finish_and_clear();
    let results = args.out.join("results.csv");
    let rows: String = done.iter().map(|(done, _)| done.rows()).collect();
    write_whole(&results, &format!("{}\n{rows}", header()))?;
    let kept = done.iter().filter(|(_, kept)| *kept).count();
    let mut out = std::io::stdout().lock();
    let (all, results) = (done.len(), results.display());
    writeln!(out, "{results}: {all} points, of which {kept} were there already")?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a file and looks for what is wrong with it.
fn read(file: &Path) -> Result<(String, SweepFile), LoadError> {
    let fault = |message: String| LoadError::new(file, message);
    let text =
        std::fs::read_to_string(file).map_err(|why| fault(format!("cannot be read: {why}")))?;
    let sweep: SweepFile = toml::from_str(&text).map_err(|why| {
        let line = why.span().map(|span| 1 + text[..span.start].matches('\n').count() as u64);
        LoadError { line, ..fault(why.message().replace('\n', " ")) }
    })?;
    if let Some(message) = sweep.input.lacks() {
        return Err(fault(format!("[input]: {message}")));
    }
    if let Err(InputError::Arguments(message)) = sweep.input.check() {
        return Err(fault(format!("[input]: {message}")));
    }
    if sweep.end.is_some_and(|hours| !is_end(hours)) {
        let message = "must be more than 0 hours, and at most 8760";
        return Err(LoadError { field: Some("end".into()), ..fault(message.into()) });
    }
    match sweep.sweep.count() {
        0 => return Err(fault("[sweep]: a list is empty: there is no point".into())),
        points if points > POINTS_MAX => {
            return Err(fault(format!(
                "[sweep]: {points} points are too many: at most {POINTS_MAX}"
            )));
        }
        _ => {}
    }
    if let Some((name, what)) = sweep.sweep.points().iter().find_map(Point::fault) {
        return Err(LoadError { field: Some(name.into()), ..fault(what.into()) });
    }
    Ok((text, sweep))
}

/// Makes the folder, or sees that it belongs to this sweep.
fn own(out: &Path, text: &str) -> Result<(), SimError> {
    std::fs::create_dir_all(out).map_err(|why| failed(out, &why))?;
    let mine = out.join("sweep.toml");
    match std::fs::read_to_string(&mine) {
        Ok(kept) if kept == text => Ok(()),
        Ok(_) => {
            let message =
                "it belongs to another sweep, or the file was changed since: choose another folder";
            Err(LoadError::new(&mine, message).into())
        }
        Err(_) => write_whole(&mine, text),
    }
}

/// The workload of each seed; a trace is the same for all.
fn workloads(input: &InputArgs, points: &[Point]) -> Result<BTreeMap<u64, Workload>, InputError> {
    let mut workloads = BTreeMap::new();
    for point in points {
        let seed = input.seed_of_workload(point.seed);
        if let std::collections::btree_map::Entry::Vacant(entry) = workloads.entry(seed) {
            entry.insert(input.load(seed)?);
        }
    }
    Ok(workloads)
}

/// Reads what is kept of a point, or runs it and keeps it. The answer says whether it was there already.
fn run_point(
    file: &Path,
    point: &Point,
    run: impl FnOnce() -> Result<Report, SimError>,
) -> Result<(Done, bool), SimError> {
    let kept = std::fs::read_to_string(file).ok();
    let kept: Option<Done> = kept.and_then(|text| serde_json::from_str(&text).ok());
    if let Some(kept) = kept.filter(|kept| kept.point == *point) {
        return Ok((kept, true));
    }
    let done = Done { point: point.clone(), report: run()? };
    let text = serde_json::to_string_pretty(&done).map_err(std::io::Error::from)?;
    write_whole(file, &text)?;
    Ok((done, false))
}

/// A file has its name only once it is whole.
fn write_whole(file: &Path, text: &str) -> Result<(), SimError> {
    let part = file.with_extension("part");
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, file));
    written.map_err(|why| failed(file, &why))
}

fn failed(file: &Path, why: &std::io::Error) -> SimError {
    LoadError::new(file, format!("cannot be written: {why}")).into()
}

fn header() -> &'static str {
    "arch,batch,service,t_job_batch,t_task_batch,t_job_service,t_task_service,check,granularity,pickiness,near_best,\
     parts,probes,seed,scheduler,jobs,jobs_placed,busy,useful,wasted,succeeded,failed,conflict_fraction,no_room,\
     tasks_placed,abandoned,left_in_queue,wait_mean_s,wait_p50_s,wait_p90_s,wait_p99_s,placed_mean_s,cpu_used,memory_used"
}

impl Done {
    /// A row for each scheduler.
    fn rows(&self) -> String {
        let p = &self.point;
        let point = format!(
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            name(&p.arch),
            p.batch,
            p.service,
            p.t_job_batch,
            p.t_task_batch,
            p.t_job_service,
            p.t_task_service,
            name(&p.check),
            name(&p.granularity),
            p.pickiness,
            p.near_best,
            p.parts,
            p.probes,
            p.seed
        );
        let used = format!("{:.6},{:.6}", self.report.cpu_used, self.report.memory_used);
        let row = |s: &crate::scenario::SchedulerReport| {
            let counts = format!(
                "{},{},{:.6},{:.6},{:.6},{},{},{:.6},{},{},{},{}",
                s.jobs,
                s.jobs_placed,
                s.busy,
                s.useful,
                s.wasted,
                s.succeeded,
                s.failed,
                s.conflict_fraction,
                s.no_room,
                s.tasks_placed,
                s.abandoned,
                s.left_in_queue
            );
            let (w, placed) = (s.wait, s.placed.mean_s);
            let waits =
                format!("{:.4},{:.4},{:.4},{:.4},{placed:.4}", w.mean_s, w.p50_s, w.p90_s, w.p99_s);
            format!("{point},{},{counts},{waits},{used}\n", s.name)
        };
        self.report.schedulers.iter().map(row).collect()
    }
}
