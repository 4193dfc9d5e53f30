//! Taints: a filter, and a score of `PreferNoSchedule` taints.

use crate::framework::plugin::{CellChecks, Filter, Reads, SCORE_MAX, Score, Tasks};
use omega_cellstate::{BLOCK, Block};

/// Filter: the task tolerates all taints of the machine except `PreferNoSchedule` ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taints;

impl Filter for Taints {
    fn name(&self) -> &'static str {
        "taints"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.any_tainted()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        among & block.set(tasks.need.tolerated)
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::TAINTS
    }
}

/// Score: the maximum for a machine without a `PreferNoSchedule` taint that the task does not tolerate, else 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct AvoidMarked;

impl Score for AvoidMarked {
    fn name(&self) -> &'static str {
        "avoid_marked"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.any_marked() && tasks.need.unmarked.is_some()
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, _: u64, scores: &mut [i32; BLOCK]) {
        let unmarked = tasks.need.unmarked.map_or(u64::MAX, |set| block.set(set));
        for (lane, score) in scores.iter_mut().enumerate() {
            *score = SCORE_MAX * (unmarked >> lane & 1) as i32;
        }
    }
}
