//! `omega-sim`: simulations of a cell, and the traces that they run on.

use clap::{Parser, Subcommand};
use omega_sim::command::{self, SimCommand};
use omega_sim::trace::command::{self as trace, TraceCommand};
use omega_workload::command_line::{self, BAD_INPUT};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates a cell under architectures, policies and traces.
#[derive(Debug, Parser)]
#[command(name = "omega-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Sim(SimCommand),
    /// Describe traces, and generate similar ones.
    #[command(subcommand)]
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
