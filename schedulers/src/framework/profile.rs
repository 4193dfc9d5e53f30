//! Profiles: the plugins of a scheduler, and the weight of each score.

use crate::backfill::Backfill;
use crate::delay::Delay;
use crate::framework::chain::Chain;
use crate::framework::disruption::DisruptionBudget;
use crate::framework::evaluator::Evaluator;
use crate::framework::meter::Meter;
use crate::framework::plugin::{CellChecks, Filter, Score, WEIGHT_SUM_MAX};
use crate::framework::points::{Admit, Order, Permit, PostBind, PostFilter, PreBind, Reserve};
use crate::framework::relative::RelativeScore;
use crate::plugins::{
    AvoidMarked, Balanced, BalancedAllocation, CellWide, DefaultPreemption, FitArgs, ImageLocality,
    InterPodAffinity, LeastAllocated, MachineAffinity, MostAllocated, NodeAffinity, NodeName,
    NodePorts, NodeResourcesFit, NodeUnschedulable, PackedDevices, PeakHours, PodTopologySpread,
    PreferredAffinity, Reservations, ResourcesFit, Schedulable, SpreadWishes, TaintToleration,
    Taints, TaskLimits, TaskRules, TasksPerMachine, WithinQuota,
};
#[cfg(feature = "profiles")]
use crate::volumes::Volumes;
use omega_cellstate::View;
use omega_core::Kinds;
use std::sync::Arc;

/// The plugins of a scheduler: filters and scores, and plugins before and after the decision.
///
/// Invariant: the filters cover the cell's check, so that a scheduler proposes only claims that the cell accepts,
/// unless the cell has changed meanwhile.
pub struct Profile {
    /// The filters and scores.
    pub(crate) evaluator: Evaluator,
    /// The plugins before and after the decision.
    pub(crate) chain: Chain,
    /// Volumes for the volume plugins that a profile file adds.
    #[cfg(feature = "profiles")]
    pub(crate) volumes: Volumes,
    /// Time for which jobs wait for machines that they prefer.
    pub(crate) delay: Option<Delay>,
    /// Backfill plans for jobs that find no room.
    pub(crate) backfill: Option<Backfill>,
    /// Whether the view keeps placements even if no plugin needs them to make room.
    placements: bool,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("evaluator", &self.evaluator)
            .field("points", &self.chain.names())
            .finish()
    }
}

/// Returns the cell's own filters, the cheapest first. If `covered` includes some rules about other tasks, each family
/// of these rules has its own filter, so that the caller can leave out the covered ones; otherwise one filter checks all
/// of the rules.
fn own_filters(covered: CellChecks) -> Vec<Box<dyn Filter>> {
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
    if covered.overlaps(CellChecks::RULES) {
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
        let covered = filters.iter().map(|filter| filter.covers());
        let covered = covered.fold(CellChecks::NOTHING, |all, part| all | part);
        let missing = own_filters(covered).into_iter();
        filters.extend(missing.filter(|filter| !covered.includes(filter.covers())));
        Profile {
            evaluator: Evaluator::new(filters),
            chain: Chain::default(),
            #[cfg(feature = "profiles")]
            volumes: Volumes::default(),
            delay: None,
            backfill: None,
            placements: false,
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
        self.evaluator.filters.push(Box::new(filter));
        self
    }

    /// Returns `self` with one more score, which is multiplied by `weight`.
    ///
    /// # Panics
    /// If the sum of the profile's weights would exceed [`WEIGHT_SUM_MAX`].
    #[must_use]
    pub fn with_score(mut self, score: impl Score + 'static, weight: i32) -> Profile {
        self.check_weight(score.name(), weight);
        self.evaluator.scores.push((Box::new(score), weight));
        self
    }

    /// Returns `self` with one more relative score, weighted like other scores.
    ///
    /// # Panics
    /// If the sum of the profile's weights would exceed [`WEIGHT_SUM_MAX`].
    #[must_use]
    pub fn with_relative(mut self, score: impl RelativeScore + 'static, weight: i32) -> Profile {
        self.check_weight(score.name(), weight);
        self.evaluator.relative.push((Box::new(score), weight));
        self
    }

    /// Panics if another score of this weight could overflow the sum of the weighted scores.
    fn check_weight(&self, name: &str, weight: i32) {
        let weights = self.evaluator.weights().map(|(_, weight)| weight).chain([weight]);
        let sum: u64 = weights.map(|weight| u64::from(weight.unsigned_abs())).sum();
        assert!(
            sum <= u64::from(WEIGHT_SUM_MAX.unsigned_abs()),
            "the weight {weight} of {name} makes the sum of the profile's weights {sum}; \
             the maximum is {WEIGHT_SUM_MAX}"
        );
    }

    /// Returns `self` without the scores of this name, relative or not.
    #[must_use]
    pub fn without_score(mut self, name: &str) -> Profile {
        self.evaluator.scores.retain(|(score, _)| score.name() != name);
        self.evaluator.relative.retain(|(score, _)| score.name() != name);
        self
    }

    /// Returns `self` with this filter. It replaces the filter with the same name; if there is none, it is called after
    /// the others. The cell's own filters remain for the parts of the cell's check that the new filter does not cover.
    #[must_use]
    pub fn with_filter_replaced(mut self, filter: impl Filter + 'static) -> Profile {
        match self.evaluator.filters.iter().position(|known| known.name() == filter.name()) {
            Some(place) => self.evaluator.filters[place] = Box::new(filter),
            None => self.evaluator.filters.push(Box::new(filter)),
        }
        self.evaluator.filters = Profile::of_filters(self.evaluator.filters).evaluator.filters;
        self
    }

    /// Returns `self` with placements in the scheduler's view, for plugins that read the tasks on machines
    /// ([`MachineRef::tasks`](crate::MachineRef::tasks)). The scheduler then receives the jobs of all schedulers.
    #[must_use]
    pub fn with_placements(mut self) -> Profile {
        self.placements = true;
        self
    }

    /// Whether the scheduler's view keeps placements.
    pub(crate) fn keeps_placements(&self) -> bool {
        self.placements || !self.chain.post_filter.is_empty()
    }

    /// Returns `self` with a meter of its filters and scores.
    #[must_use]
    pub fn with_meter(mut self, meter: Arc<dyn Meter>) -> Profile {
        self.evaluator.meter = Some(meter);
        self
    }

    /// Returns `self` with a delay: jobs wait for machines that they prefer.
    #[must_use]
    pub fn with_delay(self, delay: Delay) -> Profile {
        let mut profile = self.with_filter_replaced(delay.clone());
        profile.delay = Some(delay);
        profile
    }

    /// Returns `self` with plans for the first jobs that find no room.
    #[must_use]
    pub fn with_backfill(self, backfill: Backfill) -> Profile {
        let mut profile = self.with_filter_replaced(backfill.clone());
        profile.backfill = Some(backfill);
        profile
    }

    /// The filters and scores.
    #[must_use]
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    /// Enables the columns of the view that the plugins read, for the view's resource kinds. Call it again after a full
    /// delta.
    pub fn prepare(&self, view: &mut View) {
        self.evaluator.keep(view);
        self.chain.post_filter.iter().for_each(|plugin| plugin.keep(view));
    }

    /// Returns `self` with one more admission plugin, called after the others.
    #[must_use]
    pub fn with_admit(mut self, plugin: impl Admit + 'static) -> Profile {
        self.chain.admit.push(Box::new(plugin));
        self
    }

    /// Returns `self` with this order of the queue instead of the present one.
    #[must_use]
    pub fn with_order(mut self, plugin: impl Order + 'static) -> Profile {
        self.chain.order = Some(Arc::new(plugin));
        self
    }

    /// Returns `self` with one more `PostFilter` plugin, called after the others.
    #[must_use]
    pub fn with_post_filter(mut self, plugin: impl PostFilter + 'static) -> Profile {
        self.chain.post_filter.push(Box::new(plugin));
        self
    }

    /// Returns `self` with this `PostFilter` plugin. It replaces the plugin with the same name; if there is none,
    /// it is called after the others.
    #[must_use]
    pub fn with_post_filter_replaced(self, plugin: impl PostFilter + 'static) -> Profile {
        let name = plugin.name();
        self.without_post_filter(name).with_post_filter(plugin)
    }

    /// Returns `self` without the `PostFilter` plugins that have this name.
    #[must_use]
    pub fn without_post_filter(mut self, name: &str) -> Profile {
        self.chain.post_filter.retain(|plugin| plugin.name() != name);
        self
    }

    /// Returns `self` with disruption budgets, which the profile's plugins respect when they evict.
    #[must_use]
    pub fn with_budgets(mut self, budgets: &[DisruptionBudget]) -> Profile {
        self.chain.post_filter.iter_mut().for_each(|plugin| plugin.protect(budgets));
        self
    }

    /// The names of the `PostFilter` plugins, which make room, in the order of their calls.
    pub fn post_filters(&self) -> impl Iterator<Item = &'static str> {
        self.chain.post_filter.iter().map(|plugin| plugin.name())
    }

    /// Returns `self` with one more `Reserve` plugin, called after the others.
    #[must_use]
    pub fn with_reserve(mut self, plugin: impl Reserve + 'static) -> Profile {
        self.chain.reserve.push(Box::new(plugin));
        self
    }

    /// Returns `self` with one more `Permit` plugin, called after the others.
    #[must_use]
    pub fn with_permit(mut self, plugin: impl Permit + 'static) -> Profile {
        self.chain.permit.push(Box::new(plugin));
        self
    }

    /// Returns `self` with one more `PreBind` plugin, after the others.
    #[must_use]
    pub fn with_pre_bind(mut self, plugin: impl PreBind + 'static) -> Profile {
        self.chain.pre_bind.push(Box::new(plugin));
        self
    }

    /// Returns `self` with one more `PostBind` plugin, after the others.
    #[must_use]
    pub fn with_post_bind(mut self, plugin: impl PostBind + 'static) -> Profile {
        self.chain.post_bind.push(Box::new(plugin));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::Balanced;

    #[test]
    fn weights_up_to_the_maximum_are_accepted() {
        let left = WEIGHT_SUM_MAX - 3;
        let full =
            Profile::first_fit().with_score(Balanced, -left).with_relative(TaintToleration, 3);
        let full = full.without_score("balanced").with_score(Balanced, left);
        assert_eq!(full.evaluator().weights().count(), 2);
    }

    #[test]
    #[should_panic(
        expected = "the weight 2 of taint_toleration makes the sum of the profile's weights"
    )]
    fn a_sum_of_weights_that_could_overflow_is_rejected() {
        let full = Profile::first_fit().with_score(Balanced, WEIGHT_SUM_MAX - 1);
        drop(full.with_relative(TaintToleration, 2));
    }
}
