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
//! All numbers are integers: weights are in 1024ths, and amounts are below 2^52, so no product overflows.

use crate::framework::plugin::{Filter, Reads, Score, Tasks, lanes};
use crate::plugins::kube::normalize::POINT;
use crate::plugins::usage::percent;
use omega_cellstate::{BLOCK, Block, FEW, NEVER, View};
use omega_core::{JobKind, KindId};

/// The weight of a new report. The value has enough steps for a smooth decay, and so few bits that the product with an
/// amount does not overflow.
const WHOLE: i64 = 1024;

/// 1024 * 2^(-i / 16), rounded: the weights within the first half-life.
const WEIGHTS: [i64; 16] =
    [1024, 981, 939, 899, 861, 825, 790, 756, 724, 693, 664, 636, 609, 583, 558, 535];

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
        match age_ms / self.ms {
            halvings @ 0..=10 => WEIGHTS[(age_ms % self.ms * 16 / self.ms) as usize] >> halvings,
            _ => 0,
        }
    }

    /// Weights of the load reports of some machines of a block. If all reports have the same time, the weight is
    /// computed only once.
    fn weights(self, now_ms: u64, at_ms: &[u64; BLOCK], among: u64) -> [i64; BLOCK] {
        let mut weights = [0; BLOCK];
        let (mut last, mut weight) = (NEVER, 0);
        let mut set = |lane: usize, at: u64| {
            if at != last {
                last = at;
                weight = if at == NEVER { 0 } else { self.weight(now_ms.saturating_sub(at)) };
            }
            weights[lane] = weight;
        };
        if among.count_ones() <= FEW {
            lanes(among).for_each(|lane| set(lane, at_ms[lane]))
        } else {
            at_ms.iter().enumerate().for_each(|(lane, at)| set(lane, *at))
        }
        weights
    }
}

/// Use of one kind on the machines of a block, and their capacity.
struct InUse<'a> {
    used: [i64; BLOCK],
    capacity: &'a [i64; BLOCK],
}

/// Estimated use of the machines in `among`; entries of other machines are ignored. `None` if the view keeps no loads.
fn in_use(half_life: HalfLife, kind: KindId, block: Block<'_>, among: u64) -> Option<InUse<'_>> {
    let (load, claimable) = (block.load(kind)?, block.capacity(kind)?);
    let free = block.free(kind);
    let weights = half_life.weights(block.view().now_ms(), load.at_ms, among);
    let mut used = [0; BLOCK];
    for lane in 0..BLOCK {
        let claimed = claimable[lane].saturating_sub(free[lane]).clamp(0, AMOUNT_MAX);
        let since = (claimed - load.claimed[lane]).max(0);
        let reported = (load.used[lane] + since).min(AMOUNT_MAX);
        let weight = weights[lane];
        used[lane] = (weight * reported + (WHOLE - weight) * claimed) / WHOLE;
    }
    Some(InUse { used, capacity: load.capacity })
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
        let mut sums = [0i64; BLOCK];
        for (kind, weight) in &self.kinds {
            let of = in_use(self.half_life, *kind, block, among);
            debug_assert!(of.is_some(), "the profile was prepared for the view");
            let Some(InUse { used, capacity }) = of else { continue };
            let request = request(tasks, *kind);
            for lane in 0..BLOCK {
                let left = (capacity[lane] - used[lane] - request).max(0).min(capacity[lane]);
                // If the capacity is 0, nothing is left, so the divisor does not matter.
                let percent = percent(left, capacity[lane].max(1));
                sums[lane] += i64::from(*weight) * percent;
            }
        }
        let whole: i64 = self.kinds.iter().map(|(_, weight)| i64::from(*weight)).sum();
        for lane in lanes(among) {
            scores[lane] = (sums[lane] * i64::from(POINT) / whole.max(1)) as i32;
        }
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
        let mut left = among;
        for (kind, request, percent) in self.asked(tasks) {
            let of = in_use(self.half_life, kind, block, left);
            debug_assert!(of.is_some(), "the profile was prepared for the view");
            let Some(InUse { used, capacity }) = of else { continue };
            let mut word = 0u64;
            for lane in 0..BLOCK {
                let fits = 100 * (used[lane] + request) <= percent * capacity[lane];
                word |= u64::from(fits) << lane;
            }
            left &= word;
        }
        left
    }

    fn why(&self, tasks: &Tasks<'_>, row: usize) -> Option<String> {
        let (block, lane) = (tasks.view.block(row / BLOCK), row % BLOCK);
        let kinds = tasks.view.kinds();
        let told = |(kind, request, percent): (KindId, i64, i64)| {
            let InUse { used, capacity } = in_use(self.half_life, kind, block, 1 << lane)?;
            let (used, capacity) = (used[lane], capacity[lane]);
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
        self.asked(tasks).find_map(told)
    }

    fn keep(&self, view: &mut View) {
        keep(self.limits.iter().map(|limit| limit.kind), view);
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
        for (step, weight) in WEIGHTS.iter().enumerate() {
            let exact = 1024.0 * 0.5f64.powf(step as f64 / 16.0);
            assert_eq!(*weight, exact.round() as i64);
        }
    }
}
