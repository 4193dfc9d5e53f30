//! Agents: their streams, heartbeats and directives.
//!
//! ```text
//!   agent ═══ Attach ═══▶ one task per stream ── commands ──▶ Host ──▶ the log
//!     ▲                          │ heartbeats, attached machines          │
//!     │                          ▼                                        │ one delta for all agents
//!     └─── directives ◀─── hub: routes, monitor ◀─────────────────────────┘
//!                                └── taints, lost tasks, time ──▶ Host
//! ```
//!
//! One reader of the cell's deltas serves all streams, so a change causes work only for the agent concerned. Heartbeats
//! stay in the leader's memory, because they are not worth a write to the log. Agents therefore connect to the leader.
//! A new leader has received no heartbeats yet, so it gives every machine a full timeout before it changes the
//! machine's state. docs/agents.md has the rules for unreachable machines.
//!
//! In reading order: `monitor.rs`, `routes.rs`, `directives.rs`, `connected.rs`, `hub.rs`, `taints.rs`,
//! `conditions.rs`, `reports.rs`.

mod command_rate;
mod conditions;
mod connected;
mod directives;
mod hub;
mod log_reads;
pub mod monitor;
mod outbox;
pub(crate) mod reports;
mod routes;
mod taints;

use crate::access::gate::reword;
use crate::access::grants;
use crate::access::identity::{Caller, Role};
use crate::host::{Host, unavailable};
use crate::overload::memory_accounts::Accounts;
use crate::service::RpcResult;
use command_rate::CommandRates;
use connected::{Connected, Sent};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream as Messages, StreamExt};
use hub::{Event, Hub, no_leader};
pub(crate) use log_reads::LogSource;
use monitor::MonitorSettings;
use omega_client::proto::agent_service_server::AgentService;
use omega_client::{ApiError, ErrorCode, proto};
use omega_store::replica::RetryReason;
use outbox::StreamId;
use reports::Report;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Maximum number of messages that wait for a slow agent. At some 500 tasks in each message, this is a million tasks.
/// If the queue or the agent's account of bytes is full, the stream ends, and the agent gets the full state when it
/// reconnects.
const DIRECTIVES_MAX: usize = 2048;

/// Maximum bytes of unread directives of one agent, and of all agents together. The tasks of a full machine take a few
/// megabytes. Agents with the rights of an operator, which may have very many machines, share the second amount.
const UNREAD_EACH: usize = 64 << 20;
const UNREAD: usize = 512 << 20;

/// Maximum number of events that wait for the hub. If the queue is full, streams wait too.
const EVENTS_MAX: usize = 1024;

/// Maximum wait for this replica to apply the registration of a machine that an agent reports.
const REGISTRATION_WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum wait for the cell to record reported conditions of machines before an agent's next reports are applied.
const CONDITIONS_MAX: Duration = Duration::from_secs(1);

/// Time that an agent may take to read a log.
const READ_MAX: Duration = Duration::from_secs(3);

/// The agent service. See the module documentation.
#[derive(Clone, Debug)]
pub struct Agents {
    host: Host,
    events: mpsc::Sender<Event>,
    unread: Accounts,
    /// Counter from which each new stream takes its number.
    next: Arc<AtomicU64>,
    rates: Arc<CommandRates>,
}

impl Agents {
    /// Starts the service of a cell, with the monitor of its machines while this replica leads. Needs a tokio runtime.
    #[must_use]
    pub fn start(host: Host, settings: MonitorSettings) -> Agents {
        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(Hub::new(host.clone(), settings).run(inbox));
        let unread = Accounts::new(UNREAD_EACH, UNREAD);
        Agents { host, events, unread, next: Arc::default(), rates: Arc::default() }
    }

    /// Waits until the rate of agents' commands allows this number of commands of a caller.
    ///
    /// # Errors
    /// If this takes longer than the call may take.
    pub(crate) async fn await_rate(
        &self,
        caller: &Caller,
        commands: usize,
        until: Instant,
    ) -> Result<(), ApiError> {
        let is_allowed = self.rates.wait(caller, commands, Some(until)).await;
        is_allowed.then_some(()).ok_or_else(|| unavailable(RetryReason::Busy))
    }

    /// Reads a task's log; `None` if all agents that may have it reply that they do not.
    ///
    /// # Errors
    /// If this replica does not lead, or an agent that may have the log is not connected or does not reply.
    pub(crate) async fn read_log(
        &self,
        from: LogSource,
        read: proto::ReadLog,
    ) -> Result<Option<proto::LogPart>, ApiError> {
        if !self.host.leadership().is_leader {
            return Err(no_leader(&self.host));
        }
        let (reply, replied) = oneshot::channel();
        let stopped = |_| ApiError::new(ErrorCode::Stopped, "this replica has stopped");
        let event = Event::ReadLog { from, read, reply };
        self.events.send(event).await.map_err(stopped)?;
        match tokio::time::timeout(READ_MAX, replied).await {
            Ok(Ok(Ok(part))) => Ok(part.found.then_some(part)),
            Ok(Ok(Err(refused))) => Err(refused),
            Ok(Err(_)) | Err(_) => {
                let message = "the agent that has the log of the task does not answer";
                Err(ApiError::new(ErrorCode::UnknownTask, message))
            }
        }
    }
}

#[tonic::async_trait]
impl AgentService for Agents {
    type AttachStream = BoxStream<'static, Result<proto::AgentDirectives, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<proto::AgentReport>>,
    ) -> RpcResult<Self::AttachStream> {
        let caller = grants::caller(&request)?;
        if !self.host.leadership().is_leader {
            return Err(no_leader(&self.host).into());
        }
        let id = StreamId(self.next.fetch_add(1, Ordering::Relaxed));
        let (to, directives) = mpsc::channel(DIRECTIVES_MAX);
        let (alive, over) = oneshot::channel();
        let stopped = || ApiError::new(ErrorCode::Stopped, "this replica has stopped");
        let is_operator = caller.role == Role::Operator;
        let holder = self.unread.of(&caller);
        let connected = Connected { to, is_operator, holder, _alive: alive };
        self.events.send(Event::Open { stream: id, connected }).await.map_err(|_| stopped())?;
        let (host, events) = (self.host.clone(), self.events.clone());
        let stream = Stream { id, caller, host, events, rates: self.rates.clone() };
        tokio::spawn(stream.run(request.into_inner(), over));
        Ok(Response::new(ReceiverStream::new(directives).flat_map(messages).boxed()))
    }
}

/// Receiver of an agent's reports.
struct Stream {
    id: StreamId,
    caller: Arc<Caller>,
    host: Host,
    events: mpsc::Sender<Event>,
    rates: Arc<CommandRates>,
}

impl Stream {
    /// Receives reports until the agent ends the stream, or the hub drops the other end of `over`.
    async fn run(self, reports: Streaming<proto::AgentReport>, over: oneshot::Receiver<()>) {
        let _counted = self.host.metrics().agent();
        let error = tokio::select! {
            listened = self.listen(reports) => listened.err(),
            _ = over => None,
        };
        // If the hub is gone, the event is not needed.
        let _ = self.events.send(Event::Close { stream: self.id, error }).await;
    }

    async fn listen(&self, mut reports: Streaming<proto::AgentReport>) -> Result<(), ApiError> {
        while let Some(incoming) = reports.message().await.map_err(reword)? {
            self.host.metrics().reported();
            let report = Report::try_from(incoming)?;
            for machine in report.machines() {
                let until = Instant::now() + REGISTRATION_WAIT_MAX;
                grants::may_report(&self.caller, &self.host, machine, until).await?;
            }
            let Report { attach, alive, conditions, commands, logs } = report;
            let stream = self.id;
            if !logs.is_empty() {
                self.send(Event::Logs { stream, parts: logs }).await?;
            }
            if !attach.is_empty() || !alive.is_empty() {
                self.send(Event::Heartbeats { stream, attach, alive }).await?;
            }
            if !conditions.is_empty() {
                let (done, recorded) = oneshot::channel();
                self.send(Event::Conditions { stream, conditions, done }).await?;
                // The next reports may say that tasks are lost, because the machine's disk is full. The machine must
                // not get them again.
                let _ = tokio::time::timeout(CONDITIONS_MAX, recorded).await;
            }
            if !commands.is_empty() {
                self.rates.wait(&self.caller, commands.len(), None).await;
                let confirmed = reports::apply(&self.host, commands).await?;
                self.send(Event::Confirmed(confirmed)).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, event: Event) -> Result<(), ApiError> {
        let stopped = |_| ApiError::new(ErrorCode::Stopped, "this replica has stopped");
        self.events.send(event).await.map_err(stopped)
    }
}

/// The messages of one item.
fn messages(sent: Sent) -> impl Messages<Item = Result<proto::AgentDirectives, Status>> {
    let Sent { directives, charge } = sent;
    let (batch, error) = match directives {
        Ok(batch) => (Some(directives::encode(batch)), None),
        Err(error) => (None, Some(Err(error.into()))),
    };
    // The bytes count until the last of the messages is sent.
    stream::iter(batch.into_iter().flatten().map(Ok).chain(error)).map(move |message| {
        let _ = &charge;
        message
    })
}
