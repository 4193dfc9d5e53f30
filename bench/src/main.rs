//! `omega-bench`: how fast the shipped code is, beside the bare loops that bound it.
//!
//! ```text
//! omega-bench table [--only PATTERN] [--quick] [--markdown]
//! omega-bench memory --machines N --tasks N --job-tasks N [--view]
//! ```
//!
//! The second command is what the first one starts for its figures of memory: a process of its
//! own, whose resident set is compared with that of a smaller one.

mod measure;

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
    /// Builds a cell and prints what it takes in memory.
    Memory(measure::memory::Build),
}

fn main() -> std::process::ExitCode {
    match Arguments::parse().command {
        Command::Table(options) => measure::table(&options),
        Command::Memory(build) => measure::memory::print(&build),
    }
    std::process::ExitCode::SUCCESS
}
