//! What a server says over plain HTTP: to Prometheus, and to whoever asks whether it lives.

use crate::host::Host;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// How long a leader is waited for before a server counts as not ready.
const READY_MAX: Duration = Duration::from_secs(1);

/// Serves `/metrics`, `/healthz` (the process lives) and `/readyz` (a leader answers), until `end` is there.
///
/// # Errors
/// Those of the listener.
pub async fn serve_web(
    listener: TcpListener,
    host: Host,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(host);
    axum::serve(listener, routes).with_graceful_shutdown(end).await
}

async fn metrics(State(host): State<Host>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match host.metrics().text(&host) {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(host): State<Host>) -> Response {
    match host.refresh(Instant::now() + READY_MAX).await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}
