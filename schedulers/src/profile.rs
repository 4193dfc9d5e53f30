//! Which plugins a scheduler asks, and how much each score counts.

use crate::chain::Chain;
use crate::plugin::{Filter, Reads, Score, Tasks};
use crate::plugins::{
    AvoidMarked, Balanced, LeastAllocated, MachineAffinity, MostAllocated, PackedCards,
    PreferredAffinity, ResourcesFit, Schedulable, SpreadWishes, Taints, TaskRules,
};
use omega_cellstate::{BLOCK, Block, View};
use pulp::Arch;
use smallvec::SmallVec;

/// Filters in order, and scores with weights.
///
/// A profile always has the filters that the cell judges by, first and cheapest first: a
/// scheduler without them would propose what the cell refuses.
pub struct Profile {
    filters: Vec<Box<dyn Filter>>,
    scores: Vec<(Box<dyn Score>, i32)>,
    /// The plugins around the decision.
    pub(crate) chain: Chain,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let filters: Vec<_> = self.filters.iter().map(|filter| filter.name()).collect();
        let scores: Vec<_> = self.scores.iter().map(|(score, w)| (score.name(), w)).collect();
        f.debug_struct("Profile")
            .field("filters", &filters)
            .field("scores", &scores)
            .field("points", &self.chain.names())
            .finish()
    }
}

impl Profile {
    /// The cell's own filters and no score: every feasible machine is as good as another.
    #[must_use]
    pub fn first_fit() -> Profile {
        Profile {
            filters: vec![
                Box::new(Schedulable),
                Box::new(MachineAffinity),
                Box::new(Taints),
                Box::new(ResourcesFit),
                Box::new(TaskRules),
            ],
            scores: Vec::new(),
            chain: Chain::default(),
        }
    }

    /// For services: spread over the machines, balanced, with all preferences.
    #[must_use]
    pub fn service() -> Profile {
        Profile::first_fit()
            .with_score(LeastAllocated::default(), 1)
            .with_score(Balanced, 1)
            .with_score(PackedCards, 4)
            .with_score(PreferredAffinity, 2)
            .with_score(SpreadWishes, 2)
            .with_score(AvoidMarked, 3)
    }

    /// For batch: packed, so that large tasks find room, with all preferences.
    #[must_use]
    pub fn batch() -> Profile {
        Profile::first_fit()
            .with_score(MostAllocated::default(), 1)
            .with_score(PackedCards, 4)
            .with_score(PreferredAffinity, 2)
            .with_score(SpreadWishes, 2)
            .with_score(AvoidMarked, 3)
    }

    /// The same with one filter more, asked after the others.
    #[must_use]
    pub fn with_filter(mut self, filter: impl Filter + 'static) -> Profile {
        self.filters.push(Box::new(filter));
        self
    }

    /// The same with one score more; a weight of 1 counts as much as each built-in score.
    #[must_use]
    pub fn with_score(mut self, score: impl Score + 'static, weight: i32) -> Profile {
        self.scores.push((Box::new(score), weight));
        self
    }

    /// The filters in order.
    pub fn filters(&self) -> impl Iterator<Item = &dyn Filter> {
        self.filters.iter().map(|filter| &**filter)
    }

    /// Whether the answer of some filter depends on these facts.
    #[must_use]
    pub fn filters_read(&self, facts: Reads) -> bool {
        self.filters.iter().any(|filter| filter.reads().includes(facts))
    }

    /// Has the view keep what the scores read, as far as it knows the kinds: call it again after a
    /// full delta.
    pub fn prepare(&self, view: &mut View) {
        for (score, _) in &self.scores {
            score.shares().iter().for_each(|kind| view.keep_inverse(*kind));
        }
    }

    /// The plugins that have something to say about these tasks.
    #[must_use]
    pub fn active<'a>(&'a self, tasks: &Tasks<'_>) -> Active<'a> {
        let filters = self.filters.iter().map(|filter| &**filter);
        let scores = self.scores.iter().map(|(score, weight)| (&**score, *weight));
        Active {
            filters: filters.filter(|filter| filter.applies(tasks)).collect(),
            scores: scores.filter(|(score, _)| score.applies(tasks)).collect(),
        }
    }
}

/// Weighs two columns of scores and adds them, in full vectors.
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
}

impl Active<'_> {
    /// The machines of a block on which the tasks may run, out of `among`.
    #[must_use]
    pub fn feasible(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let mut word = among;
        for filter in &self.filters {
            word &= filter.filter(tasks, block, word);
            if word == 0 {
                break;
            }
        }
        word
    }

    /// The weighted scores of a block's feasible machines; 0 where there is no score.
    #[must_use]
    pub fn scores(&self, tasks: &Tasks<'_>, block: Block<'_>, feasible: u64) -> [i32; BLOCK] {
        let mut total = [0; BLOCK];
        self.write_scores(tasks, block, feasible, &mut total);
        total
    }

    /// The same into zeroes.
    fn write_scores(
        &self,
        tasks: &Tasks<'_>,
        block: Block<'_>,
        feasible: u64,
        total: &mut [i32; BLOCK],
    ) {
        let Some(((first, first_weight), others)) = self.scores.split_first() else { return };
        first.score(tasks, block, feasible, total);
        let mut first_weight = *first_weight;
        for (score, weight) in others {
            let mut column = [0i32; BLOCK];
            score.score(tasks, block, feasible, &mut column);
            let weights = (std::mem::replace(&mut first_weight, 1), *weight);
            Arch::new().dispatch(Add { total, column: &column, weights });
        }
        if first_weight != 1 {
            total.iter_mut().for_each(|total| *total *= first_weight);
        }
    }

    /// Whether some plugin's answer for one machine depends on what runs on others.
    #[must_use]
    pub fn reads_other_machines(&self) -> bool {
        let other = Reads::OTHER_MACHINES;
        self.filters.iter().any(|filter| filter.reads().includes(other))
            || self.scores.iter().any(|(score, _)| score.reads().includes(other))
    }
}
