//! The command line of the cell, `omega`.
//!
//! `omega run`, which is also the default command, places a workload on a cell in this process and reports the result.
//! `omega explain` also explains why jobs are pending; `omega rebalance` finds better machines for running tasks. Bad
//! input ends the command with one line on standard error and exit code 2, before anything has started.
//!
//! The feature `serve` adds the commands of `served.rs`, which serve and operate a cell over a network. If a cell
//! rejects a request or does not answer, their exit code is 1. The simulator and the measurements are separate
//! programs, which `programs.rs` starts.

mod demo;
mod duration;
mod explain;
mod interrupt;
mod output;
mod programs;
mod progress;
mod rebalance;
mod run;

#[cfg(feature = "serve")]
mod accounting;
#[cfg(feature = "serve")]
mod agent;
#[cfg(feature = "serve")]
mod audit;
#[cfg(feature = "serve")]
mod cert;
#[cfg(feature = "serve")]
mod commands;
#[cfg(feature = "serve")]
mod completions;
#[cfg(feature = "serve")]
mod connect;
#[cfg(feature = "serve")]
mod context;
#[cfg(feature = "serve")]
mod dev;
#[cfg(feature = "serve")]
mod events;
#[cfg(feature = "serve")]
mod explainer;
#[cfg(feature = "serve")]
mod log;
#[cfg(feature = "serve")]
mod manual;
#[cfg(feature = "serve")]
mod open_files;
#[cfg(feature = "serve")]
mod peak_run;
#[cfg(feature = "serve")]
mod restore;
#[cfg(feature = "serve")]
mod scheduler;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod served;
#[cfg(not(feature = "serve"))]
#[path = "unserved.rs"]
mod served;
#[cfg(feature = "serve")]
mod signals;

mod version;

use clap::{Parser, Subcommand};
use omega_workload::command_line::{self, BAD_INPUT};
#[cfg(not(feature = "serve"))]
use std::ffi::OsString;
use std::process::ExitCode;

/// A shared-state, optimistically concurrent cluster scheduler.
///
/// Without a command, `omega` runs `omega run` with the given options: see `omega run --help`.
#[derive(Debug, Parser)]
#[command(name = "omega", version, long_version = version::long(), args_conflicts_with_subcommands = true)]
#[command(override_usage = "omega <COMMAND>\n       omega [OPTIONS OF omega run]")]
#[command(mut_args(|option| option.hide(true)), after_help = served::HELP)]
struct Omega {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workload on a cell in this process, and report the result.
    ///
    /// Give at most one input: --trace, --cluster, or --machines with --jobs. Without an input, Omega generates a
    /// synthetic cell, and jobs for it that follow the published statistics of a large cluster.
    Run(run::RunArgs),
    /// Explain why jobs are pending in a served cell, or at the end of a workload that this command runs.
    ///
    /// Give at most one input: --cell, --trace, --cluster, or --machines with --jobs. Without an input, Omega generates
    /// a synthetic cell and jobs for it. With --cell, only JOB, --profile and the output options apply.
    Explain(explain::ExplainArgs),
    /// Find better machines for the tasks of a cell, and print the gain of each move.
    ///
    /// Give at most one input: --cell for a served cell, --from for a backup or a stopped replica, --roadef, --trace,
    /// --cluster, or --machines with --jobs. Without an input, Omega generates a synthetic cell. All inputs are only
    /// read, except that --apply moves tasks of a served cell. The exit code is 1 if the cell does not answer.
    #[command(alias = "improve")]
    Rebalance(Box<rebalance::RebalanceArgs>),
    /// Demonstrate conflicts between schedulers in four short scenes on a small cell.
    ///
    /// In each scene, one or two schedulers place jobs on six machines. The scene then prints the placements, and the
    /// numbers of accepted and rejected claims.
    Demo(demo::DemoArgs),
    #[command(flatten)]
    Program(programs::Program),
    #[cfg(feature = "serve")]
    #[command(flatten)]
    Served(served::Verb),
    #[cfg(not(feature = "serve"))]
    #[command(external_subcommand)]
    Served(Vec<OsString>),
}

/// Parses the command line, and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    #[cfg(feature = "serve")]
    if let Some(code) = agent::stage().or_else(completions::names_of_line) {
        return code;
    }
    let omega: Omega = match command_line::parse("omega") {
        Ok(omega) => omega,
        Err(code) => return code,
    };
    let help = match &omega.command {
        Some(Command::Explain(_)) => "omega explain",
        Some(Command::Rebalance(_)) => "omega rebalance",
        _ => "omega run",
    };
    let done = match omega.command {
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Explain(args)) => explain::explain(&args),
        Some(Command::Rebalance(args)) => rebalance::rebalance(&args),
        Some(Command::Demo(args)) => return demonstrate(&args),
        Some(Command::Program(program)) => return programs::start(&program),
        Some(Command::Served(verb)) => served::run(verb).map_err(Into::into),
        None => run::run(&omega.run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ run::Error::Arguments(_)) => {
            fail(&format!("{error}; see {help} --help"), error.exit_code())
        }
        Err(error) => fail(&error.to_string(), error.exit_code()),
    }
}
/// Runs the demonstration. It fails only because of a defect, or if its output was closed.
fn demonstrate(args: &demo::DemoArgs) -> ExitCode {
    match demo::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string(), 1),
    }
}

/// Prints the error in one line, and returns the exit code.
fn fail(why: &str, code: u8) -> ExitCode {
    command_line::fail("omega", why, code)
}
