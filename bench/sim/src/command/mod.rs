//! Commands of `omega-sim`: one file below for each, with its arguments, output and exit codes.

mod capacity;
mod compat;
mod cpu;
mod error;
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

pub use error::{SimError, WhatIfError};
pub use future::{FutureArgs, TwoProfiles};
pub use how::HowArgs;
pub use what_if::WhatIfArgs;

use clap::Subcommand;
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
