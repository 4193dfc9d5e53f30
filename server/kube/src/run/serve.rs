//! Probes and metrics over HTTP.

use super::engine::Readiness;
use super::metrics::Metrics;
use super::{NAMESPACES, NODES, PODS};
use crate::watch::progress::{Progress, STALE};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// The data that probes and metrics report.
#[derive(Clone)]
pub struct Shown {
    /// Whether the first lists are mirrored.
    pub readiness: Readiness,
    /// The times at which the mirrored lists were last known to be up to date.
    pub progress: Progress,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

/// Answers requests for ever.
pub async fn serve(listener: TcpListener, shown: Shown) {
    let places = Arc::new(tokio::sync::Semaphore::new(64));
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let shown = shown.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let response = respond(&shown, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10));
            let _ = server.serve_connection(TokioIo::new(socket), answer).await;
            drop(place);
        });
    }
}

/// Returns the answer to the probe of readiness.
fn readiness(shown: &Shown, now: Instant) -> (StatusCode, String) {
    if !shown.readiness.is_ready() {
        let message = "the first lists of the API server have not been read yet";
        return (StatusCode::SERVICE_UNAVAILABLE, message.into());
    }
    // Other lists may be missing in a cluster, or denied.
    let is_needed = |path: &&str| [PODS.path, NODES.path, NAMESPACES.path].contains(path);
    let stale: Vec<_> = shown.progress.stale(now).into_iter().filter(is_needed).collect();
    if stale.is_empty() {
        return (StatusCode::OK, "ok".to_owned());
    }
    let message = format!(
        "no news from the API server for {} seconds about {}",
        STALE.as_secs(),
        stale.join(", ")
    );
    (StatusCode::SERVICE_UNAVAILABLE, message)
}

fn respond(shown: &Shown, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, body) = match request.uri().path() {
        "/healthz" | "/livez" => (StatusCode::OK, "ok".to_owned()),
        "/readyz" => readiness(shown, Instant::now()),
        "/metrics" => (StatusCode::OK, shown.metrics.text()),
        _ => (
            StatusCode::NOT_FOUND,
            "no such path: the paths are /healthz, /livez, /readyz and \
             /metrics"
                .into(),
        ),
    };
    let content = if request.uri().path() == "/metrics" {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; charset=utf-8"
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let value = http::HeaderValue::from_static(content);
    response.headers_mut().insert(http::header::CONTENT_TYPE, value);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_while_its_lists_have_progress() {
        let (readiness, progress) = (Readiness::default(), Progress::default());
        let metrics = Arc::default();
        let shown = Shown { readiness: readiness.clone(), progress: progress.clone(), metrics };
        let now = Instant::now();
        assert_eq!(super::readiness(&shown, now).0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set();
        progress.note("/api/v1/pods", now);
        assert_eq!(super::readiness(&shown, now).0, StatusCode::OK);
        let (status, why) = super::readiness(&shown, now + STALE * 2);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.ends_with("about /api/v1/pods"), "{why}");
    }
}
