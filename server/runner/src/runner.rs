//! Carries out the cell's directives on this machine, and reports the results.

use crate::core_pool::CorePool;
use crate::disk::Disk;
use crate::load_reports::LoadReports;
use crate::note::Note;
use crate::start_delays::StartDelays;
use crate::start_queue::StartQueue;
use crate::task_spec::{self, owner};
use crate::uses::Uses;
use omega_agent::logs::{self, LogStream};
use omega_agent::{Driver, DriverError, Event, Exit, FoundTask, Limits, TaskSpec};
use omega_client::agent::{
    Agent, AgentSettings, Condition, Directive, LogPart, LogRead, RunId, Task,
};
use omega_client::{Address, ApiError};
use omega_core::text::shown;
use omega_core::{Amounts, EndReason, Kinds, Machine, MachineId, RunEnd, TaskReport};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::yield_now;
use tokio::time::{Interval, MissedTickBehavior};

/// Interval at which the driver is polled, even if it has no notice of an event, because it may have to kill a process
/// that does not end in time.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which the disk with the tasks' files is measured.
const DISK_EVERY: Duration = Duration::from_secs(5);

/// Steps to which reported loads are rounded, so that small changes do not cause log entries.
const CPU_STEP: u64 = 50;
const MEMORY_STEP: u64 = 16 << 20;

/// Number of a task's restarts that are logged for operators. Further ones are logged for developers, because a program
/// may fail again and again.
const RESTARTS_SHOWN: u32 = 3;

/// Settings of a runner.
#[derive(Clone, Debug, Default)]
pub struct RunnerSettings {
    /// Settings of the connection to the cell. Loads are reported as often as heartbeats are sent.
    pub agent: AgentSettings,
    /// Limits that apply to all tasks. The runner adds each task's cpu, memory and cores.
    pub limits: Limits,
    /// Numbers of the machine's cores on each NUMA node, which tasks may get exclusively.
    pub cores: Vec<Vec<u32>>,
}

/// Error that ends a runner.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The cell does not answer, or rejects the machine. Correct the address or the machine, or start the cell.
    #[error(transparent)]
    Cell(#[from] ApiError),
    /// The driver cannot find its tasks. Correct its folder as the message says.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The operating system refused a resource, such as a file.
    #[error("the operating system refused a thread, a file or another resource: {0}")]
    System(#[from] io::Error),
    /// The machine was removed from the cell, or another agent manages it. Stop the other agent, or register the
    /// machine again.
    #[error(
        "this agent no longer manages its machine: the machine was removed from the cell, or \
         another agent manages it"
    )]
    Detached,
}

/// A task that the driver runs.
#[derive(Debug)]
struct RunningTask {
    note: Note,
    /// Whether the task's events are reported to the cell. False if the task was killed: the cell may already have
    /// ordered another run of it.
    is_reported: bool,
    is_stopping: bool,
    /// Whether the program is expected to run until it is stopped.
    stays_up: bool,
    /// Restarts of the task's program on this machine.
    restarts: u32,
}

/// The agent of one machine, whose tasks a driver runs. Tasks outlive the runner if the driver lets them.
#[derive(Debug)]
pub struct Runner {
    agent: Agent,
    directives: UnboundedReceiver<Directive>,
    driver: Box<dyn Driver>,
    kinds: Kinds,
    settings: RunnerSettings,
    cores: CorePool,
    /// Tasks by their name in the driver.
    tasks: BTreeMap<String, RunningTask>,
    /// Tasks that are not started yet.
    starts: StartQueue,
    /// Ended runs whose ends the cell has not confirmed, by the name of the task.
    ended: BTreeMap<String, RunId>,
    delays: StartDelays,
    loads: LoadReports,
    uses: Uses,
    disk: Disk,
    /// The registered machine.
    machine: Option<MachineId>,
    /// The last reported condition of this machine.
    condition: Option<Condition>,
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

/// An interval whose late ticks do not follow one after the other.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
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

impl Runner {
    /// Finds the tasks of an earlier process, and requests the resource kinds of the cell. This needs a tokio runtime.
    ///
    /// # Errors
    /// The driver cannot find its tasks, the address is not valid, or no replica answers for half a minute.
    pub async fn connect(
        address: &Address,
        mut driver: Box<dyn Driver>,
        settings: RunnerSettings,
    ) -> Result<Runner, RunnerError> {
        let left = driver.find()?;
        let (agent, directives) = Agent::start(address, settings.agent)?;
        let kinds = agent.kinds().await?;
        let mut runner = Runner::new(agent, directives, driver, kinds, settings);
        runner.find(left);
        Ok(runner)
    }

    fn new(
        agent: Agent,
        directives: UnboundedReceiver<Directive>,
        driver: Box<dyn Driver>,
        kinds: Kinds,
        settings: RunnerSettings,
    ) -> Runner {
        Runner {
            agent,
            directives,
            driver,
            kinds,
            cores: CorePool::new(settings.cores.clone()),
            settings,
            tasks: BTreeMap::new(),
            starts: StartQueue::default(),
            ended: BTreeMap::new(),
            delays: StartDelays::default(),
            loads: LoadReports::default(),
            uses: Uses::default(),
            disk: Disk::default(),
            machine: None,
            condition: None,
        }
    }

    /// Resource kinds of the cell, in which a machine's capacity is given.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Registers the machine. The tasks of an earlier machine with its name are killed.
    ///
    /// # Errors
    /// The cell rejects the machine, or no replica answers for half a minute.
    pub async fn register(&mut self, machine: Machine) -> Result<MachineId, RunnerError> {
        let id = self.agent.register(machine).await?;
        self.kill_tasks_of_other_machines(id);
        (self.machine, self.condition) = (Some(id), None);
        self.check_disk();
        Ok(id)
    }

    /// Carries out directives for a registered machine until the cell detaches it, or the runtime stops. If the future
    /// is dropped, tasks continue.
    ///
    /// # Errors
    /// The cell detaches the machine, or the operating system refuses a resource.
    pub async fn run(&mut self, machine: MachineId) -> Result<(), RunnerError> {
        let readable = self.driver.readable().map(register).transpose()?;
        let mut poll = every(POLL_INTERVAL);
        let mut loads = every(self.settings.agent.heartbeat);
        let mut disk = every(DISK_EVERY);
        loop {
            tokio::select! {
                directive = self.directives.recv() => match directive {
                    Some(directive) => self.follow(directive, machine)?,
                    None => return Ok(()),
                },
                () = notice(readable.as_ref()) => self.poll(),
                _ = poll.tick(), if self.is_busy() => self.poll(),
                _ = loads.tick() => self.report_load(machine),
                _ = disk.tick() => self.check_disk(),
                // Between two starts, the futures above and beside this one make progress.
                () = yield_now(), if self.starts.has_ready() => {}
            }
            self.advance(machine)?;
        }
    }

    /// Follows all directives that have arrived, and then starts the next task. So a stop overtakes the starts that
    /// were ordered before it, and a new task does not wait for tasks that were stopped.
    fn advance(&mut self, machine: MachineId) -> Result<(), RunnerError> {
        while let Ok(directive) = self.directives.try_recv() {
            self.follow(directive, machine)?;
        }
        self.start_next();
        Ok(())
    }

    /// Follows a directive for this machine. Starts are queued.
    fn follow(&mut self, directive: Directive, machine: MachineId) -> Result<(), RunnerError> {
        match directive {
            Directive::Detached(detached) if detached == machine => Err(RunnerError::Detached),
            directive => {
                self.apply(directive);
                Ok(())
            }
        }
    }

    /// Reports the tasks that an earlier process started. Tasks without a valid note cannot be identified, and are
    /// killed.
    fn find(&mut self, left: Vec<FoundTask>) {
        for found in left {
            let id = found.spec.id.clone();
            let Some(note) = Note::read(&found).filter(|note| task_spec::name(note.task) == id)
            else {
                self.driver.kill(&id);
                continue;
            };
            self.cores.restore(&id, found.spec.limits.cores.clone());
            self.agent.recover(note.clone().recovered(&found));
            let running = RunningTask {
                note,
                is_reported: true,
                is_stopping: found.is_ending,
                stays_up: found.spec.stays_up,
                restarts: found.restarts,
            };
            self.tasks.insert(id, running);
        }
        self.driver.keep_off(&self.cores.taken());
    }

    /// Frees the exclusive cores of a task.
    fn release_cores(&mut self, name: &str) {
        if self.cores.release(name) {
            self.driver.keep_off(&self.cores.taken());
        }
    }

    /// Whether the driver runs a task, or a task is to be started.
    fn is_busy(&self) -> bool {
        !self.tasks.is_empty() || !self.starts.is_empty()
    }

    /// Kills tasks of a removed machine that had this name. The cell has since placed them elsewhere.
    fn kill_tasks_of_other_machines(&mut self, id: MachineId) {
        for (name, running) in &mut self.tasks {
            if running.note.machine != id {
                running.is_reported = false;
                self.driver.kill(name);
            }
        }
    }

    fn apply(&mut self, directive: Directive) {
        match directive {
            Directive::Start(task) => self.starts.push(task_spec::name(task.id), task),
            Directive::Stop { run, grace_ms } => {
                let name = task_spec::name(run.task);
                if self.starts.remove(&name) {
                    // This run has not started, so nothing has to be stopped. Its resources are free.
                    if grace_ms > 0 {
                        self.agent.report(run, TaskReport::Finished);
                    }
                    return;
                }
                let Some(running) = self.tasks.get_mut(&name) else { return };
                (running.is_stopping, running.is_reported) = (true, grace_ms > 0);
                match grace_ms {
                    0 => self.driver.kill(&name),
                    _ => self.driver.stop(&name),
                }
            }
            Directive::Kill(run) => {
                let name = task_spec::name(run.task);
                if let Some(running) = self.tasks.get_mut(&name) {
                    running.is_reported = false;
                }
                self.driver.kill(&name);
            }
            Directive::EndConfirmed(run) => self.confirmed(run),
            Directive::Resize { run, to } => {
                let (cpu, memory) = task_spec::cpu_and_memory(&self.kinds, &to);
                let name = task_spec::name(run.task);
                if let Some(queued) = self.starts.get_mut(&name) {
                    queued.request = to;
                    return;
                }
                if let Err(why) = self.driver.resize(&name, cpu, memory) {
                    let name = self.tasks.get(&name).map(|running| running.note.name());
                    let why = shown(&why.to_string());
                    tracing::warn!(task = name, why, "the limits of a task could not be changed");
                }
            }
            Directive::ReadLog(read) => self.agent.log(&read, self.log(&read)),
            Directive::Detached(_) => {}
        }
    }

    /// Forgets the end of a run, unless a later run of the task has ended since.
    fn confirmed(&mut self, run: RunId) {
        let name = task_spec::name(run.task);
        if self.ended.get(&name).is_none_or(|ended| ended.may_be(&run)) {
            self.ended.remove(&name);
            self.driver.confirm_end(&name);
        }
    }

    /// Reads part of the log of a task.
    fn log(&self, read: &LogRead) -> Option<LogPart> {
        let logs = self.driver.logs(&task_spec::name(read.task), &owner(&read.owner))?;
        let stream = if read.is_stderr { LogStream::Stderr } else { LogStream::Stdout };
        let part = match read.from {
            Some(from) => logs::read(&logs, stream, from, read.bytes_max),
            None => logs::tail(&logs, stream, read.tail_lines, read.bytes_max),
        };
        let logs::LogPart { from, bytes, end } = part.ok()?;
        Some(LogPart { from, bytes, end })
    }

    /// Starts the next ready task, if there is one and it can start now.
    fn start_next(&mut self) {
        let Some((name, task)) = self.starts.pop() else { return };
        if self.can_start(&name, &task, Instant::now()) {
            self.start(name, &task);
        } else {
            self.starts.wait(name, task);
        }
    }

    fn start(&mut self, name: String, task: &Task) {
        let spec = self.spec(task).map_err(DriverError::Refused);
        let stays_up = spec.as_ref().is_ok_and(|spec| spec.stays_up);
        match spec.and_then(|spec| self.driver.start(&spec)) {
            Ok(()) => {
                let note = Note::of(task);
                let (is_reported, is_stopping, restarts) = (true, false, 0);
                let running = RunningTask { note, is_reported, is_stopping, stays_up, restarts };
                self.tasks.insert(name, running);
            }
            Err(why) => {
                self.release_cores(&name);
                // The condition is reported before the loss, so that the task is not placed here again.
                if why.is_disk_full() {
                    self.disk.write_failed(Instant::now());
                }
                self.check_disk();
                // A fault of the machine is no fault of the task, which may run elsewhere.
                let report = match why {
                    DriverError::Refused(_) => TaskReport::Failed,
                    _ => TaskReport::Lost,
                };
                let delay = self.delays.begin(&name, Instant::now());
                // The reason may contain any text of the job.
                let (name, why) = (Note::of(task).name(), shown(&why.to_string()));
                tracing::warn!(task = name, why, ?delay, "a task cannot be started");
                let end = RunEnd { reason: EndReason::not_started(&why), restarts: 0 };
                self.agent.report_end(task.run_id(), report, end);
            }
        }
    }

    /// Whether no earlier run, delay, or ending task with exclusive cores keeps a task from its start.
    fn can_start(&self, name: &str, task: &Task, now: Instant) -> bool {
        let is_ending = |name: &str| {
            self.tasks.get(name).is_some_and(|running| running.is_stopping || !running.is_reported)
        };
        let waits_for_cores = !self.cores.has(&task.cores) && self.cores.owners().any(is_ending);
        !self.tasks.contains_key(name) && !self.delays.has(name, now) && !waits_for_cores
    }

    /// Describes a task for the driver, and assigns its exclusive cores.
    fn spec(&mut self, task: &Task) -> Result<TaskSpec, String> {
        let cores = self.cores.take(&task_spec::name(task.id), &task.cores);
        let cores = cores.ok_or(
            "too few of the machine's cores are free for the task: register the machine with its \
             real cores",
        )?;
        if !cores.is_empty() {
            self.driver.keep_off(&self.cores.taken());
        }
        let limits = Limits { cores, ..self.settings.limits.clone() };
        task_spec::of(task, &self.kinds, limits).ok_or_else(|| {
            "the job has no program: give the job a `run`, or run tasks by an agent of your own \
             (docs/agents.md)"
                .to_owned()
        })
    }

    /// Reports the events that the driver has observed.
    fn poll(&mut self) {
        for event in self.driver.poll() {
            match event {
                Event::Started(name) => {
                    if let Some(running) =
                        self.tasks.get(&name).filter(|running| running.is_reported)
                    {
                        self.agent.report(running.note.run(), TaskReport::Started);
                    }
                }
                Event::Restarted(name, exit, restarts) => self.restarted(&name, &exit, restarts),
                Event::Ended(name, exit) => self.ended(&name, &exit),
            }
        }
        let now = Instant::now();
        let mut starts = std::mem::take(&mut self.starts);
        starts.make_ready(|name, task| self.can_start(name, task, now));
        self.starts = starts;
    }

    /// Reports that a program was started again.
    fn restarted(&mut self, name: &str, exit: &Exit, restarts: u32) {
        let Some(running) = self.tasks.get_mut(name) else { return };
        running.restarts = restarts;
        let RunningTask { note, is_reported, .. } = running;
        let name = note.name();
        if restarts <= RESTARTS_SHOWN {
            tracing::info!(task = name, %exit, restarts, "a program was started again");
        } else {
            tracing::debug!(task = name, %exit, restarts, "a program was started again");
        }
        if *is_reported {
            // `restarts` already includes this restart.
            let end = RunEnd { reason: reason(exit), restarts: restarts.saturating_sub(1) };
            self.agent.report_end(note.run(), TaskReport::Restarted, end);
        }
    }

    fn ended(&mut self, name: &str, exit: &Exit) {
        self.release_cores(name);
        let Some(running) = self.tasks.remove(name) else {
            // The task was found without a valid note.
            return self.driver.confirm_end(name);
        };
        let RunningTask { note, is_reported, is_stopping, stays_up, restarts } = running;
        self.uses.ended(name, note.task);
        if matches!(exit, Exit::Lost | Exit::NotStarted(_)) {
            // The supervisor may have failed because the disk is full.
            self.check_disk();
        }
        let report = match exit {
            _ if is_stopping => TaskReport::Finished,
            Exit::Lost => TaskReport::Lost,
            exit if exit.is_success() && !stays_up => TaskReport::Finished,
            _ => TaskReport::Failed,
        };
        if report == TaskReport::Finished {
            tracing::debug!(task = note.name(), %exit, "a task has ended");
        } else {
            // A task that the cell places here again starts only after the delay.
            let delay = self.delays.begin(name, Instant::now());
            if report == TaskReport::Lost {
                tracing::warn!(
                    task = note.name(),
                    ?delay,
                    "a task is lost because its supervisor was killed, or has failed"
                );
            } else {
                tracing::info!(task = note.name(), %exit, ?delay, "a task has failed");
            }
        }
        if is_reported {
            let end = RunEnd { reason: reason(exit), restarts };
            self.ended.insert(name.to_owned(), note.run());
            self.agent.report_end(note.run(), report, end);
        } else {
            self.driver.confirm_end(name);
        }
    }

    /// Measures the disk, and reports the machine's condition if it has changed.
    fn check_disk(&mut self) {
        let space = self.driver.disk_space();
        self.disk.measured(space, Instant::now());
        let condition = Condition { is_disk_full: self.disk.is_full() };
        let Some(machine) = self.machine else { return };
        let before = self.condition.replace(condition);
        if before == Some(condition) {
            return;
        }
        let free_bytes = space.map_or(0, |space| space.free_bytes);
        if condition.is_disk_full {
            tracing::warn!(
                free_bytes,
                "the disk with the files of tasks is full: the machine gets no new tasks until \
                 there is room"
            );
        } else if before.is_some() {
            tracing::info!(
                free_bytes,
                "the disk with the files of tasks has room again: the machine gets new tasks"
            );
        }
        self.agent.report_condition(machine, condition);
    }

    /// Reports the load if it is due, and from time to time the use of tasks.
    fn report_load(&mut self, id: MachineId) {
        let usage = self.driver.usage();
        let tasks = &self.tasks;
        let id_of = |name: &str| tasks.get(name).map(|running| running.note.task);
        if let Some(used) = self.uses.add(&usage.tasks, id_of, Instant::now()) {
            self.agent.report_use(id, used);
        }
        let mut load = Amounts::zero();
        if let Some(cpu) = self.kinds.cpu() {
            load.set(cpu, usage.cpu_millis / CPU_STEP * CPU_STEP);
        }
        if let Some(memory) = self.kinds.by_name("memory") {
            load.set(memory, usage.memory_bytes / MEMORY_STEP * MEMORY_STEP);
        }
        if self.loads.is_due(&load, Instant::now()) {
            self.agent.load(id, load);
        }
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
