//! An agent with a driver of its own, which runs each task as a process group, without a supervisor, logs or limits.
//! Its tasks end with it, unless it is killed by SIGKILL.
//!
//! ```console
//! $ cargo run -p omega-runner --example own_driver -- 127.0.0.1:7600 box-1
//! ```

use omega_agent::{Driver, DriverError, Event, Exit, FoundTask, TaskSpec, Usage};
use omega_client::Address;
use omega_core::{Amounts, Machine};
use omega_runner::{Runner, RunnerError, RunnerSettings};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// A task that runs.
#[derive(Debug)]
struct Running {
    child: Child,
    grace: Duration,
    /// Time of the kill, if the task was stopped.
    kill_at: Option<Instant>,
}

impl Running {
    /// Sends a signal to the task's processes. Those that have just ended need none.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

/// Refuses a task that needs what this driver lacks.
fn check(spec: &TaskSpec) -> Result<(), DriverError> {
    let needs = [
        ("an image", spec.container.is_some()),
        ("a user", spec.user.is_some()),
        ("a health check", spec.health.is_some()),
        ("restarts", spec.restart.attempts > 0),
    ];
    match needs.into_iter().find(|(_, is_needed)| *is_needed) {
        Some((what, _)) => Err(DriverError::Refused(format!("this driver cannot give {what}"))),
        None => Ok(()),
    }
}

/// The driver. docs/drivers.md has the rules of its calls.
#[derive(Debug, Default)]
struct Children {
    running: BTreeMap<String, Running>,
    events: Vec<Event>,
}

impl Driver for Children {
    fn name(&self) -> &'static str {
        "children"
    }

    fn find(&mut self) -> Result<Vec<FoundTask>, DriverError> {
        // The tasks of an earlier process have ended with it.
        Ok(Vec::new())
    }

    fn start(&mut self, spec: &TaskSpec) -> Result<(), DriverError> {
        check(spec)?;
        let variables = spec.env.iter().map(|(name, value)| (name, value));
        let mut program = Command::new(&spec.command);
        program.args(&spec.args).env_clear().envs(variables).stdin(Stdio::null());
        program.current_dir(spec.working_dir.as_deref().unwrap_or(Path::new("/"))).process_group(0);
        let refused = |why| DriverError::Refused(format!("{}: {why}", spec.command));
        let child = program.spawn().map_err(refused)?;
        let grace = Duration::from_millis(spec.grace_ms.into());
        self.running.insert(spec.id.clone(), Running { child, grace, kill_at: None });
        self.events.push(Event::Started(spec.id.clone()));
        Ok(())
    }

    fn stop(&mut self, task: &str) {
        let Some(running) = self.running.get_mut(task) else { return };
        running.kill_at = Some(Instant::now() + running.grace);
        running.signal(Signal::TERM);
    }

    fn kill(&mut self, task: &str) {
        if let Some(running) = self.running.get(task) {
            running.signal(Signal::KILL);
        }
    }

    fn resize(&mut self, _task: &str, _cpu: u64, _memory: u64) -> Result<(), DriverError> {
        // There are no limits to change.
        Ok(())
    }

    fn poll(&mut self) -> Vec<Event> {
        let now = Instant::now();
        let events = &mut self.events;
        self.running.retain(|task, running| {
            if running.kill_at.is_some_and(|at| at <= now) {
                running.signal(Signal::KILL);
            }
            let Ok(Some(status)) = running.child.try_wait() else { return true };
            events.push(Event::Ended(task.clone(), exit(status)));
            false
        });
        std::mem::take(events)
    }

    fn usage(&mut self) -> Usage {
        Usage::default()
    }

    fn logs(&self, _task: &str, _owner: &str) -> Option<PathBuf> {
        None
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.running.values().for_each(|running| running.signal(Signal::KILL));
    }
}

fn exit(status: ExitStatus) -> Exit {
    match status.code() {
        Some(code) => Exit::Code(code),
        None => Exit::Signal(status.signal().unwrap_or_default()),
    }
}

/// Offers a machine with four cores and 4 GiB of memory, and runs its tasks until the cell detaches it.
pub(crate) async fn run(cell: String, name: String) -> Result<(), RunnerError> {
    let address = Address::plain([cell]);
    let driver = Box::new(Children::default());
    let mut runner = Runner::connect(&address, driver, RunnerSettings::default()).await?;
    let mut capacity = Amounts::zero();
    for (kind, amount) in [("cpu", 4000), ("memory", 4 << 30)] {
        capacity.set(runner.kinds().by_name(kind).expect("every cell has it"), amount);
    }
    let machine = runner.register(Machine::new(name, capacity)).await?;
    runner.run(machine).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunnerError> {
    let mut args = std::env::args().skip(1);
    let (Some(cell), Some(name)) = (args.next(), args.next()) else {
        eprintln!("usage: own_driver HOST:PORT MACHINE");
        return Ok(());
    };
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = run(cell, name) => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
