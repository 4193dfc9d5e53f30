//! `omega agent`: offers this machine to a cell and runs its tasks, or simulates many machines.
//!
//! In reading order: this file, `args.rs`, `error.rs`, `offer.rs` (the machine's description), `machine.rs` (the agent of
//! this machine), `unmanaged.rs`, `supervisor.rs`, `memory.rs`; `simulated.rs` and `simulation.rs` for simulated
//! machines. The crate `omega_runner` carries out the cell's directives.

mod args;
mod error;
mod machine;
mod memory;
mod offer;
mod simulated;
mod simulation;
mod supervisor;
mod unmanaged;

pub(crate) use args::AgentArgs;
pub(crate) use error::AgentError;

use std::process::ExitCode;
use supervisor::STAGE;

/// Runs the agent until a signal ends it, or the cell detaches its machine.
pub(crate) fn run(args: &AgentArgs) -> Result<(), AgentError> {
    if args.simulate.is_none() {
        memory::use_small_pages();
    }
    args.log.show();
    let ready = match args.simulate {
        None => Some(machine::prepare(args)?),
        Some(_) => None,
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if ready.is_some() {
        // This thread runs the tasks of one machine. A worker thread keeps the connection, because heartbeats must not
        // wait for a file system. More workers would take memory in an idle agent.
        runtime.worker_threads(1);
    }
    runtime.enable_all().build()?.block_on(async {
        match (ready, args.simulate) {
            (Some(ready), _) => machine::run(args, ready).await,
            (None, count) => simulated::run(args, count.unwrap_or(1)).await,
        }
    })
}

/// Runs a stage of a task, if the command line names one. The command line is not parsed any further: each task starts
/// two stages, and building the tree of all commands would take longer than the rest of such a process.
pub(crate) fn stage() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == STAGE).then(|| omega_agent::main(args))
}
