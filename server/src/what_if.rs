//! `omega sim what-if`: a cell that is kept in a directory or a backup, as it goes on and as it would otherwise.
//!
//! Here it is read, with the profiles; what is otherwise and the two futures are the simulator's. The simulator knows no
//! log and no backup, so this verb of `omega sim` is the server's.

use crate::backup::{self, BackupError};
use crate::log;
use crate::profiles::{self, ProfileError};
use clap::{Args, Subcommand};
use omega_cellstate::Cell;
use omega_core::Version;
use omega_schedulers::config::Profiles;
use omega_sim::command::{self, SimCommand, TwoProfiles};
use omega_store::history::{self, HistoryError, ReplayOptions, Which};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The verbs of `omega sim`: those of the simulator, and the one that begins with a cell that was served.
#[derive(Debug, Subcommand)]
pub(crate) enum SimVerb {
    #[command(flatten)]
    Sim(SimCommand),
    /// A cell that was served, as it goes on and as it would otherwise.
    WhatIf(Box<WhatIfArgs>),
}

/// Which cell, and what is otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega sim what-if --from cell.backup --drain m7 --end 4\n  \
    omega sim what-if --from cell --at 1200 --add-machines 10,cpu=64,memory=256Gi")]
pub(crate) struct WhatIfArgs {
    /// The directory of a replica that does not run, or a backup.
    #[arg(long, value_name = "DIR|BACKUP")]
    from: PathBuf,
    /// The version of the cell, where it is in a directory; the newest without it.
    #[arg(long, value_name = "VERSION")]
    at: Option<u64>,
    /// Take the entries of the directory, too, that are not known to be committed.
    #[arg(long)]
    all: bool,
    /// By what the schedulers `batch` and `service` would place.
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    /// By what they place as it is; the ready-made profiles without it.
    #[arg(long, value_name = "FILE.toml")]
    profile_now: Option<PathBuf>,
    #[command(flatten)]
    what: command::FutureArgs,
}

/// Why nothing was compared. One line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhatIfError {
    /// Leave them out.
    #[error("--at and --all are for the directory of a replica: a backup has one version")]
    OneVersion,
    /// See the error.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// See the error.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// See the error.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// See the error.
    #[error(transparent)]
    Sim(#[from] command::SimError),
    /// See the error.
    #[error(transparent)]
    WhatIf(#[from] command::WhatIfError),
}

/// Does what the command line asks; the exit code says how it went.
pub(crate) fn run(verb: &SimVerb) -> Result<ExitCode, WhatIfError> {
    match verb {
        SimVerb::Sim(command) => Ok(command::run(command)?),
        SimVerb::WhatIf(args) => what_if(args),
    }
}

fn what_if(args: &WhatIfArgs) -> Result<ExitCode, WhatIfError> {
    let (now, then) = (args.profile_now.as_deref(), args.profile.as_deref());
    let loaded = |file: Option<&Path>| file.map(profiles::load).transpose();
    let (profiles_now, profiles_then) = (loaded(now)?, loaded(then)?);
    let cell = read(args)?;
    let both = [(now, &profiles_now), (then, &profiles_then)];
    for (file, profiles) in both {
        if let (Some(file), Some(profiles)) = (file, profiles) {
            profiles::check(file, profiles, cell.kinds())?;
        }
    }
    let name = format!("{} at version {}", args.from.display(), cell.version());
    let profiles =
        TwoProfiles { now: profiles_now.unwrap_or_else(Profiles::default), then: profiles_then };
    Ok(command::what_if(&cell, name, &args.what, profiles)?)
}

/// The newest version of a cell that was kept; of a directory with the entries, too, that are not known to be
/// committed, if `which` says so.
pub(crate) fn read_kept(from: &Path, which: Which) -> Result<Cell, WhatIfError> {
    if from.is_dir() {
        let options = ReplayOptions { which, ..ReplayOptions::default() };
        return Ok(history::open(from)?.replay(&options)?.into_cell());
    }
    Ok(backup::check(from)?.cell)
}

fn read(args: &WhatIfArgs) -> Result<Cell, WhatIfError> {
    if args.from.is_dir() {
        let to = args.at.map(Version);
        let options = ReplayOptions { to, which: log::which(args.all), ..ReplayOptions::default() };
        return Ok(history::open(&args.from)?.replay(&options)?.into_cell());
    }
    if args.at.is_some() || args.all {
        return Err(WhatIfError::OneVersion);
    }
    Ok(backup::check(&args.from)?.cell)
}
