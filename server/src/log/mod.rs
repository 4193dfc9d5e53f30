//! `omega log`: the log of a replica, entry by entry and version by version.
//!
//! The commands change nothing in the folder, and fail if it is locked, so they never disturb a running replica.
//! `omega_store::history` reads the log; this module prints it.

mod at;
mod describe;
mod replay;
mod show;

pub(crate) use replay::which;

use crate::served::Error;
use clap::Subcommand;

/// Part of a directory to inspect.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// List the replica's identity, snapshots and entries.
    Show(show::ShowArgs),
    /// Rebuild the cell from the entries, audit it, and print the result.
    Replay(replay::ReplayArgs),
    /// Show the cell at a version, or explain why a job was pending then.
    At(at::AtArgs),
}

pub(crate) fn log(command: &LogCommand) -> Result<(), Error> {
    match command {
        LogCommand::Show(args) => show::show(args),
        LogCommand::Replay(args) => replay::replay(args),
        LogCommand::At(args) => at::at(args),
    }
}
