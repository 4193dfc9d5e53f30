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

/// Commands for the directory of a replica.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show the replica's identity, its snapshots, and the entries of its log.
    Show(show::ShowArgs),
    /// Rebuild the cell from the log entries, check it for contradictions, and print a summary.
    Replay(replay::ReplayArgs),
    /// Show the cell at one version, or explain why a job was pending then.
    At(at::AtArgs),
}

pub(crate) fn log(command: &LogCommand) -> Result<(), Error> {
    match command {
        LogCommand::Show(args) => show::show(args),
        LogCommand::Replay(args) => replay::replay(args),
        LogCommand::At(args) => at::at(args),
    }
}
