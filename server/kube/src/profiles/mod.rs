//! Profiles: the scheduler names whose pods are scheduled, with the scores of each.

mod args;
mod fields;
mod read;

pub use self::read::{Configuration, ElectionFields, parse};

use crate::adapter::Shared;
use omega_core::{Affinity, Kinds};
use omega_schedulers::plugins::{
    BalancedAllocation, CandidateMachines, FitArgs, ImageLocality, InterPodAffinity, NodeAffinity,
    NodeName, NodePorts, NodeResourcesFit, NodeUnschedulable, PodTopologySpread, TaintToleration,
    VolumeFilter,
};
use omega_schedulers::volumes::Aspect;
use omega_schedulers::{Profile, Search, Settings};
use std::collections::BTreeMap;

/// The scores of kube-scheduler with their default weights.
const SCORES: [(&str, i32); 7] = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("NodeResourcesFit", 1),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
];

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeProfile {
    /// The `schedulerName` of the pods to which the profile applies.
    pub name: String,
    /// Scores with their weights, by kube-scheduler's names.
    weights: BTreeMap<&'static str, i32>,
    /// Arguments of `NodeResourcesFit`.
    fit: FitArgs,
    /// Names of the kinds whose balance `NodeResourcesBalancedAllocation` scores.
    balanced: Vec<String>,
    /// Affinity to nodes that every pod has in addition to its own.
    added: Affinity,
    /// Arguments of `InterPodAffinity`.
    neighbours: InterPodAffinity,
    /// Percentage of the nodes to score; `None` for all.
    percentage: Option<u8>,
    /// The nodes that are examined for victims; `None` if the profile does not preempt.
    preemption: Option<CandidateMachines>,
}

impl KubeProfile {
    /// Returns the default profile under this name. It scores all nodes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> KubeProfile {
        let (weights, fit) = (BTreeMap::from(SCORES), FitArgs::default());
        let preemption = Some(CandidateMachines::default());
        KubeProfile {
            name: name.into(),
            weights,
            fit,
            balanced: ["cpu", "memory"].map(str::to_owned).into(),
            added: Affinity::default(),
            neighbours: InterPodAffinity::default(),
            percentage: None,
            preemption,
        }
    }

    /// Returns this profile in the form that a scheduler uses, for a cell with these kinds.
    #[must_use]
    pub fn bind(&self, kinds: &Kinds) -> Profile {
        let fit = NodeResourcesFit::new(&self.fit, kinds);
        let affinity = NodeAffinity::with_added(&self.added);
        let balanced: Vec<&str> = self.balanced.iter().map(String::as_str).collect();
        let mut profile = Profile::of_filters(vec![
            Box::new(NodeUnschedulable::default()),
            Box::new(NodeName),
            Box::new(TaintToleration),
            Box::new(affinity.clone()),
            Box::new(NodePorts),
            Box::new(fit.clone()),
            Box::new(PodTopologySpread),
            Box::new(self.neighbours),
        ]);
        for (name, weight) in &self.weights {
            profile = match *name {
                "TaintToleration" => profile.with_relative(TaintToleration, *weight),
                "NodeAffinity" => profile.with_relative(affinity.clone(), *weight),
                "PodTopologySpread" => profile.with_relative(PodTopologySpread, *weight),
                "InterPodAffinity" => profile.with_relative(self.neighbours, *weight),
                "NodeResourcesFit" => profile.with_score(fit.clone(), *weight),
                "ImageLocality" => profile.with_score(ImageLocality, *weight),
                _ => profile.with_score(BalancedAllocation::new(&balanced, kinds), *weight),
            };
        }
        profile
    }

    /// Returns this profile in the form that explanations and preemption use. It has the filters for volumes, but makes
    /// no reservations.
    #[must_use]
    pub fn bind_read_only(&self, shared: &Shared) -> Profile {
        let profile = shared.cell.read(|cell| self.bind(cell.kinds()));
        let filters = Aspect::ALL.map(|aspect| VolumeFilter::new(aspect, &shared.volumes));
        filters.into_iter().fold(profile, Profile::with_filter_replaced)
    }

    /// Returns the nodes that are examined for victims; `None` if the profile does not preempt.
    #[must_use]
    pub fn candidates(&self) -> Option<CandidateMachines> {
        self.preemption
    }

    /// Returns the settings with the profile's percentage of nodes to score.
    #[must_use]
    pub fn apply(&self, settings: Settings) -> Settings {
        match self.percentage {
            None | Some(100) => settings,
            Some(percentage) => settings.with_search(Search::Percentage(percentage)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_profile_is_that_of_kube_scheduler() {
        let kinds = Kinds::standard();
        let ours = KubeProfile::new("x").bind(&kinds);
        let known = Profile::kube(&kinds);
        let names = |profile: &Profile| -> Vec<&'static str> {
            profile.evaluator().filters().map(|f| f.name()).collect()
        };
        assert_eq!(names(&ours), names(&known));
        let sorted = |profile: &Profile| {
            let mut weights: Vec<_> = profile.evaluator().weights().collect();
            weights.sort_unstable();
            weights
        };
        assert_eq!(sorted(&ours), sorted(&known));
    }
}
