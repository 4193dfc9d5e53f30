//! The engine's gauges and counters.

use super::engine::Engine;
use prometheus_client::metrics::gauge::Gauge;

impl Engine {
    /// Updates the gauges and counters.
    pub(super) fn figures(&mut self) {
        let Some(adapter) = &self.adapter else { return };
        let metrics = &self.parts.metrics;
        let [active, assumed, backoff] = adapter.queues();
        let set = |queue, pods: usize| {
            let gauge = metrics.pending.get_or_create(&[("queue", queue)]);
            gauge.set(i64::try_from(pods).unwrap_or(i64::MAX));
        };
        set("active", active);
        set("assumed", assumed);
        set("backoff", backoff);
        metrics.nodes.set(i64::try_from(adapter.node_count()).unwrap_or(i64::MAX));
        let set = |gauge: &Gauge, count| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        set(&metrics.blind, adapter.blind_nodes());
        set(&metrics.unreadable, adapter.unreadable());
        // The next gauge examines every node under the cell's lock, so it is updated only with every tenth tick.
        self.ticks += 1;
        if self.ticks % 10 == 1 {
            set(&metrics.overcommitted, adapter.overcommitted_nodes().len());
        }
        let now = adapter.counters();
        metrics.foreign.inc_by(now.foreign - self.counted.foreign);
        metrics.overcommits.inc_by(now.overcommits - self.counted.overcommits);
        metrics.preemptions.inc_by(now.preemptions - self.counted.preemptions);
        metrics.victims.inc_by(now.victims - self.counted.victims);
        self.counted = now;
    }
}
