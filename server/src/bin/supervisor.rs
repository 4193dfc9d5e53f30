//! `omega-supervisor`: the supervisor of a task as a small program, which `omega agent` starts if it is in the same
//! folder as `omega`, and of the same build. Otherwise, `omega` itself supervises the tasks.

use std::process::ExitCode;

fn main() -> ExitCode {
    omega_agent::main(std::env::args_os().skip(1))
}
