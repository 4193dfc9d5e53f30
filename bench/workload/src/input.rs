//! Workload inputs: the arguments that commands share, and the reader that they select.

use crate::alike::Alike;
use crate::azure::{self, AzureOptions};
use crate::csv::Tables;
use crate::misplaced;
use crate::stream::{Held, Stream, Window, whole};
use crate::trace_files::{NamedFile, TraceFiles};
use crate::{LoadError, Workload, csv, google2011, kube, omega_sim, openb, swf, synth};
use clap::{ArgGroup, Args, ValueEnum};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Source of a workload: on a command line, or in the table `[input]` of a file.
#[derive(Debug, Args, Deserialize)]
#[command(next_help_heading = "Input")]
#[command(group(ArgGroup::new("trace_files").args(["data", "named"]).multiple(true)))]
#[serde(default, deny_unknown_fields)]
pub struct InputArgs {
    /// Read this published trace; --data names the folder with its files.
    #[arg(long, value_enum, requires = "trace_files", group = "source")]
    trace: Option<Trace>,
    /// Folder of the trace. For swf: the log itself, or a folder in which --part names the log.
    #[arg(long, value_name = "DIR", requires = "trace")]
    data: Option<PathBuf>,
    /// Path of one file of the trace, such as jobs=PATH. May be repeated.
    ///
    /// Only a file that is not in the folder of --data, or does not have its usual name, needs this option.
    /// docs/inputs.md lists the values of NAME.
    #[arg(long = "file", value_name = "NAME=PATH", requires = "trace")]
    #[serde(rename = "file", deserialize_with = "named")]
    named: Vec<NamedFile>,
    /// Part of the trace to read; the values depend on the trace.
    ///
    /// For google2011: `jobs` reads ten days of job arrivals [default: the tasks of the first hour and a half]. For
    /// omega-sim: the cell M (2,000 machines), L (10,000 machines) or L4 (L with four times the batch load) [default:
    /// M]. For openb: a task list such as cpu050 [default: the list `default`]. For swf: the name of the log; required
    /// if --data is a folder.
    #[arg(long, value_name = "NAME", alias = "list", requires = "trace")]
    #[serde(alias = "cell", alias = "list")]
    part: Option<String>,
    /// Older name of --part. In the help of commands that can use a served cell, this option's value is the cell's
    /// address.
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "part")]
    #[serde(skip)]
    cell: Option<String>,
    /// Only for google2011: use only the production tasks, and overcommit machines less.
    ///
    /// Tasks may claim 145 % of a machine's CPU and 100 % of its memory, instead of 160 % and 200 %.
    #[arg(long, requires = "trace")]
    production: bool,
    /// Machines for a trace without machines (azure, swf), such as 200,cpu=64,memory=256Gi.
    ///
    /// The first number is the number of machines, which are identical. cpu= is required; memory=, disk= and gpu= are
    /// optional.
    #[arg(long, value_name = "N,cpu=CORES,...", requires = "trace")]
    #[serde(deserialize_with = "alike")]
    on: Option<Alike>,
    /// Read a Kubernetes cluster from this file, the output of `kubectl get nodes,pods -A -o json`. `-` is standard
    /// input.
    #[arg(long, value_name = "FILE", group = "source")]
    cluster: Option<PathBuf>,
    /// Read machines from this table; docs/inputs.md describes the columns.
    #[arg(long = "machines", value_name = "FILE.csv", requires = "jobs_file", group = "source")]
    #[serde(rename = "machines")]
    machines_file: Option<PathBuf>,
    /// Read jobs from this table; docs/inputs.md describes the columns.
    #[arg(long = "jobs", value_name = "FILE.csv", requires = "machines_file")]
    #[serde(rename = "jobs")]
    jobs_file: Option<PathBuf>,
    /// Read the tasks that run at the start, and their machines, from this table; docs/inputs.md describes the columns.
    #[arg(long = "placements", value_name = "FILE.csv", requires = "machines_file")]
    #[serde(rename = "placements")]
    placements_file: Option<PathBuf>,
    /// Number of machines of the synthetic cell, which is used if no other input is given.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = SYNTHETIC, conflicts_with = "source",
          value_parser = clap::value_parser!(u32).range(SYNTHETIC_RANGE))]
    #[serde(deserialize_with = "synthetic")]
    synthetic: u32,
    /// Length of the synthetic workload in hours.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = HOURS, conflicts_with = "source",
          value_parser = clap::value_parser!(u32).range(HOURS_RANGE))]
    #[serde(deserialize_with = "hours")]
    hours: u32,
}

/// Default number of machines of a synthetic workload, followed by the bounds of machines and hours.
const SYNTHETIC: u32 = 10_000;
const SYNTHETIC_RANGE: RangeInclusive<i64> = 10..=1_000_000;
const HOURS: u32 = 24;
const HOURS_RANGE: RangeInclusive<i64> = 1..=8760;

impl Default for InputArgs {
    fn default() -> InputArgs {
        InputArgs {
            trace: None,
            data: None,
            named: Vec::new(),
            part: None,
            cell: None,
            production: false,
            on: None,
            cluster: None,
            machines_file: None,
            jobs_file: None,
            placements_file: None,
            synthetic: SYNTHETIC,
            hours: HOURS,
        }
    }
}

/// Parses machines in a file, in the form of the command line.
fn alike<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Alike>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Parses the number of machines of the synthetic cell.
fn synthetic<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    whole_number(from, "must be a whole number from 10 to 1000000")
}

/// Parses the length of the synthetic workload.
fn hours<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    whole_number(from, "must be a whole number from 1 to 8760")
}

/// Parses a whole number. [`InputArgs::check`] checks its range.
fn whole_number<'de, D: Deserializer<'de>>(from: D, rule: &str) -> Result<u32, D::Error> {
    let error = || serde::de::Error::custom(rule);
    i64::deserialize(from).ok().and_then(|number| number.try_into().ok()).ok_or_else(error)
}

/// Parses the table `file` of an input: the paths of a trace's files, by their names.
fn named<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NamedFile>, D::Error> {
    let named = BTreeMap::<String, PathBuf>::deserialize(from)?;
    Ok(named.into_iter().map(|(part, path)| NamedFile { part, path }).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trace {
    /// Google's cell of May 2011: 12,477 machines, 190,926 tasks, of which 132,982 run at the start.
    #[value(name = "google2011")]
    Google2011,
    /// Alibaba's GPU cluster of 2023: 1,523 machines, 8,152 tasks.
    Openb,
    /// Job lists made for the Omega paper's simulator.
    OmegaSim,
    /// Azure's virtual machines (VMs) of 2017: 53,109 groups of VMs requested in 83 hours; give machines with --on.
    Azure,
    /// Log of a batch queue in the Standard Workload Format; give machines with --on.
    Swf,
}

impl Trace {
    /// The names of the trace's files.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Trace::Google2011 => &["machines", "tasks", "jobs"],
            Trace::Openb => &["machines", "tasks"],
            Trace::OmegaSim => &["prefill", "batch", "service"],
            Trace::Azure => &["vms"],
            Trace::Swf => &[],
        }
    }
}

/// Error of reading an input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The arguments contradict each other. Leave out one of them.
    #[error("{0}")]
    Arguments(&'static str),
    /// The trace has no file of this name. Use one of `known`.
    #[error(
        "--file {part}: there is no file of this name in the trace, which has {}",
        parts(known)
    )]
    Part {
        /// The given name.
        part: String,
        /// The names of the trace's files.
        known: &'static [&'static str],
    },
    /// A file is missing or invalid. Correct the file or its path.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// The names of a trace's files, as text.
fn parts(known: &[&str]) -> String {
    match known {
        [] => "no named files: --data is the path of the log".to_owned(),
        _ => format!("the files {}", known.join(", ")),
    }
}

/// Whether an input must have machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machines {
    /// Required: the workload places tasks on these machines.
    Needed,
    /// Optional: read if present.
    Optional,
}

/// The part of a trace that is read.
struct Wanted {
    seed: u64,
    window: Window,
    machines: Machines,
}

impl InputArgs {
    /// The input files that the arguments name, which outputs must not overwrite.
    #[must_use]
    pub fn files(&self) -> Vec<&Path> {
        let tables = [&self.machines_file, &self.jobs_file, &self.placements_file];
        let files = tables.into_iter().chain([&self.cluster, &self.data]).flatten();
        files.chain(self.named.iter().map(|file| &file.path)).map(PathBuf::as_path).collect()
    }

    /// The addresses of a served cell, if `--cell` has these instead of a part of a trace.
    #[must_use]
    pub fn served(&self) -> Option<&str> {
        self.cell.as_deref().filter(|_| self.trace.is_none())
    }

    /// The part of the trace, by either name of the option.
    fn part(&self) -> Option<&str> {
        let older = || self.cell.as_deref().filter(|_| self.trace.is_some());
        self.part.as_deref().or_else(older)
    }

    /// Returns the argument that is missing or conflicts, for arguments from a file. Clap checks the arguments of a
    /// command line.
    #[must_use]
    pub fn lacks(&self) -> Option<&'static str> {
        let files = (self.machines_file.is_some(), self.jobs_file.is_some());
        let sources = [self.trace.is_some(), self.cluster.is_some(), files.0];
        let some = sources.iter().filter(|there| **there).count();
        let has_files = self.data.is_some() || !self.named.is_empty();
        match (self.trace.is_some(), has_files, files) {
            (true, false, _) => Some("a trace needs `data`, the folder of its files"),
            (false, true, _) => Some(
                "`data` is the folder of a trace: name the trace with \
                 `trace`",
            ),
            (_, _, (true, false) | (false, true)) => Some(
                "`machines` and `jobs` must be given \
                 together",
            ),
            _ if self.placements_file.is_some() && !files.0 => {
                Some("`placements` needs the tables `machines` and `jobs`: give them too")
            }
            _ if some > 1 => {
                Some("only one input may be given: `trace`, `cluster`, or `machines` with `jobs`")
            }
            _ if some > 0 && (self.synthetic, self.hours) != (SYNTHETIC, HOURS) => Some(
                "`synthetic` and `hours` are only for a synthetic workload: use `end` to set \
                     the end of a run",
            ),
            _ if !SYNTHETIC_RANGE.contains(&i64::from(self.synthetic)) => {
                Some("synthetic must be from 10 to 1000000 machines")
            }
            _ if !HOURS_RANGE.contains(&i64::from(self.hours)) => {
                Some("hours must be from 1 to 8760")
            }
            _ => None,
        }
    }

    /// Returns the seed if the workload depends on it, and 0 otherwise. Most traces do not depend on it.
    #[must_use]
    pub fn seed_of_workload(&self, seed: u64) -> u64 {
        let read = self.cluster.is_some() || self.machines_file.is_some();
        match self.trace {
            Some(Trace::Azure) => seed,
            None if !read => seed,
            _ => 0,
        }
    }

    /// Checks combinations of arguments that clap cannot express.
    ///
    /// # Errors
    /// If a combination is invalid.
    pub fn check(&self) -> Result<(), InputError> {
        if self.production && self.trace != Some(Trace::Google2011) {
            return Err(InputError::Arguments("--production is only for --trace google2011"));
        }
        if self.served().is_some() {
            return Err(InputError::Arguments(
                "without --trace, --cell is only for `omega rebalance` and `omega explain JOB`: \
                 leave it out, or use --trace and --part to select a part of a trace",
            ));
        }
        if self.trace.is_none() && (self.data.is_some() || !self.named.is_empty()) {
            return Err(InputError::Arguments(
                "--data and --file name the files of a trace: name the trace with --trace",
            ));
        }
        // Clap does not check that an argument is there if it conflicts with another one that is given.
        if self.machines_file.is_none()
            && (self.jobs_file.is_some() || self.placements_file.is_some())
        {
            return Err(InputError::Arguments(
                "--jobs and --placements are only for the machines of a table: give the table with \
                 --machines, instead of any other input",
            ));
        }
        if self.trace.is_none() && self.part.is_some() {
            return Err(InputError::Arguments(
                "--part is a part of a trace: name the trace with --trace",
            ));
        }
        if self.on.is_some() && !matches!(self.trace, Some(Trace::Azure | Trace::Swf)) {
            return Err(InputError::Arguments("--on is only for --trace azure and --trace swf"));
        }
        if let Some(trace) = self.trace {
            let unknown = self.named.iter().find(|file| !trace.parts().contains(&&*file.part));
            if let Some(NamedFile { part, .. }) = unknown {
                return Err(InputError::Part { part: part.clone(), known: trace.parts() });
            }
        }
        match (self.trace, self.part()) {
            (Some(Trace::Azure), Some(_)) => Err(InputError::Arguments(
                "--part is not for --trace azure: leave it out, because this trace has one part",
            )),
            (Some(Trace::Google2011), Some(part)) if part != "jobs" => Err(InputError::Arguments(
                "--part must be `jobs` for --trace google2011: leave out --part to replay the \
                 tasks of the trace",
            )),
            (Some(Trace::Google2011), Some(_)) if self.production => Err(InputError::Arguments(
                "--production is not for `--part jobs`: the list of jobs has no priorities",
            )),
            _ => Ok(()),
        }
    }

    /// Reads the whole workload, for placing its tasks.
    ///
    /// # Errors
    /// If arguments contradict each other, a file is missing or invalid, or there are no machines.
    pub fn load(&self, seed: u64) -> Result<Workload, InputError> {
        let mut workload = whole(&mut *self.reader(seed, Window::All, Machines::Needed)?)?;
        // The tasks of a trace run on the trace's own machines, so only the tasks of other inputs can be misplaced.
        if self.trace.is_none() {
            workload.notes.extend(misplaced::notes(&workload));
        }
        Ok(workload)
    }

    /// Opens the workload as a stream.
    ///
    /// # Errors
    /// If arguments contradict each other, or a file is missing or its beginning is invalid.
    pub fn open(&self, seed: u64) -> Result<Box<dyn Stream>, InputError> {
        self.reader(seed, Window::Bounded, Machines::Optional)
    }

    fn reader(
        &self,
        seed: u64,
        window: Window,
        machines: Machines,
    ) -> Result<Box<dyn Stream>, InputError> {
        self.check()?;
        if let Some(file) = &self.cluster {
            return Ok(Box::new(Held::new(kube::load(file)?, file)));
        }
        if let (Some(machines), Some(jobs)) = (&self.machines_file, &self.jobs_file) {
            let placements = self.placements_file.as_deref();
            return Ok(Box::new(csv::open_all(&Tables { machines, jobs, placements }, window)?));
        }
        if let Some(trace) = self.trace {
            let files = TraceFiles::new(self.data.as_deref(), &self.named);
            return self.trace(trace, &files, Wanted { seed, window, machines });
        }
        Ok(Box::new(synth::open(&synth::SynthOptions {
            machines: self.synthetic,
            span_hours: self.hours,
            seed,
            ..synth::SynthOptions::default()
        })))
    }

    fn trace(
        &self,
        trace: Trace,
        files: &TraceFiles,
        Wanted { seed, window, machines }: Wanted,
    ) -> Result<Box<dyn Stream>, InputError> {
        let part = |default: &'static str| self.part().unwrap_or(default);
        let on = self.on.as_ref().map(Alike::machines);
        Ok(match trace {
            Trace::Google2011 if self.part().is_some() => Box::new(google2011::jobs::open(files)?),
            Trace::Google2011 => {
                let production = if self.production {
                    google2011::Production::OnlyProduction
                } else {
                    google2011::Production::All
                };
                Box::new(google2011::open(files, &google2011::GoogleOptions { production })?)
            }
            Trace::Openb => Box::new(openb::open(files, part("default"))?),
            Trace::OmegaSim => Box::new(omega_sim::open(files, part("M"), window)?),
            Trace::Azure if on.is_none() && machines == Machines::Needed => {
                return Err(InputError::Arguments(
                    "--trace azure has no machines: give them with --on, such as --on \
                     2000,cpu=64,memory=256Gi",
                ));
            }
            Trace::Azure => {
                let options = AzureOptions { machines: on.unwrap_or_default(), seed };
                Box::new(azure::open(files, options)?)
            }
            Trace::Swf => {
                let file = swf::stream::find(files.folder("log")?, self.part())?;
                Box::new(swf::stream::open(&file, on, window)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::folder;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        input: InputArgs,
    }

    /// Parses arguments, opens the input, and returns its name or the error.
    fn open(dir: &Path, words: &str) -> Result<String, String> {
        let words = words.replace("DIR", &dir.display().to_string());
        let parsed = Command::try_parse_from(std::iter::once("x").chain(words.split(' ')));
        let command = parsed.map_err(|error| error.to_string())?;
        let opened = command.input.open(1).map(|stream| stream.head().name.clone());
        opened.map_err(|error| error.to_string().replace(&format!("{}/", dir.display()), ""))
    }

    const LIST: &str = "submit_s,num_tasks,duration_s,cpus_per_task,mem_gb_per_task\n0,1,9,1,1\n";

    #[test]
    fn files_of_a_trace_may_be_anywhere() {
        let raw = "a,s,d,0,600,9,1,3,Unknown,1,1.75\n";
        let files =
            [("p.csv.zst", LIST), ("b.csv", LIST), ("M_service.csv.gz", LIST), ("v.csv", raw)];
        let dir = folder(&files);
        let some =
            "--trace omega-sim --data DIR --file prefill=DIR/p.csv.zst --file batch=DIR/b.csv";
        assert_eq!(open(dir.path(), some), Ok("omega-sim M".to_owned()));
        let all = "--trace omega-sim --file prefill=DIR/p.csv.zst --file batch=DIR/b.csv \
                   --file service=DIR/b.csv";
        assert_eq!(open(dir.path(), all), Ok("omega-sim M".to_owned()));
        let vms = "--trace azure --file vms=DIR/v.csv";
        assert_eq!(open(dir.path(), vms), Ok("azure vm v1, raw".to_owned()));
    }

    #[test]
    fn files_that_are_not_named_are_told() {
        let dir = folder(&[("b.csv", LIST)]);
        let cases = [
            (
                "--trace omega-sim --file batch=DIR/b.csv",
                "prefill: is missing: give the folder of the trace with --data, or this file with \
                 --file prefill=PATH",
            ),
            (
                "--trace omega-sim --data DIR --file jobs=DIR/b.csv",
                "--file jobs: there is no file of this name in the trace, which has the files \
                 prefill, batch, service",
            ),
            (
                "--trace swf --file log=DIR/b.csv",
                "--file log: there is no file of this name in the trace, which has no named \
                 files: --data is the path of the log",
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(open(dir.path(), words), Err(expected.to_owned()), "{words}");
        }
        let clap = open(dir.path(), "--trace azure --file vms").expect_err("no path");
        assert!(clap.contains("must be NAME=PATH, such as jobs=/data/jobs.csv.gz"), "{clap}");
        assert!(open(dir.path(), "--trace azure").is_err(), "neither a folder nor files");
    }

    #[test]
    fn a_table_without_its_machines_is_refused_beside_any_input() {
        let dir = folder(&[]);
        for other in ["--synthetic 50 --hours 1", "--cluster DIR/c", "--trace swf --data DIR/s"] {
            for table in ["--jobs DIR/j", "--placements DIR/p"] {
                let error = open(dir.path(), &format!("{other} {table}")).expect_err("no machines");
                assert!(error.contains("--machines"), "{other} {table}: {error}");
            }
        }
    }

    #[test]
    fn a_file_of_arguments_names_files_by_a_table() {
        let text = r#"{"trace": "azure", "file": {"vms": "v.csv"}}"#;
        let input: InputArgs = serde_json::from_str(text).unwrap();
        assert_eq!((input.lacks(), input.files()), (None, vec![Path::new("v.csv")]));
        let input: InputArgs = serde_json::from_str(r#"{"trace": "azure"}"#).unwrap();
        assert!(input.lacks().is_some());
    }
}
