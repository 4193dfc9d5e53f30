//! Required and preferred machines of a task.

use crate::framework::plugin::{CellChecks, Filter, Reads, SCORE_MAX, Score, Tasks, lanes};
use omega_cellstate::{BLOCK, Block};

/// Filter: the machine matches the required affinity, and is the machine that the task names, if the task names one.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineAffinity;

impl Filter for MachineAffinity {
    fn name(&self) -> &'static str {
        "machine_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.need.affinity.is_some() || tasks.need.machine.is_some()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let sets = tasks.need.affinity.into_iter().chain(tasks.need.machine);
        sets.fold(among, |word, set| word & block.set(set))
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::AFFINITY
    }
}

/// Score: the sum of the weights of all matching preferences, as a share of the weights of all preferences.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreferredAffinity;

impl Score for PreferredAffinity {
    fn name(&self) -> &'static str {
        "preferred_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        !tasks.need.preferred.is_empty()
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let total: u64 = tasks.need.preferred.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut matched = [0u64; BLOCK];
        for (weight, set) in &tasks.need.preferred {
            for lane in lanes(among & block.set(*set)) {
                matched[lane] += u64::from(*weight);
            }
        }
        for (score, matched) in scores.iter_mut().zip(matched) {
            *score = (matched * SCORE_MAX as u64 / total.max(1)) as i32;
        }
    }
}
