//! Cached explanations for the web page, with the content of `JobService.ExplainJob`.

use super::Shown;
use super::jobs::counts;
use super::response::{JsonResult, Params, json};
use crate::calls::explain::ExplanationText;
use crate::observe::summary::Counts;
use axum::extract::State;
use omega_client::{ApiError, proto};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Time for which an explanation is cached. Caching saves work, because each explanation reads the whole cell.
const FRESH: Duration = Duration::from_secs(3);

/// Maximum number of cached explanations.
const CACHE_MAX: usize = 64;

/// Cached explanations.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Locked during an explanation, so that only one is computed at a time.
    now: Mutex<Vec<(Arc<str>, Instant, ExplanationText)>>,
}

#[derive(Deserialize)]
pub(super) struct ExplainParams {
    job: String,
}

#[derive(Serialize)]
struct ExplainedShape<'a> {
    job: &'a str,
    summary: &'a str,
    text: &'a str,
}

pub(super) async fn explain(
    State(shown): State<Shown>,
    Params(params): Params<ExplainParams>,
) -> JsonResult {
    let explained = explanation(&shown, &params.job).await?;
    Ok(json(&ExplainedShape {
        job: &params.job,
        summary: &explained.summary,
        text: &explained.text,
    }))
}

async fn explanation(shown: &Shown, job: &str) -> Result<ExplanationText, ApiError> {
    let mut cached = shown.cached.now.lock().await;
    cached.retain(|(_, since, _)| since.elapsed() < FRESH);
    if let Some((_, _, explained)) = cached.iter().find(|(known, _, _)| **known == *job) {
        return Ok(explained.clone());
    }
    let counts = shown.web.host.read(|cell| Some(counts(cell, cell.job_by_name(job)?)));
    if let Some(counts) = counts.filter(|counts| counts.pending == 0) {
        return Ok(not_waiting(job, counts));
    }
    let of = Some(proto::job_ref::Job::Name(job.to_owned()));
    let job_ref = Some(proto::JobRef { job: of });
    let request = proto::ExplainJobRequest { job: job_ref, ..proto::ExplainJobRequest::default() };
    let until = tokio::time::Instant::now() + shown.deadlines.usual;
    let explained = shown.explanations.explain_text(&shown.web.host, request, until).await?;
    if cached.len() < CACHE_MAX {
        cached.push((job.into(), Instant::now(), explained.clone()));
    }
    Ok(explained)
}

/// The states of the tasks of a job without pending tasks.
fn not_waiting(job: &str, counts: Counts) -> ExplanationText {
    let Counts { pending: _, placed, running, finished, failed, killed } = counts;
    let states = [
        (placed, "placed"),
        (running, "running"),
        (finished, "finished"),
        (failed, "failed"),
        (killed, "killed"),
    ];
    let states = states.iter().filter(|(count, _)| *count > 0);
    let states: Vec<String> = states.map(|(count, state)| format!("{count} {state}")).collect();
    let summary = match states.as_slice() {
        [] => format!("{job} does not wait: it has no tasks"),
        states => format!("{job} does not wait: its tasks are {}", states.join(", ")),
    };
    ExplanationText { text: format!("{summary}\n"), summary }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_does_not_wait_shows_the_states_of_its_tasks() {
        let counts = Counts { running: 2, failed: 1, ..Counts::default() };
        let explained = not_waiting("web", counts);
        assert_eq!(explained.summary, "web does not wait: its tasks are 2 running, 1 failed");
        let none = not_waiting("web", Counts::default()).text;
        assert_eq!(none, "web does not wait: it has no tasks\n");
    }
}
