//! `omega agent`: an agent of simulated machines, which start, run and end tasks in time but not in truth.
//!
//! It is a client like any other agent: what it says and hears is what a real one would. So a whole cell can be
//! tried out, and its servers measured, without a machine.

mod simulation;

use crate::ask::pairs;
use crate::connect::CellArgs;
use crate::context::ContextError;
use crate::events::LogArgs;
use crate::signals::Signals;
use clap::Args;
use omega_client::ApiError;
use omega_client::agent::{Agent, AgentSettings, Order};
use omega_core::{Amounts, Labels, Machine, NodeCores, TaskReport};
use omega_workload::words::plural;
use simulation::{Behaviour, Simulation};
use std::io::{self, Write};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Machines that are registered at once: enough to fill the entries of a log.
const REGISTER_AT_ONCE: usize = 128;

/// Machines of a rack, and zones.
const RACK: u32 = 40;
const ZONES: u32 = 3;

/// Speak for simulated machines: they start tasks, run them for their expected time, and tell.
#[derive(Clone, Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    cell: CellArgs,
    /// How many machines.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    simulate: u32,
    /// What their names begin with: NAME-0, NAME-1, ...
    #[arg(long, value_name = "NAME", default_value = "sim")]
    prefix: String,
    /// Cores of each.
    #[arg(long, value_name = "CORES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cpu: u64,
    /// Those of each NUMA node of each that tasks may have to themselves: 32,32 [default: none].
    #[arg(long, value_name = "CORES,CORES", value_parser = pairs::numa)]
    numa: Option<NodeCores>,
    /// Memory of each, in GiB.
    #[arg(long, value_name = "GIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    memory: u64,
    /// What the expected run time of a batch task is multiplied by; it is a minute if its job does not
    /// say.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    run_time_scale: f64,
    /// How many runs in a hundred fail.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    fail: u8,
    /// Which runs fail, and how much tasks use.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// How often each machine says that it is alive, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    heartbeat: u64,
    #[command(flatten)]
    log: LogArgs,
}

/// Why an agent does not start, or ends early. One line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Correct the context.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Correct the address or the machines, or start the cell.
    #[error(transparent)]
    Cell(#[from] ApiError),
    /// The system has no threads or signals left.
    #[error("the operating system refuses: {0}")]
    System(#[from] io::Error),
}

fn scale(text: &str) -> Result<f64, String> {
    let wrong = || "a number from 0 to 1000000 is needed".to_owned();
    text.parse().ok().filter(|scale| (0.0..=1e6).contains(scale)).ok_or_else(wrong)
}

/// Speaks for the machines until it is told to end.
pub(crate) fn run(args: &AgentArgs) -> Result<(), AgentError> {
    args.log.show();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let settings = AgentSettings { heartbeat: Duration::from_secs(args.heartbeat) };
        let (agent, orders) = Agent::start(&args.cell.address()?, settings)?;
        let mut signals = Signals::listen()?;
        tokio::select! {
            () = signals.end() => Ok(()),
            error = register(args, &agent) => Err(error.into()),
            () = follow(args, &agent, orders) => Ok(()),
        }
    })
}

/// Registers all machines, says so, and waits for ever. It ends only with an error.
async fn register(args: &AgentArgs, agent: &Agent) -> ApiError {
    let mut begun = JoinSet::new();
    for index in 0..args.simulate {
        if begun.len() >= REGISTER_AT_ONCE
            && let Some(error) = registered(begun.join_next().await)
        {
            return error;
        }
        let (agent, machine) = (agent.clone(), machine(args, index));
        begun.spawn(async move { agent.register(machine).await });
    }
    while !begun.is_empty() {
        if let Some(error) = registered(begun.join_next().await) {
            return error;
        }
    }
    // A reader that has gone is no error.
    let _ = writeln!(io::stdout(), "agent speaks for {}", plural(args.simulate.into(), "machine"));
    std::future::pending().await
}

fn registered<T, E>(joined: Option<Result<Result<T, ApiError>, E>>) -> Option<ApiError> {
    joined.and_then(Result::ok).and_then(Result::err)
}

fn machine(args: &AgentArgs, index: u32) -> Machine {
    let capacity = Amounts::new([args.cpu * 1000, args.memory << 30]);
    let mut machine = Machine::new(format!("{}-{index}", args.prefix), capacity);
    machine.numa = args.numa.unwrap_or_default();
    let (zone, rack) = (index / RACK % ZONES, index / RACK);
    machine.labels = Labels::new([("zone", format!("z{zone}")), ("rack", format!("r{rack}"))]);
    machine
}

/// Does what the cell orders, as long as it orders anything.
async fn follow(args: &AgentArgs, agent: &Agent, mut orders: UnboundedReceiver<Order>) {
    let behaviour =
        Behaviour { seed: args.seed, run_time_scale: args.run_time_scale, fail_percent: args.fail };
    let mut simulation = Simulation::new(behaviour);
    let began = Instant::now();
    let mut loads = tokio::time::interval(Duration::from_secs(args.heartbeat));
    loop {
        let next = simulation.next_end_ms().map(|at| began + Duration::from_millis(at));
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => obey(agent, &mut simulation, order, elapsed_ms(began)),
                None => return,
            },
            () = tokio::time::sleep_until(next.unwrap_or(began)), if next.is_some() => {
                for (machine, task, report) in simulation.step(elapsed_ms(began)) {
                    agent.report(machine, task, report);
                }
            }
            _ = loads.tick() => {
                for (machine, load) in simulation.take_loads() {
                    agent.load(machine, load);
                }
            }
        }
    }
}

fn obey(agent: &Agent, simulation: &mut Simulation, order: Order, now_ms: u64) {
    match order {
        Order::Start(task) => {
            simulation.start(&task, now_ms);
            agent.report(task.machine, task.id, TaskReport::Started);
        }
        Order::Stop { task, machine, grace_ms: 0 } => simulation.stop(machine, task),
        Order::Stop { task, machine, grace_ms } => {
            simulation.end((machine, task), grace_ms, now_ms)
        }
        Order::Kill { task, machine } => simulation.stop(machine, task),
        Order::Resize { task, machine, to } => simulation.resize((machine, task), &to),
        Order::Detached(machine) => simulation.forget(machine),
    }
}

fn elapsed_ms(began: Instant) -> u64 {
    began.elapsed().as_millis() as u64
}
