//! `--wait`: waits until the tasks of a service are healthy, or those of a batch job have ended.

use crate::ask::AskError;
use crate::ask::call::Caller;
use crate::ask::events;
use crate::ask::jobs::named_job::{by_name, find, target};
use crate::ask::jobs::version_list::{self, Version};
use crate::duration::duration;
use clap::Args;
use omega_client::proto;
use omega_core::{Job, JobKind, OnFailure};
use std::time::{Duration, Instant};

/// Interval between two checks, which is also the interval of the leader's update steps.
const LOOK: Duration = Duration::from_millis(200);

/// Time without a change after which a service with failed tasks will probably not become complete. Failures of tasks
/// that the awaited version has added are reported at once.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Whether a command waits for the job.
#[derive(Clone, Copy, Debug, Args)]
pub(in crate::ask) struct WaitArgs {
    /// Wait until all tasks of a service are healthy, or all tasks of a batch job have ended. The exit code is 1 if a
    /// task fails, or if the wait takes longer than TIME (such as --wait=5m). Without TIME, the wait has no limit.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = duration)]
    wait: Option<Option<Duration>>,
}

/// A job to wait for.
#[derive(Clone, Copy, Debug)]
pub(in crate::ask) struct Awaited<'a> {
    pub(in crate::ask) name: &'a str,
    /// Version that the command made or found; `None` for the version that the job has now.
    pub(in crate::ask) version: Option<u32>,
}

impl WaitArgs {
    /// Waits until a job is done, if the user asked for it.
    ///
    /// # Errors
    /// If one of its tasks fails or is killed, the job is updated or deleted meanwhile, or the time is over.
    pub(in crate::ask) fn until_done(
        self,
        caller: &Caller,
        job: Awaited<'_>,
    ) -> Result<(), AskError> {
        let Some(limit) = self.wait else { return Ok(()) };
        let began = Instant::now();
        let mut told = find(caller, by_name(job.name))?;
        let (id, version) = (told.id, job.version.unwrap_or(told.version));
        let mut healthy: Option<Instant> = None;
        let mut changed = Instant::now();
        loop {
            let target = target(&told)?;
            let failed = |why: String| Err(AskError::NotDone { name: job.name.to_owned(), why });
            if told.id != id {
                return failed("the job was deleted and submitted again meanwhile".to_owned());
            }
            if told.version != version {
                return failed(replaced(caller, job.name, version)?);
            }
            if let Some(why) = failure(caller, &target, &told) {
                return failed(why);
            }
            if is_there(&target, &told) {
                let since = *healthy.get_or_insert_with(Instant::now);
                if told.version > 0 || since.elapsed() >= settle(&target) {
                    return Ok(());
                }
            } else {
                healthy = None;
            }
            if may_be_stuck(&target, &told) && changed.elapsed() >= STUCK_AFTER + settle(&target) {
                let (now, name) = (progress(&told), job.name);
                return failed(format!(
                    "nothing has changed for {STUCK_AFTER:?}, and failed tasks are not replaced \
                     ({now}): run `omega job history {name}` to see why"
                ));
            }
            if let Some(limit) = limit.filter(|limit| began.elapsed() >= *limit) {
                let (now, name) = (progress(&told), job.name);
                let hint = if told.pending == 0 {
                    String::new()
                } else {
                    format!(": run `omega job explain {name}` to see why tasks are pending")
                };
                return failed(format!("it was not done within {limit:?}: {now}{hint}"));
            }
            caller.runtime().block_on(async { tokio::time::sleep(LOOK).await });
            let before = std::mem::replace(&mut told, find(caller, by_name(job.name))?);
            if progress(&before) != progress(&told) || before.outdated != told.outdated {
                changed = Instant::now();
            }
        }
    }
}

/// Time for which a service must be complete before it counts as healthy. The leader waits as long before an update
/// is complete.
fn settle(job: &Job) -> Duration {
    let ms = job.update.map_or(0, |rules| rules.min_healthy_ms);
    Duration::from_millis(if job.kind == JobKind::Service { ms.into() } else { 0 })
}

/// Whether all tasks of a service run, and its update is complete, or all tasks of a batch job have ended.
fn is_there(job: &Job, told: &proto::JobStatus) -> bool {
    let is_updated = told.version == 0 || told.update() == proto::UpdateResult::Complete;
    let waiting = told.pending + told.placed + told.outdated;
    match job.kind {
        JobKind::Batch => waiting + told.running == 0,
        JobKind::Service => {
            let any = job.groups.iter().any(|group| group.per_machine);
            waiting == 0 && is_updated && (any || u64::from(told.running) == job.task_count())
        }
    }
}

/// The progress of a job in words.
fn progress(told: &proto::JobStatus) -> String {
    let states = [
        (told.pending, "pending"),
        (told.placed, "placed"),
        (told.running, "running"),
        (told.finished, "finished"),
        (told.failed, "failed"),
        (told.killed, "killed"),
    ];
    let states = states.iter().filter(|(tasks, _)| *tasks > 0);
    states.map(|(tasks, state)| format!("{tasks} {state}")).collect::<Vec<_>>().join(", ")
}

/// Description of a job's failure; `None` if it has not failed.
fn failure(caller: &Caller, job: &Job, told: &proto::JobStatus) -> Option<String> {
    let is_over = told.pending + told.placed + told.running == 0;
    if job.kind == JobKind::Batch {
        let fails = is_over && told.failed + told.killed > 0;
        return fails.then(|| {
            let latest = failed_task(caller, &job.name, 0).filter(|_| told.failed > 0);
            let latest = latest.map(|task| format!("; latest failure: {task}")).unwrap_or_default();
            format!("{} of its tasks failed, {} were killed{latest}", told.failed, told.killed)
        });
    }
    if told.update() == proto::UpdateResult::Failed {
        return Some(failed_version(caller, job, told.version));
    }
    if told.version == 0 && told.failed > 0 {
        let task = failed_task(caller, &job.name, 0).unwrap_or_else(|| "a task".to_owned());
        return Some(format!("{task} failed: run `omega job history {}` to see why", job.name));
    }
    if is_over {
        return Some("the job has ended".to_owned());
    }
    None
}

/// Whether the leader has probably stopped adding tasks: a service has failed tasks, which the leader does not replace,
/// and no task is about to start.
fn may_be_stuck(job: &Job, told: &proto::JobStatus) -> bool {
    let is_service = job.kind == JobKind::Service;
    is_service && told.failed > 0 && told.pending + told.placed == 0 && !is_there(job, told)
}

/// Description of the failure of a version.
fn failed_version(caller: &Caller, job: &Job, version: u32) -> String {
    let at_ms = version_list::all(caller, &job.name)
        .ok()
        .and_then(|all| all.into_iter().find(|one| one.number == version).map(|one| one.at_ms));
    let task = failed_task(caller, &job.name, at_ms.unwrap_or(0));
    let task = task.map(|task| format!(" ({task})")).unwrap_or_default();
    let name = &job.name;
    match job.update.unwrap_or_default().on_failure {
        OnFailure::Rollback => format!(
            "version {version} failed{task}: run `omega job versions {name}` to see whether it was \
             rolled back"
        ),
        OnFailure::Stop => format!(
            "version {version} failed{task}, and the update stops: run `omega job rollback {name}`, \
             or apply a corrected file"
        ),
    }
}

/// Describes the latest failure of a task's program since a time: the task, and the end of the program. Returns `None`
/// if the history has no such event, or the user may not read it.
fn failed_task(caller: &Caller, name: &str, since_ms: u64) -> Option<String> {
    events::latest_failure(caller, name, since_ms).ok().flatten()
}

/// Description of the version that replaced the awaited version.
fn replaced(caller: &Caller, name: &str, awaited: u32) -> Result<String, AskError> {
    let all: Vec<Version> = version_list::all(caller, name)?;
    let at = all.iter().position(|one| one.number > awaited);
    let by = at.map(|at| (all[at].number, version_list::content_of(&all, at)));
    let known = all.iter().find(|one| one.number == awaited);
    let has_failed = known.is_some_and(Version::has_failed);
    let began_ms = known.map_or(0, |one| one.at_ms);
    Ok(match by {
        Some((by, Some(old))) if old < awaited && has_failed => {
            let task = failed_task(caller, name, began_ms);
            let failed = task.map(|task| format!(" failed ({task}), and")).unwrap_or_default();
            format!(
                "version {awaited}{failed} was rolled back: the job has the content of version \
                 {old}, as version {by}"
            )
        }
        _ => {
            let is = all.last().map_or(awaited, |last| last.number);
            format!("the job was updated by another command, and now has version {is}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    #[test]
    fn a_service_may_be_stuck_if_failed_tasks_are_not_replaced() {
        let job = Job {
            kind: JobKind::Service,
            ..Job::batch("web", TaskGroup::new(2, Amounts::new([1])))
        };
        let told = |[pending, running, outdated, failed]: [u32; 4]| proto::JobStatus {
            pending,
            running,
            outdated,
            failed,
            ..Default::default()
        };
        for stuck in [[0, 1, 0, 1], [0, 1, 1, 2], [0, 2, 1, 1]] {
            assert!(may_be_stuck(&job, &told(stuck)), "{stuck:?}");
        }
        for going_on in [[0, 2, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]] {
            assert!(!may_be_stuck(&job, &told(going_on)), "{going_on:?}");
        }
    }

    #[test]
    fn the_progress_of_a_late_job_names_its_states() {
        let told = proto::JobStatus { pending: 1, running: 2, ..Default::default() };
        assert_eq!(progress(&told), "1 pending, 2 running");
    }
}
