//! The agent library: an agent manages its machines, receives the tasks to run, and reports their ends.
//!
//! ```text
//!   your agent ── register, report, load ──▶ Agent ──▶ driver ══ Attach ══▶ the leader
//!        ▲                                               │
//!        └────────── Order: start, stop, detached ◀──────┘ heartbeats by itself, goes round the replicas
//! ```
//!
//! A machine is alive as long as its [`Agent`] exists. After a break, the stream is reopened at one
//! replica after the other until it reaches the leader. The cell then sends all tasks that should
//! run. They are compared with the running ones, so that orders contain only differences, and
//! reports that the cell may have missed are sent again.
//!
//! ```no_run
//! use omega_client::Address;
//! use omega_client::agent::{Agent, AgentSettings, Order};
//! use omega_core::{Amounts, Machine, TaskReport};
//!
//! # async fn run() -> Result<(), omega_client::ApiError> {
//! let address = Address::plain(["127.0.0.1:7600"]);
//! let (agent, mut orders) = Agent::start(&address, AgentSettings::default())?;
//! agent.register(Machine::new("box-1", Amounts::new([8000, 32 << 30]))).await?;
//! while let Some(order) = orders.recv().await {
//!     match order {
//!         Order::Start(task) => {
//!             // Start it here, and then:
//!             agent.report(task.machine, task.id, TaskReport::Started);
//!         }
//!         Order::Stop { task, machine, .. } => {
//!             // Tell it to end here, and once it has:
//!             agent.report(machine, task, TaskReport::Finished);
//!         }
//!         Order::Kill { task, .. } => println!("{task} did not end in time"),
//!         Order::Resize { task, to, .. } => println!("{task} holds {to} from now on"),
//!         Order::ReadLog(read) => agent.log(&read, None),
//!         Order::Detached(_) => break,
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: this file, `records.rs`, `endings.rs`, `directives.rs`, `driver.rs`.

mod directives;
mod driver;
mod endings;
mod records;

use crate::connect::{Address, Connections, MESSAGE_BYTES_MAX};
use crate::proto::machine_service_client::MachineServiceClient;
use crate::proto::{self, machine_ref};
use crate::{ApiError, ErrorCode, before_another_try};
use driver::{Driver, Said};
use omega_core::{
    Amounts, JobKind, Labels, Machine, MachineId, Payload, Port, Run, RunEnd, Taint, TaskId,
    TaskReport, Text,
};
use records::Reported;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The label of a machine that has an agent. A new leader expects it to heartbeat, even if it never did since
/// that leader leads.
pub const AGENT: &str = "omega.io/agent";

/// Taint key of machines whose agents are silent.
pub const UNREACHABLE: &str = "omega.io/unreachable";

/// Taint key of machines that are drained by a time: the value is the time in milliseconds since 1970.
pub const DRAIN_BY: &str = "omega.io/drain-by";

/// Whether the agent of a machine has been silent for so long that its tasks are not counted on.
#[must_use]
pub fn is_unreachable(machine: &omega_core::Machine) -> bool {
    machine.taints.iter().any(|taint| &*taint.key == UNREACHABLE)
}

/// The state of a machine in lists: `unreachable` if it has that taint, else `draining` or `up`.
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

/// Timeout of a machine's registration: many times an election.
const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// Heartbeat interval of each machine.
    pub heartbeat: Duration,
}

impl Default for AgentSettings {
    /// Four heartbeats within the server's default lease of a machine.
    fn default() -> Self {
        AgentSettings { heartbeat: Duration::from_secs(10) }
    }
}

/// A task that a machine is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Id of the task.
    pub id: TaskId,
    /// Its machine.
    pub machine: MachineId,
    /// The name of its job.
    pub job_name: Text,
    /// The name of its group in the job.
    pub group: Text,
    /// Whether it is to stay up, or ends by itself.
    pub kind: JobKind,
    /// Expected run time in milliseconds, if known.
    pub runtime_estimate_ms: Option<u64>,
    /// The images of its containers.
    pub images: Vec<Text>,
    /// Its claim.
    pub request: Amounts,
    /// The accelerator devices that it has, by number.
    pub devices: Vec<u32>,
    /// Number of exclusive cores on each NUMA node; the agent chooses which. Empty: none.
    pub cores: Vec<u32>,
    /// Grace: maximum time from stop to end, in milliseconds.
    pub grace_ms: u32,
    /// Content of the task.
    pub program: Arc<Program>,
}

/// Content of a task: its group's program, and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The tenant of the job.
    pub tenant: Text,
    /// The program, where the job names one.
    pub run: Option<Run>,
    /// Opaque bytes of the job.
    pub payload: Payload,
    /// Labels of the task.
    pub labels: Labels,
    /// Volumes that it uses, by name.
    pub volumes: Vec<Text>,
    /// Exclusive ports.
    pub ports: Vec<Port>,
}

/// A task that an agent finds on its machine when its process begins, left by an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Id of the task.
    pub task: TaskId,
    /// Its machine.
    pub machine: MachineId,
    /// Its claim.
    pub request: Amounts,
    /// The accelerator devices that it has, by number.
    pub devices: Vec<u32>,
    /// Number of exclusive cores on each NUMA node. Empty: none.
    pub cores: Vec<u32>,
    /// Grace: maximum time from stop to end, in milliseconds.
    pub grace_ms: u32,
    /// Rest of the grace, if it was stopped already.
    pub kill_in_ms: Option<u32>,
}

/// Part of a log to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRead {
    /// Number of the question, for the answer.
    pub read: u64,
    /// Which task; it may have ended.
    pub task: TaskId,
    /// Whether standard error is meant, rather than standard output.
    pub is_stderr: bool,
    /// Position of the first byte; `None`: the last lines.
    pub from: Option<u64>,
    /// Number of the last lines.
    pub tail_lines: u32,
    /// Most bytes of the answer.
    pub bytes_max: usize,
}

/// Part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    /// Position of its first byte, counted from the first that the task ever wrote.
    pub from: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Position behind the last byte of the log.
    pub end: u64,
}

/// Directive to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start a task, and report [`TaskReport::Started`] once it runs.
    Start(Task),
    /// Stop a task. If it has a grace, report its end as soon as it has ended (any end;
    /// [`TaskReport::Finished`] will do), because other tasks wait for its resources. Without a
    /// grace, kill it at once, and report nothing.
    Stop {
        /// Id of the task.
        task: TaskId,
        /// Id of the machine.
        machine: MachineId,
        /// Its grace, after which [`Order::Kill`] follows.
        grace_ms: u32,
    },
    /// Kill a stopped task whose grace is over. Report nothing. Later orders may need its
    /// resources.
    Kill {
        /// Id of the task.
        task: TaskId,
        /// Id of the machine.
        machine: MachineId,
    },
    /// Give a task that runs more or less of its machine.
    Resize {
        /// Id of the task.
        task: TaskId,
        /// Id of the machine.
        machine: MachineId,
        /// Allocation from now on.
        to: Amounts,
    },
    /// Read a log, and answer with [`Agent::log`], whether there is one or not.
    ReadLog(LogRead),
    /// The agent no longer manages this machine: it was removed, or another agent manages it. Its
    /// tasks were stopped before.
    Detached(MachineId),
}

/// An agent of one machine or of many. It heartbeats until it is dropped.
#[derive(Clone, Debug)]
pub struct Agent {
    connections: Connections,
    driver: mpsc::UnboundedSender<Said>,
}

impl Agent {
    /// Starts an agent without machines. Needs a tokio runtime. The orders arrive in the order in
    /// which to follow them; the number of queued ones is bounded by the number of changed tasks.
    ///
    /// # Errors
    /// If the address is not valid.
    pub fn start(
        address: &Address,
        settings: AgentSettings,
    ) -> Result<(Agent, mpsc::UnboundedReceiver<Order>), ApiError> {
        let connections = Connections::new(address)?;
        let (driver, said) = mpsc::unbounded_channel();
        let (to, orders) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(connections.clone(), settings, said, to).run());
        Ok((Agent { connections, driver }, orders))
    }

    /// Registers a machine under its name, with the label [`AGENT`], and manages it. A known
    /// machine keeps its tasks and its taints, because taints are set by operators and the cell.
    ///
    /// # Errors
    /// If the cell rejects it, or no replica answers for half a minute.
    pub async fn register(&self, machine: Machine) -> Result<MachineId, ApiError> {
        let until = Instant::now() + PATIENCE;
        let mut tries = 0;
        loop {
            let connection = self.connections.current();
            let client = MachineServiceClient::new(connection.channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX);
            match register(client, &machine).await {
                Ok(id) => {
                    self.say(Said::Capacity(id, room(&machine)));
                    self.speak_for(id);
                    return Ok(id);
                }
                Err(error) => {
                    let first = (tries as usize) < self.connections.count();
                    let error = match first {
                        true => self.connections.explain(&connection, error).await,
                        false => error,
                    };
                    tries += 1;
                    let others = (tries as usize) < self.connections.count();
                    // To register twice does no harm.
                    match may_pass(&error) && Instant::now() < until {
                        true => tokio::time::sleep(before_another_try(&error, tries - 1)).await,
                        false if error.code == ErrorCode::Tls && others => {}
                        false => return Err(error),
                    }
                    self.connections.leave(&connection);
                }
            }
        }
    }

    /// Manages a registered machine.
    pub fn speak_for(&self, machine: MachineId) {
        self.say(Said::Attach(machine));
    }

    /// Registers a task of an earlier process that runs, or has ended, on a machine. Call it before
    /// the machine connects. If the cell no longer wants the task, it is stopped like any other,
    /// and its resources are free only after that.
    pub fn found(&self, found: Found) {
        self.say(Said::Found(found));
    }

    /// Reports the outcome of a task. The end of a stopped task is not sent to the cell; it only
    /// frees the task's resources here.
    pub fn report(&self, machine: MachineId, task: TaskId, report: TaskReport) {
        self.say(Said::Task(Reported { machine, task, report, end: None }));
    }

    /// Reports about a task as [`Agent::report`] does, with the end of a run of its program.
    pub fn report_end(&self, machine: MachineId, task: TaskId, report: TaskReport, end: RunEnd) {
        self.say(Said::Task(Reported { machine, task, report, end: Some(end) }));
    }

    /// Reports a machine's measured load. Call it only for changes, because each report is a write.
    pub fn load(&self, machine: MachineId, used: Amounts) {
        self.say(Said::Load(machine, used));
    }

    /// Answers a read of a log; `None`: this agent keeps no such log.
    pub fn log(&self, read: &LogRead, part: Option<LogPart>) {
        self.say(Said::Log(read.read, part));
    }

    fn say(&self, said: Said) {
        // The driver ends only with the runtime, or when the receiver of orders is dropped.
        let _ = self.driver.send(said);
    }
}

/// Largest total allocation on a machine: of kinds that may be overcommitted, more than it has.
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

async fn register(
    mut client: MachineServiceClient<tonic::transport::Channel>,
    machine: &Machine,
) -> Result<MachineId, ApiError> {
    let mut machine = machine.clone();
    let labels = machine.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    machine.labels = Labels::new(labels.chain([(AGENT.into(), "true".into())]));
    let name = machine_ref::Machine::Name(machine.name.to_string());
    let named = proto::MachineRef { machine: Some(name) };
    match client.get_machine(proto::GetMachineRequest { machine: Some(named) }).await {
        Ok(answer) => {
            let known = answer.into_inner().machine.and_then(|known| known.machine);
            let taints = known.map(|known| known.taints).unwrap_or_default();
            let taints = taints.into_iter().map(Taint::try_from).collect::<Result<Vec<_>, _>>()?;
            if !taints.is_empty() {
                machine.taints = taints.into();
            }
        }
        Err(status) => match ApiError::from(status) {
            error if error.code == ErrorCode::UnknownMachine => {}
            error => return Err(error),
        },
    }
    let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
    let answer = client.register_machine(request).await?.into_inner();
    let missing = || ApiError::new(ErrorCode::Internal, "the answer has no id");
    Ok(answer.id.ok_or_else(missing)?.into())
}
