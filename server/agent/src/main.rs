//! The supervisor of one task as a separate program. `omega agent-exec` runs the same code.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match (args.next(), args.next()) {
        (Some(stage), Some(folder)) => {
            let done = omega_agent::exec(&stage.to_string_lossy(), &PathBuf::from(folder));
            done.map_or_else(failed, |()| ExitCode::SUCCESS)
        }
        _ => failed(std::io::Error::other("the arguments must be a stage and a folder")),
    }
}

fn failed(why: std::io::Error) -> ExitCode {
    eprintln!("omega-agent-exec: {why}");
    ExitCode::from(omega_agent::CANNOT_START)
}
