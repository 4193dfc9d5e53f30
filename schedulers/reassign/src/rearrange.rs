//! Rearrangement: a large task moves to a machine, and tasks there move to the machines where they cost least. Tasks
//! leave until there is room for the large task and no further departure reduces the cost.
//!
//! Chains of a few random moves cannot bring a task to a machine that the task would fill, because all other tasks must
//! leave this machine at once.

use crate::walk::Walk;

/// Number of random tasks from which the largest is chosen to be moved.
const DRAWS: usize = 3;

/// Maximum number of tasks that leave the machine.
const DISPLACED: usize = 16;

/// Number of random machines that are examined for each displaced task, besides the machine that the large task left.
const TARGETS: usize = 8;

impl Walk<'_> {
    /// Proposes a rearrangement.
    pub(crate) fn try_rearrangement(&mut self) {
        let (mut task, to) = self.draw();
        for _ in 1..DRAWS {
            let other = self.draw().0;
            if self.sizes[other] > self.sizes[task] {
                task = other;
            }
        }
        let from = self.state.at[task] as usize;
        if to == from || !self.state.may_move(task, to) {
            return;
        }
        let bound = self.bound() + self.state.cost;
        self.chain.clear();
        self.link(task, to);
        self.displace_from(to, task, from);
        if self.state.has_room(to) && self.state.cost <= bound {
            self.note_if_best();
        } else {
            self.undo_chain();
        }
    }

    /// Moves tasks off a machine while it lacks room, and also tasks whose departure reduces the cost. Tasks may move
    /// to the machine `vacated`, which the arrived task left.
    fn displace_from(&mut self, machine: usize, arrived: usize, vacated: usize) {
        let count = self.state.on[machine].len();
        let start = self.below(count);
        let tasks = |at: usize| (start + at) % count;
        let others: Vec<u32> =
            (0..count.min(DISPLACED + 1)).map(|at| self.state.on[machine][tasks(at)]).collect();
        for other in
            others.into_iter().map(|other| other as usize).filter(|other| *other != arrived)
        {
            let Some((to, change)) = self.best_target(other, machine, vacated) else { continue };
            if change < 0.0 || !self.state.has_room(machine) {
                self.link(other, to);
            }
        }
    }

    /// Returns the machine where a task costs least, and the change of the cost. Examines random machines and the
    /// machine `vacated`, which the large task left. Returns `None` if no examined machine can accept the task.
    fn best_target(&mut self, other: usize, from: usize, vacated: usize) -> Option<(usize, f64)> {
        let machines = self.state.problem.machines();
        let saving = self.state.saving(other);
        let mut best: Option<(usize, f64)> = None;
        for draw in 0..=TARGETS {
            let to = if draw == 0 { vacated } else { self.below(machines) };
            let state = &self.state;
            if to == from || !state.fits(other, to) || !state.may_move(other, to) {
                continue;
            }
            let change = state.increase(other, to) - saving + state.moving(other, to);
            if best.is_none_or(|(_, least)| change < least) {
                best = Some((to, change));
            }
        }
        best
    }
}
