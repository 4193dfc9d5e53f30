//! Dominant resource fairness.
//!
//! The *dominant share* of a user is the largest of the user's shares of the resource kinds. The user whose dominant
//! share, divided by the user's weight, is the lowest is served next (Ghodsi et al., NSDI 2011). So no user gains by
//! requesting more than it needs, and no user prefers the allocation of another user.
//!
//! Shares are integers in units of 2^-40 of the cell, rounded down, so that results do not depend on the order of
//! additions. In the largest cell, one unit of CPU is a thousandth of a core. Callers order users with equal shares,
//! for example by id.

use omega_cellstate::{Cell, View};
use omega_core::limits::TENANT_WEIGHT_MAX;
use omega_core::{KindId, Machine};

/// Base-2 logarithm of the number of units that make up the cell's total of a resource kind.
const PARTS_LOG2: u32 = 40;

/// Weight of a share. The default is 1; an owner with weight 3 is entitled to three times as much.
///
/// Invariant: 1 to [`Weight::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// Default weight.
    pub const ONE: Weight = Weight(1);

    /// Largest weight. Operators use no larger ratio than a thousand to one. With a larger ratio, the units of a share
    /// would be too coarse to order small tasks in a large cell.
    pub const MAX: u32 = TENANT_WEIGHT_MAX;

    /// Creates a weight; `None` unless it is from 1 to [`Weight::MAX`].
    #[must_use]
    pub fn new(weight: u32) -> Option<Weight> {
        (1..=Weight::MAX).contains(&weight).then_some(Weight(weight))
    }

    /// The weight as a number.
    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

/// A weighted dominant share. The owner with the lowest share is served first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u64);

impl Share {
    /// Returns the share in units of 2^-40 of the cell, for sums.
    pub(crate) fn parts(self) -> u64 {
        self.0
    }

    /// The share as a fraction of the cell, for reports.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.0 as f64 / (1u64 << PARTS_LOG2) as f64
    }
}

/// Sums of amounts, one for each resource kind. A sum that would exceed 64 bits stays at the maximum, which no real
/// cell reaches.
pub type Sums = Vec<u64>;

/// Adds amounts to sums; subtracts them if `sign` is -1.
pub fn count(sums: &mut Sums, amounts: &[i64], sign: i64) {
    if sums.len() < amounts.len() {
        sums.resize(amounts.len(), 0);
    }
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        *sum = sum.saturating_add_signed(amount.saturating_mul(sign));
    }
}

/// Total capacity of the machines of a cell, the base of shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals(Sums);

impl Totals {
    #[cfg(test)]
    pub(crate) fn new(sums: impl IntoIterator<Item = u64>) -> Totals {
        Totals(sums.into_iter().collect())
    }

    /// Total capacity of the machines of a view. Visits every machine.
    #[must_use]
    pub fn of(view: &View) -> Totals {
        let machines =
            (0..view.rows()).filter_map(|row| view.machine(row).map(|machine| &**machine));
        Totals::of_machines(view.kinds().count(), machines)
    }

    /// Total capacity of the machines of a cell. Visits every machine.
    #[must_use]
    pub fn of_cell(cell: &Cell) -> Totals {
        let machines = cell.machines().map(|state| &**state.machine);
        Totals::of_machines(cell.kinds().count(), machines)
    }

    fn of_machines<'a>(kinds: usize, machines: impl Iterator<Item = &'a Machine>) -> Totals {
        let mut sums = vec![0u64; kinds];
        for machine in machines {
            for (kind, amount) in machine.capacity.iter() {
                if let Some(sum) = sums.get_mut(kind.index()) {
                    *sum = sum.saturating_add(amount);
                }
            }
        }
        Totals(sums)
    }

    /// Returns the total capacity of one resource kind.
    #[must_use]
    pub fn get(&self, kind: KindId) -> u64 {
        self.0.get(kind.index()).copied().unwrap_or(0)
    }

    /// Computes the weighted dominant share of the sum of the allocations in `used`. Resource kinds without capacity
    /// are ignored.
    #[must_use]
    pub fn share<'a>(&self, used: impl IntoIterator<Item = &'a Sums>, weight: Weight) -> Share {
        let mut sums: smallvec::SmallVec<[u64; 8]> = smallvec::smallvec![0; self.0.len()];
        for used in used {
            for (sum, used) in sums.iter_mut().zip(used) {
                *sum = sum.saturating_add(*used);
            }
        }
        let kinds = || sums.iter().zip(&self.0).filter(|(used, total)| **used > 0 && **total > 0);
        // Only the kinds that may be dominant are divided exactly: those whose approximate share is not below the
        // highest one by more than the error of the approximation.
        let near = |(used, total): (&u64, &u64)| *used as f64 / *total as f64;
        let most = kinds().map(near).fold(0.0, f64::max) * (1.0 - 1e-12);
        let dominant = kinds().filter(|kind| near(*kind) >= most);
        let parts = dominant.map(|(used, total)| weighted_parts(*used, *total, weight)).max();
        Share(parts.unwrap_or(0))
    }
}

/// Returns `used / total / weight` in units of 2^-40, rounded down.
fn weighted_parts(used: u64, total: u64, weight: Weight) -> u64 {
    let dividend = u128::from(used) << PARTS_LOG2;
    let divisor = u128::from(total) * u128::from(weight.0);
    // A division of 128-bit integers is slow. Below 2^50, the floating-point quotient is less than 1 from the exact one.
    let near = used as f64 / total as f64 / f64::from(weight.0) * (1u64 << PARTS_LOG2) as f64;
    if near < (1u64 << 50) as f64 {
        let near = near as u64;
        let is_above = u128::from(near) * divisor > dividend;
        let is_below = u128::from(near + 1) * divisor <= dividend;
        return near + u64::from(is_below) - u64::from(is_above);
    }
    u64::try_from(dividend / divisor).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of Ghodsi et al.: 9 processors and 18 units of memory. Each task of one user needs 1 processor and 4
    /// units of memory; each task of the other user needs 3 processors and 1 unit.
    #[test]
    fn the_example_of_the_paper_comes_out() {
        let totals = Totals(vec![9, 18]);
        let needs = [[1, 4], [3, 1]];
        let mut used = [vec![0, 0], vec![0, 0]];
        let mut free = vec![9, 18];
        let mut given = [0, 0];
        loop {
            let share = |user: &usize| (totals.share([&used[*user]], Weight::ONE), *user);
            let Some(next) = [0, 1].into_iter().min_by_key(share) else { break };
            if free.iter().zip(needs[next]).any(|(free, need)| *free < need as u64) {
                break;
            }
            count(&mut used[next], &needs[next], 1);
            count(&mut free, &needs[next], -1);
            given[next] += 1;
        }
        assert_eq!(given, [3, 2], "12 of 18 memory and 6 of 9 processors: two thirds each");
        let [a, b] = [0, 1].map(|user| totals.share([&used[user]], Weight::ONE));
        assert_eq!(a, b);
    }

    #[test]
    fn a_weight_divides_the_share() {
        let totals = Totals(vec![100, 0]);
        let used = vec![30, 7];
        let heavy = totals.share([&used], Weight::new(3).unwrap());
        assert_eq!(heavy, totals.share([&vec![10]], Weight::ONE), "no machine has the second kind");
        assert!((heavy.fraction() - 0.1).abs() < 1e-9);
        assert_eq!((Weight::new(0), Weight::new(1001)), (None, None));
    }

    proptest! {
        /// The share is the highest exact share of all kinds, also where shares are nearly equal.
        #[test]
        fn a_share_is_that_of_the_dominant_kind(
            kinds in prop::collection::vec((any::<u64>(), any::<u64>()), 1..5),
            times in 1u64..1 << 20,
            more in 0u64..3,
            weight in 1u32..=Weight::MAX,
        ) {
            let (used, total) = (kinds[0].0 >> 24, kinds[0].1 >> 24);
            let alike = (used.saturating_mul(times).saturating_add(more), total.saturating_mul(times));
            let kinds: Vec<(u64, u64)> = kinds.into_iter().chain([(used, total), alike]).collect();
            let (used, totals): (Vec<u64>, Vec<u64>) = kinds.iter().copied().unzip();
            let exact = kinds.iter().filter(|(_, total)| *total > 0).map(|(used, total)| {
                (u128::from(*used) << PARTS_LOG2) / (u128::from(*total) * u128::from(weight))
            });
            let exact = u64::try_from(exact.max().unwrap_or(0)).unwrap_or(u64::MAX);
            prop_assert_eq!(Totals(totals).share([&used], Weight(weight)), Share(exact));
        }

        /// The quotient is exact next to each integer, also where it is no longer computed in floating point.
        #[test]
        fn a_quotient_is_exact_next_to_integers(
            total in 1u64..1 << 44,
            parts in 0u64..1 << 52,
            more in -2i64..=2,
            weight in 1u32..=Weight::MAX,
        ) {
            let divisor = u128::from(total) * u128::from(weight);
            let used = (u128::from(parts) * divisor) >> PARTS_LOG2;
            let used = u64::try_from(used).unwrap_or(u64::MAX).saturating_add_signed(more);
            let exact = (u128::from(used) << PARTS_LOG2) / divisor;
            let exact = u64::try_from(exact).unwrap_or(u64::MAX);
            prop_assert_eq!(weighted_parts(used, total, Weight(weight)), exact);
        }

        /// Shares are ordered like the exact fractions, which are compared by cross-multiplication.
        #[test]
        fn shares_are_ordered_like_fractions(
            totals in prop::collection::vec(1u64..5000, 3),
            one in prop::collection::vec(0u64..5000, 3),
            other in prop::collection::vec(0u64..5000, 3),
            weights in (1u32..50, 1u32..50),
        ) {
            let dominant = |used: &[u64], weight: u32| {
                let parts = used.iter().zip(&totals).map(|(used, total)| {
                    (u128::from(*used), u128::from(*total) * u128::from(weight))
                });
                parts.reduce(|a, b| if b.0 * a.1 > a.0 * b.1 { b } else { a }).unwrap()
            };
            let (a, b) = (dominant(&one, weights.0), dominant(&other, weights.1));
            let exact = (a.0 * b.1).cmp(&(b.0 * a.1));
            let of = Totals(totals.clone());
            let share = |used: &Vec<u64>, weight| of.share([used], Weight::new(weight).unwrap());
            prop_assert_eq!(share(&one, weights.0).cmp(&share(&other, weights.1)), exact);
        }
    }
}
