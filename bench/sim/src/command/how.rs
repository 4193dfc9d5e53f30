//! Simulation flags that several commands share: architecture, schedulers, and the end of a run.

use crate::engine::{DecisionTime, Retries};
use crate::scenario::{ArchitectureKind, ScenarioSettings};
use clap::{Args, ValueEnum};
use omega_core::{ConflictCheck, Granularity};
use omega_schedulers::config::Profiles;
use serde::{Deserialize, Serialize};

/// The architecture and its schedulers.
#[derive(Debug, Args)]
pub struct HowArgs {
    /// Scheduler architecture.
    #[arg(long, value_enum, default_value = "omega")]
    pub(super) arch: ArchitectureKind,
    /// Number of batch schedulers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) batch: u32,
    /// Number of service schedulers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) service: u32,
    /// Seconds that a scheduler takes for each batch job, in addition to --t-task-batch.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.1, value_parser = seconds,
        allow_negative_numbers = true)]
    pub(super) t_job_batch: f64,
    /// Seconds that a scheduler takes for each task of a batch job, in addition to --t-job-batch.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.005, value_parser = seconds,
        allow_negative_numbers = true)]
    pub(super) t_task_batch: f64,
    /// Seconds that a scheduler takes for each service job, in addition to --t-task-service.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.1, value_parser = seconds,
        allow_negative_numbers = true)]
    pub(super) t_job_service: f64,
    /// Seconds that a scheduler takes for each task of a service job, in addition to --t-job-service.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.005, value_parser = seconds,
        allow_negative_numbers = true)]
    pub(super) t_task_service: f64,
    /// Rule that decides whether a claim conflicts.
    #[arg(long, value_enum, default_value = "fit")]
    pub(super) check: CheckArg,
    /// Effect of a conflict on the other claims of the transaction.
    #[arg(long, value_enum, default_value = "incremental")]
    pub(super) granularity: GranularityArg,
    /// Share of the machines on which service schedulers place no tasks, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share,
        allow_negative_numbers = true)]
    pub(super) pickiness: f64,
    /// Number of best machines, of which a random one is chosen for each task.
    ///
    /// This has no effect on tasks of a group that a scheduler places together, after a single search for all of them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) near_best: u32,
    /// Only for --arch parsync: number of parts of a scheduler's copy of the cell, which are updated one at a time.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) parts: u32,
    /// Only for --arch sparrow: number of machines probed for each task.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) probes: u32,
    /// Whether jobs without room are tried again as long as the run lasts.
    #[arg(long, value_enum, default_value = "unlimited")]
    pub(super) retries: RetriesArg,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// End of a run.
#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// End the run after this many simulated hours [default: a second after the last arrival; for `capacity`, ten minutes later].
    #[arg(long, value_name = "HOURS", allow_negative_numbers = true, value_parser = hours)]
    end: Option<f64>,
}

impl EndArgs {
    /// The end in seconds.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.end.map(|hours| hours * 3600.0)
    }
}

/// Rule that decides whether a claim conflicts.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CheckArg {
    /// A claim conflicts if it no longer fits.
    Fit,
    /// A claim conflicts if its machine has changed in any way since the scheduler's last sync.
    Sequence,
}

/// Claims that are committed if another claim of the transaction conflicts.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GranularityArg {
    /// The other claims are committed.
    Incremental,
    /// No claim of the transaction is committed.
    AllOrNothing,
}

/// Number of attempts to place a job.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RetriesArg {
    /// A job without room is tried again once a task has ended or a machine has changed, and every five minutes.
    Unlimited,
    /// As in the Omega paper's simulator: a job is tried each second, and given up after 1,000 attempts, or after 100
    /// without any placement.
    Limited,
}

impl From<RetriesArg> for Retries {
    fn from(arg: RetriesArg) -> Retries {
        match arg {
            RetriesArg::Unlimited => Retries::Unlimited,
            RetriesArg::Limited => Retries::Limited,
        }
    }
}

impl From<CheckArg> for ConflictCheck {
    fn from(arg: CheckArg) -> ConflictCheck {
        match arg {
            CheckArg::Fit => ConflictCheck::ResourceFit,
            CheckArg::Sequence => ConflictCheck::SequenceNumber,
        }
    }
}

impl From<GranularityArg> for Granularity {
    fn from(arg: GranularityArg) -> Granularity {
        match arg {
            GranularityArg::Incremental => Granularity::Incremental,
            GranularityArg::AllOrNothing => Granularity::AllOrNothing,
        }
    }
}

/// Whether this is a valid decision time.
pub(super) fn is_seconds(number: f64) -> bool {
    (0.0..=SECONDS_MAX).contains(&number)
}

/// The longest decision: ten years.
const SECONDS_MAX: f64 = 10.0 * 366.0 * 86_400.0;

fn number(text: &str, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=most).contains(&number) => Ok(number.abs()),
        Ok(_) => Err(format!("must be from 0 to {most}")),
        Err(_) => Err("must be a number".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, SECONDS_MAX)
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 1.0)
}

/// Whether this is a valid end of a run.
pub(super) fn is_end(hours: f64) -> bool {
    hours > 0.0 && hours <= END_HOURS_MAX
}

/// The longest run: a year.
const END_HOURS_MAX: f64 = 8760.0;

pub(super) fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse::<f64>().ok().filter(|hours| is_end(*hours));
    hours.ok_or_else(|| format!("must be more than 0 hours, and at most {END_HOURS_MAX}"))
}

impl HowArgs {
    /// Returns the settings of a run that ends at this time, in seconds.
    pub(super) fn settings(&self, end_s: Option<f64>) -> ScenarioSettings {
        ScenarioSettings {
            architecture: self.arch,
            batch_schedulers: self.batch,
            service_schedulers: self.service,
            batch_decides: DecisionTime { job_s: self.t_job_batch, task_s: self.t_task_batch },
            service_decides: DecisionTime {
                job_s: self.t_job_service,
                task_s: self.t_task_service,
            },
            check: self.check.into(),
            granularity: self.granularity.into(),
            pickiness: self.pickiness,
            near_best: self.near_best,
            parts: self.parts,
            probes: self.probes,
            retries: self.retries.into(),
            end_s,
            seed: self.seed,
            profiles: Profiles::default(),
        }
    }
}

/// The name of a choice on the command line.
pub(super) fn name(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
