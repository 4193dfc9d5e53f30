//! Proposals: random moves, exchanges and displacements of tasks, each of which the walk accepts or rejects.

use crate::changes::Displacement;
use crate::walk::Walk;

/// Maximum number of tasks on a machine that are examined to find a task that makes room by leaving.
const DISPLACED: usize = 12;

/// Maximum number of random machines that are examined for a displaced task.
const ELSEWHERE: usize = 4;

impl Walk<'_> {
    /// Proposes one change.
    #[inline]
    pub(crate) fn step(&mut self) {
        match self.random() % 128 {
            0..46 => self.try_shift(),
            46..86 => self.try_exchange(),
            86..102 => self.try_return(),
            102..122 => self.try_displacement(),
            122..125 => self.try_chain(),
            _ => self.try_rearrangement(),
        }
    }

    #[inline]
    fn try_shift(&mut self) {
        let (task, to) = self.draw();
        self.shift(task, to);
    }

    /// Moves a task if there is room, no rule forbids it and the cost does not rise too much.
    #[inline]
    fn shift(&mut self, task: usize, to: usize) {
        let state = &self.state;
        if to == state.at[task] as usize || !state.fits(task, to) || !state.may_move(task, to) {
            return;
        }
        let change = state.change_by_shift(task, to);
        if change <= self.bound() {
            self.put(task, to);
            self.note_if_best();
        }
    }

    #[inline]
    fn try_exchange(&mut self) {
        let tasks = self.state.problem.tasks();
        let (task, other) = self.two_below(tasks, tasks);
        let to = self.state.at[task] as usize;
        if to != self.state.at[other] as usize {
            self.displace(Displacement { task, other, to });
        }
    }

    /// Moves a task, chosen at random from the moved ones, back to its initial machine. If there is no room, the task
    /// displaces another task there.
    fn try_return(&mut self) {
        let count = self.state.away.len();
        if count == 0 {
            return self.try_exchange();
        }
        let random = self.below(count);
        let task = self.state.away[random] as usize;
        let to = self.state.problem.initial[task] as usize;
        if self.state.fits(task, to) {
            self.shift(task, to);
        } else {
            self.make_room(task, to);
        }
    }

    /// Moves a random task to a random machine. If there is no room, the task displaces another task there.
    fn try_displacement(&mut self) {
        let (task, to) = self.draw();
        if to == self.state.at[task] as usize {
            return;
        }
        if self.state.fits(task, to) {
            self.shift(task, to);
        } else {
            self.make_room(task, to);
        }
    }

    #[inline]
    fn make_room(&mut self, task: usize, machine: usize) {
        if let Some(other) = self.displaced(task, machine)
            && let Some(to) = self.elsewhere(other, machine, self.state.at[task] as usize)
        {
            self.displace(Displacement { task, other, to });
        }
    }

    /// Returns a task on `machine` that makes room for `task` by leaving; `None` if none of the examined tasks does.
    #[inline]
    fn displaced(&mut self, task: usize, machine: usize) -> Option<usize> {
        let count = self.state.on[machine].len();
        if count == 0 {
            return None;
        }
        let start = self.below(count);
        let on = &self.state.on[machine];
        let tasks = on[start..].iter().chain(&on[..start]).take(DISPLACED);
        tasks
            .map(|other| *other as usize)
            .find(|other| self.state.fits_instead(task, *other, machine))
    }

    /// Returns a machine for a displaced task: its initial machine, the machine that the displacing task leaves, or a
    /// random machine with room. `None` if no examined machine has room.
    pub(crate) fn elsewhere(
        &mut self,
        other: usize,
        machine: usize,
        vacated: usize,
    ) -> Option<usize> {
        let random = self.random();
        let initial = self.state.problem.initial[other] as usize;
        if initial != machine && random.is_multiple_of(2) {
            return Some(initial);
        }
        if random % 8 < 4 {
            return Some(vacated);
        }
        let machines = self.state.problem.machines();
        for _ in 0..ELSEWHERE {
            let to = self.below(machines);
            if to != machine && to != vacated && self.state.fits(other, to) {
                return Some(to);
            }
        }
        None
    }

    #[inline]
    fn displace(&mut self, displacement: Displacement) {
        let Displacement { task, other, to } = displacement;
        let state = &self.state;
        if !state.has_room_for(displacement) || !state.may_displace(task, other, to) {
            return;
        }
        let change = state.change_by(displacement);
        if change <= self.bound() {
            let place = self.state.at[other] as usize;
            self.put(task, place);
            self.put(other, to);
            self.note_if_best();
        }
    }
}
