//! `omega agent`: offers this machine to a cell and runs its tasks, or simulates many machines.
//!
//! In reading order: this file, `offer.rs` (the machine's description), `worker.rs` (directives and reports),
//! `supervisor.rs`, `environment.rs`, `core_pool.rs`, `losses.rs`, `note.rs`; `simulated.rs` and `simulation.rs` for
//! simulated machines.

mod core_pool;
mod environment;
mod losses;
mod note;
mod offer;
mod simulated;
mod simulation;
mod supervisor;
mod worker;

use crate::ask::{AskError, pairs};
use crate::connect::CellArgs;
use crate::context::ContextError;
use crate::events::LogArgs;
use clap::Args;
use omega_agent::DriverError;
use omega_agent::cgroup::CgroupError;
use omega_client::ApiError;
use omega_core::{NodeCores, PortRange};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Heading of options in the help.
const SIMULATION: &str = "Simulation";

/// Offer this machine to a cell and run its tasks, or simulate machines.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  omega agent --cell 10.0.0.1:7600 --label rack=a\n  \
    omega agent --simulate 100")]
pub(crate) struct AgentArgs {
    /// Simulate this number of machines, which run no programs, instead of offering this machine.
    #[arg(long, help_heading = SIMULATION, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = ["name", "dir", "labels", "no_limits", "log_bytes", "pids"])]
    simulate: Option<u32>,
    /// Name of this machine [default: its host name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Folder for the tasks: working directories, logs, and files of their supervisors. It is created if missing.
    #[arg(long, value_name = "DIR", default_value = "omega-agent")]
    dir: PathBuf,
    /// Label of this machine. May be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pairs::label)]
    labels: Vec<(String, String)>,
    /// Run tasks without control groups, so that their cpu, memory and number of processes are not limited.
    #[arg(long)]
    no_limits: bool,
    /// Maximum size of a log file in bytes; a task has at most two files for each of standard
    /// output and standard error.
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, value_parser = clap::value_parser!(u64).range(1024..))]
    log_bytes: u64,
    /// Maximum number of processes and threads of a task.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..))]
    pids: u64,
    /// Prefix of the machines' names: PREFIX-0, PREFIX-1, ...
    #[arg(long, help_heading = SIMULATION, value_name = "NAME", default_value = "sim", requires = "simulate")]
    prefix: String,
    /// Number of cores to offer [default: all of this machine; 64 for a simulated one].
    #[arg(long, value_name = "CORES", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cpu: Option<u64>,
    /// For each NUMA node, the number of cores that tasks may use exclusively, such as 32,32 [default: all cores of
    /// this machine; none if --cpu offers fewer cores than the machine has, or for a simulated machine].
    #[arg(long, value_name = "CORES,CORES", value_parser = pairs::numa)]
    numa: Option<NodeCores>,
    /// Range from which the cell chooses ports for tasks, or `none` [default: 20000-31999].
    #[arg(long, value_name = "FIRST-LAST")]
    ports: Option<PortRange>,
    /// Memory to offer, in GiB [default: all of this machine; 256 for a simulated one].
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    memory: Option<u64>,
    /// Factor for the run time of batch tasks: a task runs for this factor times the job's runtime estimate, or times
    /// one minute if the job has no estimate.
    #[arg(long, help_heading = SIMULATION, value_name = "X", default_value_t = 1.0, value_parser = scale, requires = "simulate")]
    run_time_scale: f64,
    /// Percentage of task runs that fail.
    #[arg(long, help_heading = SIMULATION, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), requires = "simulate")]
    fail: u8,
    /// Seed for the choice of the task runs that fail, and for the resource usage of tasks.
    #[arg(long, help_heading = SIMULATION, value_name = "SEED", default_value_t = 1, requires = "simulate")]
    seed: u64,
    /// Interval of each machine's heartbeats, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    heartbeat: u64,
    #[command(flatten, next_help_heading = "Cell and log")]
    cell: CellArgs,
    #[command(flatten, next_help_heading = "Cell and log")]
    log: LogArgs,
}

/// Error that ends an agent, or keeps it from starting. One line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The context is wrong. Correct it.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The cell does not answer, or rejects the agent. Correct the address or the machines, or start the cell.
    #[error(transparent)]
    Cell(#[from] ApiError),
    /// The request for the cell's resource kinds failed. Start the cell.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The operating system refused a resource, such as a thread or a file.
    #[error("the operating system refused a thread, a file or another resource: {0}")]
    System(#[from] io::Error),
    /// The folder cannot be used. Choose another one, or correct its permissions.
    #[error("{}: cannot be used as the agent's folder: {why}: choose another with --dir", folder.display())]
    Folder {
        /// The given folder.
        folder: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// A task's folder is damaged. Correct it as the message says.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is no usable control group. Give the agent a group of its own, or run tasks without limits.
    #[error("{0}, or give --no-limits to run tasks without limits")]
    Cgroup(#[from] CgroupError),
    /// Another agent uses the folder. Choose another one.
    #[error("{0}: another agent uses this folder: give each agent its own with --dir")]
    FolderInUse(PathBuf),
    /// The machine was removed from the cell, or another agent manages it. Stop the other agent, or register the
    /// machine again.
    #[error(
        "this agent no longer manages machine {0:?}: the machine was removed from the cell, or \
         another agent manages it"
    )]
    Detached(String),
}

fn scale(text: &str) -> Result<f64, String> {
    let wrong = || "must be a number from 0 to 1000000".to_owned();
    text.parse().ok().filter(|scale| (0.0..=1e6).contains(scale)).ok_or_else(wrong)
}

/// Runs the agent until a signal ends it, or the cell detaches its machine.
pub(crate) fn run(args: &AgentArgs) -> Result<(), AgentError> {
    args.log.show();
    let ready = match args.simulate {
        None => Some(worker::prepare(args)?),
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
            (Some(ready), _) => worker::run(args, ready).await,
            (None, count) => simulated::run(args, count.unwrap_or(1)).await,
        }
    })
}

/// First argument of the commands with which the agent starts the stages of a task.
const STAGE: &str = "agent-exec";

/// Runs a stage of a task, if the command line names one. The command line is not parsed any further: each task starts
/// two stages, and building the tree of all commands would take longer than the rest of such a process.
pub(crate) fn stage() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == STAGE).then(|| omega_agent::main(args))
}
