//! The programs in `omega`'s folder: the simulator and the measurements.
//!
//! They are separate programs, so that building `omega` compiles neither. `omega sim` starts the program in the folder
//! of the `omega` program, or else the first one on the search path.

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    /// Simulate a cell (starts the program `omega-sim`).
    #[command(disable_help_flag = true)]
    Sim(Passed),
    /// Describe traces, and generate similar ones (starts `omega-sim trace`).
    #[command(disable_help_flag = true)]
    Trace(Passed),
    /// Measure the speed of this build (starts the program `omega-bench`).
    #[command(disable_help_flag = true)]
    Bench(Passed),
}

/// Arguments that the other program reads.
#[derive(Debug, Args)]
pub(crate) struct Passed {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs a program to its end. The exit code is that of the program.
pub(crate) fn start(program: &Program) -> ExitCode {
    let (name, folder, first, passed) = match program {
        Program::Sim(passed) => ("omega-sim", "bench/sim", None, passed),
        Program::Trace(passed) => ("omega-sim", "bench/sim", Some("trace"), passed),
        Program::Bench(passed) => ("omega-bench", "bench", None, passed),
    };
    let mut command = Command::new(beside(name).unwrap_or_else(|| name.into()));
    match command.args(first).args(&passed.arguments).status() {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            ExitCode::from(code.unwrap_or(crate::BAD_INPUT))
        }
        Err(why) => {
            let why = format!(
                "the program {name} cannot be started: {why}: build it with `cargo install --path \
                 {folder}`"
            );
            crate::fail(&why, crate::BAD_INPUT)
        }
    }
}

/// Finds a program in the folder of the running program.
fn beside(name: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let there = here.with_file_name(name);
    there.is_file().then_some(there)
}
