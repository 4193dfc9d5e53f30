//! A seeded random generator, and the few distributions that are used.
//!
//! The distributions are computed only by sums, products and comparisons, because the functions of mathematics
//! libraries differ in the last digit between platforms.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::f64::consts::LN_2;

/// A distribution by its quantiles. A quantile is the cumulative share, and the logarithm to base 2 of the value.
/// Between quantiles, the logarithm is interpolated linearly.
pub(super) type Quantiles = [(f64, f64)];

/// A log-normal distribution: mean and standard deviation of the logarithm to base 2.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogNormal {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl LogNormal {
    /// The value at this many standard deviations.
    pub(super) fn at(self, deviations: f64) -> f64 {
        exp2(self.mean + self.deviation * deviations)
    }
}

pub(super) struct Dice(Pcg64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(Pcg64::seed_from_u64(seed))
    }

    /// A random number from 0 to 1, without 1, uniformly distributed.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random number from 0 to `bound` - 1, uniformly distributed.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with this probability in percent.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a random element of a list.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// An approximation of the normal distribution by the sum of twelve uniform numbers. It is good up to three
    /// standard deviations, and never exceeds six.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    pub(super) fn log_normal(&mut self, of: LogNormal) -> f64 {
        of.at(self.normal())
    }

    /// A value of a distribution given by its quantiles from 0 to 1.
    pub(super) fn quantile(&mut self, quantiles: &Quantiles) -> f64 {
        let share = self.unit();
        let next = quantiles.partition_point(|(cumulative, _)| *cumulative <= share);
        let ((low, from), (high, to)) = (quantiles[next - 1], quantiles[next]);
        exp2(from + (to - from) * (share - low) / (high - low))
    }
}

/// Two to the power of `x`, for the magnitudes that occur here.
fn exp2(x: f64) -> f64 {
    let whole = x.floor().clamp(-1000.0, 1000.0);
    let y = (x - whole) * LN_2;
    // The series of the exponential function; y is below 0.7, so 18 terms suffice for a double.
    let (mut term, mut sum) = (1.0, 1.0);
    for i in 1..18 {
        term *= y / f64::from(i);
        sum += term;
    }
    sum * f64::from_bits(((whole as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_right() {
        for i in -200..200 {
            let x = f64::from(i) * 0.17;
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn distributions_have_their_quantiles() {
        let mut dice = Dice::new(7);
        let mut median = |draw: &mut dyn FnMut(&mut Dice) -> f64| {
            let mut values: Vec<f64> = (0..20_001).map(|_| draw(&mut dice)).collect();
            values.sort_by(f64::total_cmp);
            values[10_000]
        };
        let of = LogNormal { mean: 3.0, deviation: 1.0 };
        let value = median(&mut |dice| dice.log_normal(of));
        assert!((7.8..8.2).contains(&value), "{value}");
        let value = median(&mut |dice| dice.quantile(&[(0.0, 0.0), (0.5, 4.0), (1.0, 9.0)]));
        assert!((15.0..17.0).contains(&value), "{value}");
        let value = median(&mut |dice| dice.below(1000) as f64);
        assert!((480.0..520.0).contains(&value), "{value}");
    }
}
