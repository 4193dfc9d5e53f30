//! Carrying a plan out to its end: through broken connections, and through conflicts with what others do meanwhile.
//!
//! A wave of which the cell did not answer is sent again: steps that were committed are found done. Once all waves were
//! sent, the steps that conflicted are dropped, and a new plan is made of what the cell has become.

use super::Rebalancer;
use super::carry::Fate;
use super::plan::{Plan, Step};
use omega_cellstate::{CellHandle, HandleError};

/// Moves that a new plan may examine, however few the first one did.
const STEPS_LEAST: u64 = 100_000;

/// Limits of carrying a plan out.
pub struct Pursuit<'a> {
    /// New plans at most, each for the conflicts of the one before: without annealing, and none examines more moves than
    /// the first.
    pub replans: usize,
    /// Waits after the cell did not answer. The answer is whether to ask again; the argument is the number of failures
    /// since the last step that was committed.
    pub wait: &'a mut dyn FnMut(usize) -> bool,
}

/// Outcome of a plan that was carried out to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pursued {
    /// Steps that were committed, of all plans.
    pub moved: usize,
    /// Fates of the other steps of the last plan.
    pub left: Vec<Fate>,
    /// Steps of the last plan that were not tried, because the cell did not answer.
    pub untried: usize,
    /// Plans that were made after the first.
    pub replans: usize,
    /// Error of the last attempt, if the cell does not answer any more.
    pub failed: Option<HandleError>,
}

impl Rebalancer {
    /// Carries out a plan, and new plans for what conflicts, until nothing is left or a limit is reached. An error of the
    /// cell is part of the outcome: what was done before it is told.
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

    /// Carries out the waves of one plan.
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

/// Continuation after the waves of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Replan,
    End,
}
