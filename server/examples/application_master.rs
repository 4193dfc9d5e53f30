//! An application that requests containers one by one, without a scheduler of its own. It renders six frames, two at a
//! time. It retries a failed frame, cancels one, is killed half-way, and continues.
//!
//! ```console
//! $ omega dev &
//! $ cargo run -p omega-server --example application_master -- 127.0.0.1:7600
//! ```
//!
//! Without an address, the example serves a cell itself, with a scheduler and simulated machines.

use omega_cellstate::{Cell, SharedCell};
use omega_client::agent::{Agent, AgentSettings, Directive};
use omega_client::application::{
    Application, ApplicationSettings, Completed, Container, ContainerSpec, ContainerState, Ended,
    Recover, Registered,
};
use omega_client::{Address, ApiError, RemoteCell};
use omega_core::{Amounts, Kinds, Machine, TaskReport};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
use omega_service::{Extras, Host, ListenerConfig, ReplicaIdentity, serve_clients};
use omega_store::CellId;
use omega_store::log::ReplicaId;
use std::collections::BTreeSet;
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const FRAMES: u32 = 6;
const AT_ONCE: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let address = match std::env::args().nth(1) {
        Some(address) => address,
        None => pretend(&runtime)?,
    };
    let address = Address::plain([address]);

    println!("-- the first process");
    let registered = register(&address, Recover::Drop)?;
    let machines = registered.application.machines()?;
    println!("{} machines, {} of them alive", machines.len(), alive(&machines));
    // The application is killed after three frames. This example only drops its state.
    render(registered, 3)?;

    println!("-- the second process");
    render(register(&address, Recover::Previous)?, FRAMES as usize)?;
    Ok(())
}

fn register(address: &Address, recover: Recover) -> Result<Registered, ApiError> {
    Application::register(address, ApplicationSettings::new("render"), recover)
}

fn alive(machines: &[omega_client::application::MachineSnapshot]) -> usize {
    machines.iter().filter(|machine| machine.is_alive == Some(true)).count()
}

/// Renders until this many frames are done.
fn render(registered: Registered, until: usize) -> Result<(), Box<dyn Error>> {
    let Registered { application, recovered, events } = registered;
    // Callbacks run on a separate thread; this thread waits for their messages.
    drop(events);
    let (to, ended) = std::sync::mpsc::channel::<(u32, Completed)>();
    let follow = |container: Container| {
        let to = to.clone();
        container
            .on_running(|container, machine| println!("{} runs on {machine}", container.name()))
            .on_completed(move |container, completed| {
                println!("{} {completed}", container.name());
                // Sending fails if the receiver is gone, which may happen at the end.
                let _ = to.send((frame(container.name()), completed.clone()));
            })
    };
    let (mut begun, mut done) = (BTreeSet::new(), BTreeSet::new());
    for container in recovered {
        println!("{} was there before", container.name());
        let number = frame(container.name());
        match container.state() {
            ContainerState::Ended(completed) if is_over(&completed) => _ = done.insert(number),
            ContainerState::Ended(_) => {}
            _ => {
                begun.insert(number);
                follow(container);
            }
        }
    }
    while done.len() < until {
        let next = (1..=FRAMES).find(|frame| !begun.contains(frame) && !done.contains(frame));
        if let Some(next) = next.filter(|_| begun.len() < AT_ONCE) {
            let container = follow(application.create(&format!("frame-{next}"), &spec(next))?);
            begun.insert(next);
            if next == 5 {
                // The frame is not needed any more.
                container.release();
            }
            continue;
        }
        let (number, completed) = ended.recv()?;
        begun.remove(&number);
        // A failed frame is started again, with the same name.
        if is_over(&completed) {
            done.insert(number);
        }
    }
    Ok(())
}

fn is_over(completed: &Completed) -> bool {
    matches!(completed.ended, Ended::Finished | Ended::Released)
}

fn frame(name: &str) -> u32 {
    name.strip_prefix("frame-").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn spec(frame: u32) -> ContainerSpec {
    let runtime_estimate_ms = Some(100 + 50 * u64::from(frame));
    ContainerSpec { runtime_estimate_ms, ..ContainerSpec::new(Amounts::new([1000, 1 << 30])) }
}

/// Starts a cell, a scheduler and three machines in this process.
fn pretend(runtime: &Runtime) -> Result<String, Box<dyn Error>> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?.to_string();
    let host = Host::memory(SharedCell::new(Cell::new(Kinds::standard())));
    let me = ReplicaIdentity { cell: CellId(1), replica: ReplicaId(1) };
    let listener_config = ListenerConfig::open(listener);
    let extras = Extras::default();
    runtime.spawn(serve_clients(listener_config, host, me, extras, std::future::pending()));

    let cell = RemoteCell::connect(&Address::plain([address.clone()]))?;
    let mut scheduler = Scheduler::new(&cell, Profile::batch(), Settings::new("default"))?;
    std::thread::spawn(move || {
        let began = Instant::now();
        while scheduler.step(&cell, began.elapsed().as_nanos() as u64, &mut Unobserved).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    runtime.block_on(machines(&address))?;
    Ok(address)
}

/// Simulated machines: tasks end after their expected run time. The first attempt at frame 2 fails.
async fn machines(address: &str) -> Result<(), ApiError> {
    let address = Address::plain([address]);
    let (agent, mut directives) = Agent::start(&address, AgentSettings::default())?;
    for index in 0..3 {
        let capacity = Amounts::new([4000, 8 << 30]);
        agent.register(Machine::new(format!("sim-{index}"), capacity)).await?;
    }
    tokio::spawn(async move {
        while let Some(directive) = directives.recv().await {
            let Directive::Start(task) = directive else { continue };
            let agent = agent.clone();
            tokio::spawn(async move {
                agent.report(task.run_id(), TaskReport::Started);
                let run_ms = task.runtime_estimate_ms.unwrap_or(100);
                tokio::time::sleep(Duration::from_millis(run_ms)).await;
                let fails = &*task.job_name == "render.frame-2";
                let report = if fails { TaskReport::Failed } else { TaskReport::Finished };
                agent.report(task.run_id(), report);
            });
        }
    });
    Ok(())
}
