//! `--wait`: waits until the tasks of a service are healthy, or those of a batch job have ended.

use super::AskError;
use super::apply::target;
use super::call::Caller;
use super::job::{by_name, find};
use omega_client::proto;
use omega_core::{Job, JobKind};
use std::time::{Duration, Instant};

/// Interval between two checks, which is also the interval of the leader's update steps.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until a job is done.
///
/// # Errors
/// If one of its tasks fails or is killed, or the job is updated or deleted meanwhile.
pub(super) fn until_done(caller: &Caller, name: &str) -> Result<(), AskError> {
    let first = find(caller, by_name(name))?;
    let mut healthy: Option<Instant> = None;
    let mut told = first.clone();
    loop {
        let job = target(&told)?;
        let failed = |why: String| Err(AskError::NotDone { name: name.to_owned(), why });
        if told.id != first.id || told.version != first.version {
            let is = told.version;
            return failed(format!(
                "the job was updated or rolled back by another command, and now \
                 has version {is}"
            ));
        }
        if let Some(why) = failure(&job, &told) {
            return failed(why);
        }
        if is_there(&job, &told) {
            let since = *healthy.get_or_insert_with(Instant::now);
            if since.elapsed() >= settle(&job) {
                return Ok(());
            }
        } else {
            healthy = None;
        }
        caller.runtime().block_on(async { tokio::time::sleep(LOOK).await });
        told = find(caller, by_name(name))?;
    }
}

/// Time for which a service must be complete before it counts as healthy.
fn settle(job: &Job) -> Duration {
    let ms = job.update.map_or(0, |rules| rules.min_healthy_ms);
    Duration::from_millis(if job.kind == JobKind::Service { ms.into() } else { 0 })
}

/// Whether all tasks of a service run, or all those of a batch job have ended.
fn is_there(job: &Job, told: &proto::JobStatus) -> bool {
    let waiting = told.pending + told.placed + told.outdated;
    match job.kind {
        JobKind::Batch => waiting + told.running == 0,
        JobKind::Service => {
            let any = job.groups.iter().any(|group| group.per_machine);
            waiting == 0 && (any || u64::from(told.running) == job.task_count())
        }
    }
}

/// Description of a job's failure; `None` if it has not failed.
fn failure(job: &Job, told: &proto::JobStatus) -> Option<String> {
    let batch = job.kind == JobKind::Batch;
    let is_over = told.pending + told.placed + told.running == 0;
    if batch && is_over && told.failed + told.killed > 0 {
        return Some(format!("{} of its tasks failed, {} were killed", told.failed, told.killed));
    }
    let failures = told.new_failures + if told.version == 0 { told.failed } else { 0 };
    match batch {
        false if failures > 0 => {
            Some(format!("a task failed: run `omega job history {}` to see why", job.name))
        }
        false if is_over => Some("the job has ended".to_owned()),
        _ => None,
    }
}
