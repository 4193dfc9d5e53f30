//! How long plugins take: one search in some dozens is measured, and stands for the others.

use omega_schedulers::{Meter, Nanos, Work};
use omega_service::exposition::{Figure, Pen};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One search in so many is measured: a search that is takes about twice as long, so all of them together take some
/// two in a hundred longer. It is a prime, so that no order of searches is always met at the same place.
const EVERY: u64 = 61;

/// How often the clock is read to find out how long that takes.
const READINGS: usize = 1000;

/// Measures the plugins of all workers.
#[derive(Debug)]
pub(super) struct PluginTimes {
    began: Instant,
    /// What two readings of the clock are apart with nothing in between.
    reading: Nanos,
    /// Counts searches; nothing else depends on it.
    searches: AtomicU64,
    /// Held for an addition, in searches that are measured.
    times: Mutex<BTreeMap<(Work, &'static str), Nanos>>,
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
        let (searches, times) = Default::default();
        PluginTimes { began, reading: readings[READINGS / 2], searches, times }
    }
}

impl Meter for PluginTimes {
    fn samples(&self) -> bool {
        self.searches.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY)
    }

    fn now(&self) -> Nanos {
        self.began.elapsed().as_nanos() as Nanos
    }

    fn took(&self, work: Work, plugin: &'static str, nanos: Nanos) {
        *self.times.lock().entry((work, plugin)).or_default() += nanos.saturating_sub(self.reading);
    }
}

impl PluginTimes {
    /// Writes what is known.
    pub(super) fn write(&self, pen: &mut Pen<'_>) -> fmt::Result {
        let times = self.times.lock().clone();
        let seconds = times.into_iter().map(|((work, plugin), nanos)| {
            let work = match work {
                Work::Filter => "filter",
                Work::Score => "score",
            };
            ([("plugin", plugin), ("work", work)], (nanos * EVERY) as f64 / 1e9)
        });
        let help = "Time that plugins of all workers took, as far as one search in 61 tells";
        pen.counters(Figure::seconds("plugin", help), seconds)
    }
}
