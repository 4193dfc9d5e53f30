//! Measured load of machines: a score and a filter that use load reports.
//!
//! Claims bound the use of tasks, and usually overestimate it. A fresh load report is a better estimate, and an old
//! report is a worse estimate than the claims. So the estimated use is a weighted mean of report and claims, and the
//! weight of a report halves with each half-life:
//!
//! ```text
//!   in use = w * (reported + claimed since the report) + (1 - w) * claimed        w = 2^(-age / half-life)
//! ```
//!
//! Claims since the report are added to the reported use, because the report does not contain them. Otherwise all
//! schedulers would choose the machine that last reported to be idle. For a machine without a report, the claims are
//! the estimate.
//!
//! All numbers are integers: weights are in 1024ths, and amounts are below 2^52, so no product overflows. Loops over
//! the machines of a block are compiled to vector instructions, so they contain no integer division and no branch.

use crate::framework::plugin::{Filter, Reads, Score, Tasks, lanes};
use crate::plugins::kube::normalize::POINT;
use crate::plugins::usage::{percent, quotient};
use omega_cellstate::{BLOCK, Block, BlockLoad, FEW, NEVER, View};
use omega_core::{JobKind, KindId};
use pulp::Arch;

/// The weight of a new report. The value has enough steps for a smooth decay, and so few bits that the product with an
/// amount does not overflow.
const WHOLE: i64 = 1 << WHOLE_BITS;
const WHOLE_BITS: u32 = 10;

/// Number of steps in which a weight halves.
const STEPS: i64 = 16;

/// 1024 * 2^(-i / 16), rounded: the weights within the first half-life.
const FIRST: [i64; STEPS as usize] =
    [1024, 981, 939, 899, 861, 825, 790, 756, 724, 693, 664, 636, 609, 583, 558, 535];

/// Number of half-lives after which a report has the weight 0.
const HALVINGS: i64 = 11;

/// The weights by age in steps. Entries after the last half-life are 0, so that any eight bits are an index.
const WEIGHTS: [i64; 256] = {
    let mut weights = [0; 256];
    let mut step = 0;
    while step < (STEPS * HALVINGS) as usize {
        weights[step] = FIRST[step % STEPS as usize] >> (step / STEPS as usize);
        step += 1;
    }
    weights
};

/// Maximum amount. Larger amounts count as this maximum, like capacities in a view.
const AMOUNT_MAX: i64 = (1 << 52) - 1;

/// Half-life of load reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfLife {
    ms: u64,
}

impl HalfLife {
    /// A half-life in seconds; 0 counts as 1 second.
    #[must_use]
    pub fn seconds(seconds: u32) -> HalfLife {
        HalfLife { ms: u64::from(seconds.max(1)) * 1000 }
    }

    /// Weight of a report of this age, in 1024ths.
    #[must_use]
    pub fn weight(self, age_ms: u64) -> i64 {
        WEIGHTS[self.steps(age_ms)]
    }

    /// The age in steps, at most the age from which the weight is 0.
    #[inline(always)]
    fn steps(self, age_ms: u64) -> usize {
        let half_life = self.ms as i64;
        let age = age_ms.min((HALVINGS * half_life) as u64) as i64;
        (quotient(STEPS * age, half_life) & 0xff) as usize
    }
}

/// A computation for each machine of a block.
trait EachLane {
    fn at(&mut self, lane: usize);
}

/// A computation for all machines of a block, with vector instructions.
struct All<T>(T);

impl<T: EachLane> pulp::NullaryFnOnce for All<T> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        (0..BLOCK).for_each(|lane| self.0.at(lane));
    }
}

/// Computes the machines in `among`. The results of other machines are unspecified.
fn compute(mut work: impl EachLane, among: u64) {
    if among.count_ones() <= FEW {
        lanes(among).for_each(|lane| work.at(lane));
    } else {
        Arch::new().dispatch(All(work));
    }
}

/// Computes the weights of load reports; 0 for machines without a report.
struct Weights<'a> {
    half_life: HalfLife,
    now_ms: u64,
    at_ms: &'a [u64; BLOCK],
    weights: &'a mut [i64; BLOCK],
}

impl EachLane for Weights<'_> {
    #[inline(always)]
    fn at(&mut self, lane: usize) {
        let at = self.at_ms[lane];
        let age = if at == NEVER { u64::MAX } else { self.now_ms.saturating_sub(at) };
        self.weights[lane] = WEIGHTS[self.half_life.steps(age)];
    }
}

/// The values from which the use of one kind on the machines of a block is estimated.
#[derive(Clone, Copy)]
struct InUse<'a> {
    weights: &'a [i64; BLOCK],
    load: BlockLoad<'a>,
    claimable: &'a [i64; BLOCK],
    free: &'a [i64; BLOCK],
}

impl<'a> InUse<'a> {
    /// The values of a kind; `None` if the view keeps no loads.
    fn of(kind: KindId, block: Block<'a>, weights: &'a [i64; BLOCK]) -> Option<InUse<'a>> {
        let (load, claimable) = (block.load(kind)?, block.capacity(kind)?);
        Some(InUse { weights, load, claimable, free: block.free(kind) })
    }

    /// The estimated use of the machine in a lane.
    #[inline(always)]
    fn used(&self, lane: usize) -> i64 {
        let InUse { weights, load, claimable, free } = self;
        let claimed = claimable[lane].saturating_sub(free[lane]).clamp(0, AMOUNT_MAX);
        let since = (claimed - load.claimed[lane]).max(0);
        let reported = (load.used[lane] + since).min(AMOUNT_MAX);
        (weights[lane] * reported + (WHOLE - weights[lane]) * claimed) >> WHOLE_BITS
    }

    #[inline(always)]
    fn capacity(&self, lane: usize) -> i64 {
        self.load.capacity[lane]
    }
}

/// The weights of the reports of the machines in `among`; `None` if the view keeps no loads of the kind.
fn weights(
    half_life: HalfLife,
    kind: KindId,
    block: Block<'_>,
    among: u64,
) -> Option<[i64; BLOCK]> {
    let (now_ms, at_ms) = (block.view().now_ms(), block.load(kind)?.at_ms);
    let mut weights = [0; BLOCK];
    compute(Weights { half_life, now_ms, at_ms, weights: &mut weights }, among);
    Some(weights)
}

fn keep(kinds: impl Iterator<Item = KindId>, view: &mut View) {
    for kind in kinds {
        view.keep_capacity(kind);
        view.keep_load(kind);
    }
}

fn request(tasks: &Tasks<'_>, kind: KindId) -> i64 {
    tasks.need.request.get(kind.index()).copied().unwrap_or(0)
}

/// Inputs of both plugins. Time is an input, because the weight of a report depends on its age.
fn reads() -> Reads {
    Reads::AMOUNTS | Reads::LOAD | Reads::DESCRIPTION | Reads::TIME
}

/// Score: prefers machines with lower use, as estimated from load reports. See the head of the file.
#[derive(Clone, Debug)]
pub struct LoadAware {
    half_life: HalfLife,
    kinds: Vec<(KindId, u32)>,
}

impl LoadAware {
    /// Creates the score with a weight for each kind that counts.
    #[must_use]
    pub fn new(half_life: HalfLife, kinds: &[(KindId, u32)]) -> LoadAware {
        LoadAware { half_life, kinds: kinds.to_vec() }
    }
}

impl Score for LoadAware {
    fn name(&self) -> &'static str {
        "load_aware"
    }

    fn reads(&self) -> Reads {
        reads()
    }

    fn keep(&self, view: &mut View) {
        keep(self.kinds.iter().map(|(kind, _)| *kind), view);
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let Some((first, _)) = self.kinds.first() else { return };
        let weights = weights(self.half_life, *first, block, among);
        debug_assert!(weights.is_some(), "the profile was prepared for the view");
        let Some(weights) = weights else { return };
        let mut sums = [0i64; BLOCK];
        for (kind, weight) in &self.kinds {
            let Some(of) = InUse::of(*kind, block, &weights) else { continue };
            let (request, weight) = (request(tasks, *kind), i64::from(*weight));
            compute(AddLeft { of, request, weight, sums: &mut sums }, among);
        }
        let whole: i64 = self.kinds.iter().map(|(_, weight)| i64::from(*weight)).sum();
        compute(Average { sums: &sums, whole: whole.max(1), scores }, among);
    }
}

/// Adds the percentage that is left of one kind, with a weight, to the sums of a block.
struct AddLeft<'a> {
    of: InUse<'a>,
    request: i64,
    weight: i64,
    sums: &'a mut [i64; BLOCK],
}

impl EachLane for AddLeft<'_> {
    #[inline(always)]
    fn at(&mut self, lane: usize) {
        let capacity = self.of.capacity(lane);
        let left = (capacity - self.of.used(lane) - self.request).max(0).min(capacity);
        // If the capacity is 0, nothing is left, so the divisor does not matter.
        self.sums[lane] += self.weight * percent(left, capacity.max(1));
    }
}

/// Writes the weighted means of a block as scores.
struct Average<'a> {
    sums: &'a [i64; BLOCK],
    whole: i64,
    scores: &'a mut [i32; BLOCK],
}

impl EachLane for Average<'_> {
    #[inline(always)]
    fn at(&mut self, lane: usize) {
        self.scores[lane] = quotient(self.sums[lane] * i64::from(POINT), self.whole) as i32;
    }
}

/// Limit on the estimated use of one resource kind on a machine, including the task to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The resource kind.
    pub kind: KindId,
    /// Limit for tasks of services, in percent.
    pub service_percent: u32,
    /// Limit for tasks of batch jobs, in percent.
    pub batch_percent: u32,
}

/// Filter: with the task, the machine's estimated use stays within a limit. Services and batch jobs have different
/// limits. See the head of the file.
///
/// So a machine with low use accepts more tasks, up to the overcommit that the cell allows, and a busy machine accepts
/// fewer. The cell does not check this limit.
#[derive(Clone, Debug)]
pub struct LoadLimit {
    half_life: HalfLife,
    limits: Vec<Limit>,
}

impl LoadLimit {
    /// Creates the filter with a limit for each kind that counts.
    #[must_use]
    pub fn new(half_life: HalfLife, limits: &[Limit]) -> LoadLimit {
        LoadLimit { half_life, limits: limits.to_vec() }
    }

    /// For each limited kind of which the tasks request some: the kind, the request, and the limit in percent.
    fn asked<'a>(&'a self, tasks: &'a Tasks<'_>) -> impl Iterator<Item = (KindId, i64, i64)> + 'a {
        self.limits.iter().filter_map(|limit| {
            let request = request(tasks, limit.kind);
            let percent = match tasks.job.kind {
                JobKind::Service => limit.service_percent,
                JobKind::Batch => limit.batch_percent,
            };
            (request > 0).then_some((limit.kind, request, i64::from(percent)))
        })
    }
}

impl Filter for LoadLimit {
    fn name(&self) -> &'static str {
        "load_limit"
    }

    fn reads(&self) -> Reads {
        reads()
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        self.asked(tasks).next().is_some()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let Some((first, ..)) = self.asked(tasks).next() else { return among };
        let weights = weights(self.half_life, first, block, among);
        debug_assert!(weights.is_some(), "the profile was prepared for the view");
        let Some(weights) = weights else { return among };
        self.asked(tasks).fold(among, |left, (kind, request, percent)| {
            let Some(of) = InUse::of(kind, block, &weights) else { return left };
            let mut word = 0;
            compute(Within { of, request, percent, word: &mut word }, left);
            left & word
        })
    }

    fn why(&self, tasks: &Tasks<'_>, row: usize) -> Option<String> {
        let (block, lane) = (tasks.view.block(row / BLOCK), row % BLOCK);
        let kinds = tasks.view.kinds();
        let too_full = |(kind, request, percent): (KindId, i64, i64)| {
            let weights = weights(self.half_life, kind, block, 1 << lane)?;
            let of = InUse::of(kind, block, &weights)?;
            let (used, capacity) = (of.used(lane), of.capacity(lane));
            let name = &kinds.get(kind)?.name;
            (100 * (used + request) > percent * capacity).then(|| {
                let (used, of) =
                    (kinds.display(kind, used as u64), kinds.display(kind, capacity as u64));
                format!(
                    "about {used} of {of} {name} is in use, and with the task it may be at most \
                     {percent} %"
                )
            })
        };
        self.asked(tasks).find_map(too_full)
    }

    fn keep(&self, view: &mut View) {
        keep(self.limits.iter().map(|limit| limit.kind), view);
    }
}

/// Finds the machines whose use stays within a limit in percent, as bits of a word.
struct Within<'a> {
    of: InUse<'a>,
    request: i64,
    percent: i64,
    word: &'a mut u64,
}

impl EachLane for Within<'_> {
    #[inline(always)]
    fn at(&mut self, lane: usize) {
        let Within { of, request, percent, word } = self;
        let fits = 100 * (of.used(lane) + *request) <= *percent * of.capacity(lane);
        **word |= u64::from(fits) << lane;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_halves_with_each_half_life_and_never_rises() {
        let minute = HalfLife::seconds(60);
        let weights = [0, 60_000, 120_000, 600_000, 660_000, u64::MAX];
        assert_eq!(weights.map(|age| minute.weight(age)), [1024, 512, 256, 1, 0, 0]);
        let all: Vec<i64> = (0..700_000).step_by(37).map(|age| minute.weight(age)).collect();
        assert!(all.is_sorted_by(|a, b| a >= b));
        for (step, weight) in FIRST.iter().enumerate() {
            let exact = 1024.0 * 0.5f64.powf(step as f64 / 16.0);
            assert_eq!(*weight, exact.round() as i64);
        }
    }
}
