//! `omega-sim`: the simulator alone, as `omega sim` and `omega trace` have it, without the rest of the server.

use clap::{Parser, Subcommand};
use omega_sim::command::{self, SimCommand};
use omega_sim::trace::command::{self as trace, TraceCommand};
use std::process::ExitCode;

/// What a cell would do: architectures, policies and traces, simulated.
#[derive(Parser)]
#[command(name = "omega-sim", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    #[command(flatten)]
    Sim(SimCommand),
    /// Look at traces, and make others after their example.
    #[command(subcommand)]
    Trace(Box<TraceCommand>),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Verb::Sim(command) => command::run(&command).map_err(|error| error.to_string()),
        Verb::Trace(command) => {
            trace::run(&command).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("omega-sim: {error}");
        ExitCode::from(2)
    })
}
