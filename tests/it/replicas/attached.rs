//! Streams of agents that break a rule of the transport.

use omega_client::proto::agent_service_client::AgentServiceClient;
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::Kinds;
use omega_service::{Extras, Host, ListenerConfig, ReplicaIdentity, serve_clients};
use omega_store::directory::{Directory, EngineKind, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::Membership;
use omega_store::replica::{Network, Running, Settings, bootstrap, start};
use omega_store::{CellId, Origin, RealDisk};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Error at the end of a stream with this report. The call is repeated while the cell has no leader.
async fn error_of(address: &str, report: proto::AgentReport) -> ApiError {
    loop {
        let mut client = AgentServiceClient::connect(address.to_owned()).await.unwrap();
        let reports = tokio_stream::iter([report.clone()]);
        let mut directives = client.attach(reports).await.unwrap().into_inner();
        let error = loop {
            match directives.message().await {
                Ok(told) => assert!(told.is_some(), "the stream ended without an error"),
                Err(status) => break ApiError::from(status),
            }
        };
        if error.code != ErrorCode::NoLeader {
            return error;
        }
    }
}

/// An internal error would make the agent send the report again, and would hide the cause from the operator.
#[tokio::test]
async fn a_report_that_is_too_long_is_the_agents_error() {
    let folder = tempfile::tempdir().unwrap();
    let id = ReplicaId(1);
    let origin = Origin { cell: CellId(9), kinds: Kinds::standard() };
    let identity = Identity { origin, replica: id, engine: EngineKind::Segment };
    let directory = Directory::create(Arc::new(RealDisk), folder.path(), identity).unwrap();
    bootstrap(&directory, &Membership::initial([id])).unwrap();
    let started = start(directory, Settings { incarnation: 1, ..Settings::default() }).unwrap();
    let port = Network::default().port(id);
    let running = Arc::new(Running::start(started, port, Duration::from_millis(10)));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let me = ReplicaIdentity { cell: CellId(9), replica: id };
    let listener_config = ListenerConfig::open(listener);
    let endless = std::future::pending();
    tokio::spawn(serve_clients(
        listener_config,
        Host::replica(running),
        me,
        Extras::default(),
        endless,
    ));

    let report = proto::AgentReport { alive_slots: vec![u32::MAX; 1 << 20], ..Default::default() };
    let error = error_of(&address, report).await;
    assert_eq!(error.code, ErrorCode::Limit, "{error:?}");
}
