//! Profiles: the plugins of a scheduler, and the weight of each score.

use crate::backfill::Backfill;
use crate::chain::Chain;
use crate::delay::Delay;
use crate::meter::{Meter, Work};
use crate::plugin::{Filter, Judged, Reads, Score, Tasks};
use crate::plugins::{
    AvoidMarked, Balanced, BalancedAllocation, CellWide, DefaultPreemption, FitArgs, ImageLocality,
    InterPodAffinity, LeastAllocated, MachineAffinity, MostAllocated, NodeAffinity, NodeName,
    NodePorts, NodeResourcesFit, NodeUnschedulable, PackedDevices, PeakHours, PodTopologySpread,
    PreferredAffinity, Reservations, ResourcesFit, Schedulable, SpreadWishes, TaintToleration,
    Taints, TaskLimits, TaskRules, TasksPerMachine, WithinQuota,
};
use crate::relative::{RelativeScore, Stance};
#[cfg(feature = "profiles")]
use crate::volumes::Volumes;
use omega_cellstate::{BLOCK, Block, View};
use omega_core::Kinds;
use pulp::Arch;
use smallvec::SmallVec;
use std::sync::Arc;

/// Filters in order, and scores with weights.
///
/// Invariant: the filters cover the cell's check, so that a scheduler proposes only claims that the cell accepts,
/// unless the cell has changed meanwhile.
pub struct Profile {
    filters: Vec<Box<dyn Filter>>,
    scores: Vec<(Box<dyn Score>, i32)>,
    relative: Vec<(Box<dyn RelativeScore>, i32)>,
    /// The plugins before and after the decision.
    pub(crate) chain: Chain,
    /// Volumes for the volume plugins that a profile file adds.
    #[cfg(feature = "profiles")]
    pub(crate) volumes: Volumes,
    /// Time for which jobs wait for machines that they prefer.
    pub(crate) delay: Option<Delay>,
    /// Backfill plans for jobs that find no room.
    pub(crate) backfill: Option<Backfill>,
    /// Meter of filters and scores, if any.
    meter: Option<Arc<dyn Meter>>,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let filters: Vec<_> = self.filters.iter().map(|filter| filter.name()).collect();
        let scores = self.scores.iter().map(|(score, w)| (score.name(), w));
        let relative = self.relative.iter().map(|(score, w)| (score.name(), w));
        let scores: Vec<_> = scores.chain(relative).collect();
        f.debug_struct("Profile")
            .field("filters", &filters)
            .field("scores", &scores)
            .field("points", &self.chain.names())
            .finish()
    }
}

/// Returns the cell's own filters, the cheapest first. If `judged` covers some rules about other tasks, each family of
/// these rules has its own filter, so that the caller can leave out the covered ones; otherwise one filter checks all
/// of the rules.
fn own_filters(judged: Judged) -> Vec<Box<dyn Filter>> {
    let mut own: Vec<Box<dyn Filter>> = vec![
        Box::new(CellWide),
        Box::new(WithinQuota),
        Box::new(Schedulable),
        Box::new(NodeName),
        Box::new(MachineAffinity),
        Box::new(Taints),
        Box::new(Reservations),
        Box::new(PeakHours),
        Box::new(TasksPerMachine),
        Box::new(ResourcesFit),
    ];
    if judged.overlaps(Judged::RULES) {
        own.push(Box::new(NodePorts));
        own.push(Box::new(PodTopologySpread));
        own.push(Box::new(InterPodAffinity::default()));
        own.push(Box::new(TaskLimits));
    } else {
        own.push(Box::new(TaskRules));
    }
    own
}

impl Profile {
    /// A profile with the cell's own filters, the cheapest first, and without scores, so all feasible machines are
    /// equally good.
    #[must_use]
    pub fn first_fit() -> Profile {
        Profile::of_filters(Vec::new())
    }

    /// A profile without scores: these filters in this order, then the cell's own filters for the parts of the cell's
    /// check that the given filters do not cover.
    #[must_use]
    pub fn of_filters(mut filters: Vec<Box<dyn Filter>>) -> Profile {
        let judged = filters.iter().map(|filter| filter.judges());
        let judged = judged.fold(Judged::NOTHING, |all, part| all | part);
        let missing = own_filters(judged).into_iter();
        filters.extend(missing.filter(|filter| !judged.includes(filter.judges())));
        let (scores, relative) = Default::default();
        let (delay, backfill, meter) = Default::default();
        Profile {
            filters,
            scores,
            relative,
            chain: Chain::default(),
            #[cfg(feature = "profiles")]
            volumes: Volumes::default(),
            delay,
            backfill,
            meter,
        }
    }

    /// The profile for services. Scores prefer machines with many free resources and a balanced use of the resource
    /// kinds, and count all preferences of the tasks.
    #[must_use]
    pub fn service() -> Profile {
        Profile::first_fit()
            .with_score(LeastAllocated::default(), 1)
            .with_score(Balanced, 1)
            .with_score(PackedDevices, 4)
            .with_score(PreferredAffinity, 2)
            .with_score(SpreadWishes, 2)
            .with_score(AvoidMarked, 3)
    }

    /// The profile for batch jobs. Scores prefer full machines, so that large tasks find room on other machines, and
    /// count all preferences of the tasks.
    #[must_use]
    pub fn batch() -> Profile {
        Profile::first_fit()
            .with_score(MostAllocated::default(), 1)
            .with_score(PackedDevices, 4)
            .with_score(PreferredAffinity, 2)
            .with_score(SpreadWishes, 2)
            .with_score(AvoidMarked, 3)
    }

    /// The default profile of Kubernetes' scheduler for a cell with these resource kinds: the same filters in the same
    /// order, the same scores with the same weights, and the same results. For a task that finds no machine, tasks of
    /// lower precedence are evicted, so the view of a scheduler with this profile keeps placements.
    ///
    /// Amounts are those of Kubernetes if `cpu` is in thousandths, `memory` in bytes, and a kind `pods` counts tasks.
    /// The kinds `cpu (nominal)` and `memory (nominal)`, if present, are the nominal requests for scores.
    ///
    /// The profile does not include volumes, which [`Profile::with_volumes`] adds, nor Kubernetes' default spread of
    /// services.
    #[must_use]
    pub fn kube(kinds: &Kinds) -> Profile {
        let fit = NodeResourcesFit::new(&FitArgs::default(), kinds);
        Profile::of_filters(vec![
            Box::new(NodeUnschedulable::default()),
            Box::new(NodeName),
            Box::new(TaintToleration),
            Box::new(NodeAffinity::default()),
            Box::new(NodePorts),
            Box::new(fit.clone()),
            Box::new(PodTopologySpread),
            Box::new(InterPodAffinity::default()),
        ])
        .with_relative(TaintToleration, 3)
        .with_relative(NodeAffinity::default(), 2)
        .with_relative(PodTopologySpread, 2)
        .with_relative(InterPodAffinity::default(), 2)
        .with_score(fit, 1)
        .with_score(BalancedAllocation::new(&["cpu", "memory"], kinds), 1)
        .with_score(ImageLocality, 1)
        .with_post_filter(DefaultPreemption::default())
    }

    /// Returns `self` with one more filter, called after the others.
    #[must_use]
    pub fn with_filter(mut self, filter: impl Filter + 'static) -> Profile {
        self.filters.push(Box::new(filter));
        self
    }

    /// Returns `self` with one more score, which is multiplied by `weight`.
    #[must_use]
    pub fn with_score(mut self, score: impl Score + 'static, weight: i32) -> Profile {
        self.scores.push((Box::new(score), weight));
        self
    }

    /// Returns `self` with one more relative score, weighted like other scores.
    #[must_use]
    pub fn with_relative(mut self, score: impl RelativeScore + 'static, weight: i32) -> Profile {
        self.relative.push((Box::new(score), weight));
        self
    }

    /// Returns `self` without the scores of this name, relative or not.
    #[must_use]
    pub fn without_score(mut self, name: &str) -> Profile {
        self.scores.retain(|(score, _)| score.name() != name);
        self.relative.retain(|(score, _)| score.name() != name);
        self
    }

    /// Returns `self` with this filter. It replaces the filter with the same name; if there is none, it is called after
    /// the others. The cell's own filters remain for the parts of the cell's check that the new filter does not cover.
    #[must_use]
    pub fn with_filter_replaced(mut self, filter: impl Filter + 'static) -> Profile {
        match self.filters.iter().position(|known| known.name() == filter.name()) {
            Some(place) => self.filters[place] = Box::new(filter),
            None => self.filters.push(Box::new(filter)),
        }
        Profile { filters: Profile::of_filters(self.filters).filters, ..self }
    }

    /// Returns `self` with a meter of its filters and scores.
    #[must_use]
    pub fn with_meter(mut self, meter: Arc<dyn Meter>) -> Profile {
        self.meter = Some(meter);
        self
    }

    /// The names of all scores, relative or not, with their weights.
    pub fn weights(&self) -> impl Iterator<Item = (&'static str, i32)> {
        let scores = self.scores.iter().map(|(score, weight)| (score.name(), *weight));
        scores.chain(self.relative.iter().map(|(score, weight)| (score.name(), *weight)))
    }

    /// The filters in order.
    pub fn filters(&self) -> impl Iterator<Item = &dyn Filter> {
        self.filters.iter().map(|filter| &**filter)
    }

    /// The scores of single machines, with their weights, in order.
    pub fn scores(&self) -> impl Iterator<Item = (&dyn Score, i32)> {
        self.scores.iter().map(|(score, weight)| (&**score, *weight))
    }

    /// The scores that compare machines, with their weights, in order.
    pub fn relative_scores(&self) -> impl Iterator<Item = (&dyn RelativeScore, i32)> {
        self.relative.iter().map(|(score, weight)| (&**score, *weight))
    }

    /// Whether the result of any filter depends on one of these inputs.
    #[must_use]
    pub fn filters_read(&self, facts: Reads) -> bool {
        self.filters.iter().any(|filter| filter.reads().includes(facts))
    }

    /// Enables the columns of the view that the plugins read, for the view's resource kinds. Call it again after a full
    /// delta.
    pub fn prepare(&self, view: &mut View) {
        self.filters.iter().for_each(|filter| filter.keep(view));
        self.scores.iter().for_each(|(score, _)| score.keep(view));
        self.relative.iter().for_each(|(score, _)| score.keep(view));
        self.chain.post_filter.iter().for_each(|plugin| plugin.keep(view));
    }

    /// The plugins that apply to these tasks.
    #[must_use]
    pub fn active<'a>(&'a self, tasks: &Tasks<'_>) -> Active<'a> {
        let mut active = Active {
            filters: SmallVec::new(),
            scores: SmallVec::new(),
            relative: SmallVec::new(),
            same: 0,
            asked: Asked::default(),
            meter: self.meter.as_deref().filter(|meter| meter.samples()),
        };
        for (position, filter) in self.filters().enumerate().filter(|(_, f)| f.applies(tasks)) {
            active.filters.push(filter);
            active.asked.filters |= bit(position);
        }
        let scores = self.scores().enumerate().filter(|(_, (score, _))| score.applies(tasks));
        for (position, score) in scores {
            active.scores.push(score);
            active.asked.scores |= bit(position);
        }
        for (score, weight) in self.relative_scores() {
            match score.applies(tasks) {
                Stance::Silent => {}
                Stance::Same(score) => active.same += weight * score,
                Stance::Ranks => active.relative.push((score, weight)),
            }
        }
        active.asked.same = active.same;
        active
    }
}

/// Weighted sum of two columns of scores, computed with vector instructions.
struct Add<'a> {
    total: &'a mut [i32; BLOCK],
    column: &'a [i32; BLOCK],
    weights: (i32, i32),
}

impl pulp::NullaryFnOnce for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (total, score) in self.total.iter_mut().zip(self.column) {
            *total = self.weights.0 * *total + self.weights.1 * score;
        }
    }
}

/// The plugins of one decision.
pub struct Active<'a> {
    filters: SmallVec<[&'a dyn Filter; 8]>,
    scores: SmallVec<[(&'a dyn Score, i32); 8]>,
    relative: SmallVec<[(&'a dyn RelativeScore, i32); 4]>,
    /// Sum of the relative scores that are equal for every feasible machine.
    same: i32,
    asked: Asked,
    /// Meter, if this decision is measured.
    meter: Option<&'a dyn Meter>,
}

/// The sets of a profile's filters and scores that apply to the tasks of a decision. Each bit stands for a position in
/// the profile. The scores of two decisions are comparable if both decisions have the same sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    filters: u128,
    scores: u128,
    same: i32,
}

/// The bit of a position. All positions from 127 on share the last bit.
fn bit(position: usize) -> u128 {
    1 << position.min(127)
}

impl<'a> Active<'a> {
    /// Returns the machines of a block, out of `among`, on which the tasks may run.
    #[must_use]
    pub fn feasible(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let mut word = among;
        for filter in &self.filters {
            let left =
                self.timed(Work::Filter, filter.name(), || filter.filter(tasks, block, word));
            if let Some(meter) = self.meter {
                let refused = (word & !left & block.present()).count_ones();
                if refused > 0 {
                    meter.refused(filter.name(), refused);
                }
            }
            word &= left;
            if word == 0 {
                break;
            }
        }
        word
    }

    /// Calls a plugin, and measures the call if measuring is on.
    pub(crate) fn timed<T>(&self, work: Work, plugin: &'static str, ask: impl FnOnce() -> T) -> T {
        let Some(meter) = self.meter else { return ask() };
        let since = meter.now();
        let answer = ask();
        meter.took(work, plugin, meter.now().saturating_sub(since));
        answer
    }

    /// The applicable plugins.
    pub(crate) fn asked(&self) -> Asked {
        self.asked
    }

    /// The relative scores that need the set of feasible machines, with their weights.
    #[must_use]
    pub fn relative(&self) -> &[(&'a dyn RelativeScore, i32)] {
        &self.relative
    }

    /// Whether any score distinguishes machines.
    #[must_use]
    pub fn any_score(&self) -> bool {
        !self.scores.is_empty() || !self.relative.is_empty()
    }

    /// The weighted scores of a block's feasible machines, without relative scores; 0 for other machines.
    #[must_use]
    pub fn scores(&self, tasks: &Tasks<'_>, block: Block<'_>, feasible: u64) -> [i32; BLOCK] {
        let mut total = [0; BLOCK];
        self.write_scores(tasks, block, feasible, &mut total);
        if self.same != 0 {
            total.iter_mut().for_each(|total| *total += self.same);
        }
        total
    }

    /// Writes the sums of the weighted scores into a column of zeroes.
    fn write_scores(
        &self,
        tasks: &Tasks<'_>,
        block: Block<'_>,
        feasible: u64,
        total: &mut [i32; BLOCK],
    ) {
        let Some(((first, first_weight), others)) = self.scores.split_first() else { return };
        self.timed(Work::Score, first.name(), || first.score(tasks, block, feasible, total));
        let mut first_weight = *first_weight;
        for (score, weight) in others {
            let mut column = [0i32; BLOCK];
            let column_of = || score.score(tasks, block, feasible, &mut column);
            self.timed(Work::Score, score.name(), column_of);
            let weights = (std::mem::replace(&mut first_weight, 1), *weight);
            Arch::new().dispatch(Add { total, column: &column, weights });
        }
        if first_weight != 1 {
            total.iter_mut().for_each(|total| *total *= first_weight);
        }
    }

    /// Whether any plugin's result depends on one of these inputs.
    #[must_use]
    pub fn reads(&self, facts: Reads) -> bool {
        self.filters.iter().any(|filter| filter.reads().includes(facts))
            || self.scores.iter().any(|(score, _)| score.reads().includes(facts))
            || self.relative.iter().any(|(score, _)| score.reads().includes(facts))
    }

    /// Whether a claim may change the results for other machines, so that each of several tasks needs its own search.
    /// Relative scores are exempt if they compare only descriptions.
    #[must_use]
    pub fn reads_other_machines(&self) -> bool {
        let other = Reads::OTHER_MACHINES;
        let descriptions = Reads::DESCRIPTION | Reads::OTHER_DESCRIPTIONS;
        self.filters.iter().any(|filter| filter.reads().includes(other))
            || self.scores.iter().any(|(score, _)| score.reads().includes(other))
            || self.relative.iter().any(|(score, _)| !descriptions.includes(score.reads()))
    }
}
