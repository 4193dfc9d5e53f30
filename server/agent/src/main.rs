//! The supervisor of a task as a program for tests. Users get `omega-supervisor`.

use std::process::ExitCode;

fn main() -> ExitCode {
    omega_agent::main(std::env::args_os().skip(1))
}
