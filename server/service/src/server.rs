//! The listeners of a server: one for clients, one for peers.
//!
//! What a connection may ask for is bounded here, before any service sees it.

use crate::host::Host;
use crate::peers::{FRAME_BYTES_MAX, PeerListener};
use crate::{Agents, Cells, Jobs, Machines, MonitorSettings, Scheduling, Tasks, Tenants, Whoami};
use omega_client::connect::MESSAGE_BYTES_MAX;
use omega_client::proto;
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;

/// Streams that one connection may have at once.
const STREAMS_MAX: u32 = 128;

/// Bytes of the headers of one request.
const HEADER_BYTES_MAX: u32 = 16 << 10;

/// How often a silent connection is tried, and how long its answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(5);

/// Bytes that a stream, and a connection, may have on the way: a scheduler's commits and the deltas to it
/// are small, and a snapshot is taken in pieces.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

fn bounded() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true)
}

/// Every service that clients may call.
fn client_services(host: &Host, me: Whoami, monitor: MonitorSettings) -> io::Result<Router> {
    use proto::agent_service_server::AgentServiceServer;
    use proto::cell_service_server::CellServiceServer;
    use proto::job_service_server::JobServiceServer;
    use proto::machine_service_server::MachineServiceServer;
    use proto::scheduling_service_server::SchedulingServiceServer;
    use proto::task_service_server::TaskServiceServer;
    use proto::tenant_service_server::TenantServiceServer;
    let max = MESSAGE_BYTES_MAX;
    let (health, health_service) = tonic_health::server::health_reporter();
    // The empty name stands for the whole server, and serves from the start.
    drop(health);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(io::Error::other)?;
    Ok(bounded()
        .add_service(
            SchedulingServiceServer::new(Scheduling::new(host.clone()))
                .max_decoding_message_size(max),
        )
        .add_service(JobServiceServer::new(Jobs::new(host.clone())).max_decoding_message_size(max))
        .add_service(
            MachineServiceServer::new(Machines::new(host.clone())).max_decoding_message_size(max),
        )
        .add_service(
            TaskServiceServer::new(Tasks::new(host.clone())).max_decoding_message_size(max),
        )
        .add_service(
            TenantServiceServer::new(Tenants::new(host.clone())).max_decoding_message_size(max),
        )
        .add_service(
            CellServiceServer::new(Cells::new(host.clone(), me)).max_decoding_message_size(max),
        )
        .add_service(
            AgentServiceServer::new(Agents::start(host.clone(), monitor))
                .max_decoding_message_size(max),
        )
        .add_service(health_service)
        .add_service(reflection))
}

/// Serves clients until `end` is there, and while this replica leads, watches the machines of agents.
///
/// # Errors
/// Those of the listener.
pub async fn serve_clients(
    listener: TcpListener,
    host: Host,
    me: Whoami,
    monitor: MonitorSettings,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let incoming = TcpListenerStream::new(listener);
    let services = client_services(&host, me, monitor)?;
    services.serve_with_incoming_shutdown(incoming, end).await.map_err(io::Error::other)
}

/// Takes what peers send, until `end` is there.
///
/// # Errors
/// Those of the listener.
pub async fn serve_peers(
    listener: TcpListener,
    peers: PeerListener,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    use proto::peer_service_server::PeerServiceServer;
    let incoming = TcpListenerStream::new(listener);
    let service = PeerServiceServer::new(peers).max_decoding_message_size(FRAME_BYTES_MAX);
    bounded()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, end)
        .await
        .map_err(io::Error::other)
}
