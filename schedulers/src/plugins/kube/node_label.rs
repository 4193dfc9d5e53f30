//! Labels that machines have or lack, whatever their values. (Kubernetes' former NodeLabel.)

use crate::framework::plugin::{Filter, Reads, Score, Tasks, lanes};
use crate::plugins::kube::normalize::POINT;
use omega_cellstate::{BLOCK, Block, MachineSet, View};
use omega_core::{MachineSelector, Operator, Requirement, Text};

/// Filter: the machine has some labels and lacks others. Score: prefers machines that meet more of the plugin's
/// preferences. Both apply to every task of the profile.
#[derive(Clone, Debug, Default)]
pub struct NodeLabel {
    required: Option<MachineSet>,
    /// For each preference, the machines that meet it.
    wished: Vec<MachineSet>,
}

/// Requirements on labels with these keys.
fn requirements(keys: &[Text], operator: Operator) -> impl Iterator<Item = Requirement> + '_ {
    let asked = move |key: &Text| Requirement { key: key.clone(), operator, values: Vec::new() };
    keys.iter().map(asked)
}

/// Returns the requirements that the labels in `present` exist and those in `absent` do not.
fn both(present: &[Text], absent: &[Text]) -> Vec<Requirement> {
    let present = requirements(present, Operator::Exists);
    present.chain(requirements(absent, Operator::DoesNotExist)).collect()
}

fn matching(labels: Vec<Requirement>) -> MachineSet {
    MachineSet::Matching(vec![MachineSelector { labels, names: Vec::new() }])
}

impl NodeLabel {
    /// A filter that requires the labels in `present` and excludes those in `absent`.
    #[must_use]
    pub fn requiring(present: &[Text], absent: &[Text]) -> NodeLabel {
        let labels = both(present, absent);
        // An empty selector would match no machine.
        let required = (!labels.is_empty()).then(|| matching(labels));
        NodeLabel { required, wished: Vec::new() }
    }

    /// A score that prefers the labels in `present` and the absence of those in `absent`, with equal weights.
    #[must_use]
    pub fn preferring(present: &[Text], absent: &[Text]) -> NodeLabel {
        let wished = both(present, absent).into_iter().map(|label| matching(vec![label]));
        NodeLabel { required: None, wished: wished.collect() }
    }

    fn keep_sets(&self, view: &mut View) {
        self.required.iter().chain(&self.wished).for_each(|set| view.keep_set(set));
    }
}

impl Filter for NodeLabel {
    fn name(&self) -> &'static str {
        "node_label"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, _: &Tasks<'_>) -> bool {
        self.required.is_some()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let Some(required) = &self.required else { return among };
        let set = tasks.view.kept_set(required);
        debug_assert!(set.is_some(), "the profile was prepared for the view");
        set.map_or(among, |set| among & block.set(set))
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn keep(&self, view: &mut View) {
        self.keep_sets(view);
    }
}

impl Score for NodeLabel {
    fn name(&self) -> &'static str {
        "node_label"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, _: &Tasks<'_>) -> bool {
        !self.wished.is_empty()
    }

    fn keep(&self, view: &mut View) {
        self.keep_sets(view);
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        *scores = [0; BLOCK];
        for set in self.wished.iter().filter_map(|wish| tasks.view.kept_set(wish)) {
            for lane in lanes(among & block.set(set)) {
                scores[lane] += 1;
            }
        }
        // The mean is rounded down to whole points, as in Kubernetes.
        let wishes = self.wished.len() as i32;
        scores.iter_mut().for_each(|score| *score = 100 * *score / wishes * POINT);
    }
}
