//! The changes that `omega-sim what-if` compares, and the printing of the two futures.

use super::how::{HowArgs, hours};
use super::scaling::thousandths;
use super::streams::stdout;
use super::{SimError, WhatIfError};
use crate::scenario::{ArchitectureKind, ScenarioSettings};
use crate::sheet::Output;
use crate::what_if::{Assumed, Change, Comparison, Now};
use clap::{Args, ValueEnum};
use omega_cellstate::Cell;
use omega_core::limits::MACHINES_MAX;
use omega_schedulers::config::Profiles;
use omega_workload::alike::Alike;
use std::io::Write;
use std::process::ExitCode;

/// Changes to compare, schedulers of both futures, and the simulated time.
#[derive(Debug, Args)]
pub struct FutureArgs {
    /// Number of hours to simulate.
    #[arg(long, value_name = "HOURS", allow_negative_numbers = true, default_value = "1",
          value_parser = hours)]
    end: f64,
    /// Run time of batch tasks whose job has no runtime estimate, such as 10m or 2h [default: they never end].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = super::scaling::time)]
    run_time: Option<f64>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputArg,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten, next_help_heading = "Schedulers of both futures, unless changed")]
    how: HowArgs,
}

/// Changes of the second future.
#[derive(Debug, Args)]
#[command(next_help_heading = "Changes")]
struct ChangeArgs {
    /// Machines to add, such as 10,cpu=64,memory=256Gi for ten machines. May be repeated.
    #[arg(long, value_name = "N,cpu=CORES,...")]
    add_machines: Vec<Alike>,
    /// Number of machines after the change, with the same mix of machine types [default: unchanged].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=MACHINES_MAX as i64))]
    machines: Option<u32>,
    /// Machine to drain: it accepts no new tasks. May be repeated.
    #[arg(long, value_name = "NAME")]
    drain: Vec<String>,
    /// Machine to remove; its tasks become pending. May be repeated.
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    /// Load after the change, as a multiple of the present load [default: 1].
    ///
    /// Below 1, some jobs are left out; above 1, copies of some jobs arrive in the first five minutes.
    #[arg(long, value_name = "TIMES", allow_negative_numbers = true, value_parser = thousandths)]
    load: Option<u64>,
    /// Architecture after the change [default: the value of --arch].
    #[arg(long, value_enum)]
    new_arch: Option<ArchitectureKind>,
    /// Number of batch schedulers after the change [default: the value of --batch].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    new_batch: Option<u32>,
    /// Number of service schedulers after the change [default: the value of --service].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    new_service: Option<u32>,
}

/// Output format.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputArg {
    /// Text in columns.
    Table,
    /// JSON.
    Json,
}

/// Present and changed profiles of the schedulers.
#[derive(Clone, Debug, Default)]
pub struct TwoProfiles {
    /// Profiles of both futures, unless `then` replaces those of the changed future.
    pub now: Profiles,
    /// Profiles of the changed future only.
    pub then: Option<Profiles>,
}

/// Compares the two futures, and prints the result.
///
/// # Errors
/// If the change cannot be made, or the cell rejects it.
pub(super) fn what_if(
    cell: &Cell,
    name: String,
    args: &FutureArgs,
    profiles: TwoProfiles,
) -> Result<ExitCode, WhatIfError> {
    let ChangeArgs { new_arch, new_batch, new_service, .. } = args.change;
    let settings = args.how.settings(Some(args.end * 3600.0));
    let settings = ScenarioSettings { profiles: profiles.now, ..settings };
    let new = ScenarioSettings {
        architecture: new_arch.unwrap_or(settings.architecture),
        batch_schedulers: new_batch.unwrap_or(settings.batch_schedulers),
        service_schedulers: new_service.unwrap_or(settings.service_schedulers),
        profiles: profiles.then.clone().unwrap_or_else(|| settings.profiles.clone()),
        ..settings.clone()
    };
    let change = args.change.change();
    let schedulers = [new_batch, new_service].iter().any(Option::is_some) || new_arch.is_some();
    if change.is_none() && profiles.then.is_none() && !schedulers {
        return Err(WhatIfError::Nothing);
    }
    let run_ms = args.run_time.map(|seconds| (seconds * 1000.0) as u64);
    let now = Now::of(cell, name, Assumed { run_ms });
    let then = change.made(&now)?;
    let compared = Comparison::of((&now, &settings), (&then, &new)).map_err(SimError::from)?;
    print(&compared, args.output)?;
    Ok(ExitCode::SUCCESS)
}

impl ChangeArgs {
    fn change(&self) -> Change {
        Change {
            machines: self.machines.map(|count| count as usize),
            add: self.add_machines.clone(),
            drain: self.drain.clone(),
            remove: self.remove.clone(),
            load: self.load,
        }
    }
}

fn print(compared: &Comparison, output: OutputArg) -> Result<(), SimError> {
    let mut out = stdout();
    if let OutputArg::Json = output {
        serde_json::to_writer_pretty(&mut out, compared).map_err(std::io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    let Comparison { cell, seconds, seed, version, .. } = compared;
    writeln!(out, "{cell}: the next {seconds:.0} s, seed {seed}, omega-sim {version}\n")?;
    write!(out, "{}", compared.figures().print(Output::Table))?;
    if let Some(pending) = compared.pending() {
        write!(out, "\n{}", pending.print(Output::Table))?;
    }
    for note in &compared.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}
