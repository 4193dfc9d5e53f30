//! Descent: one pass over all tasks, the largest first, each to the machine where the cost falls most.
//!
//! The largest tasks go first because they find room least easily. On large instances this gives most of the gain in a
//! time in which annealing would not yet have tried each task on each machine.

use crate::problem::Problem;
use crate::walk::Walk;

/// Tasks between two looks at the budget.
const BATCH: usize = 64;

impl Walk<'_> {
    /// Makes a pass, until `is_over` says that the budget is spent.
    pub(crate) fn descend(&mut self, is_over: &mut dyn FnMut(&Self) -> bool) {
        let order = by_size(self.state.problem);
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

    /// The machine where a task costs least, if that is less than where it is.
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

/// All tasks, those with the largest share of the mean capacity of any kind first.
fn by_size(problem: &Problem) -> Vec<u32> {
    let means = problem.total_capacity();
    let size = |task: u32| {
        let request = problem.request(task as usize).iter().flatten();
        let shares = request.zip(means.iter().flatten());
        shares.map(|(amount, total)| if *total > 0.0 { amount / total } else { 0.0 }).sum::<f64>()
    };
    let mut tasks: Vec<(f64, u32)> =
        (0..problem.tasks() as u32).map(|task| (size(task), task)).collect();
    tasks.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    tasks.into_iter().map(|(_, task)| task).collect()
}
