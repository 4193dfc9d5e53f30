//! Evaluation of machines: the filters and scores of a profile, and those of them that apply to a decision.

use crate::framework::meter::{Meter, Work};
use crate::framework::plugin::{Filter, Reads, Score, Tasks, debug_assert_score, lanes};
use crate::framework::relative::{RelativeScore, Stance};
use omega_cellstate::{BLOCK, Block, View};
use pulp::Arch;
use smallvec::SmallVec;
use std::sync::Arc;

/// Filters in order, and scores with weights.
pub struct Evaluator {
    pub(crate) filters: Vec<Box<dyn Filter>>,
    pub(crate) scores: Vec<(Box<dyn Score>, i32)>,
    pub(crate) relative: Vec<(Box<dyn RelativeScore>, i32)>,
    /// Meter of filters and scores, if any.
    pub(crate) meter: Option<Arc<dyn Meter>>,
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let filters: Vec<_> = self.filters.iter().map(|filter| filter.name()).collect();
        let scores: Vec<_> = self.weights().collect();
        f.debug_struct("Evaluator").field("filters", &filters).field("scores", &scores).finish()
    }
}

impl Evaluator {
    /// An evaluator with these filters, and without scores.
    pub(crate) fn new(filters: Vec<Box<dyn Filter>>) -> Evaluator {
        Evaluator { filters, scores: Vec::new(), relative: Vec::new(), meter: None }
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

    /// Enables the columns of the view that the filters and scores read.
    pub(crate) fn keep(&self, view: &mut View) {
        self.filters.iter().for_each(|filter| filter.keep(view));
        self.scores.iter().for_each(|(score, _)| score.keep(view));
        self.relative.iter().for_each(|(score, _)| score.keep(view));
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
                Stance::Same(same) => {
                    debug_assert_score(score.name(), same);
                    active.same += weight * same;
                }
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

/// Checks the scores of a block's feasible machines in debug builds.
fn debug_assert_column(name: &str, column: &[i32; BLOCK], feasible: u64) {
    if cfg!(debug_assertions) {
        lanes(feasible).for_each(|lane| debug_assert_score(name, column[lane]));
    }
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
        debug_assert_column(first.name(), total, feasible);
        let mut first_weight = *first_weight;
        for (score, weight) in others {
            let mut column = [0i32; BLOCK];
            let column_of = || score.score(tasks, block, feasible, &mut column);
            self.timed(Work::Score, score.name(), column_of);
            debug_assert_column(score.name(), &column, feasible);
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
