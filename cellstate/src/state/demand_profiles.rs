//! Demand that varies over the day: the sum of the demand profiles on each machine.
//!
//! ```text
//!   claimable        ─────────────────────────────────────
//!                                 ↕ free
//!   peak of the sum  ─ ─ ─ ─ ─ ─╭──╮─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
//!   sum of profiles  ───────────╯  ╰─────╮  ╭──────────
//!                                        ╰──╯
//!   constant claims  ─────────────────────────────────────
//!                    0 h                              24 h
//! ```
//!
//! `free` is the amount of a machine that remains above the highest point of the sum. So a task without a profile is
//! checked against `free` alone, with the columns, bounds and vector code that also serve cells without profiles. A
//! task with a profile raises the highest point of the sum, and takes the amount of this rise from `free`. If the rise
//! is at most `free`, the task fits, because the new sum exceeds the machine at no point of the day. The rise is at
//! least the lowest and at most the highest point of the task's profile. These bounds, computed for each hour of the
//! day, decide most checks without reading all points.
//!
//! Invariant: `free` and the highest point of the sum together are the amount above the constant claims. So tasks with
//! profiles may come and go in any order, and no amount is lost.

use crate::state::map::FastMap;
use omega_core::limits::DEMAND_POINTS_MAX;
use omega_core::{DemandProfile, KindId};
use smallvec::SmallVec;
use std::sync::Arc;

/// Numbers of points to which profiles are expanded. A profile is expanded to the smallest of these numbers that is a
/// multiple of its own number of points. Each number divides the next, so two profiles can be added once the coarser
/// one is expanded.
const GRAINS: [usize; 4] = [24, 48, 96, DEMAND_POINTS_MAX];

/// Number of parts of the day for which bounds are kept. It divides each of the `GRAINS`. With the smallest of these, a
/// part has one point, so the bounds are exact.
pub const DAY_PARTS: usize = 24;

/// An amount for each part of the day.
pub type DayParts = [i64; DAY_PARTS];

/// The demand profile of a task group for one kind.
#[derive(Clone, Debug)]
pub struct Curve {
    kind: KindId,
    /// As many points as one of the `GRAINS`.
    points: Vec<i64>,
    /// Highest point.
    peak: i64,
    /// Lowest point in each part of the day.
    lowest: DayParts,
    /// Highest point in each part of the day.
    highest: DayParts,
}

impl Curve {
    fn of(demand_profile: &DemandProfile) -> Curve {
        let points = grained(&demand_profile.points);
        let lowest = by_parts(&points, |part| part.iter().copied().min());
        let highest = highest(&points);
        Curve { kind: demand_profile.kind, peak: peak(&highest), lowest, highest, points }
    }

    pub fn kind(&self) -> KindId {
        self.kind
    }

    pub fn lowest(&self) -> &DayParts {
        &self.lowest
    }

    pub fn highest(&self) -> &DayParts {
        &self.highest
    }
}

/// The demand profiles of a task group, prepared for addition.
#[derive(Clone, Debug)]
pub struct DemandProfiles {
    /// The group's request; for each kind that has a profile, the profile's lowest point instead.
    least: SmallVec<[i64; 4]>,
    curves: Vec<Curve>,
}

impl DemandProfiles {
    /// Prepares the demand profiles of a group; `None` if the group has none.
    pub(crate) fn of(
        demand_profiles: &[DemandProfile],
        request: &[i64],
    ) -> Option<Arc<DemandProfiles>> {
        if demand_profiles.is_empty() {
            return None;
        }
        let mut least = SmallVec::from_slice(request);
        for demand_profile in demand_profiles {
            let lowest = demand_profile.points.iter().copied().min().unwrap_or(0);
            if let Some(least) = least.get_mut(demand_profile.kind.index()) {
                *least = lowest as i64;
            }
        }
        let curves = demand_profiles.iter().map(Curve::of).collect();
        Some(Arc::new(DemandProfiles { least, curves }))
    }

    /// The least amount of each kind that a task of the group can take on a machine.
    #[must_use]
    pub(crate) fn least(&self) -> &[i64] {
        &self.least
    }

    /// The profile of each kind that has one.
    pub(crate) fn curves(&self) -> &[Curve] {
        &self.curves
    }

    fn curve(&self, kind: KindId) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.kind == kind)
    }

    /// Whether a sum stays within 64 bits when these profiles are added.
    pub(crate) fn can_count(&self, sum: Option<&DemandProfileSum>) -> bool {
        let before = |kind| sum.and_then(|sum| sum.of(kind)).map_or(0, |sum| sum.peak);
        self.curves.iter().all(|curve| before(curve.kind).checked_add(curve.peak).is_some())
    }

    /// The amount of a kind that a task would take on a machine with this sum; `None` if the task's demand for the kind
    /// does not vary.
    pub(crate) fn taken(&self, kind: KindId, sum: Option<&DemandProfileSum>) -> Option<i64> {
        let curve = self.curve(kind)?;
        Some(match sum.and_then(|sum| sum.of(kind)) {
            Some(sum) => peak_of(&sum.points, &curve.points, 1) - sum.peak,
            None => curve.peak,
        })
    }

    /// The amount of a kind that would be free if a task were removed from this sum; `None` if the task's demand for
    /// the kind does not vary.
    pub(crate) fn freed(&self, kind: KindId, sum: Option<&DemandProfileSum>) -> Option<i64> {
        let curve = self.curve(kind)?;
        Some(sum.and_then(|sum| sum.of(kind)).map_or(0, |sum| match sum.tasks {
            1 => sum.peak,
            _ => sum.peak - peak_of(&sum.points, &curve.points, -1),
        }))
    }

    /// Whether a task's profile raises the peak of this sum by at most `free`. If so, the task fits, even if its
    /// constant request exceeds `free`.
    #[inline(never)]
    pub(crate) fn fits(&self, kind: KindId, free: i64, sum: Option<&DemandProfileSum>) -> bool {
        let Some(curve) = self.curve(kind) else { return false };
        let Some(sum) = sum.and_then(|sum| sum.of(kind)) else { return curve.peak <= free };
        let limit = sum.peak + free;
        (0..DAY_PARTS).all(|part| {
            let highest = sum.highest[part];
            highest + curve.highest[part] <= limit
                || highest + curve.lowest[part] <= limit
                    && peak_of(part_of(&sum.points, part), part_of(&curve.points, part), 1) <= limit
        })
    }
}

/// The sum of the demand profiles of one kind.
#[derive(Clone, Debug)]
struct KindSum {
    kind: KindId,
    /// Number of tasks in the sum.
    tasks: u64,
    /// Highest point of the sum.
    peak: i64,
    /// Highest point in each part of the day.
    highest: DayParts,
    points: Vec<i64>,
}

impl KindSum {
    fn new(kind: KindId, tasks: u64, points: Vec<i64>) -> KindSum {
        let highest = highest(&points);
        KindSum { kind, tasks, peak: peak(&highest), highest, points }
    }

    /// Adds the demand profile of a task if `sign` is 1, or subtracts it if `sign` is -1. Returns the change of the
    /// peak.
    fn shift(&mut self, demand_profile: &[i64], sign: i64) -> i64 {
        if self.points.len() < demand_profile.len() {
            self.points = repeated(&self.points, demand_profile.len());
        }
        self.tasks = self.tasks.strict_add_signed(sign);
        let each = self.points.len() / demand_profile.len();
        for (points, amount) in self.points.chunks_exact_mut(each).zip(demand_profile) {
            points.iter_mut().for_each(|point| *point += sign * amount);
        }
        self.highest = highest(&self.points);
        let before = std::mem::replace(&mut self.peak, peak(&self.highest));
        self.peak - before
    }
}

/// Compares two sums at each point of the day, even if they have different numbers of points.
impl PartialEq for KindSum {
    fn eq(&self, other: &KindSum) -> bool {
        let grain = self.points.len().max(other.points.len());
        (self.kind, self.tasks) == (other.kind, other.tasks)
            && repeated(&self.points, grain) == repeated(&other.points, grain)
    }
}

/// The sum of the demand profiles of the tasks on one machine, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DemandProfileSum {
    /// The sums, ascending by kind, of the kinds for which some task's demand varies.
    kinds: SmallVec<[KindSum; 1]>,
}

impl Eq for DemandProfileSum {}

impl DemandProfileSum {
    /// The highest point of each kind.
    pub(crate) fn peaks(&self) -> impl Iterator<Item = (KindId, i64)> {
        self.kinds.iter().map(|sum| (sum.kind, sum.peak))
    }

    /// Builds a sum from the parts in a delta: kinds in ascending order, each with its number of tasks and its points.
    /// `None` if the parts are invalid.
    #[must_use]
    pub fn from_parts(
        parts: impl IntoIterator<Item = (KindId, u64, Vec<i64>)>,
    ) -> Option<DemandProfileSum> {
        let mut sum = DemandProfileSum::default();
        for (kind, tasks, points) in parts {
            let ascends = sum.kinds.last().is_none_or(|last| last.kind < kind);
            if !ascends || tasks == 0 || !GRAINS.contains(&points.len()) {
                return None;
            }
            sum.kinds.push(KindSum::new(kind, tasks, points));
        }
        (!sum.kinds.is_empty()).then_some(sum)
    }

    /// Each kind with its number of tasks and its points.
    pub fn parts(&self) -> impl Iterator<Item = (KindId, u64, &[i64])> {
        self.kinds.iter().map(|sum| (sum.kind, sum.tasks, sum.points.as_slice()))
    }

    /// The kinds that have a sum, each with the gaps: the amount by which the highest point in a part of the day is
    /// below the highest point of the day.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (KindId, DayParts)> {
        self.kinds.iter().map(|sum| (sum.kind, sum.highest.map(|highest| sum.peak - highest)))
    }

    fn of(&self, kind: KindId) -> Option<&KindSum> {
        self.kinds.iter().find(|sum| sum.kind == kind)
    }

    /// Adds the demand profiles of a task if `sign` is 1, or subtracts them if it is -1. Returns the change of each
    /// kind's peak.
    fn shift(
        &mut self,
        demand_profiles: &DemandProfiles,
        sign: i64,
        mut rises: impl FnMut(KindId, i64),
    ) {
        for curve in &demand_profiles.curves {
            let at = self.kinds.partition_point(|sum| sum.kind < curve.kind);
            if self.kinds.get(at).is_none_or(|sum| sum.kind != curve.kind) {
                self.kinds.insert(at, KindSum::new(curve.kind, 0, vec![0; curve.points.len()]));
            }
            rises(curve.kind, self.kinds[at].shift(&curve.points, sign));
            if self.kinds[at].tasks == 0 {
                self.kinds.remove(at);
            }
        }
    }

    /// Whether this sum is below `than` at some point of the day. If so, a task that did not fit with `than` may fit
    /// now.
    pub(crate) fn is_lower_somewhere(&self, than: &DemandProfileSum) -> bool {
        than.kinds.iter().any(|before| {
            let Some(now) = self.of(before.kind) else { return true };
            let grain = now.points.len().max(before.points.len());
            let (now, before) = (repeated(&now.points, grain), repeated(&before.points, grain));
            now.iter().zip(&before).any(|(now, before)| now < before)
        })
    }
}

/// The sums of all machines whose tasks have demand profiles, by row.
#[derive(Clone, Debug, Default)]
pub struct DemandProfileSums(FastMap<u32, Arc<DemandProfileSum>>);

impl DemandProfileSums {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, row: usize) -> Option<&Arc<DemandProfileSum>> {
        if self.0.is_empty() { None } else { self.0.get(&(row as u32)) }
    }

    pub fn set(&mut self, row: u32, sum: Arc<DemandProfileSum>) {
        self.0.insert(row, sum);
    }

    pub fn remove(&mut self, row: u32) -> Option<Arc<DemandProfileSum>> {
        if self.0.is_empty() { None } else { self.0.remove(&row) }
    }

    /// Adds the demand profiles of a task to a machine's sum if `sign` is 1, or subtracts them if it is -1. Returns the
    /// amount of each kind that the task takes or frees.
    pub fn shift(
        &mut self,
        row: usize,
        request: &[i64],
        demand_profiles: &DemandProfiles,
        sign: i64,
    ) -> SmallVec<[i64; 4]> {
        let mut amounts: SmallVec<[i64; 4]> = SmallVec::from_slice(request);
        let sum = Arc::make_mut(self.0.entry(row as u32).or_default());
        sum.shift(demand_profiles, sign, |kind, rise| {
            if let Some(amount) = amounts.get_mut(kind.index()) {
                *amount = sign * rise;
            }
        });
        if sum.kinds.is_empty() {
            self.0.remove(&(row as u32));
        }
        amounts
    }
}

/// A demand profile, expanded to the smallest suitable number of points.
fn grained(points: &[u64]) -> Vec<i64> {
    let points: Vec<i64> = points.iter().map(|point| *point as i64).collect();
    let grain = GRAINS.into_iter().find(|grain| grain.is_multiple_of(points.len().max(1)));
    repeated(&points, grain.unwrap_or(DEMAND_POINTS_MAX))
}

/// A demand profile, expanded to `grain` points, which must be a multiple of its own number of points.
fn repeated(points: &[i64], grain: usize) -> Vec<i64> {
    let each = grain / points.len().max(1);
    points.iter().flat_map(|point| std::iter::repeat_n(*point, each)).collect()
}

/// The result of `pick` for the points in each part of the day; zero if a part has no points.
fn by_parts(points: &[i64], pick: impl Fn(&[i64]) -> Option<i64>) -> DayParts {
    std::array::from_fn(|part| pick(part_of(points, part)).unwrap_or(0))
}

/// The points in a part of the day.
fn part_of(points: &[i64], part: usize) -> &[i64] {
    let each = points.len() / DAY_PARTS;
    &points[part * each..][..each]
}

/// The highest point in each part of the day.
fn highest(points: &[i64]) -> DayParts {
    by_parts(points, |part| part.iter().copied().max())
}

fn peak(points: &[i64]) -> i64 {
    points.iter().copied().max().unwrap_or(0)
}

/// The highest point of a sum after a demand profile is added if `sign` is 1, or subtracted if it is -1.
fn peak_of(sum: &[i64], demand_profile: &[i64], sign: i64) -> i64 {
    if sum.len() < demand_profile.len() {
        let each = demand_profile.len() / sum.len();
        let most = |points: &[i64]| points.iter().map(|point| sign * point).max().unwrap_or(0);
        let points =
            demand_profile.chunks_exact(each).zip(sum).map(|(points, sum)| sum + most(points));
        return points.max().unwrap_or(0);
    }
    if sum.len() == demand_profile.len() {
        return sum
            .iter()
            .zip(demand_profile)
            .map(|(sum, point)| sum + sign * point)
            .max()
            .unwrap_or(0);
    }
    let each = sum.len() / demand_profile.len();
    let points =
        sum.chunks_exact(each).zip(demand_profile).map(|(sum, point)| peak(sum) + sign * point);
    points.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CPU: KindId = KindId::CPU;

    /// The demand of a profile at each of 288 points.
    fn naive(points: &[u64]) -> Vec<i64> {
        (0..288).map(|at| points[at * points.len() / 288] as i64).collect()
    }

    fn demand_profile() -> impl Strategy<Value = Vec<u64>> {
        let lengths = prop::sample::select(vec![1usize, 2, 3, 9, 16, 24, 32, 36, 48, 96, 144, 288]);
        lengths.prop_flat_map(|points| prop::collection::vec(0u64..9, points))
    }

    fn compiled(points: &[u64]) -> Arc<DemandProfiles> {
        let demand_profile = DemandProfile { kind: CPU, points: points.to_vec() };
        DemandProfiles::of(std::slice::from_ref(&demand_profile), &[demand_profile.peak() as i64])
            .expect("it varies")
    }

    proptest! {
        /// Compares random additions and removals with a naive sum of 288 points: the amounts taken and freed, and
        /// whether each profile fits. At the end the sum must be zero.
        #[test]
        fn sums_are_those_of_the_naive_reference(
            demand_profiles in prop::collection::vec(demand_profile(), 1..8),
            order in prop::collection::vec((any::<prop::sample::Index>(), 0i64..30), 1..30),
        ) {
            let mut sums = DemandProfileSums::default();
            let mut reference = vec![0i64; 288];
            let mut on = vec![0; demand_profiles.len()];
            let most = |reference: &[i64]| reference.iter().copied().max().unwrap_or(0);
            for (which, free) in order {
                let index = which.index(demand_profiles.len());
                let (one, plain) = (compiled(&demand_profiles[index]), naive(&demand_profiles[index]));
                let request = one.taken(CPU, None).unwrap();
                let sum = |sign: i64| -> Vec<i64> {
                    reference.iter().zip(&plain).map(|(sum, point)| sum + sign * point).collect()
                };
                let with = sum(1);
                let rise = most(&with) - most(&reference);
                let here = sums.get(3).map(|sum| &**sum);
                prop_assert_eq!(one.taken(CPU, here), Some(rise));
                prop_assert_eq!(one.fits(CPU, free, here), rise <= free);
                prop_assert!(one.least()[0] <= rise && rise <= request);
                let goes = on[index] > 0 && free % 2 == 0;
                let after = if goes { sum(-1) } else { with };
                let moved = (most(&after) - most(&reference)).abs();
                if goes {
                    prop_assert_eq!(one.freed(CPU, here), Some(moved));
                }
                let before = sums.get(3).cloned().unwrap_or_default();
                let lower = after.iter().zip(&reference).any(|(now, before)| now < before);
                let sign = if goes { -1 } else { 1 };
                on[index] += sign;
                prop_assert_eq!(sums.shift(3, &[request], &one, sign)[0], moved);
                let now = sums.get(3).cloned().unwrap_or_default();
                // The sum is removed with its last task. A removed sum counts as lower, even if the demand of this task
                // was zero.
                let gone = now.kinds.is_empty() && goes;
                prop_assert_eq!(now.is_lower_somewhere(&before), lower || gone);
                reference = after;
            }
            for (index, count) in on.into_iter().enumerate() {
                let one = compiled(&demand_profiles[index]);
                (0..count).for_each(|_| drop(sums.shift(3, &[0], &one, -1)));
            }
            prop_assert!(sums.is_empty());
        }
    }

    #[test]
    fn sums_are_equal_however_finely_they_are_cut() {
        let (coarse, fine) = (compiled(&[3, 1]), compiled(&[2; 288]));
        let [mut one, mut other] = [DemandProfileSums::default(), DemandProfileSums::default()];
        one.shift(0, &[3], &coarse, 1);
        other.shift(0, &[2], &fine, 1);
        other.shift(0, &[3], &coarse, 1);
        assert_ne!(one.get(0), other.get(0));
        other.shift(0, &[2], &fine, -1);
        assert_eq!(one.get(0), other.get(0));
        assert_eq!(other.get(0).unwrap().parts().next().unwrap().2.len(), 288);
    }

    #[test]
    fn what_cannot_be_a_sum_is_none() {
        let kind = KindId::MEMORY;
        assert!(
            DemandProfileSum::from_parts([(CPU, 1, vec![1; 24]), (kind, 2, vec![1; 288])])
                .is_some()
        );
        assert!(DemandProfileSum::from_parts([]).is_none());
        assert!(DemandProfileSum::from_parts([(CPU, 1, vec![1; 25])]).is_none());
        assert!(DemandProfileSum::from_parts([(CPU, 0, vec![1; 24])]).is_none());
        assert!(DemandProfileSum::from_parts([(CPU, 1, vec![]), (CPU, 1, vec![1; 24])]).is_none());
        assert!(
            DemandProfileSum::from_parts([(kind, 1, vec![1; 24]), (CPU, 1, vec![1; 24])]).is_none()
        );
    }
}
