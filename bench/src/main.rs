//! `omega-bench`: measures this build, and compares it with recorded answers of kube-scheduler.

use clap::Parser;
use omega_bench::command::{self, BenchCommand};
use omega_workload::command_line;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure the speed of this build on this computer, and compare Omega's decisions with recorded decisions of
/// kube-scheduler.
///
/// `omega bench` starts this program.
#[derive(Debug, Parser)]
#[command(
    name = "omega-bench",
    version,
    after_help = "Examples:\n  omega-bench table --quick\n  \
    omega-bench oracle fit.jsonl.gz"
)]
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
