//! Walk: simulated annealing over moves, exchanges and chains of moves of one assignment.
//!
//! A change that raises the cost by `d` is made with probability `exp(-d / temperature)`: it is made if `d` is at most the
//! temperature times a random number of an exponential distribution. That bound is drawn before the cost is computed.
//! The temperature falls geometrically with the part of the budget that is spent.

use crate::problem::{Problem, ProblemError};
use crate::state::State;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Entries of the table of the exponential distribution.
const EXPONENTIALS: usize = 4096;

/// Changes tried between two looks at the budget.
const BATCH: u64 = 1024;

/// Changes sampled to choose the first temperature.
const SAMPLES: usize = 4000;

/// Temperatures of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cooling {
    /// At the beginning.
    pub(crate) hot: f64,
    /// At the end.
    pub(crate) cold: f64,
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Walk<'p> {
    pub(crate) state: State<'p>,
    pub(crate) best: Vec<u32>,
    pub(crate) best_cost: i64,
    /// Tasks whose machine in `best` may differ from the present one.
    strays: Vec<u32>,
    is_stray: Vec<bool>,
    rng: Pcg64Mcg,
    exponentials: Vec<f64>,
    temperature: f64,
    /// Changes tried.
    pub(crate) steps: u64,
    /// Tasks of the chain that is being tried, with the machines that they came from.
    chain: Vec<(u32, u32)>,
}

impl<'p> Walk<'p> {
    pub(crate) fn new(problem: &'p Problem, seed: u64) -> Result<Walk<'p>, ProblemError> {
        let state = State::new(problem)?;
        let exponential = |at| -libm::log((at as f64 + 0.5) / EXPONENTIALS as f64);
        Ok(Walk {
            best: state.at.clone(),
            best_cost: state.cost,
            strays: Vec::new(),
            is_stray: vec![false; problem.tasks()],
            rng: Pcg64Mcg::seed_from_u64(seed),
            exponentials: (0..EXPONENTIALS).map(exponential).collect(),
            temperature: 0.0,
            steps: 0,
            chain: Vec::new(),
            state,
        })
    }

    /// Goes to another assignment, which obeys the rules.
    pub(crate) fn go_to(&mut self, assignment: &[u32]) {
        for (task, machine) in assignment.iter().enumerate() {
            self.put(task, *machine as usize);
        }
        self.note_best();
    }

    /// Average of the increases of the cost over random possible changes: a temperature at which most are made.
    pub(crate) fn heat(&mut self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        let samples = if self.state.problem.tasks() == 0 { 0 } else { SAMPLES };
        for _ in 0..samples {
            let (task, to) = self.draw();
            if to == self.state.at[task] as usize {
                continue;
            }
            let saving = self.state.saving(task);
            if let Some(change) = self.state.shift(task, to, saving).filter(|change| *change > 0) {
                sum += change as f64;
                count += 1.0;
            }
        }
        if count > 0.0 { sum / count } else { 1.0 }
    }

    /// Anneals until `spent` says that the budget, as a part of 1, is over. It is asked with the steps so far.
    pub(crate) fn anneal(&mut self, cooling: Cooling, spent: &mut dyn FnMut(u64, i64) -> f64) {
        let ratio = libm::log(cooling.cold / cooling.hot);
        if self.state.problem.tasks() == 0 || self.state.problem.machines() < 2 {
            return;
        }
        loop {
            let part = spent(self.steps, self.best_cost);
            if part >= 1.0 {
                break;
            }
            self.temperature = cooling.hot * libm::exp(ratio * part);
            for _ in 0..BATCH {
                self.step();
            }
            self.steps += BATCH;
        }
    }

    fn draw(&mut self) -> (usize, usize) {
        let random = self.rng.next_u64();
        let (tasks, machines) = (self.state.problem.tasks(), self.state.problem.machines());
        (scaled(random, tasks), scaled(random >> 32, machines))
    }

    /// Greatest increase that is made now.
    fn bound(&mut self) -> i64 {
        let random = self.rng.next_u32() as usize % EXPONENTIALS;
        (self.exponentials[random] * self.temperature) as i64
    }

    fn step(&mut self) {
        let random = self.rng.next_u32();
        match random % 32 {
            0..16 => self.try_shift(),
            16..30 => self.try_swap(),
            _ => self.try_chain(),
        }
    }

    fn try_shift(&mut self) {
        let (task, to) = self.draw();
        if to == self.state.at[task] as usize {
            return;
        }
        let bound = self.bound();
        let state = &self.state;
        if !state.fits(task, to) {
            return;
        }
        let saving = state.saving(task);
        if state.shift(task, to, saving).is_some_and(|change| change <= bound) {
            self.make(task, to);
        }
    }

    fn try_swap(&mut self) {
        let tasks = self.state.problem.tasks();
        let random = self.rng.next_u64();
        let (a, b) = (scaled(random, tasks), scaled(random >> 32, tasks));
        let state = &self.state;
        let (at_a, at_b) = (state.at[a], state.at[b]);
        if at_a == at_b || !state.may_swap(a, b) {
            return;
        }
        let change = state.swap(a, b);
        if change <= self.bound() {
            self.put(a, at_b as usize);
            self.put(b, at_a as usize);
            self.note_if_best();
        }
    }

    /// Moves a task, then whatever has no room or no partner any more, at most a few tasks; undoes all if a rule is
    /// broken at the end or the cost rises too much.
    fn try_chain(&mut self) {
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
        while let Some((task, machine)) = self.chain.pop() {
            self.state.put(task as usize, machine as usize);
        }
    }

    fn link(&mut self, task: usize, to: usize) {
        self.chain.push((task as u32, self.state.at[task]));
        self.put(task, to);
    }

    /// Extends a chain until it breaks no rule. The answer is whether it does not.
    fn complete_chain(&mut self) -> bool {
        /// Most tasks of a chain.
        const LENGTH: usize = 6;
        let mut checked = 0;
        while checked < self.chain.len() {
            let (task, from) = self.chain[checked];
            let (task, from) = (task as usize, from as usize);
            let to = self.state.at[task] as usize;
            if !self.bring_partners(task, from, to) {
                return false;
            }
            if !self.state.has_room(to) {
                let Some(other) = self.neighbour(task, to) else { return false };
                let target = self.random_machine(from);
                if target == to {
                    return false;
                }
                self.link(other, target);
                if !self.state.has_room(to) {
                    return false;
                }
            }
            if self.chain.len() > LENGTH {
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

    /// Mostly the machine that the chain left, else any.
    fn random_machine(&mut self, from: usize) -> usize {
        let random = self.rng.next_u32();
        if random % 4 < 2 {
            return from;
        }
        self.rng.random_range(0..self.state.problem.machines())
    }

    /// Another random task of a machine.
    fn neighbour(&mut self, task: usize, machine: usize) -> Option<usize> {
        let count = self.state.on[machine].len();
        let at = self.rng.random_range(0..count);
        let other = self.state.on[machine][at] as usize;
        if other != task {
            return Some(other);
        }
        (count > 1).then(|| self.state.on[machine][(at + 1) % count] as usize)
    }

    /// Moves after a task those that depend on its job where it was, and those on which its job depends where it is.
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
        let Some(task) = task.filter(|_| self.chain.len() < 8) else { return false };
        self.link(task as usize, to);
        true
    }

    fn make(&mut self, task: usize, to: usize) {
        self.put(task, to);
        self.note_if_best();
    }

    fn put(&mut self, task: usize, to: usize) {
        self.state.put(task, to);
        if !self.is_stray[task] {
            self.is_stray[task] = true;
            self.strays.push(task as u32);
        }
    }

    fn note_if_best(&mut self) {
        if self.state.cost < self.best_cost {
            self.note_best();
        }
    }

    fn note_best(&mut self) {
        self.best_cost = self.state.cost;
        for task in self.strays.drain(..) {
            self.best[task as usize] = self.state.at[task as usize];
            self.is_stray[task as usize] = false;
        }
    }
}

/// A number below `bound` from the low 32 bits of a random number.
fn scaled(random: u64, bound: usize) -> usize {
    (((random & 0xffff_ffff) * bound as u64) >> 32) as usize
}
