//! Executes the cell's directives on this machine, and reports the results.

use super::args::AgentArgs;
use super::core_pool::CorePool;
use super::error::AgentError;
use super::losses::Losses;
use super::note::Note;
use super::supervisor::Supervisor;
use super::{environment, offer};
use crate::ask;
use crate::signals::Signals;
use omega_agent::cgroup::CgroupRoot;
use omega_agent::logs::{self, LogStream};
use omega_agent::machine::{self, Found};
use omega_agent::{
    Container, Driver, Event, Exit, FoundTask, Limits, ProcessDriver, ProcessSettings, TaskSpec,
};
use omega_client::agent::{Agent, AgentSettings, LogPart, LogRead, Order, Owner, Task};
use omega_core::{
    Amounts, EndReason, HealthCheck, JobKind, Kinds, MachineId, Probe, RunEnd, TaskId, TaskReport,
};
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedReceiver;

/// Interval at which the driver is polled, even if it has no notice of an event, because it may have to kill a process
/// that does not end in time.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time that a supervisor has to end its task, after the grace period if there is one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Steps to which reported loads are rounded, so that small changes do not cause log entries.
const CPU_STEP: u64 = 50;
const MEMORY_STEP: u64 = 16 << 20;

/// State of an agent before it attaches to the cell.
pub(super) struct Ready {
    driver: ProcessDriver,
    left: Vec<FoundTask>,
    found: Found,
    kinds: Kinds,
    /// Maximum number of open files of a task.
    open_files: u64,
    /// Program of the supervisors, kept open while the agent runs.
    _program: Supervisor,
    /// Lock of the folder, kept while the agent runs.
    _lock: File,
}

/// Locks the folder, prepares control groups, finds running tasks, and requests the kinds of the cell.
pub(super) fn prepare(args: &AgentArgs) -> Result<Ready, AgentError> {
    let refused = |why| AgentError::Folder { folder: args.dir.clone(), why };
    fs::create_dir_all(&args.dir).map_err(refused)?;
    let dir = args.dir.canonicalize().map_err(refused)?;
    let lock = File::create(dir.join("agent.lock")).map_err(refused)?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(AgentError::FolderInUse(dir));
    }
    let cgroups = if args.no_limits { None } else { Some(CgroupRoot::of_this_process()?) };
    let open_files = raise_open_files();
    let program = Supervisor::find();
    let supervisor = program.command();
    let folder = dir.join("tasks");
    let settings = ProcessSettings { folder, supervisor, cgroups, patience: PATIENCE };
    let mut driver = ProcessDriver::new(settings)?;
    let left = driver.find()?;
    let found = machine::find(&dir);
    let kinds = ask::kinds_of(&args.cell.address()?)?;
    Ok(Ready { driver, left, found, kinds, open_files, _program: program, _lock: lock })
}

/// Raises the number of files that this process may open, because each task takes one. Returns the previous limit,
/// which applies to the tasks; 0 means no limit.
fn raise_open_files() -> u64 {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    // If this fails, tasks for which the agent cannot open a file are polled.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    current.unwrap_or_default()
}

/// Runs the agent until a signal ends it. The tasks continue without it.
pub(super) async fn run(args: &AgentArgs, ready: Ready) -> Result<(), AgentError> {
    let settings = AgentSettings { heartbeat: Duration::from_secs(args.heartbeat) };
    let (agent, orders) = Agent::start(&args.cell.address()?, settings)?;
    let mut signals = Signals::listen()?;
    let Ready { driver, left, found, kinds, open_files, _program, _lock } = ready;
    let limits =
        Limits { log_bytes: args.log_bytes, pids: args.pids, open_files, ..Limits::default() };
    let machine = offer::machine(args, &found, &kinds);
    let mut worker = Worker {
        agent,
        driver: Box::new(driver),
        kinds,
        cores: CorePool::new(found.nodes),
        limits,
        are_limited: !args.no_limits,
        tasks: BTreeMap::new(),
        waiting: BTreeMap::new(),
        losses: Losses::default(),
        load: Amounts::zero(),
    };
    worker.find(left);
    let name = machine.name.to_string();
    tokio::select! {
        () = signals.end() => Ok(()),
        ended = worker.work(machine, orders, settings.heartbeat) => match ended? {
            Ended::Detached => Err(AgentError::Detached(name)),
            Ended::Agent => Ok(()),
        },
    }
}

/// Reason for which the agent ends.
enum Ended {
    /// The machine was removed from the cell, or another agent manages it.
    Detached,
    /// The connection to the cell has ended, because its runtime has stopped.
    Agent,
}

/// A task that the driver runs.
struct Held {
    note: Note,
    /// Whether the end of the task is reported to the cell. False if the cell stopped the task without a grace period.
    is_reported: bool,
    is_stopping: bool,
    /// Restarts of the task's program on this machine.
    restarts: u32,
}

/// The agent of one machine.
struct Worker {
    agent: Agent,
    driver: Box<dyn Driver>,
    kinds: Kinds,
    cores: CorePool,
    /// Limits that apply to all tasks.
    limits: Limits,
    /// Whether tasks are limited in cpu, memory and number of processes.
    are_limited: bool,
    /// Tasks by their name in the driver, which is also the name of their folder.
    tasks: BTreeMap<String, Held>,
    /// Tasks to start later: after their earlier run on this machine has ended, and after the delay that follows the
    /// loss of their supervisor.
    waiting: BTreeMap<String, Task>,
    losses: Losses,
    /// The last reported load.
    load: Amounts,
}

/// The name of a task's folder. Within a cell it is unique, because job numbers are not reused. A restored cell, and a
/// restarted cell in memory, use them again; so a folder also has an [`owner`].
fn folder(task: TaskId) -> String {
    format!("{}-{}", task.job.0, task.index)
}

/// The owner of a folder, for the driver.
fn owner(of: &Owner) -> String {
    format!("{:?} {:?}", &*of.tenant, &*of.job)
}

/// Replaces the name of a port in a health check by the port's number. The cell has checked that the task has the port.
fn with_number(mut check: HealthCheck, task: &Task) -> HealthCheck {
    let number = |name: &str| task.port(name).unwrap_or_default();
    check.probe = match check.probe {
        Probe::NamedTcp(name) => Probe::Tcp(number(&name)),
        Probe::NamedHttp { port, path } => Probe::Http { port: number(&port), path },
        other => other,
    };
    check
}

/// Converts the exit of a program to the cell's reason for the end of a task.
fn reason(exit: &Exit) -> EndReason {
    match exit {
        Exit::Code(code) => EndReason::ExitCode(*code),
        Exit::Signal(signal) => EndReason::Signal(*signal),
        Exit::OutOfMemory => EndReason::OutOfMemory,
        Exit::Unhealthy => EndReason::Unhealthy,
        Exit::Stopped => EndReason::Stopped,
        Exit::NotStarted(why) => EndReason::not_started(why),
        Exit::Lost => EndReason::SupervisorLost,
    }
}

/// Registers a descriptor with the runtime.
#[expect(
    deprecated,
    reason = "unsound for types that change their descriptor, which `OwnedFd` does not"
)]
fn register(readable: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(readable)
}

/// Waits until the driver has events; forever if the driver has no descriptor for that.
async fn notice(readable: Option<&AsyncFd<OwnedFd>>) {
    match readable {
        Some(readable) => match readable.readable().await {
            // The driver is polled next, and reads all events. Later events make the descriptor readable again.
            Ok(mut guard) => guard.clear_ready(),
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

impl Worker {
    /// Reports the tasks that an earlier agent started. Tasks without a valid note cannot be identified, and are
    /// killed.
    fn find(&mut self, left: Vec<FoundTask>) {
        for found in left {
            let id = found.spec.id.clone();
            let Some(note) = Note::read(&found).filter(|note| folder(note.task) == id) else {
                self.driver.kill(&id);
                continue;
            };
            self.cores.found(&id, found.spec.limits.cores.clone());
            self.agent.found(note.clone().found(&found));
            let held = Held {
                note,
                is_reported: true,
                is_stopping: found.is_ending,
                restarts: found.restarts,
            };
            self.tasks.insert(id, held);
        }
    }

    /// Registers the machine, and carries out directives until the stream ends.
    async fn work(
        &mut self,
        machine: omega_core::Machine,
        mut orders: UnboundedReceiver<Order>,
        heartbeat: Duration,
    ) -> Result<Ended, AgentError> {
        let name = machine.name.to_string();
        let id = self.agent.register(machine).await?;
        self.end_those_of_others(id);
        // If standard output is closed, this is not an error.
        let _ = writeln!(io::stdout(), "agent offers machine {name}");
        let readable = self.driver.readable().map(register).transpose()?;
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut loads = tokio::time::interval(heartbeat);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Detached(detached)) if detached == id => return Ok(Ended::Detached),
                    Some(order) => self.obey(order),
                    None => return Ok(Ended::Agent),
                },
                () = notice(readable.as_ref()) => self.look(),
                _ = look.tick(), if self.is_busy() => self.look(),
                _ = loads.tick() => self.tell_load(id),
            }
        }
    }

    /// Whether the driver runs a task, or a task is to be started later.
    fn is_busy(&self) -> bool {
        !self.tasks.is_empty() || !self.waiting.is_empty()
    }

    /// Kills tasks of a removed machine that had this name. The cell has since placed them elsewhere.
    fn end_those_of_others(&mut self, id: MachineId) {
        for (name, held) in &mut self.tasks {
            if held.note.machine != id {
                held.is_reported = false;
                self.driver.kill(name);
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Start(task) => self.start(task),
            Order::Stop { task, grace_ms, .. } => {
                let name = folder(task);
                let waiting = self.waiting.remove(&name);
                let Some(held) = self.tasks.get_mut(&name) else {
                    if let Some(waiting) = waiting.filter(|_| grace_ms > 0) {
                        // The task does not run: its start is delayed, because its supervisor was lost. So nothing has
                        // to be stopped.
                        self.agent.report(waiting.machine, task, TaskReport::Finished);
                    }
                    return;
                };
                (held.is_stopping, held.is_reported) = (true, grace_ms > 0);
                match grace_ms {
                    0 => self.driver.kill(&name),
                    _ => self.driver.stop(&name),
                }
            }
            Order::Kill { task, .. } => {
                let name = folder(task);
                if let Some(held) = self.tasks.get_mut(&name) {
                    // The cell may already have ordered another run of the task, which a report would end.
                    held.is_reported = false;
                }
                self.driver.kill(&name);
            }
            Order::Resize { task, to, .. } => {
                let (cpu, memory) = self.amounts(&to);
                if let Some(waiting) = self.waiting.get_mut(&folder(task)) {
                    waiting.request = to;
                    return;
                }
                if let Err(why) = self.driver.resize(&folder(task), cpu, memory) {
                    let name = self.tasks.get(&folder(task)).map(|held| held.note.name());
                    tracing::warn!(task = name, %why, "the limits of a task could not be changed");
                }
            }
            Order::ReadLog(read) => self.agent.log(&read, self.log(&read)),
            Order::Detached(_) => {}
        }
    }

    /// Reads part of the log of a task.
    fn log(&self, read: &LogRead) -> Option<LogPart> {
        let logs = self.driver.logs(&folder(read.task), &owner(&read.owner))?;
        let stream = if read.is_stderr { LogStream::Stderr } else { LogStream::Stdout };
        let part = match read.from {
            Some(from) => logs::read(&logs, stream, from, read.bytes_max),
            None => logs::tail(&logs, stream, read.tail_lines, read.bytes_max),
        };
        let logs::LogPart { from, bytes, end } = part.ok()?;
        Some(LogPart { from, bytes, end })
    }

    /// The cpu and memory in some amounts.
    fn amounts(&self, amounts: &Amounts) -> (u64, u64) {
        let of = |kind: Option<_>| kind.map_or(0, |kind| amounts.get(kind));
        (of(self.kinds.cpu()), of(self.kinds.by_name("memory")))
    }

    fn start(&mut self, task: Task) {
        let name = folder(task.id);
        if self.tasks.contains_key(&name) || self.losses.delays(&name, Instant::now()) {
            self.waiting.insert(name, task);
            return;
        }
        let started = self
            .spec(&task)
            .and_then(|spec| self.driver.start(&spec).map_err(|why| why.to_string()));
        match started {
            Ok(()) => {
                let note = Note::of(&task);
                let held = Held { note, is_reported: true, is_stopping: false, restarts: 0 };
                self.tasks.insert(name, held);
            }
            Err(why) => {
                self.cores.give(&name);
                let shown = Note::of(&task).name();
                tracing::warn!(task = shown, why, "a task cannot be started");
                let end = RunEnd { reason: EndReason::not_started(&why), restarts: 0 };
                self.agent.report_end(task.machine, task.id, TaskReport::Failed, end);
            }
        }
    }

    /// Describes a task for the driver.
    fn spec(&mut self, task: &Task) -> Result<TaskSpec, String> {
        let name = folder(task.id);
        let run = task.program.run.as_ref().ok_or_else(|| {
            "the job has no program: give the job a `run`, or run tasks by an agent of your own \
             (docs/agents.md)"
                .to_owned()
        })?;
        let cores = self.cores.take(&name, &task.cores);
        let cores = cores.ok_or(
            "the machine has fewer cores than the task was given: register the \
                 machine with its real cores",
        )?;
        let (cpu_millis, memory_bytes) = self.amounts(&task.request);
        Ok(TaskSpec {
            id: name,
            command: run.command.to_string(),
            args: run.args.iter().map(ToString::to_string).collect(),
            env: environment::of(task, &self.kinds, &cores),
            container: run.image.as_deref().map(|image| Container {
                image: image.to_owned(),
                mounts: run.mounts.clone(),
                is_limited: self.are_limited,
            }),
            working_dir: run.working_dir.as_deref().map(Into::into),
            user: run.user.as_deref().map(Into::into),
            limits: Limits { cpu_millis, memory_bytes, cores, ..self.limits.clone() },
            grace_ms: task.grace_ms,
            restart: run.restart,
            stays_up: task.kind == JobKind::Service,
            health: run.health.clone().map(|check| with_number(check, task)),
            owner: owner(&task.owner()),
            note: Note::of(task).text(),
        })
    }

    /// Reports the events that the driver has observed.
    fn look(&mut self) {
        for event in self.driver.poll() {
            match event {
                Event::Started(name) => {
                    if let Some(held) = self.tasks.get(&name) {
                        self.agent.report(held.note.machine, held.note.task, TaskReport::Started);
                    }
                }
                Event::Restarted(name, exit, restarts) => self.restarted(&name, &exit, restarts),
                Event::Ended(name, exit) => self.ended(&name, &exit),
            }
        }
        self.start_delayed();
    }

    /// Starts the tasks whose delay is over.
    fn start_delayed(&mut self) {
        let now = Instant::now();
        let is_due = |name: &String, _: &mut Task| {
            !self.tasks.contains_key(name) && !self.losses.delays(name, now)
        };
        let due: Vec<Task> = self.waiting.extract_if(.., is_due).map(|(_, task)| task).collect();
        for task in due {
            self.start(task);
        }
    }

    /// Reports that a program was started again.
    fn restarted(&mut self, name: &str, exit: &Exit, restarts: u32) {
        let Some(held) = self.tasks.get_mut(name) else { return };
        held.restarts = restarts;
        let Held { note, .. } = held;
        tracing::info!(task = note.name(), %exit, restarts, "a program was started again");
        // `restarts` already includes this restart.
        let end = RunEnd { reason: reason(exit), restarts: restarts.saturating_sub(1) };
        self.agent.report_end(note.machine, note.task, TaskReport::Restarted, end);
    }

    fn ended(&mut self, name: &str, exit: &Exit) {
        self.cores.give(name);
        let Some(held) = self.tasks.remove(name) else { return };
        let Held { note, is_reported, is_stopping, restarts } = held;
        let report = match exit {
            _ if is_stopping => TaskReport::Finished,
            Exit::Lost => TaskReport::Lost,
            exit if exit.is_success() => TaskReport::Finished,
            _ => TaskReport::Failed,
        };
        if report == TaskReport::Lost {
            let delay = self.losses.lost(name, Instant::now());
            tracing::warn!(
                task = note.name(),
                ?delay,
                "a task is lost because its supervisor was killed; it starts here again only \
                 after a delay"
            );
        } else if report == TaskReport::Finished {
            tracing::debug!(task = note.name(), %exit, "a task has ended");
        } else {
            tracing::info!(task = note.name(), %exit, "a task has failed");
        }
        if is_reported {
            let end = RunEnd { reason: reason(exit), restarts };
            self.agent.report_end(note.machine, note.task, report, end);
        }
    }

    /// Reports the load if it has changed by at least a step.
    fn tell_load(&mut self, id: MachineId) {
        let usage = self.driver.usage();
        let mut load = Amounts::zero();
        if let Some(cpu) = self.kinds.cpu() {
            load.set(cpu, usage.cpu_millis / CPU_STEP * CPU_STEP);
        }
        if let Some(memory) = self.kinds.by_name("memory") {
            load.set(memory, usage.memory_bytes / MEMORY_STEP * MEMORY_STEP);
        }
        if load != self.load {
            self.load = load.clone();
            self.agent.load(id, load);
        }
    }
}
