//! Rules about other tasks: anti-affinity, affinity, spread, shares, ports.

use crate::plugin::{Filter, Reads, SCORE_MAX, Score, Tasks, lanes};
use omega_cellstate::{BLOCK, Block};

/// Filter: no rule about other tasks, of this task or of one that runs, forbids the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskRules;

impl Filter for TaskRules {
    fn name(&self) -> &'static str {
        "task_rules"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.need.has_rules()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        block.rules_allow(tasks.need, among)
    }
}

/// Score: the fewer tasks of the wished spread are in the machine's domains, the better.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpreadWishes;

impl Score for SpreadWishes {
    fn name(&self) -> &'static str {
        "spread_wishes"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        !tasks.need.wishes().is_empty()
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        for lane in lanes(among) {
            let row = block.first_row() + lane;
            let counts = tasks.need.wishes().iter().map(|wish| tasks.view.wish_count(wish, row));
            let count: u32 = counts.map(Option::unwrap_or_default).sum();
            scores[lane] = SCORE_MAX / (1 + count.min(SCORE_MAX as u32 - 1) as i32);
        }
    }
}
