//! Routes for Prometheus and for health checks.

use super::Shown;
use crate::observe::openmetrics::CONTENT_TYPE;
use crate::overload::bucket::Bucket;
use crate::overload::call_slots::Need;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Longest wait for a leader before a probe reports that the server is not ready.
const READY_MAX: Duration = Duration::from_secs(1);

/// Time for which requests share an answer about the leader. It bounds the work, because everyone may ask.
const SHARED_FOR: Duration = Duration::from_millis(100);

/// Health checks per second on one connection, and at once after a pause. Further ones wait, because everyone may ask.
const CHECKS_PER_SECOND: u32 = 20;

/// Pace of the health checks on one connection. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Pace(Arc<parking_lot::Mutex<Bucket>>);

impl Pace {
    pub(super) fn new() -> Pace {
        let bucket = Bucket::new(CHECKS_PER_SECOND, CHECKS_PER_SECOND, Instant::now().into_std());
        Pace(Arc::new(parking_lot::Mutex::new(bucket)))
    }

    /// Waits until the next health check may be answered.
    async fn wait(&self) {
        let take = || self.0.lock().take(Need::Usual, Instant::now().into_std());
        while let Err(pause) = take() {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Answers a request when the pace of its connection allows it.
pub(super) async fn paced(request: Request, next: Next) -> Response {
    if let Some(pace) = request.extensions().get::<Pace>().cloned() {
        pace.wait().await;
    }
    next.run(request).await
}

/// The latest answer about the leader, with the time at which it came.
#[derive(Debug, Default)]
pub(super) struct Latest {
    /// Locked while the leader is asked, so that concurrent requests wait for one answer.
    answer: Mutex<Option<(Instant, bool)>>,
}

impl Latest {
    /// Whether a leader answers, as known for at most this time. If nothing is known, `check` finds out.
    async fn is_ready(&self, shared_for: Duration, check: impl Future<Output = bool>) -> bool {
        let mut answer = self.answer.lock().await;
        if let Some((since, is_ready)) = *answer
            && since.elapsed() < shared_for
        {
            return is_ready;
        }
        let is_ready = check.await;
        *answer = Some((Instant::now(), is_ready));
        is_ready
    }
}

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

/// Reports whether a leader answers, and whether this replica's disk is full. The page has further reasons.
pub(super) async fn ready(State(shown): State<Shown>) -> Response {
    let check = async { shown.web.host.refresh(Instant::now() + READY_MAX).await.is_ok() };
    let leader_answers = shown.latest.is_ready(SHARED_FOR, check).await;
    let disk_full = shown.web.host.running().is_some_and(|running| running.has_full_disk()());
    Readiness { leader_answers, disk_full }.response().into_response()
}

/// State of a replica that determines whether it is ready.
#[derive(Clone, Copy, Debug)]
struct Readiness {
    leader_answers: bool,
    disk_full: bool,
}

impl Readiness {
    /// The response to a probe. A replica with a full disk is ready while it answers reads.
    fn response(self) -> (StatusCode, &'static str) {
        let code =
            if self.leader_answers { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let text = match (self.leader_answers, self.disk_full) {
            (true, false) => "ready\n",
            (true, true) => "ready for reads, but this replica's disk is full: make room on it\n",
            (false, false) => "no leader answers\n",
            (false, true) => {
                "no leader answers, and this replica's disk is full: make room on it\n"
            }
        };
        (code, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};

    async fn check(calls: &AtomicUsize, is_ready: bool) -> bool {
        calls.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        is_ready
    }

    #[tokio::test]
    async fn requests_share_an_answer_for_a_time() {
        let (latest, calls) = (Latest::default(), AtomicUsize::new(0));
        let check = |is_ready| check(&calls, is_ready);
        let hour = Duration::from_secs(3600);
        let answers = join_all((0..100).map(|_| latest.is_ready(hour, check(true)))).await;
        assert!(answers.into_iter().all(|is_ready| is_ready));
        assert!(latest.is_ready(hour, check(false)).await, "the answer is known");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert!(!latest.is_ready(Duration::ZERO, check(false)).await, "the answer is old");
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn health_checks_of_a_connection_wait_for_their_turn() {
        let (pace, begin) = (Pace::new(), Instant::now());
        for _ in 0..CHECKS_PER_SECOND + 5 {
            pace.clone().wait().await;
        }
        // The first checks are answered at once.
        assert!(begin.elapsed() >= Duration::from_secs(5) / CHECKS_PER_SECOND);
    }

    #[test]
    fn a_full_disk_is_reported_with_readiness() {
        for leader_answers in [true, false] {
            let (code, text) = Readiness { leader_answers, disk_full: true }.response();
            assert!(text.contains("this replica's disk is full"), "{text}");
            let (other, text) = Readiness { leader_answers, disk_full: false }.response();
            assert!((code, leader_answers) == (other, code == StatusCode::OK));
            assert!(!text.contains("disk"), "{text}");
        }
    }
}
