//! `omega-bench`: how fast the shipped code is, beside the bare loops that bound it.
//!
//! ```text
//! omega-bench table [--only PATTERN] [--quick] [--markdown] [--dir DIR]
//! omega-bench oracle FILE...
//! omega-bench memory --machines N --tasks N --job-tasks N [--view]
//! ```
//!
//! The second compares answers with those of the real kube-scheduler (docs/oracle.md). The third is
//! what the first one starts for its figures of memory: a process of its own, whose resident set is
//! compared with that of a smaller one.

mod measure;
mod replay;

use clap::{Parser, Subcommand};

/// Steadier under several threads than the system's, and what the server uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Omega.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the table of figures with limits, targets and bare loops.
    Table(measure::Options),
    /// Replays recorded answers of kube-scheduler v1.36.2 and prints where Omega's differ. Reasons
    /// are not compared: ours are in our own words.
    Oracle(replay::Options),
    /// Builds a cell and prints what it takes in memory.
    Memory(measure::memory::Build),
}

fn main() -> std::process::ExitCode {
    match Arguments::parse().command {
        Command::Table(options) => measure::table(&options),
        Command::Oracle(options) => return replay::replay(&options),
        Command::Memory(build) => measure::memory::print(&build),
    }
    std::process::ExitCode::SUCCESS
}
