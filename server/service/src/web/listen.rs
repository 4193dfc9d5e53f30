//! HTTP/1.1 on a connection, with the limits of the other listeners.
//!
//! Headers must be short and arrive within five seconds (`Limits::handshake`). Request bodies are not read.

use super::probes::Pace;
use crate::access::identity::Caller;
use crate::connection::{Connection, ListenerSecurity, Visitor, incoming_http1};
use crate::overload::limits::{HEADER_BYTES_MIN, Limits};
use crate::overload::slots::InProgress;
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::pin::pin;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::{Service, ServiceExt};

/// Maximum number of headers of one request. Browsers send some twenty.
const HEADERS_COUNT_MAX: usize = 64;

/// A listener with its access rules.
pub(super) struct Entry {
    pub(super) listener: TcpListener,
    pub(super) security: ListenerSecurity,
    pub(super) limits: Limits,
}

/// Serves until `end` resolves, and then completes open requests.
pub(super) async fn serve(
    Entry { listener, security, limits }: Entry,
    routes: Router,
    end: impl Future<Output = ()>,
) {
    let mut connections = incoming_http1(listener, security, Caller::local(), limits);
    let (over, ended) = watch::channel(false);
    let mut end = pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            connection = connections.recv() => match connection {
                Some(Ok(connection)) => {
                    tokio::spawn(serve_connection(connection, routes.clone(), limits, ended.clone()));
                }
                Some(Err(_)) => {}
                None => break,
            },
        }
    }
    drop(ended);
    over.send_replace(true);
    over.closed().await;
}

async fn serve_connection(
    connection: Connection,
    routes: Router,
    limits: Limits,
    mut ended: watch::Receiver<bool>,
) {
    let Visitor { caller, usage } = connection.visitor();
    let pace = Pace::new();
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(pace.clone());
        respond(routes.clone(), request, usage.begin())
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // This is also the longest time for which a connection may be idle; browsers then open another one.
        .header_read_timeout(limits.handshake)
        .max_buf_size(limits.header_bytes.max(HEADER_BYTES_MIN) as usize)
        .max_headers(HEADERS_COUNT_MAX);
    let connection_future =
        builder.serve_connection(TokioIo::new(connection), TowerToHyperService::new(service));
    let mut connection_future = pin!(connection_future);
    tokio::select! {
        // The connection has ended, or its client violated the protocol and has got an error.
        _ = &mut connection_future => return,
        // The wait fails only if the server is gone.
        _ = ended.wait_for(|ended| *ended) => connection_future.as_mut().graceful_shutdown(),
    }
    let _ = connection_future.await;
}

async fn respond(
    mut routes: Router,
    request: Request<Incoming>,
    _call: InProgress,
) -> Result<Response, Infallible> {
    ServiceExt::<Request<Incoming>>::ready(&mut routes).await?.call(request).await
}
