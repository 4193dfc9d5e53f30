//! A histogram of durations that several threads add to.
//!
//! Adding a duration costs two additions in memory, so measuring a commit does not slow it down.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of the histogram's bounds, each twice the one before, from 1 microsecond to 8.4 seconds.
const BOUNDS: usize = 24;

/// A histogram of durations.
///
/// Each counter only grows and is independent of the others, so no memory ordering between them is needed.
#[derive(Debug, Default)]
pub struct Durations {
    /// Number of durations up to each bound and above the bound before it. The last number counts durations above all
    /// bounds.
    counts: [AtomicU64; BOUNDS + 1],
    nanos: AtomicU64,
}

/// A copy of [`Durations`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Sum of the durations in seconds.
    pub sum: f64,
    /// Upper bounds in seconds, each with the number of durations up to it and above the bound before it. The last
    /// bound is infinite.
    pub counts: Vec<(f64, u64)>,
}

impl Durations {
    /// Adds a duration.
    pub fn note(&self, took: Duration) {
        self.note_many(took, 1);
    }

    /// Adds a number of equal durations.
    pub fn note_many(&self, took: Duration, count: u64) {
        let micros = u64::try_from(took.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let bound = micros.max(1).checked_next_power_of_two().unwrap_or(1 << 63).ilog2() as usize;
        self.counts[bound.min(BOUNDS)].fetch_add(count, Ordering::Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(took.saturating_mul(count), Ordering::Relaxed);
    }

    /// The durations so far.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let bound = |i: usize| if i < BOUNDS { 1e-6 * (1_u64 << i) as f64 } else { f64::MAX };
        let counts = self.counts.iter().enumerate();
        Histogram {
            sum: self.nanos.load(Ordering::Relaxed) as f64 / 1e9,
            counts: counts.map(|(i, count)| (bound(i), count.load(Ordering::Relaxed))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each duration is counted at the lowest bound that is not below it.
    #[test]
    fn what_took_so_long_is_where_it_belongs() {
        let edges = (0..36).flat_map(|bit| {
            let micros = 1_000_u64 << (bit % 25);
            [micros - 1, micros, micros + 1, 1 << bit]
        });
        for nanos in edges.chain([0, u64::MAX]) {
            let durations = Durations::default();
            durations.note(Duration::from_nanos(nanos));
            let Histogram { sum, counts } = durations.histogram();
            let seconds = nanos as f64 * 1e-9;
            assert!((sum - seconds).abs() <= seconds * 1e-9, "{nanos}");
            let expected = counts.iter().position(|(bound, _)| seconds <= bound * (1.0 + 1e-12));
            let found = counts.iter().position(|(_, count)| *count == 1);
            assert_eq!(found, expected, "{nanos}");
            assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 1);
        }
        let many = Durations::default();
        many.note_many(Duration::from_millis(1), 3);
        let one = Durations::default();
        (0..3).for_each(|_| one.note(Duration::from_millis(1)));
        assert_eq!(many.histogram(), one.histogram());
    }
}
