//! The daily curve of arrivals, and a clock that runs at the speed of this curve.
//!
//! More jobs arrive by day than by night. On a clock that runs fast when many jobs arrive and slowly when few do,
//! arrivals are even except for bursts. Gaps are measured, drawn and added on this clock, and then converted to real
//! time. All values are integers, so results are equal on all platforms.

const HOUR_MS: u64 = 3_600_000;

/// Shortest span with a curve: an hour less than a day, because a trace of one day may end with a quiet hour.
const SPAN_MS_MIN: u64 = 23 * HOUR_MS;

/// Lowest speed in thousandths, so that the clock also advances in an hour without arrivals.
const SPEED_MIN: u64 = 50;

/// Rate of arrivals in each hour of the day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Curve {
    /// Speed in each hour of the day, in thousandths of the mean.
    speeds: [u64; 24],
}

/// Numbers of jobs by hour of the day.
#[derive(Default)]
pub(super) struct Hours([u64; 24]);

impl Hours {
    pub(super) fn add(&mut self, at_ms: u64) {
        self.0[(at_ms / HOUR_MS % 24) as usize] += 1;
    }

    /// Returns the curve of a trace with arrivals from `first_ms` to `last_ms`. It is flat if the trace is shorter than
    /// a day.
    pub(super) fn curve(&self, first_ms: u64, last_ms: u64) -> Curve {
        let all: u64 = self.0.iter().sum();
        let span_ms = last_ms - first_ms;
        if span_ms < SPAN_MS_MIN || all == 0 {
            return Curve { speeds: [1000; 24] };
        }
        let mut speeds = [SPEED_MIN; 24];
        for ((hour, speed), count) in (0..).zip(&mut speeds).zip(self.0) {
            // Part of the time up to `at_ms` that lies in this hour of each day.
            let until = |at_ms: u64| {
                let (days, rest) = (at_ms / (24 * HOUR_MS), at_ms % (24 * HOUR_MS));
                days * HOUR_MS + rest.saturating_sub(hour * HOUR_MS).min(HOUR_MS)
            };
            let seen_ms = until(last_ms) - until(first_ms);
            if let Some(seen_ms) = std::num::NonZeroU64::new(seen_ms) {
                let rate = u128::from(count) * u128::from(span_ms) * 1000;
                let mean = u128::from(all) * u128::from(seen_ms.get());
                *speed = u64::try_from(rate / mean).unwrap_or(u64::MAX).max(SPEED_MIN);
            }
        }
        Curve { speeds }
    }
}

impl Curve {
    /// Returns the time, in microseconds, that the clock shows at a real time.
    pub(super) fn shows(&self, at_ms: u64) -> u128 {
        let hours = at_ms / HOUR_MS;
        let (days, hour) = (hours / 24, (hours % 24) as usize);
        let whole: u64 = self.speeds[..hour].iter().sum();
        u128::from(days) * self.day()
            + u128::from(whole) * u128::from(HOUR_MS)
            + u128::from(at_ms % HOUR_MS) * u128::from(self.speeds[hour])
    }

    /// Returns how far the clock advances in `for_ms` from this time on. The interval must be much shorter than an
    /// hour.
    pub(super) fn goes(&self, from_ms: u64, for_ms: u64) -> u128 {
        u128::from(for_ms) * u128::from(self.speeds[(from_ms / HOUR_MS % 24) as usize])
    }

    /// Real time at which the clock reads `shown`.
    pub(super) fn when(&self, shown: u128) -> u64 {
        let days = shown / self.day();
        let mut rest = shown % self.day();
        let mut at_ms = u64::try_from(days).unwrap_or(u64::MAX).saturating_mul(24 * HOUR_MS);
        for speed in self.speeds {
            let hour = u128::from(speed) * u128::from(HOUR_MS);
            if rest < hour {
                return at_ms.saturating_add((rest / u128::from(speed)) as u64);
            }
            rest -= hour;
            at_ms = at_ms.saturating_add(HOUR_MS);
        }
        at_ms
    }

    fn day(&self) -> u128 {
        u128::from(self.speeds.iter().sum::<u64>()) * u128::from(HOUR_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_can_be_read_both_ways() {
        let mut hours = Hours::default();
        for day in 0..3 {
            for hour in 0..24 {
                (0..hour * hour).for_each(|i| hours.add(day * 24 * HOUR_MS + hour * HOUR_MS + i));
            }
        }
        let curve = hours.curve(0, 72 * HOUR_MS);
        assert!(curve.speeds[23] > 2 * curve.speeds[12], "{curve:?}");
        assert_eq!(curve.speeds[0], SPEED_MIN);
        for at_ms in (0..80 * HOUR_MS).step_by(777_777) {
            assert_eq!(curve.when(curve.shows(at_ms)), at_ms);
            let hour_ms = at_ms / HOUR_MS * HOUR_MS;
            assert_eq!(curve.shows(hour_ms + 9) - curve.shows(hour_ms), curve.goes(hour_ms, 9));
        }
        // In a day the clock advances by a day, except for the effects of the lowest speed and of rounding.
        let day = curve.shows(24 * HOUR_MS) as f64 / (24.0 * HOUR_MS as f64 * 1000.0);
        assert!((0.99..1.01).contains(&day), "{day}");
    }

    #[test]
    fn empty_days_before_the_first_job_slow_no_hour() {
        let (mut late, mut early) = (Hours::default(), Hours::default());
        for i in 0..48 * 60 {
            early.add(i * 60_000);
            late.add((5 * 24 * 60 + i) * 60_000);
        }
        let day = 24 * HOUR_MS;
        assert_eq!(late.curve(5 * day, 7 * day), early.curve(0, 2 * day));
    }

    #[test]
    fn a_short_trace_has_no_curve() {
        let mut hours = Hours::default();
        hours.add(5);
        assert_eq!(hours.curve(0, HOUR_MS).shows(123), 123_000);
        assert_eq!(Hours::default().curve(0, 99 * HOUR_MS).shows(123), 123_000);
    }
}
