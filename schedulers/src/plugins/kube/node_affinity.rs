//! Required and preferred machines of a task. (Kubernetes' NodeAffinity.)

use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks, lanes};
use crate::framework::relative::{Feasible, Ranking, RelativeScore, Stance};
use crate::plugins::affinity::MachineAffinity;
use crate::plugins::kube::normalize::more_is_better;
use omega_cellstate::{BLOCK, Block, MachineSet, SetId, View};
use omega_core::Affinity;
use smallvec::SmallVec;

/// Filter: the machine matches the required affinity. Score: prefers machines that match preferences with a higher
/// total weight.
///
/// Both include the affinity of the profile, which every task has in addition to its own. (Kubernetes'
/// `addedAffinity`.)
#[derive(Clone, Debug, Default)]
pub struct NodeAffinity {
    required: Option<MachineSet>,
    preferred: Vec<(u32, MachineSet)>,
}

impl NodeAffinity {
    /// Creates the plugin with an affinity of the profile.
    #[must_use]
    pub fn with_added(added: &Affinity) -> NodeAffinity {
        let preferred = added.preferred.iter();
        let set =
            |machines: &omega_core::MachineSelector| MachineSet::Matching(vec![machines.clone()]);
        NodeAffinity {
            required: added.required.clone().map(MachineSet::Matching),
            preferred: preferred.map(|wish| (wish.weight, set(&wish.machines))).collect(),
        }
    }

    fn keep_sets(&self, view: &mut View) {
        let preferred = self.preferred.iter().map(|(_, set)| set);
        self.required.iter().chain(preferred).for_each(|set| view.keep_set(set));
    }

    /// The machines in `among` that the profile's own affinity allows.
    fn allowed(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let Some(required) = &self.required else { return among };
        let set = tasks.view.kept_set(required);
        debug_assert!(set.is_some(), "the profile was prepared for the view");
        set.map_or(among, |set| among & block.set(set))
    }
}

impl Filter for NodeAffinity {
    fn name(&self) -> &'static str {
        "node_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        self.required.is_some() || MachineAffinity.applies(tasks)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        MachineAffinity.filter(tasks, block, self.allowed(tasks, block, among))
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::AFFINITY
    }

    fn keep(&self, view: &mut View) {
        self.keep_sets(view);
    }
}

impl RelativeScore for NodeAffinity {
    fn name(&self) -> &'static str {
        "node_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> Stance {
        if tasks.need.preferred.is_empty() && self.preferred.is_empty() {
            Stance::Silent
        } else {
            Stance::Ranks
        }
    }

    fn keep(&self, view: &mut View) {
        self.keep_sets(view);
    }

    fn prepare<'a>(&'a self, tasks: Tasks<'a>, _: Feasible<'a>) -> Option<Box<dyn Ranking + 'a>> {
        let added = self.preferred.iter();
        let added = added.filter_map(|(weight, set)| Some((*weight, tasks.view.kept_set(set)?)));
        Some(Box::new(Wishes(tasks.need.preferred.iter().copied().chain(added).collect())))
    }
}

/// Preferred sets of machines, with their weights.
struct Wishes(SmallVec<[(u32, SetId); 8]>);

impl Ranking for Wishes {
    fn raw(&self, block: Block<'_>, among: u64, raw: &mut [i64; BLOCK]) {
        *raw = [0; BLOCK];
        for (weight, set) in &self.0 {
            for lane in lanes(among & block.set(*set)) {
                raw[lane] += i64::from(*weight);
            }
        }
    }

    fn normalize(&self, raw: &[i64], scores: &mut [i32]) {
        more_is_better(raw, scores);
    }
}
