//! Probes and metrics over HTTP.

use super::engine::Stage;
use super::metrics::Metrics;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// The data that probes and metrics report.
#[derive(Clone)]
pub struct Shown {
    /// The stage of the engine.
    pub stage: Stage,
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
                let response = answer(&shown, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10));
            let _ = server.serve_connection(TokioIo::new(socket), answer).await;
            drop(place);
        });
    }
}

fn answer(shown: &Shown, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, body) = match request.uri().path() {
        "/healthz" | "/livez" => (StatusCode::OK, "ok".to_owned()),
        "/readyz" if shown.stage.is_ready() => (StatusCode::OK, "ok".to_owned()),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the first lists of the API server have \
         not been read yet"
                .into(),
        ),
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
