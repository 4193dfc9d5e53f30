//! `--wait`: waits until the tasks of a service are healthy, or those of a batch job have ended.

use crate::commands::CommandError;
use crate::commands::call::Caller;
use crate::commands::events;
use crate::commands::jobs::named_job::{by_name, find, target};
use crate::commands::jobs::version_list::{self, Version};
use crate::duration::duration;
use clap::Args;
use omega_client::proto;
use omega_core::{Job, JobKind, OnFailure};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Interval between two checks, which is also the interval of the leader's update steps.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Time without a change after which a service with failed tasks will probably not become complete. Failures of tasks
/// that the awaited version has added are reported at once.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Maximum time for which a failed update is awaited further, because the leader is about to roll it back.
const DECISION_MAX: Duration = Duration::from_secs(10);

/// Whether a command waits for the job.
#[derive(Clone, Copy, Debug, Args)]
pub(in crate::commands) struct WaitArgs {
    /// Wait until all tasks of a service are healthy, or all tasks of a batch job have ended. The exit code is 1 if a
    /// task fails, or if the wait takes longer than TIME (such as --wait=5m). Without TIME, the wait has no limit.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = duration)]
    wait: Option<Option<Duration>>,
}

/// A job to wait for.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Awaited<'a> {
    pub(in crate::commands) name: &'a str,
    /// Version that the command made or found; `None` for the version that the job has now.
    pub(in crate::commands) version: Option<u32>,
}

impl WaitArgs {
    /// Waits until a job is done, as [`WaitArgs::until_all_done`].
    ///
    /// # Errors
    /// As [`WaitArgs::until_all_done`].
    pub(in crate::commands) fn until_done(
        self,
        caller: &Caller,
        job: Awaited<'_>,
    ) -> Result<(), CommandError> {
        self.until_all_done(caller, [job])
    }

    /// Waits until all jobs are done, if the user asked for it. The time limit applies to all together. A failed job does
    /// not end the wait for the others; each failure but the last one is printed here.
    ///
    /// # Errors
    /// If a task of a job fails or is killed, a job is updated or deleted meanwhile, or the time is over.
    pub(in crate::commands) fn until_all_done<'a>(
        self,
        caller: &Caller,
        jobs: impl IntoIterator<Item = Awaited<'a>>,
    ) -> Result<(), CommandError> {
        let Some(limit) = self.wait else { return Ok(()) };
        let began = Instant::now();
        last_failure(jobs.into_iter().map(|job| job.until_done(caller, limit, began)))
    }
}

/// Returns the last failure of jobs, and prints the others. Another error, such as that of a cell which does not answer,
/// is the last one.
fn last_failure(
    results: impl Iterator<Item = Result<(), CommandError>>,
) -> Result<(), CommandError> {
    let mut last: Option<CommandError> = None;
    for error in results.filter_map(Result::err) {
        let is_of_job = matches!(error, CommandError::NotDone { .. } | CommandError::Refused(_));
        if let Some(earlier) = last.replace(error) {
            // If standard error cannot be written, the exit code shows the failure nevertheless.
            drop(writeln!(io::stderr(), "omega: {earlier}"));
        }
        if !is_of_job {
            break;
        }
    }
    last.map_or(Ok(()), Err)
}

/// A time limit in words.
fn shown(limit: Duration) -> String {
    if limit.is_zero() { "0s".to_owned() } else { format!("{limit:?}") }
}

impl Awaited<'_> {
    /// Waits until the job is done, or the time since `began` reaches the limit.
    fn until_done(
        self,
        caller: &Caller,
        limit: Option<Duration>,
        began: Instant,
    ) -> Result<(), CommandError> {
        let job = self;
        let mut response = find(caller, by_name(job.name))?;
        let (id, version) = (response.id, job.version.unwrap_or(response.version));
        let (mut healthy, mut failing): (Option<Instant>, Option<Instant>) = (None, None);
        let mut changed = Instant::now();
        loop {
            let target = target(&response)?;
            let failed =
                |why: String| Err(CommandError::NotDone { name: job.name.to_owned(), why });
            if response.id != id {
                return failed("the job was deleted and submitted again meanwhile".to_owned());
            }
            if response.version != version {
                return failed(replaced(caller, job.name, version)?);
            }
            if let Some(why) = failure(caller, &target, &response) {
                let since = *failing.get_or_insert_with(Instant::now);
                if since.elapsed() >= DECISION_MAX
                    || !may_be_rolled_back(caller, &target, &response)
                {
                    return failed(why);
                }
            } else {
                failing = None;
            }
            if is_there(&target, &response) {
                let since = *healthy.get_or_insert_with(Instant::now);
                if response.version > 0 || since.elapsed() >= settle(&target) {
                    return Ok(());
                }
            } else {
                healthy = None;
            }
            if may_be_stuck(&target, &response)
                && changed.elapsed() >= STUCK_AFTER + settle(&target)
            {
                let (now, name) = (progress(&response), job.name);
                return failed(format!(
                    "nothing has changed for {STUCK_AFTER:?}, and failed tasks are not replaced \
                     ({now}): run `omega job history {name}` to see why"
                ));
            }
            if let Some(limit) = limit.filter(|limit| began.elapsed() >= *limit) {
                let (now, name) = (progress(&response), job.name);
                let hint = if response.pending == 0 {
                    String::new()
                } else {
                    format!(": run `omega job explain {name}` to see why tasks are pending")
                };
                let limit = shown(limit);
                return failed(format!("it was not done within {limit}: {now}{hint}"));
            }
            caller.runtime().block_on(async { tokio::time::sleep(POLL_INTERVAL).await });
            let before = std::mem::replace(&mut response, again(caller, job.name)?);
            if progress(&before) != progress(&response) || before.outdated != response.outdated {
                changed = Instant::now();
            }
        }
    }
}

/// Finds a job that the command has found before.
fn again(caller: &Caller, name: &str) -> Result<proto::JobStatus, CommandError> {
    find(caller, by_name(name)).map_err(|error| error.if_deleted(name))
}

/// Time for which a service must be complete before it counts as healthy. The leader waits as long before an update
/// is complete.
fn settle(job: &Job) -> Duration {
    let ms = job.update.map_or(0, |rules| rules.min_healthy_ms);
    Duration::from_millis(if job.kind == JobKind::Service { ms.into() } else { 0 })
}

/// Whether all tasks of a service run, and its update is complete, or all tasks of a batch job have ended.
fn is_there(job: &Job, status: &proto::JobStatus) -> bool {
    let is_updated = status.version == 0 || status.update() == proto::UpdateResult::Complete;
    let waiting = status.pending + status.placed + status.outdated;
    match job.kind {
        JobKind::Batch => waiting + status.running == 0,
        JobKind::Service => {
            let any = job.groups.iter().any(|group| group.per_machine);
            waiting == 0 && is_updated && (any || u64::from(status.running) == job.task_count())
        }
    }
}

/// The progress of a job in words.
fn progress(status: &proto::JobStatus) -> String {
    let states = [
        (status.pending, "pending"),
        (status.placed, "placed"),
        (status.running, "running"),
        (status.finished, "finished"),
        (status.failed, "failed"),
        (status.killed, "killed"),
    ];
    let states = states.iter().filter(|(tasks, _)| *tasks > 0);
    states.map(|(tasks, state)| format!("{tasks} {state}")).collect::<Vec<_>>().join(", ")
}

/// Description of a job's failure; `None` if it has not failed.
fn failure(caller: &Caller, job: &Job, status: &proto::JobStatus) -> Option<String> {
    let is_over = status.pending + status.placed + status.running == 0;
    if job.kind == JobKind::Batch {
        let fails = is_over && status.failed + status.killed > 0;
        return fails.then(|| {
            let latest = failed_task(caller, &job.name, 0).filter(|_| status.failed > 0);
            let latest = latest.map(|task| format!("; latest failure: {task}")).unwrap_or_default();
            ended_badly(status) + &latest
        });
    }
    // An update during which the job was killed has failed, too.
    if status.update() == proto::UpdateResult::Failed && (!is_over || status.failed > 0) {
        return Some(failed_version(caller, job, status.version));
    }
    if status.version == 0 && status.failed > 0 {
        let task = failed_task(caller, &job.name, 0);
        let task = task.map(|task| format!(" ({task})")).unwrap_or_default();
        return Some(format!(
            "a task failed{task}: run `omega job history {}` to see why",
            job.name
        ));
    }
    if status.scaled_to_zero {
        return Some("the job was scaled to zero".to_owned());
    }
    if is_over {
        return Some("the job has ended".to_owned());
    }
    None
}

/// Whether the leader may still roll back an update that fails, or has just done so.
fn may_be_rolled_back(caller: &Caller, job: &Job, status: &proto::JobStatus) -> bool {
    let rules = job.update.unwrap_or_default();
    let is_open = status.version > 0 && status.update() != proto::UpdateResult::Complete;
    let is_wanted = job.kind == JobKind::Service && rules.on_failure == OnFailure::Rollback;
    is_open
        && is_wanted
        && version_list::all(caller, &job.name)
            .is_ok_and(|all| is_replaced_or_may_be(status.version, &all))
}

/// Whether a failed version was replaced, or has an earlier version that the leader can restore. The versions are read
/// after the status that names the failed one, so a rollback in between is among them.
fn is_replaced_or_may_be(failed: u32, all: &[Version]) -> bool {
    let is_replaced = all.last().is_some_and(|latest| latest.number > failed);
    is_replaced || version_list::default_version(all).is_some()
}

/// The numbers of a job's failed and killed tasks in words, such as `2 of its tasks failed, 1 was killed`.
fn ended_badly(status: &proto::JobStatus) -> String {
    let failed = match status.failed {
        0 => None,
        1 => Some("1 of its tasks failed".to_owned()),
        many => Some(format!("{many} of its tasks failed")),
    };
    let of = if status.failed == 0 { " of its tasks" } else { "" };
    let killed = match status.killed {
        0 => None,
        1 => Some(format!("1{of} was killed")),
        many => Some(format!("{many}{of} were killed")),
    };
    failed.into_iter().chain(killed).collect::<Vec<_>>().join(", ")
}

/// Whether the leader has probably stopped adding tasks: a service has failed tasks, which the leader does not replace,
/// and no task is about to start.
fn may_be_stuck(job: &Job, status: &proto::JobStatus) -> bool {
    let is_service = job.kind == JobKind::Service;
    is_service && status.failed > 0 && status.pending + status.placed == 0 && !is_there(job, status)
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
fn replaced(caller: &Caller, name: &str, awaited: u32) -> Result<String, CommandError> {
    let all: Vec<Version> = version_list::all(caller, name)?;
    let at = all.iter().position(|one| one.number > awaited);
    let by = at.map(|at| (all[at].number, version_list::restored_from(&all, at)));
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
    use omega_core::{Amounts, TaskGroup, UpdateResult};

    #[test]
    fn a_service_may_be_stuck_if_failed_tasks_are_not_replaced() {
        let job = Job {
            kind: JobKind::Service,
            ..Job::batch("web", TaskGroup::new(2, Amounts::new([1])))
        };
        let response = |[pending, running, outdated, failed]: [u32; 4]| proto::JobStatus {
            pending,
            running,
            outdated,
            failed,
            ..Default::default()
        };
        for stuck in [[0, 1, 0, 1], [0, 1, 1, 2], [0, 2, 1, 1]] {
            assert!(may_be_stuck(&job, &response(stuck)), "{stuck:?}");
        }
        for going_on in [[0, 2, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]] {
            assert!(!may_be_stuck(&job, &response(going_on)), "{going_on:?}");
        }
    }

    #[test]
    fn a_failed_version_that_was_rolled_back_meanwhile_is_awaited() {
        let version = |number, name: &str, result| Version {
            number,
            at_ms: 0,
            result,
            job: Job::batch(name, TaskGroup::new(1, Amounts::new([1]))),
        };
        let failing = [
            version(1, "old", Some(UpdateResult::Complete)),
            version(2, "new", Some(UpdateResult::Failed)),
        ];
        assert!(is_replaced_or_may_be(2, &failing), "the rollback is still to come");
        assert!(!is_replaced_or_may_be(2, &failing[1..]), "no version is left to restore");
        let restored = failing.into_iter().chain([version(3, "old", None)]);
        assert!(is_replaced_or_may_be(2, &restored.collect::<Vec<_>>()), "the rollback was done");
    }

    #[test]
    fn a_failed_job_does_not_end_the_wait_for_others() {
        let failed = |name: &str| {
            Err(CommandError::NotDone { name: name.to_owned(), why: "it failed".to_owned() })
        };
        let lost = || Err(CommandError::NoAmount);
        let mut awaited = 0;
        let results = [failed("a"), Ok(()), failed("b"), Ok(()), lost(), Ok(())];
        let error = last_failure(results.into_iter().inspect(|_| awaited += 1)).unwrap_err();
        assert!(matches!(error, CommandError::NoAmount), "{error}");
        assert_eq!(awaited, 5);
        let error = last_failure([failed("a"), failed("b"), Ok(())].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "job b: it failed");
        assert!(last_failure([Ok(())].into_iter()).is_ok());
        assert_eq!([shown(Duration::ZERO), shown(Duration::from_millis(200))], ["0s", "200ms"]);
    }

    #[test]
    fn numbers_of_failed_and_killed_tasks_leave_out_zeros() {
        let words = |failed, killed| {
            ended_badly(&proto::JobStatus { failed, killed, ..Default::default() })
        };
        assert_eq!(words(0, 1), "1 of its tasks was killed");
        assert_eq!(words(1, 0), "1 of its tasks failed");
        assert_eq!(words(2, 3), "2 of its tasks failed, 3 were killed");
    }

    #[test]
    fn the_progress_of_a_late_job_names_its_states() {
        let response = proto::JobStatus { pending: 1, running: 2, ..Default::default() };
        assert_eq!(progress(&response), "1 pending, 2 running");
    }
}
