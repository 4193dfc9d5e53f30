//! Applies a plan to its end, despite broken connections and conflicts with other schedulers.
//!
//! If the cell does not answer, the wave is sent again, without the steps that the view then shows as committed. After
//! all waves, the steps that conflicted are dropped, and a new plan is made for the changed cell.

use super::Rebalancer;
use super::carry::Fate;
use super::plan::{Plan, Step};
use omega_cellstate::{CellHandle, HandleError};

/// Number of pairs of a task and a machine that a new plan may always examine, even if the first plan examined fewer.
const STEPS_LEAST: u64 = 100_000;

/// Limits on applying all steps of a plan.
pub struct Pursuit<'a> {
    /// Maximum number of new plans. A new plan is made if the plan before it had conflicts.
    ///
    /// A new plan does not anneal. It may examine as many pairs of a task and a machine as the first plan did, and in
    /// any case 100,000.
    pub replans: usize,
    /// Called when the cell did not answer, with the number of failures of the current wave so far. Waits, and returns
    /// whether to try again.
    pub wait: &'a mut dyn FnMut(usize) -> bool,
}

/// Result of applying a plan to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pursued {
    /// Number of committed steps of all plans.
    pub moved: usize,
    /// Fates of the last plan's steps that were not committed.
    pub left: Vec<Fate>,
    /// Number of steps of the last plan that were not tried, because the cell did not answer.
    pub untried: usize,
    /// Number of new plans.
    pub replans: usize,
    /// The last error, if applying the plan ended because of it.
    pub failed: Option<HandleError>,
}

impl Rebalancer {
    /// Applies a plan, and then new plans for steps in conflict, until no conflict remains or a limit is reached. If
    /// the cell fails, the result has the error and the number of steps committed before.
    pub fn pursue(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        plan: &Plan,
        mut pursuit: Pursuit<'_>,
    ) -> Pursued {
        let mut pursued = Pursued::default();
        let bounds = self.settings.bounds;
        self.settings.bounds.steps = plan.considered.max(STEPS_LEAST);
        let mut next = self.pursue_waves(cell, &plan.waves, &mut pursued, &mut pursuit);
        while next == Next::Replan && pursued.replans < pursuit.replans {
            self.settings.bounds.moves = bounds.moves.saturating_sub(pursued.moved);
            let planned = self.plan(cell, &mut || true);
            let Some(plan) = planned.ok().filter(|plan| !plan.waves.is_empty()) else { break };
            pursued.replans += 1;
            next = self.pursue_waves(cell, &plan.waves, &mut pursued, &mut pursuit);
        }
        self.settings.bounds = bounds;
        pursued
    }

    /// Applies the waves of one plan.
    fn pursue_waves(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        waves: &[Vec<Step>],
        pursued: &mut Pursued,
        pursuit: &mut Pursuit<'_>,
    ) -> Next {
        pursued.left.clear();
        let steps: usize = waves.iter().map(Vec::len).sum();
        let mut tried = 0;
        for wave in waves {
            let mut failures = 0;
            let fates = loop {
                let error = match self.apply_plan_wave(cell, wave) {
                    Ok(fates) => break fates,
                    Err(error) => error,
                };
                failures += 1;
                let is_temporary = matches!(error, HandleError::Unavailable | HandleError::Unknown);
                if !is_temporary || !(pursuit.wait)(failures) {
                    pursued.untried = steps - tried;
                    pursued.failed = Some(error);
                    return Next::End;
                }
            };
            tried += wave.len();
            let (moved, left): (Vec<Fate>, Vec<Fate>) =
                fates.into_iter().partition(|fate| *fate == Fate::Moved);
            pursued.moved += moved.len();
            pursued.left.extend(left);
        }
        if pursued.left.is_empty() { Next::End } else { Next::Replan }
    }
}

/// Whether to make a new plan after the waves of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Replan,
    End,
}
