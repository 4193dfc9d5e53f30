//! Agents: what they are told, and what their silence means.
//!
//! ```text
//!   agent ═══ Attach ═══▶ one task per stream ── commands ──▶ Host ──▶ the log
//!     ▲                          │ heartbeats, attached machines              │
//!     │                          ▼                                       │ one delta for all agents
//!     └──── orders ◀──── hub: routes, monitor ◀──────────────────────────┘
//!                                └── taints, lost tasks, time ──▶ Host
//! ```
//!
//! One reader of the cell's deltas serves all streams: a change costs its own agent something, and the
//! others nothing. Heartbeats stay in the memory of the leader; they are not worth a write. So agents must be
//! attached to the leader, and a new leader gives every machine a full timeout before it says anything of
//! it. The rules by which machines are lost are in docs/agents.md.
//!
//! In reading order: `monitor.rs`, `routes.rs`, `hub.rs`, `marks.rs`, `reports.rs`.

mod hub;
mod marks;
pub mod monitor;
mod orders;
mod reports;
mod routes;

use crate::grants;
use crate::host::Host;
use crate::identity::Caller;
use crate::service::Answered;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use hub::{Event, Hub, no_leader};
use monitor::MonitorSettings;
use omega_client::proto::agent_service_server::AgentService;
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::JobKind;
use orders::{Orders, Start, StreamId};
use reports::Report;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Messages that wait for a slow agent: with at most some 500 tasks each, a million. Beyond it the
/// stream ends, and the agent gets the full state.
const ORDERS_MAX: usize = 2048;

/// Events that wait for the hub. Streams wait when it is behind.
const EVENTS_MAX: usize = 1024;

/// Longest wait of this replica to learn of a machine that an agent manages.
const KNOWN_MAX: Duration = Duration::from_secs(5);

/// Item of a stream. It becomes a message only when it is sent.
type Sent = Result<Orders, ApiError>;

/// The service.
#[derive(Clone, Debug)]
pub struct Agents {
    host: Host,
    events: mpsc::Sender<Event>,
    /// Numbers streams; nothing else is read from it.
    next: Arc<AtomicU64>,
}

impl Agents {
    /// The service of a cell, and what watches its machines while this replica leads. Needs a tokio
    /// runtime.
    #[must_use]
    pub fn start(host: Host, settings: MonitorSettings) -> Agents {
        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(Hub::new(host.clone(), settings).run(inbox));
        Agents { host, events, next: Arc::default() }
    }
}

#[tonic::async_trait]
impl AgentService for Agents {
    type AttachStream = BoxStream<'static, Result<proto::AgentDirectives, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<proto::AgentReport>>,
    ) -> Answered<Self::AttachStream> {
        let caller = grants::caller(&request)?;
        if !self.host.leadership().is_leader {
            return Err(no_leader(&self.host).into());
        }
        let id = StreamId(self.next.fetch_add(1, Ordering::Relaxed));
        let (to, orders) = mpsc::channel(ORDERS_MAX);
        let (alive, over) = oneshot::channel();
        let stopped = || ApiError::new(ErrorCode::Stopped, "this replica has stopped");
        let open = Event::Open { stream: id, to, alive };
        self.events.send(open).await.map_err(|_| stopped())?;
        let (host, events) = (self.host.clone(), self.events.clone());
        let stream = Stream { id, caller, host, events };
        tokio::spawn(stream.run(request.into_inner(), over));
        Ok(Response::new(ReceiverStream::new(orders).map(message).boxed()))
    }
}

/// Receiver of the directives for one agent.
struct Stream {
    id: StreamId,
    caller: Arc<Caller>,
    host: Host,
    events: mpsc::Sender<Event>,
}

impl Stream {
    /// Receives reports until the agent ends the stream, or the hub drops the other end of `over`.
    async fn run(self, reports: Streaming<proto::AgentReport>, over: oneshot::Receiver<()>) {
        let _counted = self.host.metrics().agent();
        let error = tokio::select! {
            listened = self.listen(reports) => listened.err(),
            _ = over => None,
        };
        // Without a hub there is nobody to tell.
        let _ = self.events.send(Event::Close { stream: self.id, error }).await;
    }

    async fn listen(&self, mut reports: Streaming<proto::AgentReport>) -> Result<(), ApiError> {
        while let Some(said) = reports.message().await? {
            self.host.metrics().reported();
            let report = Report::try_from(said)?;
            for machine in report.machines() {
                let until = Instant::now() + KNOWN_MAX;
                grants::may_report(&self.caller, &self.host, machine, until).await?;
            }
            let Report { attach, alive, commands } = report;
            let stream = self.id;
            if !attach.is_empty() || !alive.is_empty() {
                self.tell(Event::Heartbeats { stream, attach, alive }).await?;
            }
            if !commands.is_empty() {
                let confirmed = reports::apply(&self.host, commands).await?;
                self.tell(Event::Confirmed(confirmed)).await?;
            }
        }
        Ok(())
    }

    async fn tell(&self, event: Event) -> Result<(), ApiError> {
        let stopped = |_| ApiError::new(ErrorCode::Stopped, "this replica has stopped");
        self.events.send(event).await.map_err(stopped)
    }
}

fn message(sent: Sent) -> Result<proto::AgentDirectives, Status> {
    let orders = sent?;
    let stop = |(task, machine): (omega_core::TaskId, omega_core::MachineId)| proto::StopTask {
        task: Some(task.into()),
        machine: Some(machine.into()),
    };
    Ok(proto::AgentDirectives {
        whole_slots: orders.whole.iter().map(|id| id.slot).collect(),
        whole_incarnations: orders.whole.iter().map(|id| id.incarnation).collect(),
        stops: orders.stops.into_iter().map(stop).collect(),
        starts: orders.starts.into_iter().map(start).collect(),
        detached_slots: orders.detached.iter().map(|id| id.slot).collect(),
        detached_incarnations: orders.detached.iter().map(|id| id.incarnation).collect(),
    })
}

fn start(start: Start) -> proto::StartTask {
    let kind = match start.job.kind {
        JobKind::Service => proto::JobKind::Service,
        JobKind::Batch => proto::JobKind::Batch,
    };
    let group = &start.job.groups[start.group];
    proto::StartTask {
        task: Some(start.task.into()),
        machine: Some(start.machine.into()),
        job_name: start.job.name.to_string(),
        group: group.name.to_string(),
        kind: kind.into(),
        runtime_estimate_ms: start.job.runtime_estimate_ms,
        images: group.images.iter().map(ToString::to_string).collect(),
        request: start.holds.as_slice().to_vec(),
        devices: start.devices.iter().map(|device| device as u32).collect(),
        running: start.is_running,
        grace_ms: group.grace_ms,
        cores: omega_client::convert::node_list(&start.cores),
    }
}
