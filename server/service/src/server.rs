//! The listeners of a server: one for clients, one for peers.
//!
//! Limits apply here, before any service is called.

use crate::access::audit_queue::AuditLog;
use crate::access::gate::GateLayer;
use crate::access::identity::Caller;
use crate::access::roles;
use crate::calls::commit_log::SlowCommit;
use crate::calls::traces::Traces;
use crate::connection::{ListenerSecurity, incoming};
use crate::host::Host;
use crate::observe::statistics::record_submissions;
use crate::overload::limits::{CallLimits, Deadlines, Limits};
use crate::overload::tenant_limits::TenantLimits;
use crate::peers::{FRAME_BYTES_MAX, PeerListener};
use crate::updates;
use crate::{
    Agents, Cells, Explainer, Jobs, Machines, MonitorSettings, ReplicaIdentity, Scheduling, Tasks,
    Tenants,
};
use omega_client::connect::{DIRECTIVES_BYTES_MAX, MESSAGE_BYTES_MAX};
use omega_client::proto;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tower::layer::util::{Identity, Stack};

/// Interval of pings on a connection without traffic. `KEEP_ALIVE_MAX` is the time limit of the reply.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(5);

/// HTTP/2 windows of a stream and of a connection. Larger ones are not needed, because commits and deltas are small,
/// and snapshots are sent in pieces.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Parts of the gate that each call passes before it reaches a service.
struct Gate {
    audit: Option<Arc<AuditLog>>,
    limits: Limits,
    call_limits: CallLimits,
}

/// A server with the gate before all its services.
fn guarded(gate: Gate) -> Server<Guarded> {
    let Gate { audit, limits, call_limits } = gate;
    let gate = GateLayer { call_limits, audit };
    Server::builder()
        .layer(gate)
        .max_concurrent_streams(limits.connection_streams)
        .http2_max_header_list_size(limits.header_bytes)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true)
}

type Guarded = Stack<GateLayer, Identity>;

/// Every service that clients may call.
fn client_services(
    host: &Host,
    me: ReplicaIdentity,
    extras: Extras,
    gate: Gate,
) -> io::Result<Router<Guarded>> {
    use proto::agent_service_server::AgentServiceServer;
    use proto::cell_service_server::CellServiceServer;
    use proto::job_service_server::JobServiceServer;
    use proto::machine_service_server::MachineServiceServer;
    use proto::scheduling_service_server::SchedulingServiceServer;
    use proto::task_service_server::TaskServiceServer;
    use proto::tenant_service_server::TenantServiceServer;
    let limits = gate.limits;
    // The largest message that the server sends is fixed; the largest that it accepts is a setting.
    let (taken_max, sent_max) = (limits.message_bytes as usize, MESSAGE_BYTES_MAX);
    let (health, health_service) = tonic_health::server::health_reporter();
    // The reporter is not needed: the empty name, which stands for the whole server, is reported as serving from the
    // start.
    drop(health);
    let reflection = || {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        // Reflection does not list the services for peers.
        let names = roles::services_of_clients().into_iter();
        names.fold(builder, tonic_reflection::server::Builder::with_service_name)
    };
    let agents = Agents::start(host.clone(), extras.monitor);
    Ok(guarded(gate)
        .add_service(
            SchedulingServiceServer::new(Scheduling::start(
                host.clone(),
                extras.slow_commit,
                extras.traces,
            ))
            .max_decoding_message_size(taken_max)
            .max_encoding_message_size(sent_max),
        )
        .add_service(
            JobServiceServer::new(Jobs::new(host.clone(), extras.explainer, &limits))
                .max_decoding_message_size(taken_max)
                .max_encoding_message_size(sent_max),
        )
        .add_service(
            MachineServiceServer::new(Machines::new(host.clone(), agents.clone()))
                .max_decoding_message_size(taken_max)
                .max_encoding_message_size(sent_max),
        )
        .add_service(
            TaskServiceServer::new(Tasks::new(host.clone(), agents.clone()))
                .max_decoding_message_size(taken_max)
                .max_encoding_message_size(sent_max),
        )
        .add_service(
            TenantServiceServer::new(Tenants::new(host.clone()))
                .max_decoding_message_size(taken_max)
                .max_encoding_message_size(sent_max),
        )
        .add_service(
            CellServiceServer::new(Cells::new(host.clone(), me))
                .max_decoding_message_size(taken_max)
                .max_encoding_message_size(sent_max),
        )
        .add_service(
            AgentServiceServer::new(agents)
                .max_decoding_message_size(taken_max)
                .max_encoding_message_size(DIRECTIVES_BYTES_MAX),
        )
        .add_service(health_service)
        .add_service(reflection().build_v1().map_err(io::Error::other)?)
        // Most tools in other languages still use this version of reflection.
        .add_service(reflection().build_v1alpha().map_err(io::Error::other)?))
}

/// A listener with its access rules and its audit log.
#[derive(Debug)]
pub struct ListenerConfig {
    /// The bound listener.
    pub listener: TcpListener,
    /// Callers that may connect.
    pub security: ListenerSecurity,
    /// Audit log, if any.
    pub audit: Option<Arc<AuditLog>>,
    /// Limits of requests.
    pub limits: Limits,
}

impl ListenerConfig {
    /// A server without certificates and audit log, with the default limits.
    #[must_use]
    pub fn open(listener: TcpListener) -> ListenerConfig {
        ListenerConfig {
            listener,
            security: ListenerSecurity::Open,
            audit: None,
            limits: Limits::default(),
        }
    }
}

/// Parts of a server that are independent of its API.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Settings for unreachable machines.
    pub monitor: MonitorSettings,
    /// Explainer of pending jobs, if any.
    pub explainer: Option<Arc<dyn Explainer>>,
    /// Time from request to reply above which a commit is logged.
    pub slow_commit: SlowCommit,
    /// Traces of commits, if any.
    pub traces: Option<Traces>,
}

/// Serves clients until `end` resolves. While this replica leads, it also monitors the machines of
/// agents. Without certificates every caller is an operator.
///
/// # Errors
/// I/O errors of the listener.
pub async fn serve_clients(
    ListenerConfig { listener, security, audit, limits }: ListenerConfig,
    host: Host,
    me: ReplicaIdentity,
    extras: Extras,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    if let ListenerSecurity::Tls { certificates, .. } = &security {
        host.metrics().show(certificates);
    }
    let call_limits = CallLimits::new(limits);
    let gate = Gate { audit, limits, call_limits: call_limits.clone() };
    let services = client_services(&host, me, extras, gate)?;
    let controller = tokio::spawn(updates::run(host.clone(), TenantLimits::new(&limits)));
    let recording = tokio::spawn(record_submissions(host));
    let incoming = incoming(listener, security, Caller::local(), (limits, Some(call_limits)));
    let served = services.serve_with_incoming_shutdown(incoming, end).await;
    recording.abort();
    controller.abort();
    served.map_err(io::Error::other)
}

/// Serves every connection as this caller, with slots that several servers share.
///
/// # Errors
/// I/O errors of the listener.
#[cfg(test)]
pub(crate) async fn serve_as(
    caller: Caller,
    ListenerConfig { listener, security, audit, limits }: ListenerConfig,
    call_limits: CallLimits,
    host: Host,
) -> io::Result<()> {
    let me =
        ReplicaIdentity { cell: omega_store::CellId(1), replica: omega_store::log::ReplicaId(1) };
    let gate = Gate { audit, limits, call_limits: call_limits.clone() };
    let services = client_services(&host, me, Extras::default(), gate)?;
    let incoming = incoming(listener, security, caller, (limits, Some(call_limits)));
    services.serve_with_incoming(incoming).await.map_err(io::Error::other)
}

/// Receives messages of peers until `end` resolves. Without certificates, callers can pretend to be
/// any replica.
///
/// # Errors
/// I/O errors of the listener.
pub async fn serve_peers(
    ListenerConfig { listener, security, audit, limits }: ListenerConfig,
    peers: PeerListener,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    use proto::peer_service_server::PeerServiceServer;
    // Connections of peers are never slowed down, because a replica that misses a leader's messages starts an election.
    let incoming = incoming(listener, security, Caller::local_peer(), (limits, None));
    let service = PeerServiceServer::new(peers).max_decoding_message_size(FRAME_BYTES_MAX);
    // The longest deadline is used, because a frame may be large, and the network between replicas slow.
    let Deadlines { max, .. } = limits.deadlines;
    let limits = Limits { deadlines: Deadlines { usual: max, max }, ..limits };
    guarded(Gate { audit, limits, call_limits: CallLimits::new(limits) })
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, end)
        .await
        .map_err(io::Error::other)
}
