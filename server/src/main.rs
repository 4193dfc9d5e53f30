//! `omega`: the command line. The library beside this file has all of it, so that tests can choose
//! its features.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    omega_server::main()
}
