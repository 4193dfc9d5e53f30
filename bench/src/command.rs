//! Commands of `omega-bench`: measurements of the shipped code, compared with bare loops.
//!
//! The measurements run in a program with the allocator and the optimisations of a release. For the memory figures,
//! `table` starts `memory` as a separate process, and subtracts the resident set of a smaller cell.

use crate::{measure, replay};
use clap::Subcommand;
use std::process::ExitCode;

/// The verbs of `omega-bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Run the benchmarks, and print each result with its target and with the time of a minimal loop that does the same
    /// work.
    #[command(after_help = "Examples:\n  omega-bench table --quick\n  \
        omega-bench table --only scan\n  omega-bench table --markdown")]
    Table(measure::Options),
    /// Replay recorded decisions of kube-scheduler v1.36.2, and print where Omega decides differently.
    ///
    /// The texts that explain why a node or pod is rejected are not compared, because the two programs word them
    /// differently. docs/oracle.md describes the files. The exit code is 1 if a decision differs, and 2 if a file
    /// cannot be read.
    #[command(after_help = "Example:\n  omega-bench oracle fit.jsonl.gz spread.jsonl.gz")]
    Oracle(replay::Options),
    /// Predict the placements per second on more processors than this computer has.
    ///
    /// Measures the time per placement of 1 to 64 workers on one thread, and fits the model to the measured rate of two
    /// workers. Measured rates of 1 to 8 workers are also printed. docs/many-cores.md describes the model.
    #[command(after_help = "Example:\n  omega-bench model --svg many-cores.svg")]
    Model(measure::model::ModelArgs),
    /// Build a cell in memory, and print how many bytes of memory the cell takes.
    #[command(after_help = "Example:\n  \
        omega-bench memory --machines 10000 --tasks 100000 --job-tasks 10")]
    Memory(measure::memory::Build),
}

/// Runs the command and prints the result; the exit code is 1 if a result differs from the recorded
/// one.
#[must_use]
pub fn run(command: &BenchCommand) -> ExitCode {
    match command {
        BenchCommand::Table(options) => measure::table(options),
        BenchCommand::Oracle(options) => return replay::replay(options),
        BenchCommand::Model(args) => return measure::model::print(args),
        BenchCommand::Memory(build) => measure::memory::print(build),
    }
    ExitCode::SUCCESS
}
