//! The engine's gauges and counters.

use super::engine::Engine;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::time::Instant;

impl Engine {
    /// Updates the gauges and counters.
    pub(super) fn figures(&mut self) {
        let Some(adapter) = &self.adapter else { return };
        let metrics = &self.parts.metrics;
        let queues = adapter.queues(|pod| self.attempts.has_failed(&pod.metadata.uid));
        let set = |family: &Family<_, Gauge>, label, value, count: usize| {
            let gauge = family.get_or_create(&[(label, value)]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        };
        set(&metrics.pending, "queue", "active", queues.active);
        set(&metrics.pending, "queue", "backoff", queues.backoff);
        set(&metrics.pending, "queue", "unschedulable", queues.unschedulable);
        set(&metrics.pending, "queue", "gated", queues.gated);
        set(&metrics.cache, "type", "nodes", adapter.node_count());
        set(&metrics.cache, "type", "pods", queues.bound + queues.assumed);
        set(&metrics.cache, "type", "assumed_pods", queues.assumed);
        metrics.nodes.set(i64::try_from(adapter.node_count()).unwrap_or(i64::MAX));
        let set = |gauge: &Gauge, count| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        set(&metrics.blind, adapter.blind_nodes());
        set(&metrics.unreadable, adapter.unreadable());
        set(&metrics.stale, self.parts.progress.stale(Instant::now()).len());
        // The next gauge examines every node under the cell's lock, so it is updated only with every tenth tick.
        self.ticks += 1;
        if self.ticks % 10 == 1 {
            set(&metrics.overcommitted, adapter.overcommitted_nodes().len());
        }
        let now = adapter.counters();
        metrics.foreign.inc_by(now.foreign - self.counted.foreign);
        metrics.overcommits.inc_by(now.overcommits - self.counted.overcommits);
        metrics.victims.inc_by(now.victims - self.counted.victims);
        metrics.repairs.inc_by(now.repairs - self.counted.repairs);
        self.counted = now;
    }
}
