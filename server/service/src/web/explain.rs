//! Cached explanations for the web page, with the content of `JobService.ExplainJob`.

use super::Shown;
use super::answer::{Answer, Asked, json};
use crate::calls::explain::Words;
use axum::extract::State;
use omega_client::{ApiError, proto};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Time for which an explanation is cached. Caching saves work, because each explanation reads the whole cell.
const FRESH: Duration = Duration::from_secs(3);

/// Maximum number of cached explanations.
const KEPT_MAX: usize = 64;

/// Cached explanations.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Locked during an explanation, so that only one is computed at a time.
    now: Mutex<Vec<(Arc<str>, Instant, Words)>>,
}

#[derive(Deserialize)]
pub(super) struct Whom {
    job: String,
}

#[derive(Serialize)]
struct ExplainedShape<'a> {
    job: &'a str,
    summary: &'a str,
    text: &'a str,
}

pub(super) async fn explain(State(shown): State<Shown>, Asked(asked): Asked<Whom>) -> Answer {
    let told = tell(&shown, &asked.job).await?;
    Ok(json(&ExplainedShape { job: &asked.job, summary: &told.summary, text: &told.text }))
}

async fn tell(shown: &Shown, job: &str) -> Result<Words, ApiError> {
    let mut kept = shown.kept.now.lock().await;
    kept.retain(|(_, since, _)| since.elapsed() < FRESH);
    if let Some((_, _, told)) = kept.iter().find(|(known, _, _)| **known == *job) {
        return Ok(told.clone());
    }
    let of = Some(proto::job_ref::Job::Name(job.to_owned()));
    let job_ref = Some(proto::JobRef { job: of });
    let request = proto::ExplainJobRequest { job: job_ref, ..proto::ExplainJobRequest::default() };
    let until = tokio::time::Instant::now() + shown.deadlines.usual;
    let told = shown.explanations.words(&shown.web.host, request, until).await?;
    if kept.len() < KEPT_MAX {
        kept.push((job.into(), Instant::now(), told.clone()));
    }
    Ok(told)
}
