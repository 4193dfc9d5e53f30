//! Chains: moves of several tasks together. A chain is needed if the first task finds no room on its new machine, or if
//! its job's dependencies require other tasks to move with it.

use crate::walk::Walk;

/// Maximum number of tasks in a chain.
const LENGTH: usize = 8;

/// Maximum number of tasks that one task displaces.
const DISPLACED: usize = 3;

impl Walk<'_> {
    /// Moves a task, and then the tasks that lose their room or their dependencies by this move. Undoes all moves if
    /// the chain becomes too long, a rule is broken at the end, or the cost rises too much.
    pub(crate) fn try_chain(&mut self) {
        let (task, to) = self.draw();
        if to == self.state.at[task] as usize {
            return;
        }
        let bound = self.bound();
        let before = self.state.cost;
        self.chain.clear();
        self.link(task, to);
        if self.complete_chain() && self.state.cost - before <= bound {
            self.note_if_best();
            return;
        }
        self.undo_chain();
    }

    /// Moves the tasks of the chain back.
    pub(crate) fn undo_chain(&mut self) {
        while let Some((task, machine)) = self.chain.pop() {
            self.state.put(task as usize, machine as usize);
        }
    }

    pub(crate) fn link(&mut self, task: usize, to: usize) {
        self.chain.push((task as u32, self.state.at[task]));
        self.put(task, to);
    }

    /// Extends a chain until no rule is broken. Returns false if that is not possible.
    fn complete_chain(&mut self) -> bool {
        let mut checked = 0;
        while checked < self.chain.len() {
            let (task, from) = self.chain[checked];
            let (task, from) = (task as usize, from as usize);
            let to = self.state.at[task] as usize;
            if !self.bring_partners(task, from, to) || !self.clear(task, from, to) {
                return false;
            }
            checked += 1;
        }
        self.chain.iter().all(|(task, from)| {
            let (task, from) = (*task as usize, *from as usize);
            let problem = self.state.problem;
            let domain = problem.neighbourhood[from] as usize;
            self.state.is_legal(task)
                && self.state.has_room(self.state.at[task] as usize)
                && self.state.serves_dependents(problem.job[task] as usize, domain)
        })
    }

    /// Moves other tasks off `machine` until there is room for `task`, which came from the machine `from`. Returns
    /// false if there is still no room.
    fn clear(&mut self, task: usize, from: usize, machine: usize) -> bool {
        for _ in 0..DISPLACED {
            if self.state.has_room(machine) {
                return true;
            }
            if self.chain.len() >= LENGTH {
                return false;
            }
            let Some(other) = self.neighbour(task, machine) else { return false };
            match self.elsewhere(other, machine, from) {
                Some(to) => self.link(other, to),
                None => return false,
            }
        }
        self.state.has_room(machine)
    }

    /// Returns another task on `machine`, preferably one that makes enough room by leaving; `None` if `task` is alone.
    fn neighbour(&mut self, task: usize, machine: usize) -> Option<usize> {
        let count = self.state.on[machine].len();
        let start = self.below(count);
        let on = &self.state.on[machine];
        let mut others = on[start..].iter().chain(&on[..start]).map(|other| *other as usize);
        let mut others = others.by_ref().filter(|other| *other != task).take(LENGTH);
        let first = others.next()?;
        let rest = std::iter::once(first).chain(others);
        let mut enough = rest.filter(|other| self.state.has_room_without(*other, machine));
        Some(enough.next().unwrap_or(first))
    }

    /// After a move of `task`, moves further tasks so that dependencies hold again: tasks of jobs on which the task's
    /// job depends, and tasks of jobs that depend on it in the old neighbourhood. Returns false if this is not
    /// possible.
    fn bring_partners(&mut self, task: usize, from: usize, to: usize) -> bool {
        let problem = self.state.problem;
        let job = problem.job[task] as usize;
        let (old, new) = (problem.neighbourhood[from] as usize, problem.neighbourhood[to] as usize);
        if old == new {
            return true;
        }
        for on in problem.depends_on.of(job) {
            if self.state.count_in(*on as usize, new) == 0 && !self.bring(*on, from, to) {
                return false;
            }
        }
        if !self.state.serves_dependents(job, old) {
            for dependent in problem.dependents.of(job) {
                while self.state.count_in(*dependent as usize, old) > 0 {
                    if !self.bring(*dependent, from, to) {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn bring(&mut self, job: u32, from: usize, to: usize) -> bool {
        let problem = self.state.problem;
        let mut tasks = self.state.on[from].iter();
        let task = tasks.find(|task| problem.job[**task as usize] == job).copied();
        let Some(task) = task.filter(|_| self.chain.len() < LENGTH) else { return false };
        self.link(task as usize, to);
        true
    }
}
