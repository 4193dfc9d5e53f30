//! `omega-sim what-if`: two futures of a cell from a directory or a backup, one unchanged and one with a change.
//!
//! This file reads the cell and the profiles; `future.rs` has the changes and the two futures.

use super::WhatIfError;
use super::future::{FutureArgs, TwoProfiles, what_if};
use clap::Args;
use omega_cellstate::Cell;
use omega_core::Version;
use omega_schedulers::config::Profiles;
use omega_store::backup::read_cell;
use omega_store::history::{ReplayOptions, ReplayScope};
use omega_workload::profiles;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The cell, and the change.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega-sim what-if --from cell.backup --drain m7 --end 4\n  \
    omega-sim what-if --from cell --at 1200 --add-machines 10,cpu=64,memory=256Gi")]
pub struct WhatIfArgs {
    /// Directory of a stopped replica, or a backup file.
    #[arg(long, value_name = "DIR|BACKUP")]
    from: PathBuf,
    /// Only if --from is a directory: version of the cell at which the futures begin [default: the newest].
    #[arg(long, value_name = "VERSION")]
    at: Option<u64>,
    /// Only if --from is a directory: include log entries that are not known to be committed.
    #[arg(long)]
    all: bool,
    /// File with the profiles of the schedulers `batch` and `service` after the change [default: unchanged].
    #[arg(long, help_heading = "Changes", value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    /// File with the present profiles of the schedulers `batch` and `service` [default: the built-in profiles].
    #[arg(long, value_name = "FILE.toml")]
    profile_now: Option<PathBuf>,
    #[command(flatten)]
    what: FutureArgs,
}

/// Reads the cell and the profiles, and compares the two futures.
pub(super) fn run(args: &WhatIfArgs) -> Result<ExitCode, WhatIfError> {
    let (now, then) = (args.profile_now.as_deref(), args.profile.as_deref());
    let loaded = |file: Option<&Path>| file.map(profiles::load).transpose();
    let (profiles_now, profiles_then) = (loaded(now)?, loaded(then)?);
    let cell = read(args)?;
    for (file, profiles) in [(now, &profiles_now), (then, &profiles_then)] {
        if let (Some(file), Some(profiles)) = (file, profiles) {
            profiles::check(file, profiles, cell.kinds())?;
        }
    }
    let name = format!("{} at version {}", args.from.display(), cell.version());
    let profiles =
        TwoProfiles { now: profiles_now.unwrap_or_else(Profiles::default), then: profiles_then };
    what_if(&cell, name, &args.what, profiles)
}

fn read(args: &WhatIfArgs) -> Result<Cell, WhatIfError> {
    if !args.from.is_dir() && (args.at.is_some() || args.all) {
        return Err(WhatIfError::OneVersion);
    }
    if !args.from.exists() {
        return Err(WhatIfError::NoCell(args.from.clone()));
    }
    let scope = if args.all { ReplayScope::All } else { ReplayScope::Committed };
    let options = ReplayOptions { to: args.at.map(Version), scope, ..ReplayOptions::default() };
    Ok(read_cell(&args.from, &options)?)
}
