//! An amount over time, in bounded memory, for a span that is not known in advance.
//!
//! The past has 1,024 equal buckets. When the time exceeds them, neighbours are merged and the buckets become twice as
//! wide, so the span always has between 512 and 1,024 buckets. The future, in which running tasks will end, has 512
//! buckets for each doubling of the span. The later a bucket is, the wider it is. When the width of the past's buckets
//! doubles, the next 512 buckets of the future, which have that width, become the later half of the past. So only the
//! times of changes within a bucket are lost. The means of buckets are exact, because each bucket also stores the
//! weight of its changes.
//!
//! ```text
//!   past: 1024 buckets of width w          | 512 of 2w       | 512 of 4w ...
//!   |||||||||||||||||||||||||||||||||||||||||_|_|_|_|_|_|_|_|_|___|___|___|___|___
//! ```

use omega_core::limits::AMOUNT_MAX;

/// Half of the number of past buckets, and the number of future buckets for each doubling of the span. The past's 512
/// to 1,024 buckets are more points than a plot needs.
const HALF: usize = 512;

/// Changes within one bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Net change of the amount over the bucket.
    change: i128,
    /// Sum of the changes, each multiplied by the time from the change to the end of the bucket.
    area: i128,
}

/// An amount over time.
///
/// Invariant: `past` has 1,024 buckets, and `future` a multiple of 512.
#[derive(Clone, Debug)]
pub struct Load {
    width_ms: u64,
    past: Vec<Bucket>,
    future: Vec<Bucket>,
}

/// The mean of an amount over a bucket of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Start of the bucket.
    pub from_ms: u64,
    /// Duration of the bucket.
    pub width_ms: u64,
    /// Mean of the amount in the bucket.
    pub mean: f64,
}

impl Default for Load {
    fn default() -> Load {
        Load { width_ms: 1, past: vec![Bucket::default(); 2 * HALF], future: Vec::new() }
    }
}

impl Load {
    /// Changes the amount at this time, which may be past or future. Times beyond [`AMOUNT_MAX`] are treated as equal
    /// to it.
    pub fn change(&mut self, at_ms: u64, by: i128) {
        let at_ms = at_ms.min(AMOUNT_MAX);
        let (index, end_ms) = self.place(at_ms);
        let bucket = match index.checked_sub(2 * HALF) {
            None => &mut self.past[index],
            Some(index) => {
                if index >= self.future.len() {
                    self.future.resize((index / HALF + 1) * HALF, Bucket::default());
                }
                &mut self.future[index]
            }
        };
        // Only impossible amounts exceed 128 bits; these are capped.
        bucket.change = bucket.change.saturating_add(by);
        bucket.area = bucket.area.saturating_add(by.saturating_mul(i128::from(end_ms - at_ms)));
    }

    /// Advances the time. The changes before `now_ms` are then in the past's buckets, which are equally wide.
    pub fn advance(&mut self, now_ms: u64) {
        let now_ms = now_ms.min(AMOUNT_MAX);
        while now_ms / self.width_ms >= 2 * HALF as u64 {
            self.double();
        }
    }

    /// Means from the start until now, for complete buckets, or for one incomplete bucket if there is no complete one.
    #[must_use]
    pub fn means(&self, end_ms: u64) -> Vec<Mean> {
        let whole = (end_ms / self.width_ms).clamp(1, 2 * HALF as u64) as usize;
        let mut level = 0_i128;
        let mean = |(i, bucket): (usize, &Bucket)| {
            let mean = level as f64 + bucket.area as f64 / self.width_ms as f64;
            level = bucket.change.saturating_add(level);
            Mean { from_ms: i as u64 * self.width_ms, width_ms: self.width_ms, mean }
        };
        self.past[..whole].iter().enumerate().map(mean).collect()
    }

    /// Returns the number of the bucket at this time, counted from the first bucket of the past, and the bucket's end.
    fn place(&self, at_ms: u64) -> (usize, u64) {
        let buckets = at_ms / self.width_ms;
        if buckets < 2 * HALF as u64 {
            return (buckets as usize, (buckets + 1) * self.width_ms);
        }
        // Each doubling of the span has buckets of twice the width: the N-th has buckets 2^N times as wide as those in
        // `past`. A time in it, divided by their width, is from 512 to 1,023 (`within`).
        let doubled = (buckets / HALF as u64).ilog2();
        let width_ms = self.width_ms << doubled;
        let within = at_ms / width_ms;
        let index = HALF * (doubled as usize) + within as usize;
        (index, (within + 1) * width_ms)
    }

    fn double(&mut self) {
        let width = i128::from(self.width_ms);
        let pair = |pair: &[Bucket]| Bucket {
            change: pair[0].change.saturating_add(pair[1].change),
            area: pair[0]
                .change
                .saturating_mul(width)
                .saturating_add(pair[0].area)
                .saturating_add(pair[1].area),
        };
        let mut past: Vec<Bucket> = self.past.chunks(2).map(pair).collect();
        let next = self.future.len().min(HALF);
        past.extend(self.future.drain(..next));
        past.resize(2 * HALF, Bucket::default());
        self.past = past;
        self.width_ms *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean of an amount between two times, computed from its changes.
    fn naive(changes: &[(u64, i128)], from_ms: u64, to_ms: u64) -> f64 {
        let part = |(at, by): &(u64, i128)| {
            let lasts = to_ms.saturating_sub((*at).max(from_ms));
            *by as f64 * lasts as f64
        };
        changes.iter().map(part).sum::<f64>() / (to_ms - from_ms) as f64
    }

    #[test]
    fn means_are_those_of_a_naive_sum() {
        for seed in 1..30_u64 {
            let mut state = seed;
            let mut random = |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % bound
            };
            let (mut load, mut changes, mut now) = (Load::default(), Vec::new(), 0);
            for _ in 0..400 {
                let (gap_bits, run_bits) = (random(14), random(24));
                now += random(1 << gap_bits);
                let (amount, runs) = (i128::from(random(1000)), random(1 << run_bits));
                load.advance(now);
                for (at, by) in [(now, amount), (now + runs, -amount)] {
                    load.change(at, by);
                    changes.push((at, by));
                }
            }
            let means = load.means(now);
            assert!(now < 1024 || means.len() >= HALF, "seed {seed}: {}", means.len());
            for mean in means {
                let exact = naive(&changes, mean.from_ms, mean.from_ms + mean.width_ms);
                assert!(
                    (mean.mean - exact).abs() < 1e-6 * exact.max(1.0),
                    "seed {seed}: {mean:?} {exact}"
                );
            }
        }
    }

    #[test]
    fn the_farthest_future_takes_little_room() {
        let mut load = Load::default();
        load.change(AMOUNT_MAX, 1);
        assert!(load.future.len() <= 50 * HALF, "{}", load.future.len());
        load.advance(AMOUNT_MAX);
        assert_eq!(load.past.iter().map(|bucket| bucket.change).sum::<i128>(), 1);
        assert_eq!(Load::default().means(0), [Mean { from_ms: 0, width_ms: 1, mean: 0.0 }]);
    }
}
