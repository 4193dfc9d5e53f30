//! Balance between the used shares of a machine's resource kinds. (Kubernetes' NodeResourcesBalancedAllocation.)

use crate::framework::plugin::{Reads, Score, Tasks, lanes};
use crate::plugins::kube::normalize::POINT;
use crate::plugins::usage::{Amount, Resource, Usage, double};
use omega_cellstate::{BLOCK, Block, FEW, View};
use omega_core::Kinds;
use pulp::Arch;
use smallvec::SmallVec;

/// Score: prefers machines whose resource kinds are more evenly allocated with the task than without it. 75 of 100
/// points mean no change.
#[derive(Clone, Debug)]
pub struct BalancedAllocation(Vec<Resource>);

impl BalancedAllocation {
    /// Creates the score for the resource kinds with these names. Names of kinds that the cell does not have are
    /// ignored.
    #[must_use]
    pub fn new(names: &[&str], kinds: &Kinds) -> BalancedAllocation {
        let named = |name: &&str| Resource::named(name, Amount::Claimed, kinds);
        BalancedAllocation(names.iter().filter_map(named).collect())
    }
}

impl Score for BalancedAllocation {
    fn name(&self) -> &'static str {
        "balanced_allocation"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS | Reads::DESCRIPTION
    }

    /// A task that requests none of the kinds does not change the balance.
    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        self.0.iter().any(|resource| resource.request(tasks) > 0)
    }

    fn keep(&self, view: &mut View) {
        self.0.iter().for_each(|resource| resource.keep(view));
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let usages = || self.0.iter().filter_map(|resource| resource.usage(tasks, block));
        let mut few = usages();
        if let (Some(a), Some(b), None) = (few.next(), few.next(), few.next()) {
            if among.count_ones() > FEW {
                Arch::new().dispatch(OfTwo { usages: (a, b), scores });
            } else {
                lanes(among).for_each(|lane| scores[lane] = of_two(&a, &b, lane));
            }
            return;
        }
        let usages: SmallVec<[Usage<'_>; 4]> = usages().collect();
        lanes(among).for_each(|lane| scores[lane] = of_all(&usages, lane));
    }
}

/// Computes the scores of a block for two kinds, with vector instructions.
struct OfTwo<'a> {
    usages: (Usage<'a>, Usage<'a>),
    scores: &'a mut [i32; BLOCK],
}

impl pulp::NullaryFnOnce for OfTwo<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let OfTwo { usages: (a, b), scores } = self;
        for (lane, score) in scores.iter_mut().enumerate() {
            *score = of_two(&a, &b, lane);
        }
    }
}

/// Score from the evenness with the task and without it.
#[inline(always)]
fn gain(with: i32, without: i32) -> i32 {
    (50 + ((50 + with - without) >> 1)) * POINT
}

/// The points for a deviation, rounded down. After 2^52 is added, the low bits of the double are the integer.
#[inline(always)]
fn points(deviation: f64) -> i32 {
    let points = ((1.0 - deviation) * 100.0).floor() + 4_503_599_627_370_496.0;
    (points.to_bits() & 0xff) as i32
}

/// The share of a kind that is in use; 0 on a machine without the kind.
#[inline(always)]
fn share(used: i64, capacity: i64) -> f64 {
    double(used) / double(capacity.max(1))
}

/// The score for two kinds. A machine with only one of the kinds counts as balanced.
#[inline(always)]
fn of_two(a: &Usage<'_>, b: &Usage<'_>, lane: usize) -> i32 {
    let (capacity_a, capacity_b) = (a.capacity[lane], b.capacity[lane]);
    let deviation = |used_a: i64, used_b: i64| {
        let deviation = ((share(used_a, capacity_a) - share(used_b, capacity_b)) / 2.0).abs();
        if capacity_a > 0 && capacity_b > 0 { deviation } else { 0.0 }
    };
    let with = points(deviation(a.with(lane), b.with(lane)));
    let without = points(deviation(a.without(lane), b.without(lane)));
    gain(with, without)
}

/// The score for any number of kinds.
fn of_all(usages: &[Usage<'_>], lane: usize) -> i32 {
    let there = || usages.iter().filter(|usage| usage.capacity[lane] > 0);
    let with = there().map(|usage| share(usage.with(lane), usage.capacity[lane]));
    let without = there().map(|usage| share(usage.without(lane), usage.capacity[lane]));
    let points_of = |shares: SmallVec<[f64; 8]>| points(deviation(&shares));
    gain(points_of(with.collect()), points_of(without.collect()))
}

/// The standard deviation of shares. They are summed up in the order of the kinds, so that rounding is reproducible.
fn deviation(shares: &[f64]) -> f64 {
    match shares {
        [] | [_] => 0.0,
        [a, b] => ((a - b) / 2.0).abs(),
        all => {
            let count = all.len() as f64;
            let mean = all.iter().sum::<f64>() / count;
            let squares: f64 = all.iter().map(|share| (share - mean) * (share - mean)).sum();
            (squares / count).sqrt()
        }
    }
}
