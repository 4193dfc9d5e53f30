//! Commands of `omega-sim`: one file below for each, with its arguments, output and exit codes.

mod capacity;
mod compat;
mod cpu;
mod fgd;
mod folder;
mod future;
mod how;
mod paper;
mod run;
mod scaling;
mod sweep;
mod swf;
mod what_if;

pub use future::{FutureArgs, TwoProfiles, WhatIfError};
pub use how::HowArgs;
pub use what_if::WhatIfArgs;

use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulate a cell.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Find the number of machines that a workload needs, or the load that a cell can carry.
    Capacity(Box<capacity::CapacityArgs>),
    /// Repeat the runs of the published simulator, and compare the results.
    Compat(compat::CompatArgs),
    /// Repeat the figures of the Omega paper, and make a report with plots.
    Paper(paper::PaperArgs),
    /// Run a workload on the shipped cell under an architecture.
    Run(Box<run::RunArgs>),
    /// Replay a log in the Standard Workload Format with policies of batch queues.
    Swf(swf::SwfArgs),
    /// Run the simulator with every combination of the values in a file.
    Sweep(sweep::SweepArgs),
    /// Compare two futures of a served cell: unchanged, and with a change.
    WhatIf(Box<WhatIfArgs>),
    /// Compare policies for tasks that share devices with published figures.
    Fgd(fgd::FgdArgs),
}

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// An input cannot be read. Correct the file.
    #[error(transparent)]
    Input(#[from] omega_workload::input::InputError),
    /// A required argument is missing. Give the argument that the message names.
    #[error("{0}")]
    Lacks(String),
    /// An input cannot be loaded. Correct the file.
    #[error(transparent)]
    Load(#[from] omega_workload::LoadError),
    /// The cell rejects a part of the input. Correct that part.
    #[error(transparent)]
    Refused(#[from] crate::shipped::ShippedError),
    /// Two futures could not be compared.
    #[error(transparent)]
    WhatIf(Box<WhatIfError>),
    /// The output cannot be written, for example because its reader has closed it.
    #[error("cannot write to standard output: {0}")]
    Print(#[from] std::io::Error),
    /// A file of results could not be written.
    #[error("{}: cannot be written: {why}", file.display())]
    Write {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        why: std::io::Error,
    },
}

/// Runs the command, and returns its exit code.
///
/// # Errors
/// If an input is invalid; nothing was simulated then.
pub fn run(command: &SimCommand) -> Result<ExitCode, SimError> {
    match command {
        SimCommand::Capacity(args) => capacity::run(args),
        SimCommand::Compat(args) => compat::run(args),
        SimCommand::Paper(args) => paper::run(args),
        SimCommand::Run(args) => run::run(args),
        SimCommand::Swf(args) => swf::run(args),
        SimCommand::Sweep(args) => sweep::run(args),
        SimCommand::WhatIf(args) => {
            what_if::run(args).map_err(|why| SimError::WhatIf(Box::new(why)))
        }
        SimCommand::Fgd(args) => fgd::run(args),
    }
}
