//! Time in plugins, and machines rejected by filters. Only one search in several dozen is measured.

use omega_schedulers::{Meter, Nanos, Work};
use omega_service::openmetrics::{Figure, MetricWriter};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One search in this many is measured. A measured search takes about twice as long, so measuring adds about two
/// percent to the time of all searches. The number is prime, so that searches at all positions of a periodic order are
/// measured.
const EVERY: u64 = 61;

/// Number of clock readings from which the duration of one reading is computed.
const READINGS: usize = 1000;

/// Measures the plugins of all workers.
#[derive(Debug)]
pub(super) struct PluginTimes {
    began: Instant,
    /// Time between two consecutive readings of the clock.
    reading: Nanos,
    /// Number of searches begun. The order of its updates relative to other memory does not matter.
    searches: AtomicU64,
    /// Locked to add times, in measured searches only.
    times: Mutex<BTreeMap<(Work, &'static str), Nanos>>,
    /// Rejections by filter.
    refusals: Mutex<BTreeMap<&'static str, Refusals>>,
}

/// Rejections of machines by one filter.
#[derive(Clone, Copy, Debug, Default)]
struct Refusals {
    /// Number of machines, counted each time they are examined.
    machines: u64,
    /// Number of measured searches in which the filter rejected some machine.
    searches: u64,
    /// Number of the last measured search in which the filter rejected a machine.
    last: u64,
}

impl Default for PluginTimes {
    fn default() -> PluginTimes {
        let began = Instant::now();
        let now = || began.elapsed().as_nanos() as Nanos;
        let mut readings: Vec<Nanos> = (0..READINGS)
            .map(|_| {
                let since = now();
                now() - since
            })
            .collect();
        readings.sort_unstable();
        let (searches, times, refusals) = Default::default();
        PluginTimes { began, reading: readings[READINGS / 2], searches, times, refusals }
    }
}

impl Meter for PluginTimes {
    fn samples(&self) -> bool {
        self.searches.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY)
    }

    fn now(&self) -> Nanos {
        self.began.elapsed().as_nanos() as Nanos
    }

    /// A measured search is identified by the number of searches that began up to it. If several workers search at
    /// once, some of their searches count as one.
    fn refused(&self, filter: &'static str, machines: u32) {
        let search = self.searches.load(Ordering::Relaxed).div_ceil(EVERY);
        let mut refusals = self.refusals.lock();
        let of = refusals.entry(filter).or_default();
        of.machines += u64::from(machines);
        of.searches += u64::from(of.last != search);
        of.last = search;
    }

    fn took(&self, work: Work, plugin: &'static str, nanos: Nanos) {
        *self.times.lock().entry((work, plugin)).or_default() += nanos.saturating_sub(self.reading);
    }
}

impl PluginTimes {
    /// Writes the metrics.
    pub(super) fn write(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let times = self.times.lock().clone();
        let seconds = times.into_iter().map(|((work, plugin), nanos)| {
            let work = match work {
                Work::Filter => "filter",
                Work::Score => "score",
            };
            ([("plugin", plugin), ("work", work)], (nanos * EVERY) as f64 / 1e9)
        });
        let help = "Time of the plugins of all workers, estimated from one search in 61";
        pen.counters(Figure::seconds("plugin", help), seconds)?;
        let refusals = self.refusals.lock().clone();
        let of = |count: fn(&Refusals) -> u64| {
            let response = move |(filter, refused): (&&'static str, &Refusals)| {
                ([("plugin", *filter)], (count(refused) * EVERY) as f64)
            };
            refusals.iter().map(response).collect::<Vec<_>>()
        };
        let help = "Machines that a filter rejected after the earlier filters had accepted them, \
             estimated from one search in 61";
        pen.counters(Figure::new("plugin_refused_machines", help), of(|of| of.machines))?;
        let help = "Searches in which a filter rejected machines, estimated from one search in 61";
        pen.counters(Figure::new("plugin_refusing_searches", help), of(|of| of.searches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_search() {
        let figures = PluginTimes::default();
        let mut measured = 0;
        for _ in 0..3 * EVERY {
            if figures.samples() {
                measured += 1;
                (0..4).for_each(|_| figures.refused("load_limit", 16));
            }
        }
        let of = figures.refusals.lock()["load_limit"];
        assert_eq!((measured, of.machines, of.searches), (3, 3 * 64, 3));
    }
}
