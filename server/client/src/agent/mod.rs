//! The agent library: an agent manages its machines, receives the tasks to run, and reports their ends.
//!
//! ```text
//!   your agent ── register, report, load ──▶ Agent ──▶ driver ══ Attach ══▶ the leader
//!        ▲                                               │
//!        └────────── Directive: start, stop, detached ◀──┘ sends heartbeats, tries the replicas in turn
//! ```
//!
//! A machine is alive as long as its [`Agent`] exists. When the stream breaks, it is opened again at one replica after
//! the other, until one of them is the leader. The cell then sends all tasks that should run. The driver compares these
//! tasks with the running tasks, so that the agent gets only the differences as directives. Reports that the cell may
//! have missed are sent again.
//!
//! ```no_run
//! use omega_client::Address;
//! use omega_client::agent::{Agent, AgentSettings, Directive};
//! use omega_core::{Amounts, Machine, TaskReport};
//!
//! # async fn run() -> Result<(), omega_client::ApiError> {
//! let address = Address::plain(["127.0.0.1:7600"]);
//! let (agent, mut directives) = Agent::start(&address, AgentSettings::default())?;
//! agent.register(Machine::new("box-1", Amounts::new([8000, 32 << 30]))).await?;
//! while let Some(directive) = directives.recv().await {
//!     match directive {
//!         Directive::Start(task) => {
//!             // Start the task here. Once it runs, report this:
//!             agent.report(task.run_id(), TaskReport::Started);
//!         }
//!         Directive::Stop { run, .. } => {
//!             // Stop the task here. Once it has ended, report this:
//!             agent.report(run, TaskReport::Finished);
//!         }
//!         Directive::Kill(run) => println!("{} did not end in time", run.task),
//!         Directive::EndConfirmed(_) => {}
//!         Directive::Resize { run, to } => println!("{} holds {to} from now on", run.task),
//!         Directive::ReadLog(read) => agent.log(&read, None),
//!         Directive::Detached(_) => break,
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: this file, `registration.rs`, `records.rs`, `endings.rs`, `directives.rs`, `reports.rs`,
//! `conditions.rs`, `outgoing.rs`, `driver.rs`.

mod conditions;
mod directives;
mod driver;
mod endings;
mod outgoing;
mod records;
mod registration;
mod reports;

use crate::connect::{Address, Connections};
use crate::convert;
use crate::proto;
use crate::proto::cell_service_client::CellServiceClient;
use crate::{ApiError, ErrorCode, before_another_try};
use driver::{AgentEvent, Driver};
use omega_core::{
    Amounts, JobKind, Kinds, Labels, Machine, MachineId, NamedPort, Payload, Port, Run, RunEnd,
    TaskId, TaskReport, TaskUse, Text,
};
use records::Reported;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::Channel;

/// Label of machines that have an agent. A new leader expects heartbeats from each of these machines, even before the
/// first one arrives. Its value is the id of the agent, or `true` if the agent has none.
pub const AGENT: &str = "omega.io/agent";

/// Taint key of machines whose agents send no heartbeats.
pub const UNREACHABLE: &str = "omega.io/unreachable";

/// Taint key of machines whose disk for the files of tasks is full.
pub const DISK_FULL: &str = "omega.io/disk-full";

/// Taint key of machines that are being drained until a time. The taint's value is the time in milliseconds since 1970.
pub const DRAIN_BY: &str = "omega.io/drain-by";

/// Whether the agent of a machine has sent no heartbeats for so long that its tasks are considered lost.
#[must_use]
pub fn is_unreachable(machine: &omega_core::Machine) -> bool {
    machine.taints.iter().any(|taint| &*taint.key == UNREACHABLE)
}

/// The state of a machine in lists: `unreachable` if it has the taint [`UNREACHABLE`], otherwise `draining` or `up`.
#[must_use]
pub fn machine_state(machine: &omega_core::Machine, is_draining: bool) -> &'static str {
    if is_unreachable(machine) {
        "unreachable"
    } else if is_draining {
        "draining"
    } else {
        "up"
    }
}

/// Delay before the next replica is tried: a tenth of an election.
const PAUSE: Duration = Duration::from_millis(50);

/// Time limit for the registration of a machine. It is many times the duration of an election.
const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// Heartbeat interval of each machine.
    pub heartbeat: Duration,
}

impl Default for AgentSettings {
    /// Returns a heartbeat interval that fits four times into the server's default time limit for a silent machine.
    fn default() -> Self {
        AgentSettings { heartbeat: Duration::from_secs(10) }
    }
}

/// A task that a machine is ordered to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Id of the task.
    pub id: TaskId,
    /// Machine of the task.
    pub machine: MachineId,
    /// The cell's time at which the task was placed on the machine, in milliseconds; 0 from servers that do not send it.
    pub placed_ms: u64,
    /// Name of the job.
    pub job_name: Text,
    /// Name of the task's group in the job.
    pub group: Text,
    /// Whether the task runs without a planned end (service), or ends by itself (batch).
    pub kind: JobKind,
    /// Expected run time in milliseconds, if known.
    pub runtime_estimate_ms: Option<u64>,
    /// Images of the task's containers.
    pub images: Vec<Text>,
    /// Amounts that the task is allocated.
    pub request: Amounts,
    /// Numbers of the task's accelerator devices.
    pub devices: Vec<u32>,
    /// Number of exclusive cores on each NUMA node; empty if the task has none. The agent chooses the cores of each
    /// node.
    pub cores: Vec<u32>,
    /// Ports of the machine that the cell chose for the task.
    pub ports: Vec<NamedPort>,
    /// Grace period: maximum time from the stop to the end, in milliseconds.
    pub grace_ms: u32,
    /// The task's program and data.
    pub program: Arc<Program>,
}

impl Task {
    /// Id of the run that the order starts.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        RunId { task: self.id, machine: self.machine, placed_ms: self.placed_ms }
    }

    /// Owner of the task.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner { tenant: self.program.tenant.clone(), job: self.job_name.clone() }
    }

    /// Numbers of all ports of the task: those that the cell chose, and those that its group requests.
    pub fn port_numbers(&self) -> impl Iterator<Item = u16> {
        let chosen = self.ports.iter().map(|port| port.number);
        chosen.chain(self.program.ports.iter().map(|port| port.number))
    }

    /// The number of the port with a name.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<u16> {
        let run = self.program.run.iter().flat_map(|run| &run.ports);
        let mut named = self.ports.iter().chain(run);
        named.find(|port| *port.name == *name).map(|port| port.number)
    }
}

/// Id of a run: a task, its machine, and when the task was placed there. A task that was stopped may be placed on the
/// same machine again, so a late report of its first run must not count for the second. The time is exact to a step of
/// the cell's time, which is 100 ms in a served cell; two placements within one step have equal ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId {
    /// Id of the task.
    pub task: TaskId,
    /// Machine of the task.
    pub machine: MachineId,
    /// The cell's time of the placement in milliseconds; 0 if unknown. An unknown time counts as any time.
    pub placed_ms: u64,
}

impl RunId {
    /// Whether both ids may belong to one run.
    #[must_use]
    pub fn may_be(&self, other: &RunId) -> bool {
        let is_known = self.placed_ms != 0 && other.placed_ms != 0;
        (self.task, self.machine) == (other.task, other.machine)
            && (self.placed_ms == other.placed_ms || !is_known)
    }
}

/// Owner of a task: its job, by tenant and name. A restored cell, and a restarted cell in memory, use numbers of jobs
/// again, so an agent that outlives the cell compares the owners of tasks with equal ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Tenant of the job.
    pub tenant: Text,
    /// Name of the job.
    pub job: Text,
}

/// The program and data that all tasks of a group share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Tenant of the job.
    pub tenant: Text,
    /// The program, if the job names one.
    pub run: Option<Run>,
    /// Opaque bytes of the job.
    pub payload: Payload,
    /// Labels of the task.
    pub labels: Labels,
    /// Names of the volumes that the task uses.
    pub volumes: Vec<Text>,
    /// Ports of the machine that the task uses exclusively.
    pub ports: Vec<Port>,
}

/// A task of an earlier agent process that a new process finds on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredTask {
    /// Id of the run.
    pub run: RunId,
    /// Owner of the task. `None`, from agents that did not record it, counts as the owner that the cell names.
    pub owner: Option<Owner>,
    /// Amounts that the task is allocated.
    pub request: Amounts,
    /// Numbers of the task's accelerator devices.
    pub devices: Vec<u32>,
    /// Number of exclusive cores on each NUMA node. Empty if the task has none.
    pub cores: Vec<u32>,
    /// Numbers of the task's ports.
    pub ports: Vec<u16>,
    /// Grace period: maximum time from the stop to the end, in milliseconds.
    pub grace_ms: u32,
    /// Whether the task runs already. If not, report [`TaskReport::Started`] once it runs.
    pub is_running: bool,
    /// If the task was already stopped, the rest of its grace period in milliseconds.
    pub kill_in_ms: Option<u32>,
}

/// A request to read a part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRead {
    /// Number of the request, which the reply repeats.
    pub read: u64,
    /// Task whose log is requested. It may have ended.
    pub task: TaskId,
    /// Owner of the task. Return no log of a task with this id and another owner.
    pub owner: Owner,
    /// Whether standard error is requested instead of standard output.
    pub is_stderr: bool,
    /// Position of the first byte; `None` requests the last lines.
    pub from: Option<u64>,
    /// Number of lines from the end, if `from` is `None`.
    pub tail_lines: u32,
    /// Maximum number of bytes in the reply.
    pub bytes_max: usize,
}

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    /// Position of the first byte, counted from the first byte that the task ever wrote.
    pub from: u64,
    /// Bytes of the part.
    pub bytes: Vec<u8>,
    /// Position after the last byte of the log.
    pub end: u64,
}

/// Condition of a machine, which decides whether the machine gets new tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Whether the disk of the tasks' files is full. While it is, the cell gives the machine the taint [`DISK_FULL`].
    pub is_disk_full: bool,
}

/// A directive to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Start a task, and report [`TaskReport::Started`] once it runs.
    Start(Task),
    /// Stop a task. If it has a grace period, report its end as soon as it has ended, because other tasks wait for its
    /// resources. Any report of an end is accepted, such as [`TaskReport::Finished`]. If the task has no grace period,
    /// kill it at once, and report nothing.
    Stop {
        /// Id of the run.
        run: RunId,
        /// Grace period in milliseconds, after which [`Directive::Kill`] follows.
        grace_ms: u32,
    },
    /// Kill a stopped task whose grace period is over. Report nothing. Later directives may need the task's resources.
    Kill(RunId),
    /// Forget the end of a task: the cell has recorded it, or need not know it. Until this directive, an agent whose tasks
    /// outlive its process must report the end again when the process is restarted.
    EndConfirmed(RunId),
    /// Change the amounts that a running task may use.
    Resize {
        /// Id of the run.
        run: RunId,
        /// New allocation of the task.
        to: Amounts,
    },
    /// Read a log, and reply with [`Agent::log`], even if there is no such log.
    ReadLog(LogRead),
    /// The agent no longer manages this machine, because it was removed, or because another agent manages it.
    /// Directives to stop its tasks came before this one.
    Detached(MachineId),
}

/// An agent, which manages one machine or many. It sends heartbeats until it is dropped.
#[derive(Clone, Debug)]
pub struct Agent {
    connections: Connections,
    driver: mpsc::UnboundedSender<AgentEvent>,
}

impl Agent {
    /// Starts an agent without machines. This needs a tokio runtime. Directives must be followed in the order in which
    /// they arrive, but a stop may overtake earlier starts: a stopped task that has not started needs no start. The
    /// number of queued directives is bounded by the number of changed tasks.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn start(
        address: &Address,
        settings: AgentSettings,
    ) -> Result<(Agent, mpsc::UnboundedReceiver<Directive>), ApiError> {
        let connections = Connections::new(address)?;
        let (driver, events) = mpsc::unbounded_channel();
        let (to, directives) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(connections.clone(), settings, events, to).run());
        Ok((Agent { connections, driver }, directives))
    }

    /// Registers a machine under its name, with the label [`AGENT`], and manages it from then on. If the cell already
    /// has the machine, its tasks are kept. Its taints are kept, too, because operators and the cell set them.
    ///
    /// If the description has the label [`AGENT`], its value is the agent's id. A machine of an agent with another id
    /// is refused while it is reachable.
    ///
    /// # Errors
    /// The cell rejects the machine, another agent has it, or no replica answers for half a minute.
    pub async fn register(&self, machine: Machine) -> Result<MachineId, ApiError> {
        // The call is repeated, because registering a machine twice does no harm.
        let id = self.repeat(|channel| registration::register(channel, machine.clone())).await?;
        self.send(AgentEvent::Capacity(id, room(&machine)));
        self.manage(id);
        Ok(id)
    }

    /// Requests the resource kinds of the cell, in which capacities are given.
    ///
    /// # Errors
    /// The cell rejects the request, or no replica answers for half a minute.
    pub async fn kinds(&self) -> Result<Kinds, ApiError> {
        let cell = self.repeat(async |channel| {
            let request = proto::DescribeCellRequest {};
            Ok(CellServiceClient::new(channel).describe_cell(request).await?.into_inner())
        });
        Ok(convert::kinds(cell.await?.kinds)?)
    }

    /// Makes a call to one replica after the other until one answers, for half a minute.
    async fn repeat<T, F>(&self, call: impl Fn(Channel) -> F) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        let until = Instant::now() + PATIENCE;
        let mut tries = 0;
        loop {
            let connection = self.connections.current();
            let error = match call(connection.channel.clone()).await {
                Ok(answer) => {
                    self.connections.log_recovery(&connection);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let error = self.connections.explain(&connection, error, tries as usize).await;
            tries += 1;
            let others = (tries as usize) < self.connections.count();
            let again = may_pass(&error) && Instant::now() < until;
            if again && !others {
                self.connections.log_outage(&error);
            }
            if again {
                tokio::time::sleep(before_another_try(&error, tries - 1)).await;
            } else if error.code != ErrorCode::Tls || !others {
                return Err(error);
            }
            self.connections.leave(&connection);
        }
    }

    /// Starts to manage a machine that is already registered.
    pub fn manage(&self, machine: MachineId) {
        self.send(AgentEvent::Attach(machine));
    }

    /// Registers a task of an earlier process that still runs on a machine, or has ended since. Call this before the
    /// machine is registered. If the cell no longer assigns the task to the machine, the agent is ordered to stop it.
    /// The task's resources are then free only after its end.
    pub fn recover(&self, task: RecoveredTask) {
        self.send(AgentEvent::Recovered(task));
    }

    /// Reports the start, a restart or the end of a task. The end of a stopped task is not sent to the cell; it only
    /// frees the task's resources on the machine.
    pub fn report(&self, run: RunId, report: TaskReport) {
        self.send(AgentEvent::Task(Reported { run, report, end: None }));
    }

    /// Reports about a task, like [`Agent::report`], and includes the end of a run of its program.
    pub fn report_end(&self, run: RunId, report: TaskReport, end: RunEnd) {
        self.send(AgentEvent::Task(Reported { run, report, end: Some(end) }));
    }

    /// Reports a machine's measured load. Call this only if the load has changed, because the cell writes each report
    /// to its log.
    pub fn load(&self, machine: MachineId, used: Amounts) {
        self.send(AgentEvent::Load(machine, used));
    }

    /// Reports the condition of a machine. Call this when the agent begins to manage the machine, because an earlier
    /// agent may have reported another condition, and after each change. Later leaders get the report, too.
    pub fn report_condition(&self, machine: MachineId, condition: Condition) {
        self.send(AgentEvent::Condition(machine, condition));
    }

    /// Reports the resources that a machine's tasks have used since the previous report, for accounting. The tasks may
    /// have ended. The use of tasks that were never on the machine does not count.
    pub fn report_use(&self, machine: MachineId, used: Vec<TaskUse>) {
        self.send(AgentEvent::Use(machine, used));
    }

    /// Replies to a request to read a log. `None` means that the agent has no such log.
    pub fn log(&self, read: &LogRead, part: Option<LogPart>) {
        self.send(AgentEvent::Log(read.read, part));
    }

    fn send(&self, event: AgentEvent) {
        // This fails only if the driver has ended. The driver ends with its runtime, or when the receiver of directives
        // is dropped.
        let _ = self.driver.send(event);
    }
}

/// Returns the maximum total allocation of a machine's tasks. For overcommitted resources, it exceeds the capacity.
fn room(machine: &Machine) -> Amounts {
    let all = machine.capacity.iter();
    let all = all
        .map(|(kind, amount)| (kind, u64::from(machine.overcommit.percent(kind).max(100)), amount));
    let mut room = machine.capacity.clone();
    for (kind, percent, amount) in all {
        room.set(kind, (u128::from(amount) * u128::from(percent) / 100) as u64);
    }
    room
}

fn may_pass(error: &ApiError) -> bool {
    error.is_temporary() || matches!(error.code, ErrorCode::OutcomeUnknown | ErrorCode::Late)
}

/// A task for tests, which requests nothing.
#[cfg(test)]
fn sample(index: u32, machine: MachineId) -> Task {
    Task {
        id: TaskId { job: omega_core::JobId(0), index },
        machine,
        placed_ms: 0,
        job_name: "job".into(),
        group: "main".into(),
        kind: JobKind::Batch,
        runtime_estimate_ms: None,
        images: Vec::new(),
        request: Amounts::default(),
        devices: Vec::new(),
        cores: Vec::new(),
        ports: Vec::new(),
        grace_ms: 0,
        program: Default::default(),
    }
}

/// A request for tests, with this number.
#[cfg(test)]
fn sample_read(read: u64) -> LogRead {
    let (task, owner) = (TaskId::default(), Owner::default());
    LogRead { read, task, owner, is_stderr: false, from: None, tail_lines: 1, bytes_max: 1 }
}
