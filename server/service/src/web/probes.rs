//! Routes for Prometheus and for health checks.

use super::Shown;
use crate::observe::openmetrics::CONTENT_TYPE;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for a leader before a probe reports that the server is not ready.
const READY_MAX: Duration = Duration::from_secs(1);

pub(super) async fn metrics(State(shown): State<Shown>) -> Response {
    match crate::observe::metrics::text(&shown.web.host, shown.web.me).await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Reports whether the replica runs. If it has stopped, the reason is on the page, not in the response.
pub(super) async fn healthy(State(shown): State<Shown>) -> Response {
    if shown.web.host.stopped().is_none() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "the replica has stopped\n").into_response()
}

/// Reports whether a leader answers. If none does, the reason is on the page, not in the response.
pub(super) async fn ready(State(shown): State<Shown>) -> Response {
    match shown.web.host.refresh(Instant::now() + READY_MAX).await {
        Ok(()) => "ready\n".into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "no leader answers\n").into_response(),
    }
}
