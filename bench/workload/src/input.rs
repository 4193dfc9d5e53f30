//! Workload inputs: the arguments that commands share, and the reader that they select.

use crate::alike::Alike;
use crate::azure::{self, AzureOptions};
use crate::csv::Tables;
use crate::stream::{Held, Stream, Window, whole};
use crate::{LoadError, Workload, csv, google2011, kube, omega_sim, openb, swf, synth};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Source of a workload: on a command line, or in the table `[input]` of a file.
#[derive(Debug, Args, Deserialize)]
#[command(next_help_heading = "Input")]
#[serde(default, deny_unknown_fields)]
pub struct InputArgs {
    /// Replay a published trace; --data names the folder of its files.
    #[arg(long, value_enum, requires = "data", group = "source")]
    trace: Option<Trace>,
    /// The folder of the trace; for swf the log itself, or a folder in which --cell names it.
    #[arg(long, value_name = "DIR", requires = "trace")]
    data: Option<PathBuf>,
    /// Part of the trace: for openb a task list (default, cpu050, gpuspec33, ...), for omega-sim a
    /// cell (M, L, L4), for google2011 `jobs`, the job arrivals of ten days. `omega explain`
    /// without a trace takes the address of a served cell, and explains a job there.
    #[arg(long, value_name = "NAME", alias = "list")]
    #[serde(alias = "list")]
    cell: Option<String>,
    /// Only production tasks, without overcommit (google2011).
    #[arg(long, requires = "trace")]
    production: bool,
    /// The machines, where the trace has none (azure, swf): `200,cpu=64,memory=256Gi`, and disk=, gpu=.
    #[arg(long, value_name = "N,cpu=CORES,...", requires = "trace")]
    #[serde(deserialize_with = "alike")]
    on: Option<Alike>,
    /// Read the output of `kubectl get nodes,pods -A -o json` from this file.
    #[arg(long, value_name = "FILE", group = "source")]
    cluster: Option<PathBuf>,
    /// Read machines from a table; docs/inputs.md has the columns.
    #[arg(long = "machines", value_name = "FILE.csv", requires = "jobs_file", group = "source")]
    #[serde(rename = "machines")]
    machines_file: Option<PathBuf>,
    /// Read jobs from a table; docs/inputs.md has the columns.
    #[arg(long = "jobs", value_name = "FILE.csv", requires = "machines_file")]
    #[serde(rename = "jobs")]
    jobs_file: Option<PathBuf>,
    /// Read the tasks that run at the start, and their machines, from a table; docs/inputs.md has the columns.
    #[arg(long = "placements", value_name = "FILE.csv", requires = "machines_file")]
    #[serde(rename = "placements")]
    placements_file: Option<PathBuf>,
    /// Number of machines of the synthetic cell.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = SYNTHETIC, conflicts_with = "source",
          value_parser = clap::value_parser!(u32).range(SYNTHETIC_RANGE))]
    synthetic: u32,
    /// Hours of work of the synthetic workload.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = HOURS, conflicts_with = "source",
          value_parser = clap::value_parser!(u32).range(HOURS_RANGE))]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trace {
    /// The Google cell of May 2011: 12,477 machines, 190,926 tasks.
    #[value(name = "google2011")]
    Google2011,
    /// Alibaba's GPU cluster of 2023: 1,523 machines, 8,152 tasks.
    Openb,
    /// Job lists made for the Omega paper's simulator.
    OmegaSim,
    /// Azure's virtual machines of 2017: 53,109 batches in 83 hours, without machines.
    Azure,
    /// A log of a batch queue in the Standard Workload Format.
    Swf,
}

/// Error of reading an input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The arguments contradict each other.
    #[error("{0}; see omega --help")]
    Arguments(&'static str),
    /// A file is missing or invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Whether an input must have machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machines {
    /// Required: the workload places tasks on these machines.
    Needed,
    /// Optional: read if present.
    Optional,
}

impl InputArgs {
    /// The named input files, which outputs must not overwrite.
    #[must_use]
    pub fn files(&self) -> Vec<&Path> {
        let tables = [&self.machines_file, &self.jobs_file, &self.placements_file];
        let files = tables.into_iter().chain([&self.cluster, &self.data]);
        files.flatten().map(PathBuf::as_path).collect()
    }

    /// The addresses of a served cell, if `--cell` has them and not a part of a trace.
    #[must_use]
    pub fn served(&self) -> Option<&str> {
        self.cell.as_deref().filter(|_| self.trace.is_none())
    }

    /// The missing or conflicting argument in a file, if any; clap checks command lines.
    #[must_use]
    pub fn lacks(&self) -> Option<&'static str> {
        let files = (self.machines_file.is_some(), self.jobs_file.is_some());
        let sources = [self.trace.is_some(), self.cluster.is_some(), files.0];
        let some = sources.iter().filter(|there| **there).count();
        match (self.trace.is_some(), self.data.is_some(), files) {
            (true, false, _) => Some("a trace needs data, the folder of its files"),
            (false, true, _) => Some("data is the folder of a trace: which one?"),
            (_, _, (true, false) | (false, true)) => Some("machines and jobs go together"),
            _ if self.placements_file.is_some() && !files.0 => {
                Some("placements are of the tables machines and jobs: name these too")
            }
            _ if some > 1 => {
                Some("of a trace, a cluster, and machines with jobs, there may be one")
            }
            _ if some > 0 && (self.synthetic, self.hours) != (SYNTHETIC, HOURS) => {
                Some("synthetic and hours are of a synthetic workload: end says when a run ends")
            }
            _ if !SYNTHETIC_RANGE.contains(&i64::from(self.synthetic)) => {
                Some("synthetic must be from 10 to 1000000 machines")
            }
            _ if !HOURS_RANGE.contains(&i64::from(self.hours)) => {
                Some("hours must be from 1 to 8760")
            }
            _ => None,
        }
    }

    /// The seed that the workload depends on, if any; most traces ignore it.
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
            return Err(InputError::Arguments("--production is for --trace google2011 only"));
        }
        if self.served().is_some() {
            return Err(InputError::Arguments("--cell is for --trace, or for omega explain JOB"));
        }
        if self.on.is_some() && !matches!(self.trace, Some(Trace::Azure | Trace::Swf)) {
            return Err(InputError::Arguments("--on is for --trace azure and --trace swf"));
        }
        let part = self.cell.as_deref();
        match (self.trace, part) {
            (Some(Trace::Azure), Some(_)) => {
                Err(InputError::Arguments("--cell is not for --trace azure: it has one list"))
            }
            (Some(Trace::Google2011), Some(part)) if part != "jobs" => Err(InputError::Arguments(
                "--trace google2011 has one --cell besides the replay: jobs",
            )),
            (Some(Trace::Google2011), Some(_)) if self.production => Err(InputError::Arguments(
                "--production is not for --cell jobs: it has no priorities",
            )),
            _ => Ok(()),
        }
    }

    /// Reads the whole workload for placement.
    ///
    /// # Errors
    /// If arguments contradict each other, a file is missing or invalid, or there are no machines.
    pub fn load(&self, seed: u64) -> Result<Workload, InputError> {
        Ok(whole(&mut *self.reader(seed, Window::All, Machines::Needed)?)?)
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
        if let (Some(trace), Some(data)) = (self.trace, &self.data) {
            return self.trace(trace, data, (seed, window, machines));
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
        data: &Path,
        (seed, window, machines): (u64, Window, Machines),
    ) -> Result<Box<dyn Stream>, InputError> {
        let part = |default: &'static str| self.cell.as_deref().unwrap_or(default);
        let on = self.on.as_ref().map(Alike::machines);
        Ok(match trace {
            Trace::Google2011 if self.cell.is_some() => Box::new(google2011::jobs::open(data)?),
            Trace::Google2011 => {
                let production = match self.production {
                    true => google2011::Production::OnlyProduction,
                    false => google2011::Production::All,
                };
                Box::new(google2011::open(data, &google2011::GoogleOptions { production })?)
            }
            Trace::Openb => Box::new(openb::open(data, part("default"))?),
            Trace::OmegaSim => Box::new(omega_sim::open(data, part("M"), window)?),
            Trace::Azure if on.is_none() && machines == Machines::Needed => {
                return Err(InputError::Arguments(
                    "--trace azure has no machines: say on what, such as --on 2000,cpu=64,memory=256Gi",
                ));
            }
            Trace::Azure => {
                let options = AzureOptions { machines: on.unwrap_or_default(), seed };
                Box::new(azure::open(data, options)?)
            }
            Trace::Swf => {
                let file = swf::stream::find(data, self.cell.as_deref())?;
                Box::new(swf::stream::open(&file, on, window)?)
            }
        })
    }
}
