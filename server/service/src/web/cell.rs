//! The cell as a whole: `/api/v1/cell`.

use super::Shown;
use super::response::{JsonResult, json};
use crate::calls::responses;
use crate::observe::statistics::{statistics, summary};
use axum::extract::State;
use omega_client::proto;
use omega_core::Unit;
use omega_store::log::ReplicaId;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Serialize)]
struct CellShape {
    /// Id of the cell.
    cell: String,
    version: u64,
    /// The replica that answers.
    replica: u64,
    leader: Option<u64>,
    /// The replicas; empty for a cell in memory.
    replicas: Vec<ReplicaShape>,
    /// Random number of this process. A new number means that counters have started at 0 again.
    started: u64,
    uptime_ms: u64,
    machines: u32,
    draining: u32,
    unreachable: u32,
    jobs: u64,
    tasks: TasksShape,
    resources: Vec<ResourceShape>,
    schedulers: Vec<SchedulerShape>,
    transactions_failed: u64,
    sync_streams: u32,
}

#[derive(Serialize)]
struct ReplicaShape {
    replica: u64,
    role: &'static str,
    leads: bool,
    /// Number of log entries that the replica lacks. A follower reports this number only for itself.
    lag_entries: Option<u64>,
    /// Time since the last message of the replica. `null` on followers, and if there was no message.
    silent_ms: Option<u64>,
}

/// Numbers of tasks by state.
#[derive(Serialize)]
pub(super) struct TasksShape {
    pub(super) pending: u64,
    pub(super) placed: u64,
    pub(super) running: u64,
    pub(super) finished: u64,
    pub(super) failed: u64,
    pub(super) killed: u64,
}

impl From<proto::TaskCounts> for TasksShape {
    fn from(counts: proto::TaskCounts) -> TasksShape {
        let proto::TaskCounts { pending, placed, running, finished, failed, killed } = counts;
        TasksShape { pending, placed, running, finished, failed, killed }
    }
}

#[derive(Serialize)]
struct ResourceShape {
    name: String,
    /// Unit of an amount: `milli` (thousandths), `bytes` or `count`.
    unit: &'static str,
    claimable: u64,
    claimed: u64,
}

#[derive(Serialize)]
struct SchedulerShape {
    name: String,
    committed: u64,
    conflicted: u64,
    claims: u64,
    placements: u64,
    conflicts: BTreeMap<String, u64>,
    pending_tasks: u64,
    pending_jobs: u64,
    oldest_wait_ms: u64,
    oldest_job: Option<String>,
}

/// Unit of an amount, for readers of JSON.
pub(super) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Milli => "milli",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
    }
}

pub(super) async fn cell(State(shown): State<Shown>) -> JsonResult {
    let (host, me) = (&shown.web.host, shown.web.me);
    let counted = statistics(host, me).await;
    let seen = summary(host).await;
    let sums = seen.kinds.iter().zip(seen.claimable.iter().zip(&seen.claimed));
    let resources = sums.map(|((_, kind), (claimable, claimed))| ResourceShape {
        name: kind.name.clone(),
        unit: unit(kind.unit),
        claimable: *claimable,
        claimed: *claimed,
    });
    let leader = host.leadership().leader.map(|id| id.0);
    Ok(json(&CellShape {
        cell: me.cell.to_string(),
        version: counted.version,
        replica: me.replica.0,
        leader,
        replicas: replicas(&shown, &counted.progress, leader),
        started: counted.started,
        uptime_ms: counted.uptime_ms,
        machines: counted.machines,
        draining: counted.draining,
        unreachable: counted.unreachable,
        jobs: counted.jobs,
        tasks: counted.tasks.unwrap_or_default().into(),
        resources: resources.collect(),
        schedulers: counted.schedulers.into_iter().map(scheduler).collect(),
        transactions_failed: counted.transactions_failed,
        sync_streams: counted.sync_streams,
    }))
}

fn scheduler(of: proto::SchedulerStatistics) -> SchedulerShape {
    SchedulerShape {
        name: of.name,
        committed: of.committed,
        conflicted: of.conflicted,
        claims: of.claims,
        placements: of.placements,
        conflicts: of.conflicts.into_iter().map(|one| (one.reason, one.items)).collect(),
        pending_tasks: of.pending_tasks,
        pending_jobs: of.pending_jobs,
        oldest_wait_ms: of.oldest_wait_ms,
        oldest_job: Some(of.oldest_job).filter(|name| !name.is_empty()),
    }
}

fn replicas(
    shown: &Shown,
    progress: &[proto::ReplicaProgress],
    leader: Option<u64>,
) -> Vec<ReplicaShape> {
    let Some(running) = shown.web.host.running() else { return Vec::new() };
    let (host, me) = (&shown.web.host, shown.web.me.replica.0);
    let silent = |id: u64| {
        if id == me {
            Some(Duration::ZERO)
        } else {
            host.peer_contacts().since_contact(ReplicaId(id))
        }
    };
    let one = |member: proto::Member| ReplicaShape {
        replica: member.replica,
        silent_ms: (leader == Some(me))
            .then(|| silent(member.replica))
            .flatten()
            .map(|silent| silent.as_millis() as u64),
        role: match member.role() {
            proto::MemberRole::Learner => "learner",
            proto::MemberRole::Outgoing => "outgoing",
            _ => "voter",
        },
        leads: leader == Some(member.replica),
        lag_entries: progress
            .iter()
            .find(|one| one.replica == member.replica)
            .map(|one| one.lag_entries),
    };
    responses::members(&running.status().membership).into_iter().map(one).collect()
}
