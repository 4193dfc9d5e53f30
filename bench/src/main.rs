//! `omega-bench`: measures this build, and compares it with recorded answers of kube-scheduler.

use clap::Parser;
use omega_bench::command::{self, BenchCommand};
use omega_workload::command_line;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures how fast this build is on this computer, and compares it with recorded answers of kube-scheduler.
#[derive(Debug, Parser)]
#[command(name = "omega-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    match command_line::parse::<Arguments>("omega-bench") {
        Ok(arguments) => command::run(&arguments.command),
        Err(code) => code,
    }
}
