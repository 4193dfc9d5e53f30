//! What a server tells Prometheus.
//!
//! Names and labels are part of the API: dashboards are built on them, so they change like any other call.
//! What happens is counted where it happens; what is, is looked at when somebody asks, so that nobody pays
//! for a figure that is not read.

use crate::cell::sizes;
use crate::host::Host;
use crate::tally::{Tallies, Tally};
use omega_core::{Commit, SchedulerId};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What is counted. Clones share it.
#[derive(Clone, Debug)]
pub struct Metrics {
    counted: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    transactions: Family<Answered, Counter>,
    /// Those of `transactions` that every commit counts: a look-up there costs as much as a claim.
    taken: Counter,
    conflicted: Counter,
    claims: Counter,
    conflicts: Family<Because, Counter>,
    commit: Histogram,
    streams: Gauge,
    deltas: Counter,
    delta_bytes: Counter,
    tallies: Tallies,
}

/// How a transaction was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    result: &'static str,
}

/// Why an item was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Because {
    reason: String,
}

/// A resource kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

impl Default for Metrics {
    fn default() -> Metrics {
        // 50 microseconds to 13 seconds, each bound double the one before.
        let buckets = || exponential_buckets(50e-6, 2.0, 19);
        let transactions = Family::<Answered, Counter>::default();
        let of = |result| transactions.get_or_create(&Answered { result }).clone();
        Metrics {
            counted: Arc::new(Counted {
                taken: of("taken"),
                conflicted: of("conflicted"),
                transactions,
                claims: Counter::default(),
                conflicts: Family::default(),
                commit: Histogram::new(buckets()),
                streams: Gauge::default(),
                deltas: Counter::default(),
                delta_bytes: Counter::default(),
                tallies: Tallies::default(),
            }),
        }
    }
}

/// Counts a stream as long as it lives.
#[derive(Debug)]
pub(crate) struct CountedStream(Metrics);

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.0.counted.streams.dec();
    }
}

impl Metrics {
    /// A transaction of a scheduler with so many claims was judged, and it took so long from its request to
    /// its answer.
    pub(crate) fn judged(
        &self,
        (scheduler, claims): (SchedulerId, usize),
        commit: &Commit,
        took: Duration,
    ) {
        let counted = &self.counted;
        counted.tallies.judged(scheduler, claims, commit);
        let count = if commit.is_complete() { &counted.taken } else { &counted.conflicted };
        count.inc();
        counted.claims.inc_by(claims as u64);
        counted.commit.observe(took.as_secs_f64());
        for conflict in &commit.conflicts {
            let reason = omega_client::convert::reason_name(conflict.reason).to_owned();
            counted.conflicts.get_or_create(&Because { reason }).inc();
        }
    }

    /// A transaction was not judged.
    pub(crate) fn failed(&self) {
        self.counted.transactions.get_or_create(&Answered { result: "failed" }).inc();
    }

    /// What was counted of each scheduler, and how many transactions were not judged.
    pub(crate) fn tallies(&self) -> (BTreeMap<SchedulerId, Tally>, u64) {
        let failed = self.counted.transactions.get_or_create(&Answered { result: "failed" }).get();
        (self.counted.tallies.all(), failed)
    }

    /// How many views are kept up to date now.
    pub(crate) fn streams(&self) -> u32 {
        u32::try_from(self.counted.streams.get()).unwrap_or(0)
    }

    /// A stream of deltas began. It ends with what is returned.
    pub(crate) fn stream(&self) -> CountedStream {
        self.counted.streams.inc();
        CountedStream(self.clone())
    }

    /// A delta, or a piece of one, of so many bytes is sent.
    pub(crate) fn sent(&self, bytes: usize) {
        self.counted.deltas.inc();
        self.counted.delta_bytes.inc_by(bytes as u64);
    }

    /// The text that Prometheus reads, with what the cell is now.
    ///
    /// # Errors
    /// If a metric cannot be written as text.
    pub fn text(&self, host: &Host) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("omega");
        let counted = &self.counted;
        registry.register(
            "transactions",
            "Transactions by how they were answered: taken, conflicted (in part or wholly) or failed (not judged)",
            counted.transactions.clone(),
        );
        registry.register(
            "claims",
            "Claims in transactions that were judged",
            counted.claims.clone(),
        );
        registry.register(
            "conflicts",
            "Items of transactions that were refused, by the reason",
            counted.conflicts.clone(),
        );
        registry.register_with_unit(
            "commit",
            "From the request of a commit to its answer",
            Unit::Seconds,
            counted.commit.clone(),
        );
        registry.register(
            "sync_streams",
            "Views that are kept up to date now",
            counted.streams.clone(),
        );
        registry.register("sync_deltas", "Deltas that were sent", counted.deltas.clone());
        registry.register_with_unit(
            "sync_sent",
            "Bytes of deltas that were sent",
            Unit::Bytes,
            counted.delta_bytes.clone(),
        );
        registry.register_collector(Box::new(CellNow(host.clone())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// The name of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfScheduler {
    scheduler: String,
}

/// What the cell and its replica are now.
#[derive(Debug)]
struct CellNow(Host);

impl Collector for CellNow {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (sizes, kinds) = self.0.read(|cell| (sizes(cell), cell.kinds().clone()));
        let mut gauge = |name: &str, help: &str, value: u64| {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        gauge("cell_version", "The version of the cell at this replica", sizes.version.0)?;
        gauge("cell_machines", "Machines of the cell", u64::from(sizes.machines))?;
        gauge("cell_jobs", "Jobs that the cell knows", sizes.jobs)?;
        if let Some(running) = self.0.running() {
            let status = running.status();
            let leads = u64::from(status.leadership.is_leader);
            gauge("replica_leads", "1 if this replica leads", leads)?;
            gauge("replica_term", "The term of this replica", status.leadership.term.0)?;
            let stopped = u64::from(status.stopped.is_some());
            gauge("replica_stopped", "1 if this replica has stopped for good", stopped)?;
            let mut counter = |name: &str, help: &str, value: u64| {
                let metric = ConstCounter::new(value);
                metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
            };
            counter("replica_log_written_bytes", "Bytes written to the log", status.log_bytes)?;
            counter("replica_log_syncs", "Times the log was synced", status.log_syncs)?;
            counter("replica_snapshots", "Snapshots taken", status.snapshots)?;
        }
        self.encode_leases(&mut encoder)?;
        let mut per_kind = |name: &str, help: &str, values: &[u64]| {
            let family = Family::<OfKind, Gauge>::default();
            for ((_, kind), value) in kinds.iter().zip(values) {
                let of = OfKind { kind: kind.name.clone() };
                family.get_or_create(&of).set(i64::try_from(*value).unwrap_or(i64::MAX));
            }
            family.encode(encoder.encode_descriptor(name, help, None, family.metric_type())?)
        };
        per_kind(
            "cell_claimable",
            "What may be claimed of all machines, in each kind's unit",
            &sizes.claimable,
        )?;
        per_kind(
            "cell_claimed",
            "What is claimed of all machines, in each kind's unit",
            &sizes.claimed,
        )
    }
}

impl CellNow {
    /// What a leader knows of leases. Who does not lead says nothing of them.
    fn encode_leases(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let leases = self.0.leases();
        let silenced = ConstCounter::new(leases.silenced());
        let help = "Schedulers that were silent for longer than their lease, and replaced";
        let name = "schedulers_silenced";
        silenced.encode(encoder.encode_descriptor(name, help, None, silenced.metric_type())?)?;
        let family = Family::<OfScheduler, Gauge<f64, AtomicU64>>::default();
        for listed in leases.list(&self.0).unwrap_or_default() {
            let Some(held) = listed.held else { continue };
            let of = OfScheduler { scheduler: listed.name.to_string() };
            family.get_or_create(&of).set(held.left_ms as f64 / 1000.0);
        }
        let help = "For how long the lease of a scheduler's name still runs, at the leader";
        let unit = Some(&Unit::Seconds);
        let name = "scheduler_lease_left";
        family.encode(encoder.encode_descriptor(name, help, unit, family.metric_type())?)
    }
}
