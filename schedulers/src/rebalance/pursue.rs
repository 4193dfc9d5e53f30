//! Applies a plan to its end, through broken connections and conflicts with other schedulers.
//!
//! A wave without an answer is sent again; steps that were committed are then found done. After all waves, the
//! conflicting steps are dropped, and a new plan is made for the changed cell.

use super::Rebalancer;
use super::carry::Fate;
use super::plan::{Plan, Step};
use omega_cellstate::{CellHandle, HandleError};

/// Lower bound of the moves that a new plan may examine, even if the first plan examined fewer.
const STEPS_LEAST: u64 = 100_000;

/// Limits of the application of a plan.
pub struct Pursuit<'a> {
    /// Maximum number of new plans, each for the conflicts of the one before. They do not anneal, and none examines
    /// more moves than the first, beyond a lower bound.
    pub replans: usize,
    /// Called after the cell did not answer, with the number of failures since the last committed step. It waits, and
    /// returns whether to try again.
    pub wait: &'a mut dyn FnMut(usize) -> bool,
}

/// Result of a plan that was applied to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pursued {
    /// Committed steps of all plans.
    pub moved: usize,
    /// Fates of the other steps of the last plan.
    pub left: Vec<Fate>,
    /// Steps of the last plan that were not sent, because the cell did not answer.
    pub untried: usize,
    /// Number of new plans.
    pub replans: usize,
    /// The last error, if the cell no longer answered.
    pub failed: Option<HandleError>,
}

impl Rebalancer {
    /// Applies a plan, and new plans for what conflicts, until nothing is left or a limit is reached. If the cell
    /// fails, the result has the error beside the steps that were committed before.
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

/// The way to go on after the waves of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Replan,
    End,
}
