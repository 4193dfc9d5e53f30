//! Counters and pending work, for the web page, `omega top` and programs.
//!
//! Clients compute rates from counters, so a server keeps no history. Whatever the number of requests, the cell is read
//! at most once a second for statistics.

use crate::cell_clock::unix_ms;
use crate::host::Host;
use crate::observe::counters::SchedulerCounters;
use crate::observe::summary::{MachineSummary, Summary, Waiting};
use crate::peers::ReplicaIdentity;
use crate::service::Room;
use omega_cellstate::Cell;
use omega_client::proto;
use omega_core::{JobId, SchedulerId, Text};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a summary is cached, and interval of entries in the submit index.
const FRESH: Duration = Duration::from_secs(1);

/// Limit on the difference between the age of a new job by the cell's time, which advances in steps, and the observed
/// age.
const STALE_MAX_MS: u64 = 15_000;

/// Label of the metrics of all schedulers that are not known.
const OTHERS: &str = "(others)";

/// Records the id of the next job once a second, until the cell ends.
pub(crate) async fn record_submissions(host: Host) {
    let mut versions = host.versions();
    loop {
        let next = host.read(omega_cellstate::Cell::next_job);
        host.statistics_cache().submit_index.record(next, Instant::now());
        tokio::time::sleep(FRESH).await;
        if versions.changed().await.is_err() {
            return;
        }
    }
}

/// The summary of the cell, at most a second old.
pub(crate) async fn summary(host: &Host) -> Arc<Summary> {
    summary_since(host, Instant::now().checked_sub(FRESH)).await
}

/// A summary of the cell that was begun at this time or later; any summary for `None`. Concurrent callers share it, so
/// the cell is read by at most one of them at a time.
pub(crate) async fn summary_since(host: &Host, since: Option<Instant>) -> Arc<Summary> {
    let mut known = host.statistics_cache().summary.lock().await;
    if let Some((begun, summary)) = &*known
        && since.is_none_or(|since| *begun >= since)
    {
        return summary.clone();
    }
    let (reader, begun) = (host.clone(), Instant::now());
    let summary = tokio::task::spawn_blocking(move || Summary::of(&reader)).await;
    let summary = Arc::new(summary.expect("looking at a cell does not panic"));
    host.statistics_cache().submit_index.record(summary.next_job, Instant::now());
    *known = Some((begun, summary.clone()));
    summary
}

/// Milliseconds since a job was submitted, as observed by this replica or by the cell's time.
pub(crate) fn age_ms(host: &Host, cell: &Cell, job: JobId) -> u64 {
    let observed = host.statistics_cache().submit_index.age(job, Instant::now());
    let in_cell = cell.job_submitted_ms(job).filter(|at| *at > 0);
    choose_age(observed, in_cell.map(|at| unix_ms().saturating_sub(at)))
}

/// Chooses between the observed age of a job and its age by the cell's time. The observed one is more exact, but by far
/// too low for a job that this replica read from its log after its start.
fn choose_age(observed: Option<Duration>, in_cell: Option<u64>) -> u64 {
    let observed = observed.map(|age| age.as_millis() as u64);
    match (observed, in_cell) {
        (Some(observed), Some(in_cell)) if in_cell > observed.saturating_add(STALE_MAX_MS) => {
            in_cell
        }
        (observed, in_cell) => observed.or(in_cell).unwrap_or_default(),
    }
}

/// All statistics.
pub(crate) async fn statistics(host: &Host, me: ReplicaIdentity) -> proto::GetStatisticsResponse {
    let summary = summary(host).await;
    let (scheduler_counters, failed) = host.metrics().scheduler_counters();
    let cache = host.statistics_cache();
    let count = |is: fn(&MachineSummary) -> bool| {
        summary.machines.iter().filter(|seen| is(seen)).count() as u32
    };
    proto::GetStatisticsResponse {
        version: summary.version.0,
        started: cache.started,
        uptime_ms: cache.began.elapsed().as_millis() as u64,
        machines: summary.machines.len() as u32,
        draining: count(|seen| seen.draining && !seen.unreachable),
        unreachable: count(|seen| seen.unreachable),
        jobs: summary.jobs,
        tasks: Some(proto::TaskCounts {
            pending: summary.tasks.pending,
            placed: summary.tasks.placed,
            running: summary.tasks.running,
            finished: summary.tasks.finished,
            failed: summary.tasks.failed,
            killed: summary.tasks.killed,
        }),
        schedulers: schedulers(host, &summary, &scheduler_counters),
        transactions_failed: failed,
        sync_streams: host.metrics().streams(),
        progress: progress(host, me),
    }
}

/// Each scheduler with the counters of its workers and its pending tasks. At most one page of them is returned, because
/// jobs may name any number of schedulers that do not exist.
fn schedulers(
    host: &Host,
    summary: &Summary,
    scheduler_counters: &BTreeMap<SchedulerId, SchedulerCounters>,
) -> Vec<proto::SchedulerStatistics> {
    // Known schedulers are never left out: jobs may name many others.
    let known = known_schedulers(host, summary, scheduler_counters);
    let others = summary.waiting.iter().filter(|(name, _)| !known.contains_key(*name));
    let others = others.map(|(name, waiting)| {
        let counters = SchedulerCounters::default();
        scheduler_entry(host, name, &counters, waiting)
    });
    let none = Waiting::default();
    let known = known.iter().map(|(name, counters)| {
        let waiting = summary.waiting.get(name).unwrap_or(&none);
        scheduler_entry(host, name, counters, waiting)
    });
    let mut room = Room::of_bytes();
    let fits = move |reported: &proto::SchedulerStatistics| {
        let fits = !room.is_full();
        room.count(reported);
        fits
    };
    let mut reported: Vec<_> = known.chain(others).take_while(fits).collect();
    reported.sort_by(|a, b| a.name.cmp(&b.name));
    reported
}

/// The known schedulers for metrics, and one entry for all other names of schedulers with pending tasks. Submitters
/// choose these names, so each as a series of its own would let them fill the memory of whoever collects the metrics.
pub(crate) async fn scheduler_series(host: &Host) -> Vec<proto::SchedulerStatistics> {
    let summary = summary(host).await;
    let (scheduler_counters, _) = host.metrics().scheduler_counters();
    let mut known = known_schedulers(host, &summary, &scheduler_counters);
    let mut waiting: BTreeMap<Text, Waiting> = BTreeMap::new();
    let others = Text::from(OTHERS);
    for (name, one) in &summary.waiting {
        let name = if known.contains_key(name) { name } else { &others };
        waiting.entry(name.clone()).or_default().add(one);
    }
    waiting.keys().for_each(|name| _ = known.entry(name.clone()).or_default());
    let none = Waiting::default();
    let entry = |(name, counters): (&Text, &SchedulerCounters)| {
        scheduler_entry(host, name, counters, waiting.get(name).unwrap_or(&none))
    };
    known.iter().map(entry).collect()
}

/// Counters of the schedulers that have committed, or are registered and have pending tasks.
fn known_schedulers(
    host: &Host,
    summary: &Summary,
    scheduler_counters: &BTreeMap<SchedulerId, SchedulerCounters>,
) -> BTreeMap<Text, SchedulerCounters> {
    let mut known: BTreeMap<Text, SchedulerCounters> = BTreeMap::new();
    for (id, one) in scheduler_counters {
        let name = host.read(|cell| cell.scheduler_name(*id).cloned());
        let name = name.unwrap_or_else(|| id.to_string().as_str().into());
        known.entry(scheduler_of(&name)).or_default().add(one);
    }
    let registered: Vec<Text> =
        host.read(|cell| cell.schedulers().map(|state| scheduler_of(state.name)).collect());
    for name in registered.into_iter().filter(|name| summary.waiting.contains_key(name)) {
        known.entry(name).or_default();
    }
    known
}

fn scheduler_entry(
    host: &Host,
    name: &Text,
    counters: &SchedulerCounters,
    waiting: &Waiting,
) -> proto::SchedulerStatistics {
    let oldest = waiting.oldest.as_ref();
    let oldest_wait_ms = oldest.map(|(id, _)| host.read(|cell| age_ms(host, cell, *id)));
    let count = |(reason, items): (&&str, &u64)| proto::ConflictCount {
        reason: (*reason).to_owned(),
        items: *items,
    };
    proto::SchedulerStatistics {
        committed: counters.taken,
        conflicted: counters.conflicted,
        claims: counters.claims,
        placements: counters.placements,
        conflicts: counters.conflicts.iter().map(count).collect(),
        pending_tasks: waiting.tasks,
        pending_jobs: waiting.jobs,
        oldest_wait_ms: oldest_wait_ms.unwrap_or_default(),
        oldest_job: oldest.map(|(_, name)| name.to_string()).unwrap_or_default(),
        name: name.to_string(),
    }
}

/// The scheduler of a worker, whose name is the scheduler's name, a dash and a number.
fn scheduler_of(name: &Text) -> Text {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('-') {
        Some((scheduler, rest)) if !scheduler.is_empty() && is_number(rest) => scheduler.into(),
        _ => name.clone(),
    }
}

/// Progress of the replicas, as known to this one.
fn progress(host: &Host, me: ReplicaIdentity) -> Vec<proto::ReplicaProgress> {
    let Some(running) = host.running() else { return Vec::new() };
    let status = running.status();
    let behind = |replica: u64, at: u64| proto::ReplicaProgress {
        replica,
        lag_entries: status.log_end.0.saturating_sub(at),
    };
    if status.progress.is_empty() {
        return vec![behind(me.replica.0, status.applied.0)];
    }
    status.progress.iter().map(|(id, matched)| behind(id.0, matched.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::{CellHandle, SharedCell};
    use omega_core::{Amounts, Command, Job, Kinds, TaskGroup};

    #[tokio::test]
    async fn names_that_submitters_invent_are_one_series() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        cell.register("web-0".into()).expect("it is registered");
        for (number, scheduler) in (0..1000).map(|number| match number {
            0 => (number, "web".to_owned()),
            number => (number, format!("invented{number}")),
        }) {
            let job = Job::batch(format!("j{number}"), TaskGroup::new(2, Amounts::new([1])));
            let job = Job { scheduler: scheduler.as_str().into(), ..job };
            cell.apply(Command::SubmitJob(job)).expect("it is accepted");
        }
        let series = scheduler_series(&Host::memory(cell)).await;
        let all = |one: &proto::SchedulerStatistics| {
            (one.name.clone(), one.pending_jobs, one.pending_tasks, one.oldest_job.clone())
        };
        let others = (OTHERS.to_owned(), 999, 1998, "j1".to_owned());
        let web = ("web".to_owned(), 1, 2, "j0".to_owned());
        assert_eq!(series.iter().map(all).collect::<Vec<_>>(), [others, web]);
    }

    #[test]
    fn jobs_from_before_a_restart_keep_their_age() {
        let observed = |ms| Some(Duration::from_millis(ms));
        // After a restart without a snapshot, the index begins before the log is replayed.
        assert_eq!(choose_age(observed(2000), Some(3_600_000)), 3_600_000);
        assert_eq!(choose_age(observed(2000), Some(9000)), 2000, "the cell's time is old");
        assert_eq!(choose_age(None, Some(9000)), 9000);
        assert_eq!(choose_age(observed(2000), None), 2000, "the cell has no time");
    }

    #[test]
    fn workers_are_counted_with_their_scheduler() {
        let of = |name: &str| scheduler_of(&name.into()).to_string();
        assert_eq!(of("web"), "web");
        assert_eq!(of("web-3"), "web");
        assert_eq!(of("web-one"), "web-one");
        assert_eq!(of("-3"), "-3");
        assert_eq!(of("web-"), "web-");
    }
}
