//! `omega`: the command line. Its code is in the library of this package, so that tests can choose
//! its features.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    omega_server::main()
}
