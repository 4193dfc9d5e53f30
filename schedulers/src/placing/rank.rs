//! Adds relative scores to the machines that a search has found.
//!
//! If raw values depend on machine descriptions alone, they are computed once for all tasks of a group, because claims
//! do not change them. Then the normalised scores change only when a machine becomes full and is removed.

use crate::framework::evaluator::Active;
use crate::framework::meter::Work;
use crate::framework::plugin::{Tasks, debug_assert_score, lanes};
use crate::framework::relative::{Feasible, Ranking};
use omega_cellstate::BLOCK;

/// The relative scores of the feasible machines of one decision. Its buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    /// For each relative score, the raw value of each feasible machine; empty if the score has no effect.
    raw: Vec<Vec<i64>>,
    /// Weighted sum of all relative scores, by machine.
    total: Vec<i32>,
    scores: Vec<i32>,
}

impl Standings {
    /// Ranks feasible machines. [`Standings::total`] has the result, in the order of the machines.
    pub(crate) fn rank(&mut self, tasks: &Tasks<'_>, active: &Active<'_>, words: &[(u32, u64)]) {
        self.raw.iter_mut().for_each(Vec::clear);
        self.raw.resize_with(active.relative().len(), Vec::new);
        self.total_again(tasks, active, words);
    }

    /// Computes the totals. Raw values that are present already are not computed again.
    fn total_again(&mut self, tasks: &Tasks<'_>, active: &Active<'_>, words: &[(u32, u64)]) {
        let feasible = Feasible::new(tasks.view, words);
        let Standings { raw, total, scores } = self;
        let count = feasible.count();
        total.clear();
        total.resize(count, 0);
        scores.resize(count, 0);
        for ((score, weight), raw) in active.relative().iter().zip(raw) {
            let ranked = active.timed(Work::Score, score.name(), || {
                let Some(ranking) = score.prepare(*tasks, feasible) else { return false };
                if raw.is_empty() {
                    write_raw(&*ranking, feasible, raw);
                }
                ranking.normalize(raw, scores);
                true
            });
            if !ranked {
                continue;
            }
            for (total, given) in total.iter_mut().zip(&*scores) {
                debug_assert_score(score.name(), *given);
                *total += weight * given;
            }
        }
    }

    /// Weighted sum of all relative scores, by machine.
    pub(crate) fn total(&self) -> &[i32] {
        &self.total
    }

    /// Removes the machine at a position, and ranks the remaining machines, which are in `words`. All scores must
    /// depend only on machine descriptions. Returns the former totals of the other machines.
    pub(crate) fn leave_out(
        &mut self,
        position: usize,
        tasks: &Tasks<'_>,
        active: &Active<'_>,
        words: &[(u32, u64)],
    ) -> Vec<i32> {
        for raw in self.raw.iter_mut().filter(|raw| !raw.is_empty()) {
            raw.remove(position);
        }
        let mut before = std::mem::take(&mut self.total);
        before.remove(position);
        self.total_again(tasks, active, words);
        before
    }

    /// Clears the last decision.
    pub(crate) fn clear(&mut self) {
        self.total.clear();
    }
}

/// Appends the raw value of each feasible machine.
pub(crate) fn write_raw(ranking: &dyn Ranking, feasible: Feasible<'_>, raw: &mut Vec<i64>) {
    for (block, among) in feasible.blocks() {
        let mut column = [0; BLOCK];
        ranking.raw(block, among, &mut column);
        // The space is reserved at once, so that no push has to check the capacity.
        let first = raw.len();
        raw.resize(first + among.count_ones() as usize, 0);
        for (raw, lane) in raw[first..].iter_mut().zip(lanes(among)) {
            *raw = column[lane];
        }
    }
}
