//! Why a job waits.
//!
//! The services know no scheduler, and an explanation is what a scheduler would say. So whoever puts the server
//! together, and knows both, hands in something that explains: the page needs no second copy of the rules,
//! and this crate no arrow to the schedulers.

use super::Shown;
use super::answer::{Answer, Asked, json};
use crate::host::Host;
use axum::extract::State;
use omega_client::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long an explanation is good for: each one looks at the whole cell.
const FRESH: Duration = Duration::from_secs(3);

/// Explanations that are kept: those of the jobs that people look at now.
const KEPT_MAX: usize = 64;

/// Something that can tell why a job waits.
pub trait Explainer: Send + Sync + std::fmt::Debug {
    /// Explains a job that the cell has. It is called for one job at a time, where it may take its time.
    ///
    /// # Errors
    /// If it cannot, with the reason.
    fn explain(&self, host: &Host, job: &str) -> Result<Explained, ApiError>;
}

/// Why a job waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// In a line.
    pub summary: String,
    /// All of it, in lines.
    pub text: String,
}

/// What was explained just now.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Held while something is explained, so that one is at a time.
    now: Mutex<Vec<(Arc<str>, Instant, Explained)>>,
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

async fn tell(shown: &Shown, job: &str) -> Result<Explained, ApiError> {
    let Some(explainer) = shown.web.explainer.clone() else {
        let say = "this server cannot explain: ask omega job explain";
        return Err(ApiError::new(ErrorCode::UnknownJob, say));
    };
    let mut kept = shown.explaining.now.lock().await;
    kept.retain(|(_, since, _)| since.elapsed() < FRESH);
    if let Some((_, _, told)) = kept.iter().find(|(known, _, _)| **known == *job) {
        return Ok(told.clone());
    }
    let (host, name) = (shown.web.host.clone(), job.to_owned());
    let told = tokio::task::spawn_blocking(move || explainer.explain(&host, &name)).await;
    let failed = |_| ApiError::new(ErrorCode::Stopped, "the explanation ended early: see the log");
    let told = told.map_err(failed)??;
    if kept.len() < KEPT_MAX {
        kept.push((job.into(), Instant::now(), told.clone()));
    }
    Ok(told)
}
