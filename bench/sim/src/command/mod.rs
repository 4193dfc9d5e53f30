//! Commands of `omega-sim`. Each has a file in this folder, with its arguments, output and exit codes.

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
mod streams;
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
    ///
    /// At least one objective is required. All objectives except --used may be repeated. KIND is `batch` or `service`;
    /// without it, an objective applies to all jobs. Give at most one input: --trace, --cluster, or --machines with
    /// --jobs. Without an input, Omega generates a synthetic cell and jobs for it.
    Capacity(Box<capacity::CapacityArgs>),
    /// Reproduce published runs of the Omega paper's simulator, and compare the results row by row.
    ///
    /// The exit code is 0 if all rows are equal, 1 if one differs, and 2 if an input is invalid.
    Compat(compat::CompatArgs),
    /// Reproduce figures of the Omega paper, and write a report with plots.
    ///
    /// The exit code is 1 if a reproduced figure contradicts the paper.
    Paper(paper::PaperArgs),
    /// Simulate a workload on a cell with a scheduler architecture.
    ///
    /// Give at most one input: --trace, --cluster, or --machines with --jobs. Without an input, Omega generates a
    /// synthetic cell and jobs for it.
    Run(Box<run::RunArgs>),
    /// Replay a log in the Standard Workload Format with the classic policies of batch queues.
    Swf(swf::SwfArgs),
    /// Run the simulator with every combination of the values in a file. Each combination is called a point.
    Sweep(sweep::SweepArgs),
    /// Simulate two futures of a cell from its backup or a stopped replica: one unchanged, one with a change.
    ///
    /// At least one of the options under the heading `Changes` is required.
    WhatIf(Box<WhatIfArgs>),
    /// Run placement policies for tasks that share GPUs, and compare the results with published figures.
    ///
    /// Either --data is required, or both --tasks and --machines.
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
