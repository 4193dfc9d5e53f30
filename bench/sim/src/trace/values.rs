//! Many values in little memory: their percentiles, their mean, and the distance of two distributions.
//!
//! A histogram keeps three digits of each value, so a percentile is at most 0.1 % below an actual value. Count,
//! minimum, maximum (also as percentile 100), mean and standard deviation are exact.

use hdrhistogram::Histogram;
use omega_core::limits::AMOUNT_MAX;

/// Number of significant digits that are kept of each value.
const DIGITS: u8 = 3;

/// The distribution of one quantity.
pub struct Values {
    histogram: Histogram<u64>,
    mean: f64,
    /// Sum of the squared deviations from the mean.
    squares: f64,
    least: u64,
    largest: u64,
}

impl Default for Values {
    fn default() -> Values {
        let histogram = Histogram::new_with_bounds(1, AMOUNT_MAX, DIGITS);
        Values {
            histogram: histogram.expect("the bounds and the digits are those of a histogram"),
            mean: 0.0,
            squares: 0.0,
            least: u64::MAX,
            largest: 0,
        }
    }
}

impl Values {
    /// Adds a value `times` times. Values beyond [`AMOUNT_MAX`] are capped.
    pub fn add(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let value = value.min(AMOUNT_MAX);
        self.histogram.saturating_record_n(value, times);
        let distance = value as f64 - self.mean;
        self.mean += distance * (times as f64 / self.count() as f64);
        self.squares += times as f64 * distance * (value as f64 - self.mean);
        self.least = self.least.min(value);
        self.largest = self.largest.max(value);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Minimum; 0 if there are no values.
    #[must_use]
    pub fn least(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.least }
    }

    /// Maximum; 0 if there are no values.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The value at this percentile, to three digits.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        if percent >= 100.0 {
            return self.largest;
        }
        let value = self.histogram.value_at_quantile(percent / 100.0);
        self.histogram.lowest_equivalent(value).clamp(self.least(), self.largest)
    }

    /// The distinct values, to three digits, in ascending order, each with the number of values that are not larger.
    #[must_use]
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut count = 0;
        let mut steps = Vec::new();
        for step in self.histogram.iter_recorded() {
            count += step.count_since_last_iteration();
            steps.push((self.histogram.lowest_equivalent(step.value_iterated_to()), count));
        }
        steps
    }

    /// Mean; 0 if there are no values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The coefficient of variation: the standard deviation divided by the mean. It is 1 for the gaps of a Poisson
    /// process.
    #[must_use]
    pub fn variation(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { (self.squares / self.count() as f64).sqrt() / self.mean }
    }

    /// The Kolmogorov-Smirnov distance: the largest difference of the two cumulative distributions, from 0 (equal) to
    /// 1. Values with equal first three digits are treated as equal.
    #[must_use]
    pub fn distance(&self, other: &Values) -> f64 {
        if self.count() == 0 || other.count() == 0 {
            return if self.count() == other.count() { 0.0 } else { 1.0 };
        }
        let steps = |values: &Values, sign: f64| -> Vec<(u64, f64)> {
            let whole = values.count() as f64;
            let steps = values.histogram.iter_recorded();
            steps
                .map(|s| {
                    (s.value_iterated_to(), sign * s.count_since_last_iteration() as f64 / whole)
                })
                .collect()
        };
        let mut steps = [steps(self, 1.0), steps(other, -1.0)].concat();
        steps.sort_by_key(|(value, _)| *value);
        let (mut difference, mut largest) = (0.0_f64, 0.0_f64);
        for same in steps.chunk_by(|a, b| a.0 == b.0) {
            difference += same.iter().map(|(_, step)| step).sum::<f64>();
            largest = largest.max(difference.abs());
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: impl IntoIterator<Item = u64>) -> Values {
        let mut values = Values::default();
        of.into_iter().for_each(|value| values.add(value, 1));
        values
    }

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let values = values((1..=100_000).map(|i| i * 7919 % 100_003));
        for percent in [1.0, 10.0, 50.0, 90.0, 99.0, 99.9] {
            let exact = percent * 1000.0;
            let error = (values.percentile(percent) as f64 - exact).abs() / exact;
            assert!(error < 0.002, "{percent}: {} for {exact}", values.percentile(percent));
        }
        assert!((values.mean() - 50_000.0).abs() < 5.0, "{}", values.mean());
    }

    #[test]
    fn means_and_variations_are_those_of_the_values() {
        let mut weighted = Values::default();
        weighted.add(2, 3);
        weighted.add(10, 1);
        assert_eq!((weighted.count(), weighted.mean()), (4, 4.0));
        // The squared deviations from the mean of 4 are 4, 4, 4 and 36, so the standard deviation is the root of 12.
        assert!((weighted.variation() - 12.0_f64.sqrt() / 4.0).abs() < 1e-12);
        assert_eq!((weighted.least(), weighted.largest()), (2, 10));
        assert_eq!(weighted.cumulative(), [(2, 3), (10, 4)]);
        let none = Values::default();
        assert_eq!((none.least(), none.largest(), none.percentile(50.0)), (0, 0, 0));
        assert_eq!((none.mean(), none.variation()), (0.0, 0.0));
        assert_eq!(values([0, 0]).percentile(99.0), 0);
        assert_eq!(values([2, 13_438]).percentile(100.0), 13_438);
    }

    #[test]
    fn distances_are_those_of_the_shares() {
        let a = values([1, 2, 3, 4]);
        assert_eq!(a.distance(&values([4, 3, 2, 1])), 0.0);
        assert_eq!(a.distance(&values([1, 1, 2, 2, 3, 3, 4, 4])), 0.0);
        assert_eq!(a.distance(&values([2, 3, 4, 5])), 0.25);
        assert_eq!(a.distance(&values([100])), 1.0);
        assert_eq!(a.distance(&Values::default()), 1.0);
        assert_eq!(Values::default().distance(&Values::default()), 0.0);
    }
}
