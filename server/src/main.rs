//! `omega`: the command line of the cell.
//!
//! `omega run`, which is also what `omega` alone does, places a workload on a cell in this
//! process and tells how it went. Bad input ends with one line on standard error and exit code 2,
//! before anything has started.

mod progress;
mod run;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code of bad input: what clap uses for bad arguments.
const BAD_INPUT: u8 = 2;

/// A shared-state, optimistically concurrent cluster scheduler.
#[derive(Debug, Parser)]
#[command(name = "omega", version, about, args_conflicts_with_subcommands = true)]
struct Omega {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Place a workload on a cell in this process, and tell how it went.
    Run(run::RunArgs),
}

fn main() -> ExitCode {
    let omega = Omega::parse();
    let run = match omega.command {
        Some(Command::Run(args)) => args,
        None => omega.run,
    };
    match run::run(&run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("omega: {error}");
            ExitCode::from(BAD_INPUT)
        }
    }
}
