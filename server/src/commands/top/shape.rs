//! The contents of `omega top`: sums over the replicas, and rates from two samples.

use super::sample::Sample;
use crate::commands::shape::{self, ByKind, MemberShape};
use omega_client::proto;
use serde::Serialize;
use std::collections::BTreeMap;

/// The activity of a cell at one moment. docs/cli.md describes the fields.
#[derive(Debug, Serialize)]
pub(super) struct TopShape {
    pub(super) cell: String,
    pub(super) version: u64,
    pub(super) machines: u32,
    pub(super) draining: u32,
    pub(super) unreachable: u32,
    pub(super) jobs: u64,
    pub(super) tasks: TasksShape,
    pub(super) resources: ByKind<SumShape>,
    pub(super) changes_per_second: f64,
    pub(super) schedulers: Vec<SchedulerShape>,
    pub(super) waiting: Vec<WaitingShape>,
    pub(super) replicas: Vec<ReplicaShape>,
    /// Addresses of replicas that did not answer. The sums lack their traffic.
    pub(super) silent: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct TasksShape {
    pub(super) pending: u64,
    pub(super) placed: u64,
    pub(super) running: u64,
    pub(super) finished: u64,
    pub(super) failed: u64,
    pub(super) killed: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct SumShape {
    pub(super) claimable: u64,
    pub(super) claimed: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct SchedulerShape {
    pub(super) name: String,
    pub(super) pending_tasks: u64,
    pub(super) pending_jobs: u64,
    pub(super) oldest_wait_ms: u64,
    pub(super) oldest_job: Option<String>,
    pub(super) committed: u64,
    pub(super) conflicted: u64,
    pub(super) claims: u64,
    pub(super) placements: u64,
    pub(super) conflicts: BTreeMap<String, u64>,
    pub(super) commits_per_second: f64,
    pub(super) placements_per_second: f64,
    /// Percentage of the transactions between the samples that conflicted; `null` if there were none.
    pub(super) conflicted_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct WaitingShape {
    pub(super) job: String,
    pub(super) scheduler: String,
    pub(super) waiting: u32,
    /// Reason for which the job is pending; `null` if it is not known yet.
    pub(super) why: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ReplicaShape {
    pub(super) replica: u64,
    pub(super) role: &'static str,
    pub(super) leads: bool,
    /// `null` if no replica that answered has this information.
    pub(super) lag_entries: Option<u64>,
}

impl TopShape {
    /// Differences between two samples, and the state at the second.
    pub(super) fn between(before: &Sample, after: &Sample) -> TopShape {
        let newest = after.statistics.values().max_by_key(|one| one.version);
        let newest = newest.cloned().unwrap_or_default();
        let tasks = newest.tasks.unwrap_or_default();
        let sums = after.kinds.iter().map(|(id, kind)| {
            let of = |list: &[u64]| list.get(id.index()).copied().unwrap_or_default();
            let (claimable, claimed) =
                (of(&after.description.claimable), of(&after.description.claimed));
            (kind.name.clone(), SumShape { claimable, claimed })
        });
        let changes = after.description.version.saturating_sub(before.description.version);
        TopShape {
            cell: after.description.cell.clone(),
            version: after.description.version,
            machines: after.description.machines,
            draining: newest.draining,
            unreachable: newest.unreachable,
            jobs: after.description.jobs,
            tasks: TasksShape {
                pending: tasks.pending,
                placed: tasks.placed,
                running: tasks.running,
                finished: tasks.finished,
                failed: tasks.failed,
                killed: tasks.killed,
            },
            resources: sums.collect(),
            changes_per_second: per_second(changes, elapsed_ms(before, after)),
            schedulers: schedulers(before, after, &newest),
            waiting: after.waiting.iter().map(waiting).collect(),
            replicas: replicas(after),
            silent: after.silent.clone(),
        }
    }
}

fn waiting(job: &proto::JobStatus) -> WaitingShape {
    let of = |field: fn(&proto::Job) -> &String| job.job.as_ref().map(field).cloned();
    WaitingShape {
        job: of(|job| &job.name).unwrap_or_default(),
        scheduler: of(|job| &job.scheduler).unwrap_or_default(),
        waiting: job.pending,
        why: None,
    }
}

fn per_second(count: u64, ms: u64) -> f64 {
    (count * 1000).checked_div(ms).map_or(0.0, |_| count as f64 * 1000.0 / ms as f64)
}

/// Time between the two samples, by the clock of a replica that answered in both.
fn elapsed_ms(before: &Sample, after: &Sample) -> u64 {
    let passed = after.statistics.iter().filter_map(|(at, now)| {
        let then = before.statistics.get(at).filter(|then| then.started == now.started)?;
        Some(now.uptime_ms.saturating_sub(then.uptime_ms))
    });
    passed.max().unwrap_or(0)
}

/// Returns each scheduler with the sum of all replicas' counters. The pending tasks of a scheduler are taken from the
/// replica that reports most of them.
fn schedulers(
    before: &Sample,
    after: &Sample,
    newest: &proto::GetStatisticsResponse,
) -> Vec<SchedulerShape> {
    let mut all: BTreeMap<&str, SchedulerShape> = BTreeMap::new();
    let mut since: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (at, now) in &after.statistics {
        let then = before.statistics.get(at).filter(|then| then.started == now.started);
        for one in &now.schedulers {
            let shape = all.entry(&one.name).or_default();
            shape.committed += one.committed;
            shape.conflicted += one.conflicted;
            shape.claims += one.claims;
            shape.placements += one.placements;
            for conflict in &one.conflicts {
                *shape.conflicts.entry(conflict.reason.clone()).or_default() += conflict.items;
            }
            let Some(then) = then else { continue };
            let old = then.schedulers.iter().find(|old| old.name == one.name);
            let old = old.map_or([0; 3], |old| [old.committed, old.conflicted, old.placements]);
            let new = [one.committed, one.conflicted, one.placements];
            let counted = since.entry(&one.name).or_default();
            for (sum, (new, old)) in counted.iter_mut().zip(new.iter().zip(old)) {
                *sum += new.saturating_sub(old);
            }
        }
    }
    for one in &newest.schedulers {
        let shape = all.entry(&one.name).or_default();
        shape.pending_tasks = one.pending_tasks;
        shape.pending_jobs = one.pending_jobs;
        shape.oldest_job = Some(one.oldest_job.clone()).filter(|name| !name.is_empty());
    }
    let ms = elapsed_ms(before, after);
    let finish = |(name, mut shape): (&str, SchedulerShape)| {
        let [committed, conflicted, placements] = since.get(name).copied().unwrap_or_default();
        shape.name = name.to_owned();
        shape.oldest_wait_ms = oldest_wait_ms(after, name);
        shape.commits_per_second = per_second(committed, ms);
        shape.placements_per_second = per_second(placements, ms);
        let checked = committed + conflicted;
        shape.conflicted_percent =
            (checked > 0).then(|| conflicted as f64 * 100.0 / checked as f64);
        shape
    };
    all.into_iter().map(finish).collect()
}

/// The longest of the waiting times that replicas report. A replica that has run for longer reports a more exact time.
fn oldest_wait_ms(after: &Sample, name: &str) -> u64 {
    let all = after.statistics.values().flat_map(|one| &one.schedulers);
    let waits = all.filter(|one| one.name == name).map(|one| one.oldest_wait_ms);
    waits.max().unwrap_or(0)
}

fn replicas(after: &Sample) -> Vec<ReplicaShape> {
    let Some(members) = &after.description.members else { return Vec::new() };
    // The leader's list has all members. The lists of other replicas are incomplete.
    let mut best_by_replica: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    for one in after.statistics.values() {
        for progress in &one.progress {
            let candidate = (one.progress.len(), progress.lag_entries);
            let best = best_by_replica.entry(progress.replica).or_insert(candidate);
            *best = if candidate.0 > best.0 { candidate } else { *best };
        }
    }
    let one = |member: MemberShape| ReplicaShape {
        replica: member.replica,
        role: member.role,
        leads: member.leads,
        lag_entries: best_by_replica.get(&member.replica).map(|(_, behind)| *behind),
    };
    shape::members(members).into_iter().map(one).collect()
}
