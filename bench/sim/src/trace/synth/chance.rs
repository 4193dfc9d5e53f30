//! A seeded random generator, which returns equal numbers on every platform.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

pub(super) struct Chance(Pcg64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(Pcg64::seed_from_u64(seed))
    }

    /// Random number from 0 to `bound` - 1, uniformly distributed.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// The numbers below `count` in random order.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// A uniform random sample, of bounded size, of a stream of any length.
pub(super) struct Sample<T> {
    pub(super) kept: Vec<T>,
    seen: u64,
    bound: usize,
}

impl<T> Sample<T> {
    pub(super) fn new(bound: usize) -> Sample<T> {
        Sample { kept: Vec::new(), seen: 0, bound }
    }

    /// Number of items seen.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    pub(super) fn offer(&mut self, item: T, chance: &mut Chance) {
        self.seen += 1;
        if self.kept.len() < self.bound {
            self.kept.push(item);
        } else if let Some(kept) = self.kept.get_mut(chance.below(self.seen) as usize) {
            *kept = item;
        }
    }
}

/// Endless draws from a list; all items are drawn once before any is drawn again.
pub(super) struct Draws<'a, T> {
    of: &'a [T],
    order: Vec<usize>,
}

impl<'a, T> Draws<'a, T> {
    /// Draws from a list, which must not be empty.
    pub(super) fn new(of: &'a [T]) -> Draws<'a, T> {
        assert!(!of.is_empty(), "there is nothing to draw from");
        Draws { of, order: Vec::new() }
    }

    /// Whether all items have been drawn equally often.
    pub(super) fn is_over(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn next(&mut self, chance: &mut Chance) -> &'a T {
        if self.order.is_empty() {
            self.order = chance.order(self.of.len());
        }
        &self.of[self.order.pop().unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_drawn_once_before_any_twice() {
        let items: Vec<u32> = (0..100).collect();
        let (mut draws, mut chance) = (Draws::new(&items), Chance::new(1));
        for _ in 0..3 {
            let mut drawn: Vec<u32> = items.iter().map(|_| *draws.next(&mut chance)).collect();
            assert_ne!(drawn, items);
            drawn.sort_unstable();
            assert_eq!(drawn, items);
        }
    }

    #[test]
    fn a_sample_is_even() {
        let mut counts = [0_u32; 20];
        for seed in 0..2000 {
            let (mut sample, mut chance) = (Sample::new(5), Chance::new(seed));
            (0..20_usize).for_each(|item| sample.offer(item, &mut chance));
            assert_eq!((sample.kept.len(), sample.seen()), (5, 20));
            sample.kept.iter().for_each(|item| counts[*item] += 1);
        }
        assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
    }
}
