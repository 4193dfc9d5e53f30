//! `omega-sim`: simulations of a cell, and the traces that they run on.

use clap::{Parser, Subcommand};
use omega_sim::command::{self, SimCommand};
use omega_sim::trace::command::{self as trace, TraceCommand};
use omega_workload::command_line::{self, BAD_INPUT};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulate cells with different architectures, policies and traces.
///
/// `omega sim` starts this program, and `omega trace` starts `omega-sim trace`.
#[derive(Debug, Parser)]
#[command(
    name = "omega-sim",
    version,
    after_help = "Examples:\n  \
    omega-sim run --arch omega --synthetic 2000 --hours 4\n  omega-sim trace info --trace openb --data data"
)]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Sim(SimCommand),
    /// Describe traces, and generate similar ones.
    #[command(
        subcommand,
        after_help = "Example:\n  omega-sim trace info --trace openb --data data"
    )]
    Trace(Box<TraceCommand>),
}

fn main() -> ExitCode {
    let arguments: Arguments = match command_line::parse("omega-sim") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.command {
        Verb::Sim(command) => command::run(&command).map_err(|error| error.to_string()),
        Verb::Trace(command) => {
            trace::run(&command).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
        }
    };
    done.unwrap_or_else(|error| command_line::fail("omega-sim", &error, BAD_INPUT))
}
