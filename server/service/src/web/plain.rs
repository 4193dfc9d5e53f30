//! Metrics of a process that serves no cell: `/metrics` and `/healthz`, without a page.

use super::guard;
use super::listen;
use super::probes;
use crate::connection::ListenerSecurity;
use crate::observe::openmetrics::CONTENT_TYPE;
use crate::overload::limits::Limits;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Writer of the metrics text.
pub type MakeText = Arc<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>;

/// Serves `/metrics` and `/healthz` until `end` resolves, to everyone who reaches the listener. If the address is a
/// loopback address, requests must name a local host, as for the web page.
///
/// # Errors
/// I/O errors of the listener.
pub async fn serve_metrics(
    listener: TcpListener,
    text: MakeText,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let is_local = listener.local_addr()?.ip().is_loopback();
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .layer(axum::middleware::from_fn(probes::paced))
        .layer(axum::middleware::from_fn_with_state(is_local, guard::protect))
        .with_state(text);
    let entry =
        listen::Entry { listener, security: ListenerSecurity::Open, limits: Limits::default() };
    listen::serve(entry, routes, end).await;
    Ok(())
}

async fn metrics(State(text): State<MakeText>) -> Response {
    match text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
