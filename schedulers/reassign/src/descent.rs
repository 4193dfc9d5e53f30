//! Descent: one pass over all tasks, the largest first. Each task moves to the machine where the cost falls most.
//!
//! The largest tasks go first because it is hardest to find room for them. On large instances, this pass gives most of
//! the gain, in less time than annealing needs to try each task once on each machine.

use crate::walk::Walk;

/// Number of tasks between two checks of the budget.
const BATCH: usize = 64;

impl Walk<'_> {
    /// Makes one pass over all tasks. The pass ends early when `is_over` returns true, because the budget is spent.
    pub(crate) fn descend(&mut self, is_over: &mut dyn FnMut(&Self) -> bool) {
        let order = by_size(&self.sizes);
        for some in order.chunks(BATCH) {
            if is_over(self) {
                break;
            }
            for task in some {
                if let Some(to) = self.best_machine(*task as usize) {
                    self.put(*task as usize, to);
                }
            }
            self.steps += (some.len() * self.state.problem.machines()) as u64;
            self.note_if_best();
        }
    }

    /// Returns the machine to which a move of the task reduces the cost most; `None` if no move reduces the cost.
    fn best_machine(&self, task: usize) -> Option<usize> {
        let state = &self.state;
        let saving = state.saving(task);
        let mut best = (0.0, None);
        for to in 0..state.problem.machines() {
            if to == state.at[task] as usize || !state.fits(task, to) {
                continue;
            }
            let change = state.increase(task, to) - saving + state.moving(task, to);
            if change < best.0 && state.may_move(task, to) {
                best = (change, Some(to));
            }
        }
        best.1
    }
}

/// Returns all tasks, sorted by size, the largest first.
fn by_size(sizes: &[f64]) -> Vec<u32> {
    let mut tasks: Vec<u32> = (0..sizes.len() as u32).collect();
    let size = |task: &u32| sizes[*task as usize];
    tasks.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.cmp(b)));
    tasks
}
