//! `omega`: the command line of the cell. All of it is in the library beside this file, so that tests can choose its features.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    omega_server::main()
}
