//! The agent of simulated machines, whose tasks start, run and end in real time without any process.
//!
//! The cell treats it like any other agent. So users can try out a cell, and measure its servers, without real
//! machines.

use super::args::AgentArgs;
use super::error::AgentError;
use super::simulation::{Behaviour, Simulation};
use crate::signals::Signals;
use omega_client::ApiError;
use omega_client::agent::{Agent, AgentSettings, Directive};
use omega_core::{Amounts, Labels, Machine, TaskReport};
use omega_workload::words::plural;
use std::io::{self, Write};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Maximum number of concurrent registrations. Concurrent registrations share log entries, and this number is enough to
/// fill them.
const REGISTER_AT_ONCE: usize = 128;

/// Machines per rack.
const RACK: u32 = 40;
/// Number of zones.
const ZONES: u32 = 3;

/// Default cores and bytes of memory of a machine.
const CPU: u64 = 64;
const MEMORY_BYTES: u64 = 256 << 30;

/// Runs the simulated machines until a signal ends the agent.
pub(super) async fn run(args: &AgentArgs, count: u32) -> Result<(), AgentError> {
    let settings = AgentSettings { heartbeat: Duration::from_secs(args.heartbeat) };
    let (agent, directives) = Agent::start(&args.cell.address()?, settings)?;
    let mut signals = Signals::listen()?;
    tokio::select! {
        () = signals.end() => Ok(()),
        error = register(args, count, &agent) => Err(error.into()),
        () = follow(args, &agent, directives) => Ok(()),
    }
}

/// Registers all machines, prints a line, and then waits for ever. Returns only if there is an error.
async fn register(args: &AgentArgs, count: u32, agent: &Agent) -> ApiError {
    let mut begun = JoinSet::new();
    for index in 0..count {
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
    // If standard output is closed, this is not an error.
    let _ = writeln!(io::stdout(), "agent manages {}", plural(count.into(), "machine"));
    std::future::pending().await
}

fn registered<T, E>(joined: Option<Result<Result<T, ApiError>, E>>) -> Option<ApiError> {
    joined.and_then(Result::ok).and_then(Result::err)
}

fn machine(args: &AgentArgs, index: u32) -> Machine {
    let (cpu, memory) = (args.cpu.unwrap_or(CPU), args.memory.unwrap_or(MEMORY_BYTES));
    let capacity = Amounts::new([cpu * 1000, memory]);
    let mut machine = Machine::new(format!("{}-{index}", args.prefix), capacity);
    machine.ports = args.ports.unwrap_or_default();
    machine.numa = args.numa.unwrap_or_default();
    let (zone, rack) = (index / RACK % ZONES, index / RACK);
    machine.labels = Labels::new([("zone", format!("z{zone}")), ("rack", format!("r{rack}"))]);
    machine
}

/// Executes directives until their stream ends.
async fn follow(args: &AgentArgs, agent: &Agent, mut directives: UnboundedReceiver<Directive>) {
    let behaviour =
        Behaviour { seed: args.seed, run_time_scale: args.run_time_scale, fail_percent: args.fail };
    let mut simulation = Simulation::new(behaviour);
    let began = Instant::now();
    let mut loads = tokio::time::interval(Duration::from_secs(args.heartbeat));
    loop {
        let next = simulation.next_end_ms().map(|at| began + Duration::from_millis(at));
        tokio::select! {
            directive = directives.recv() => match directive {
                Some(directive) => apply(agent, &mut simulation, directive, elapsed_ms(began)),
                None => return,
            },
            () = tokio::time::sleep_until(next.unwrap_or(began)), if next.is_some() => {
                for (run, report) in simulation.step(elapsed_ms(began)) {
                    agent.report(run, report);
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

fn apply(agent: &Agent, simulation: &mut Simulation, directive: Directive, now_ms: u64) {
    match directive {
        Directive::Start(task) => {
            simulation.start(&task, now_ms);
            agent.report(task.run_id(), TaskReport::Started);
        }
        Directive::Stop { run, grace_ms: 0 } | Directive::Kill(run) => simulation.stop(run),
        Directive::Stop { run, grace_ms } => simulation.end(run, grace_ms, now_ms),
        Directive::Resize { run, to } => simulation.resize(run, &to),
        Directive::EndConfirmed(_) => {}
        Directive::ReadLog(read) => agent.log(&read, None),
        Directive::Detached(machine) => simulation.forget(machine),
    }
}

fn elapsed_ms(began: Instant) -> u64 {
    began.elapsed().as_millis() as u64
}
