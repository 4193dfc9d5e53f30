//! Metrics text of a server for Prometheus.
//!
//! Names and labels are part of the API, because dashboards depend on them. Changes of metrics follow the rules for
//! changes of calls. docs/metrics.md lists all metrics.

use super::Metrics;
use super::policies::PolicyFigures;
use super::tenants::TenantFigures;
use crate::calls::cell::{Sizes, sizes};
use crate::host::Host;
use crate::observe::openmetrics::{self, Figure, Figures, MetricWriter};
use crate::observe::statistics::{scheduler_series, statistics};
use crate::peers::ReplicaIdentity;
use omega_client::proto::{GetStatisticsResponse, SchedulerStatistics};
use omega_core::Kinds;
use omega_store::replica::{Histogram, Stage, Status};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The text for Prometheus: counters, and gauges of the cell.
///
/// # Errors
/// If a metric cannot be written as text.
pub(crate) async fn text(host: &Host, me: ReplicaIdentity) -> Result<String, fmt::Error> {
    let statistics = statistics(host, me).await;
    let schedulers = scheduler_series(host).await;
    let statistics = GetStatisticsResponse { schedulers, ..statistics };
    let (sizes, kinds) = host.read(|cell| (sizes(cell), cell.kinds().clone()));
    let (tenants, policies) = host.read(|cell| (TenantFigures::of(cell), PolicyFigures::of(cell)));
    let status = host.running().map(|running| running.status());
    openmetrics::text(Now {
        host: host.clone(),
        me,
        statistics,
        sizes,
        kinds,
        tenants,
        policies,
        status,
    })
}

/// Values of all metrics.
#[derive(Debug)]
struct Now {
    host: Host,
    me: ReplicaIdentity,
    statistics: GetStatisticsResponse,
    sizes: Sizes,
    kinds: Kinds,
    tenants: TenantFigures,
    policies: PolicyFigures,
    /// Status of the replica, if the cell has replicas.
    status: Option<Status>,
}

impl Figures for Now {
    fn write(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        self.write_commits(pen)?;
        self.write_stages(pen)?;
        self.write_schedulers(pen)?;
        self.write_leases(pen)?;
        self.write_network(pen)?;
        self.write_certificate(pen)?;
        self.write_cell(pen)?;
        self.tenants.write(pen)?;
        self.policies.write(pen)?;
        match &self.status {
            Some(status) => self.write_replica(status, pen),
            None => Ok(()),
        }
    }
}

fn get(count: &AtomicU64) -> f64 {
    count.load(Ordering::Relaxed) as f64
}

impl Now {
    fn metrics(&self) -> &Metrics {
        self.host.metrics()
    }

    fn sum(&self, of: impl Fn(&SchedulerStatistics) -> u64) -> f64 {
        self.statistics.schedulers.iter().map(of).sum::<u64>() as f64
    }

    fn write_commits(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let results = [
            ([("result", "committed")], self.sum(|one| one.committed)),
            ([("result", "conflicted")], self.sum(|one| one.conflicted)),
            ([("result", "failed")], self.statistics.transactions_failed as f64),
        ];
        let help = "Transactions, by result: committed, conflicted (in part or as a whole) or failed (not checked)";
        pen.counters(Figure::new("transactions", help), results)?;
        let help = "Claims in checked transactions";
        pen.counter(Figure::new("claims", help), self.sum(|one| one.claims))?;
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for conflict in self.statistics.schedulers.iter().flat_map(|one| &one.conflicts) {
            *reasons.entry(&conflict.reason).or_default() += conflict.items;
        }
        let reasons =
            reasons.into_iter().map(|(reason, items)| ([("reason", reason)], items as f64));
        let help = "Rejected items of transactions, by reason";
        pen.counters(Figure::new("conflicts", help), reasons)?;
        let (scheduler_counters, _) = self.metrics().scheduler_counters();
        let evictions: u64 = scheduler_counters.values().map(|one| one.evictions).sum();
        let help = "Tasks evicted to make room for others";
        pen.counter(Figure::new("evictions", help), evictions as f64)?;
        let behind: u64 = scheduler_counters.values().map(|one| one.behind).sum();
        let help = "Staleness of transactions: sum of the versions by which the cell was ahead of \
             their views";
        pen.counter(Figure::new("transactions_behind_versions", help), behind as f64)?;
        let help = "Time from the request of a commit to its response";
        pen.histogram(Figure::seconds("commit", help), &self.metrics().counted.commit.histogram())
    }

    fn write_certificate(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let help = "Time until the server's certificate expires; only with TLS";
        let figure = Figure::seconds("certificate_left", help);
        match self.metrics().certificate_remaining() {
            Some(left) => pen.gauge(figure, left.as_secs_f64()),
            None => pen.gauges::<0>(figure, []),
        }
    }

    fn write_stages(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let stages: Vec<(Stage, Histogram)> = match self.host.running() {
            Some(running) => {
                Stage::ALL.map(|stage| (stage, running.stages().histogram(stage))).into()
            }
            None => vec![(Stage::PreCheck, self.metrics().counted.applied.histogram())],
        };
        let stages = stages.into_iter().map(|(stage, took)| ([("stage", stage.name())], took));
        let help = "Time of the leader's log entries in each stage of a commit; every replica \
             reports the stage log, and a cell in memory reports only the stage pre_check";
        pen.histograms(Figure::seconds("commit_stage", help), stages)
    }

    fn write_schedulers(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let all = &self.statistics.schedulers;
        let results = all.iter().flat_map(|one| {
            let of = |result, count: u64| {
                ([("scheduler", one.name.as_str()), ("result", result)], count as f64)
            };
            [of("committed", one.committed), of("conflicted", one.conflicted)]
        });
        let help = "Transactions of a scheduler through this replica, by result: committed as a whole, or conflicted";
        pen.counters(Figure::new("scheduler_transactions", help), results)?;
        let claims = all.iter().map(|one| ([("scheduler", one.name.as_str())], one.claims as f64));
        let help = "Claims of a scheduler that were checked through this replica";
        pen.counters(Figure::new("scheduler_claims", help), claims)?;
        let conflicts = all.iter().flat_map(|one| {
            one.conflicts.iter().map(|conflict| {
                let labels = [("scheduler", one.name.as_str()), ("reason", &*conflict.reason)];
                (labels, conflict.items as f64)
            })
        });
        let help = "Rejected items of a scheduler's transactions through this replica, by reason";
        pen.counters(Figure::new("scheduler_conflicts", help), conflicts)?;
        let pending =
            all.iter().map(|one| ([("scheduler", one.name.as_str())], one.pending_tasks as f64));
        let help = "Pending tasks of a scheduler";
        pen.gauges(Figure::new("scheduler_pending_tasks", help), pending)?;
        let waits = all
            .iter()
            .map(|one| ([("scheduler", one.name.as_str())], one.oldest_wait_ms as f64 / 1000.0));
        let help = "Time since the submission of a scheduler's oldest job with pending tasks; 0 without one";
        pen.gauges(Figure::seconds("scheduler_oldest_wait", help), waits)
    }

    /// Writes the leases. Only a leader has them.
    fn write_leases(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let leases = self.host.leases();
        let help = "Scheduler leases that expired, so that another process took the name";
        pen.counter(Figure::new("lease_expirations", help), leases.expirations() as f64)?;
        let listed = leases.list(&self.host).unwrap_or_default();
        let left = listed.iter().filter_map(|listed| {
            let owner = listed.owner.as_ref()?;
            Some(([("scheduler", &*listed.name)], owner.remaining_ms as f64 / 1000.0))
        });
        let help = "Time until the lease of a scheduler's name expires; at the leader";
        pen.gauges(Figure::seconds("scheduler_lease_left", help), left)
    }

    fn write_network(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let counted = &self.metrics().counted;
        let help = "Open sync streams";
        pen.gauge(Figure::new("sync_streams", help), get(&counted.streams))?;
        let help = "Sent deltas, counting each piece of a large one";
        pen.counter(Figure::new("sync_deltas", help), get(&counted.sync.deltas))?;
        let help = "Bytes of sent deltas";
        pen.counter(Figure::bytes("sync_sent", help), get(&counted.sync.bytes))?;
        let help = "Staleness of views: sum over deltas of the versions that the view was behind";
        pen.counter(Figure::new("sync_versions", help), get(&counted.sync.versions))?;
        let help = "Age of the oldest change in a delta when the delta had been sent";
        pen.histogram(Figure::seconds("sync_delay", help), &counted.sync.delay.histogram())?;
        let help = "Connected agents";
        pen.gauge(Figure::new("agents", help), get(&counted.agents))?;
        let help = "Messages of agents: heartbeats of machines and states of tasks";
        pen.counter(Figure::new("agent_reports", help), get(&counted.reports))
    }

    fn write_cell(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let Sizes { version, machines, jobs, claimable, claimed, .. } = &self.sizes;
        let Sizes { overcommitted, demand_profiles_saved, oldest_load_ms, .. } = &self.sizes;
        let help = "The version of the cell at this replica";
        pen.gauge(Figure::new("cell_version", help), version.0 as f64)?;
        pen.gauge(Figure::new("cell_machines", "Machines of the cell"), f64::from(*machines))?;
        let help = "Machines that are drained and whose agents are not silent";
        let draining = f64::from(self.statistics.draining);
        pen.gauge(Figure::new("cell_machines_draining", help), draining)?;
        let help = "Machines whose agents are silent";
        let unreachable = f64::from(self.statistics.unreachable);
        pen.gauge(Figure::new("cell_machines_unreachable", help), unreachable)?;
        pen.gauge(
            Figure::new("cell_jobs", "Jobs of the cell, including ended ones that are still kept"),
            *jobs as f64,
        )?;
        let tasks = self.statistics.tasks.unwrap_or_default();
        let states = [
            ([("state", "pending")], tasks.pending as f64),
            ([("state", "placed")], tasks.placed as f64),
            ([("state", "running")], tasks.running as f64),
            ([("state", "finished")], tasks.finished as f64),
            ([("state", "failed")], tasks.failed as f64),
            ([("state", "killed")], tasks.killed as f64),
        ];
        let help = "Tasks of all jobs, by state";
        pen.gauges(Figure::new("cell_tasks", help), states)?;
        let of_kinds = |values: &[u64]| -> Vec<([(&'static str, &str); 1], f64)> {
            let all = self.kinds.iter().zip(values);
            all.map(|((_, kind), value)| ([("kind", &*kind.name)], *value as f64)).collect()
        };
        let help = "Capacity of all machines with overcommit, in each kind's unit";
        pen.gauges(Figure::new("cell_claimable", help), of_kinds(claimable))?;
        let help = "Sum of the claims on all machines, in each kind's unit";
        pen.gauges(Figure::new("cell_claimed", help), of_kinds(claimed))?;
        let help = "Sum over machines of the claims beyond their capacity, in each kind's unit";
        pen.gauges(Figure::new("cell_overcommitted", help), of_kinds(overcommitted))?;
        let help = "Difference between the sum of the peaks of tasks with demand profiles and the peak of their sum, in each kind's unit";
        pen.gauges(
            Figure::new("cell_demand_profiles_saved", help),
            of_kinds(demand_profiles_saved),
        )?;
        let help = "Age of the latest load report of the machine that reported least recently; 0 \
             without reports";
        let oldest = oldest_load_ms.unwrap_or(0) as f64 / 1000.0;
        pen.gauge(Figure::seconds("cell_oldest_load", help), oldest)
    }

    fn write_replica(&self, status: &Status, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let leads = f64::from(u8::from(status.leadership.is_leader));
        pen.gauge(Figure::new("replica_is_leader", "1 if this replica is the leader"), leads)?;
        let term = status.leadership.term.0 as f64;
        pen.gauge(Figure::new("replica_term", "The term of this replica"), term)?;
        let stopped = f64::from(u8::from(status.stopped.is_some()));
        let help = "1 if this replica has stopped after an error and must be restarted";
        pen.gauge(Figure::new("replica_stopped", help), stopped)?;
        let full = f64::from(u8::from(status.disk_full));
        let help = "1 if the disk of the log is full, so that nothing can be written";
        pen.gauge(Figure::new("replica_disk_full", help), full)?;
        let help = "Bytes written to the log";
        pen.counter(Figure::bytes("replica_log_written", help), status.log_bytes as f64)?;
        let help = "Syncs of the log";
        pen.counter(Figure::new("replica_log_syncs", help), status.log_syncs as f64)?;
        let help = "Snapshots taken";
        pen.counter(Figure::new("replica_snapshots", help), status.snapshots as f64)?;
        let name = |id: u64| format!("r{id}");
        let progress = self.statistics.progress.iter();
        let behind: Vec<(String, f64)> =
            progress.map(|one| (name(one.replica), one.lag_entries as f64)).collect();
        let behind = behind.iter().map(|(name, entries)| ([("replica", name.as_str())], *entries));
        let help = "Log entries that a replica has not applied yet; the leader reports all \
             replicas, a follower itself";
        pen.gauges(Figure::new("replica_lag_entries", help), behind)?;
        let own = name(self.me.replica.0);
        let help = "Always 1; the labels name the cell and the replica";
        let labels = [("cell", &*self.me.cell.to_string()), ("replica", &own)];
        pen.gauges(Figure::new("replica_info", help), [(labels, 1.0)])
    }
}
