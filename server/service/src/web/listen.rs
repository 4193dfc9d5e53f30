//! HTTP/1.1 on a connection, with the bounds that the other listeners have.
//!
//! Headers come within five seconds and are short; nothing that is sent with a request is read.

use crate::connection::{Connection, Door, incoming_http1};
use crate::identity::Caller;
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::{Service, ServiceExt};

/// How long the headers of a request may take, and a connection may be idle: browsers open another one.
const HEADERS_MAX: Duration = Duration::from_secs(5);

/// Bytes of the headers of one request: as on the other listeners.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Headers of one request: browsers send some twenty.
const HEADERS_COUNT_MAX: usize = 64;

/// Serves until `end` is there; what is being answered then is answered.
pub(super) async fn serve(
    listener: TcpListener,
    door: Door,
    routes: Router,
    end: impl Future<Output = ()>,
) {
    let mut connections = incoming_http1(listener, door, Caller::local());
    let (over, ended) = watch::channel(false);
    let mut end = pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            connection = connections.recv() => match connection {
                Some(Ok(connection)) => {
                    tokio::spawn(speak(connection, routes.clone(), ended.clone()));
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

async fn speak(connection: Connection, routes: Router, mut ended: watch::Receiver<bool>) {
    let caller = connection.caller().clone();
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        answer(routes.clone(), request)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_COUNT_MAX);
    let speaking =
        builder.serve_connection(TokioIo::new(connection), TowerToHyperService::new(service));
    let mut speaking = pin!(speaking);
    tokio::select! {
        // Whoever speaks badly, or goes away, has been told or is gone.
        _ = &mut speaking => return,
        // It fails only where the server is gone.
        _ = ended.wait_for(|ended| *ended) => speaking.as_mut().graceful_shutdown(),
    }
    let _ = speaking.await;
}

async fn answer(mut routes: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    ServiceExt::<Request<Incoming>>::ready(&mut routes).await?.call(request).await
}
