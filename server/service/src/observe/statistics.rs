//! Counters and pending work, for the web page, `omega top` and programs.
//!
//! Clients compute rates from counters, so a server keeps no history. Whatever the number of requests, the cell is read
//! at most once a second.

use crate::host::{Host, unix_ms};
use crate::observe::counters::SchedulerCounters;
use crate::observe::summary::{Seen, Summary};
use crate::peers::Whoami;
use crate::service::Room;
use omega_cellstate::Cell;
use omega_client::proto;
use omega_core::{JobId, SchedulerId, Text};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a summary is cached, and interval of entries in the submit index.
const FRESH: Duration = Duration::from_secs(1);

/// Records the id of the next job once a second, until the cell ends.
pub(crate) async fn follow(host: Host) {
    let mut versions = host.versions();
    loop {
        let next = host.read(omega_cellstate::Cell::next_job);
        host.observer().submit_index.note(next, Instant::now());
        tokio::time::sleep(FRESH).await;
        if versions.changed().await.is_err() {
            return;
        }
    }
}

/// The summary of the cell, at most a second old.
pub(crate) async fn summary(host: &Host) -> Arc<Summary> {
    let mut known = host.observer().summary.lock().await;
    if let Some((taken, summary)) = &*known
        && taken.elapsed() < FRESH
    {
        return summary.clone();
    }
    let looked = host.clone();
    let summary = tokio::task::spawn_blocking(move || Summary::of(&looked)).await;
    let summary = Arc::new(summary.expect("looking at a cell does not panic"));
    host.observer().submit_index.note(summary.next_job, Instant::now());
    *known = Some((Instant::now(), summary.clone()));
    summary
}

/// Milliseconds since a job was submitted. A job that was submitted before this replica started has its age by the
/// cell's time.
pub(crate) fn age_ms(host: &Host, cell: &Cell, job: JobId) -> u64 {
    let observed = host.observer().submit_index.age(job, Instant::now());
    let in_cell = || unix_ms().saturating_sub(cell.job_submitted_ms(job).unwrap_or_else(unix_ms));
    observed.map_or_else(in_cell, |age| age.as_millis() as u64)
}

/// All statistics.
pub(crate) async fn statistics(host: &Host, me: Whoami) -> proto::GetStatisticsResponse {
    let summary = summary(host).await;
    let (scheduler_counters, failed) = host.metrics().scheduler_counters();
    let observer = host.observer();
    let count =
        |is: fn(&Seen) -> bool| summary.machines.iter().filter(|seen| is(seen)).count() as u32;
    proto::GetStatisticsResponse {
        version: summary.version.0,
        started: observer.started,
        uptime_ms: observer.began.elapsed().as_millis() as u64,
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
    // Schedulers that have committed, or are registered, are never left out: jobs may name many others.
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
    let others = summary.waiting.keys().filter(|name| !known.contains_key(*name)).cloned();
    let others: Vec<_> = others.map(|name| (name, SchedulerCounters::default())).collect();
    let one = |(name, one): (Text, SchedulerCounters)| {
        let waiting = summary.waiting.get(&name).cloned().unwrap_or_default();
        let oldest = waiting.oldest.as_ref();
        let oldest_wait_ms = oldest.map(|(id, _)| host.read(|cell| age_ms(host, cell, *id)));
        let count = |(reason, items): (&&str, &u64)| proto::ConflictCount {
            reason: (*reason).to_owned(),
            items: *items,
        };
        proto::SchedulerStatistics {
            committed: one.taken,
            conflicted: one.conflicted,
            claims: one.claims,
            placements: one.placements,
            conflicts: one.conflicts.iter().map(count).collect(),
            pending_tasks: waiting.tasks,
            pending_jobs: waiting.jobs,
            oldest_wait_ms: oldest_wait_ms.unwrap_or_default(),
            oldest_job: oldest.map(|(_, name)| name.to_string()).unwrap_or_default(),
            name: name.to_string(),
        }
    };
    let mut room = Room::of_bytes();
    let fits = move |told: &proto::SchedulerStatistics| {
        let fits = !room.is_full();
        room.count(told);
        fits
    };
    let mut told: Vec<_> = known.into_iter().chain(others).map(one).take_while(fits).collect();
    told.sort_by(|a, b| a.name.cmp(&b.name));
    told
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
fn progress(host: &Host, me: Whoami) -> Vec<proto::ReplicaProgress> {
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
