//! Rules about other tasks: anti-affinity, affinity, spread, limits, ports.

use crate::framework::events::Events;
use crate::framework::plugin::{CellChecks, Filter, Reads, SCORE_MAX, Score, Tasks, lanes};
use omega_cellstate::{BLOCK, Block, RuleFamily};
use omega_core::Reason;

/// Filter: no task rule of this task or of a running task forbids the machine, and the machine's port range has enough
/// free ports if the cell is to choose ports for the task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskRules;

impl Filter for TaskRules {
    fn name(&self) -> &'static str {
        "task_rules"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    /// When a task leaves a machine, the ports that the cell chose for it become free together with its resources.
    fn wakes_on(&self) -> Events {
        Events::of(self.reads()) | Events::of(Reads::AMOUNTS)
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.need.has_rules() || tasks.view.any_ports_concern(tasks.need)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let among = block.rules_allow(tasks.need, among);
        block.any_ports_fit(tasks.need, among)
    }

    /// Evictions do not help on a machine without the domain or the neighbour that a rule requires.
    fn curable(&self, tasks: &Tasks<'_>, block: Block<'_>, refused: u64) -> u64 {
        let near = block.affinity_met(tasks.need, refused);
        let families = [RuleFamily::Spread, RuleFamily::Limits];
        let lacking = families.map(|family| lacks_place(tasks, block, family, near));
        near & !lacking[0] & !lacking[1]
    }

    fn covers(&self) -> CellChecks {
        CellChecks::RULES
    }
}

/// Filter: no maximum number of tasks in the machine's domains is reached. This is the part of [`TaskRules`] that
/// Kubernetes does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskLimits;

impl Filter for TaskLimits {
    fn name(&self) -> &'static str {
        "task_limits"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.family_concerns(tasks.need, RuleFamily::Limits)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        block.family_allows(tasks.need, RuleFamily::Limits, among)
    }

    fn curable(&self, tasks: &Tasks<'_>, block: Block<'_>, refused: u64) -> u64 {
        refused & !lacks_place(tasks, block, RuleFamily::Limits, refused)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::LIMITS
    }
}

/// Returns the machines in `among` that a family of rules rejects because the machines lack the label of a topology
/// level. Machines that an earlier rule of the family rejects are not included.
pub(super) fn lacks_place(
    tasks: &Tasks<'_>,
    block: Block<'_>,
    family: RuleFamily,
    among: u64,
) -> u64 {
    let reason = |lane| tasks.view.check_rules(tasks.need, family, block.first_row() + lane);
    let lacking = lanes(among).filter(|lane| reason(*lane) == Err(Reason::NoDomain));
    lacking.fold(0, |word, lane| word | 1 << lane)
}

/// Score: prefers machines in domains with few tasks of the kind that the task's soft spreads select.
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
        !tasks.need.soft_spreads().is_empty()
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let wishes =
            tasks.need.soft_spreads().iter().filter_map(|wish| tasks.view.soft_spread(wish));
        let mut counts = [0u32; BLOCK];
        for wish in wishes {
            let here = wish.of_block(block);
            counts.iter_mut().zip(here).for_each(|(count, here)| *count += here);
        }
        for lane in lanes(among) {
            scores[lane] = SCORE_MAX / (1 + counts[lane].min(SCORE_MAX as u32 - 1) as i32);
        }
    }
}
