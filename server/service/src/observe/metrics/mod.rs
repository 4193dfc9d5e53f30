//! Metrics of a server.
//!
//! Events are counted where they happen, with one update for a group of transactions. Gauges are computed when they are
//! read, so an unread metric costs nothing. `text.rs` writes the text.

mod policies;
mod tenants;
mod text;

pub(crate) use text::text;

use crate::observe::counters::{CheckedTransaction, Counters, SchedulerCounters};
use crate::tls::Certificates;
use omega_core::SchedulerId;
use omega_store::replica::Durations;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// Counters. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    counted: Arc<Counted>,
}

/// Independent counters. The order of their updates does not matter.
#[derive(Debug, Default)]
struct Counted {
    scheduler_counters: Counters,
    /// Server certificates, if any.
    certificates: OnceLock<Arc<Certificates>>,
    /// Transactions that failed before they were checked.
    failed: AtomicU64,
    /// Time from the request of a transaction to its answer.
    commit: Durations,
    /// Time to apply each group of commands to a cell in memory. A replica has times of its stages instead.
    applied: Durations,
    streams: AtomicU64,
    agents: AtomicU64,
    reports: AtomicU64,
    sync: Sent,
}

/// Traffic of the streams of deltas.
#[derive(Debug, Default)]
struct Sent {
    deltas: AtomicU64,
    bytes: AtomicU64,
    versions: AtomicU64,
    /// Delay from a change of the cell until the last piece of its delta is sent.
    delay: Durations,
}

/// Guard of an open stream, which is counted until the guard is dropped.
#[derive(Debug)]
pub(crate) struct StreamGuard {
    metrics: Metrics,
    count: fn(&Counted) -> &AtomicU64,
}

impl StreamGuard {
    fn begin(metrics: &Metrics, count: fn(&Counted) -> &AtomicU64) -> StreamGuard {
        count(&metrics.counted).fetch_add(1, Ordering::Relaxed);
        StreamGuard { metrics: metrics.clone(), count }
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        (self.count)(&self.metrics.counted).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts transactions that were checked together, with the time from request to result.
    pub(crate) fn checked<'a>(
        &self,
        group: impl Iterator<Item = CheckedTransaction<'a>>,
        took: Duration,
    ) {
        let mut count = 0;
        self.counted.scheduler_counters.count(group.inspect(|_| count += 1));
        self.counted.commit.note_many(took, count);
    }

    /// Counts transactions that were not checked.
    pub(crate) fn failed(&self, count: usize) {
        self.counted.failed.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts commands that a cell in memory applied together.
    pub(crate) fn applied(&self, took: Duration) {
        self.counted.applied.note(took);
    }

    /// Counters of each scheduler, and the number of transactions that were not checked.
    pub(crate) fn scheduler_counters(&self) -> (BTreeMap<SchedulerId, SchedulerCounters>, u64) {
        (self.counted.scheduler_counters.all(), self.counted.failed.load(Ordering::Relaxed))
    }

    /// Number of open streams of deltas.
    pub(crate) fn streams(&self) -> u32 {
        u32::try_from(self.counted.streams.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Counts an open stream of deltas, until the result is dropped.
    pub(crate) fn stream(&self) -> StreamGuard {
        StreamGuard::begin(self, |counted| &counted.streams)
    }

    /// Counts a connected agent, until the result is dropped.
    pub(crate) fn agent(&self) -> StreamGuard {
        StreamGuard::begin(self, |counted| &counted.agents)
    }

    /// Counts a message from an agent.
    pub(crate) fn reported(&self) {
        self.counted.reports.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a sent delta, or a piece of one, with its bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.counted.sync.deltas.fetch_add(1, Ordering::Relaxed);
        self.counted.sync.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Sets the certificates presented to clients.
    pub(crate) fn show(&self, certificates: &Arc<Certificates>) {
        // If certificates are set already, they are the same ones: all listeners for clients have the same
        // certificates.
        let _ = self.counted.certificates.set(certificates.clone());
    }

    /// Remaining validity of the certificate presented to clients.
    fn certificate_remaining(&self) -> Option<Duration> {
        let ends = self.counted.certificates.get()?.ends();
        Some(ends.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Counts a sent delta, with the number of its versions, and the age of its first change.
    pub(crate) fn synced(&self, versions: u64, delay: Duration) {
        self.counted.sync.versions.fetch_add(versions, Ordering::Relaxed);
        self.counted.sync.delay.note(delay);
    }
}
