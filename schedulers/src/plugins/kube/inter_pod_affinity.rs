//! Placement near some tasks and far from others. (Kubernetes' InterPodAffinity.)

use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use crate::framework::relative::{Feasible, Ranking, RelativeScore, Stance};
use crate::plugins::kube::normalize::POINT;
use omega_cellstate::{BLOCK, Block, Draws, RuleFamily};
use omega_core::TaskRule;

/// Filter: required affinities and anti-affinities of the task and of running tasks. Score: preferred affinities of the
/// task and of running tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterPodAffinity {
    /// Weight of a running task's required affinity to this task, 0 to 100.
    pub required_weight: u32,
    /// Whether preferences of running tasks count for a task without preferences of its own. (Kubernetes'
    /// `ignorePreferredTermsOfExistingPods`.)
    pub preferences: Preferences,
}

/// Choice of the tasks whose preferences count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preferences {
    /// Preferences of the task and of running tasks.
    #[default]
    Everyones,
    /// Preferences of running tasks count only if the task to be placed has preferences of its own.
    OfThosePreferring,
}

impl Default for InterPodAffinity {
    fn default() -> InterPodAffinity {
        InterPodAffinity { required_weight: 1, preferences: Preferences::Everyones }
    }
}

impl Filter for InterPodAffinity {
    fn name(&self) -> &'static str {
        "inter_pod_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.family_concerns(tasks.need, RuleFamily::Neighbours)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        block.family_allows(tasks.need, RuleFamily::Neighbours, among)
    }

    /// Evictions do not help on a machine without a required neighbour.
    fn curable(&self, tasks: &Tasks<'_>, block: Block<'_>, refused: u64) -> u64 {
        block.affinity_met(tasks.need, refused)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::NEIGHBOURS
    }
}

impl RelativeScore for InterPodAffinity {
    fn name(&self) -> &'static str {
        "inter_pod_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> Stance {
        let prefers = |rule: &TaskRule| matches!(rule, TaskRule::Prefer { .. });
        let ignores = self.preferences == Preferences::OfThosePreferring
            && !tasks.group.rules.tasks.iter().any(prefers);
        // The first of the tasks to place may attract the second, even if no running task attracts the first.
        let drawn = tasks.need.draws() || !tasks.view.draws(tasks.need).is_empty();
        if drawn && !ignores { Stance::Ranks } else { Stance::Silent }
    }

    fn prepare<'a>(&'a self, tasks: Tasks<'a>, _: Feasible<'a>) -> Option<Box<dyn Ranking + 'a>> {
        let draws = tasks.view.draws(tasks.need);
        let required_weight = i64::from(self.required_weight);
        // Required affinities with weight 0 have no effect.
        let says = draws.any_preference() || required_weight > 0 && !draws.is_empty();
        says.then(|| Box::new(Pull { draws, required_weight }) as Box<dyn Ranking>)
    }
}

/// Attraction of the tasks of a decision to machines, by their own preferences and those of running tasks.
struct Pull<'a> {
    draws: Draws<'a>,
    required_weight: i64,
}

impl Ranking for Pull<'_> {
    fn raw(&self, block: Block<'_>, _: u64, raw: &mut [i64; BLOCK]) {
        *raw = self.draws.of_block(block, self.required_weight);
    }

    /// Maps the smallest raw score to 0 and the largest to the maximum.
    fn normalize(&self, raw: &[i64], scores: &mut [i32]) {
        let least = raw.iter().copied().min().unwrap_or(0);
        let range = raw.iter().copied().max().unwrap_or(0) - least;
        if range == 0 {
            scores.fill(0);
            return;
        }
        for (score, raw) in scores.iter_mut().zip(raw) {
            // Doubles are computed in Kubernetes' order: the quotient is rounded before it is scaled to whole points.
            let part = (raw - least) as f64 / range as f64;
            *score = (100.0 * part) as i32 * POINT;
        }
    }
}
