//! Walk: simulated annealing of one assignment.
//!
//! A change that raises the cost by `d` is accepted with probability `exp(-d / temperature)`, that is, if `d` is at
//! most the temperature times an exponentially distributed random number. The temperature falls geometrically as the
//! budget is spent. `proposals.rs`, `chain.rs` and `rearrange.rs` make the changes.

use crate::problem::{Problem, ProblemError};
use crate::state::State;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Entries of the table of the exponential distribution.
const EXPONENTIALS: usize = 4096;

/// Number of changes between two checks of the budget.
const BATCH: u64 = 1024;

/// Number of changes sampled to choose the first temperature.
const SAMPLES: usize = 4000;

/// Temperatures of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cooling {
    /// At the beginning.
    pub(crate) hot: f64,
    /// At the end.
    pub(crate) cold: f64,
}

impl Cooling {
    /// Returns the temperature when the given part of the budget, from 0 to 1, has been spent.
    pub(crate) fn at(self, part: f64) -> f64 {
        self.hot * libm::exp(libm::log(self.cold / self.hot) * part)
    }
}

/// Simulated annealing of one assignment, with the best assignment found.
#[derive(Debug)]
pub(crate) struct Walk<'p> {
    pub(crate) state: State<'p>,
    pub(crate) best: Vec<u32>,
    pub(crate) best_cost: f64,
    /// Tasks whose present machine may differ from their machine in `best`.
    strays: Vec<u32>,
    is_stray: Vec<bool>,
    rng: Pcg64Mcg,
    exponentials: Vec<f64>,
    pub(crate) temperature: f64,
    /// Changes tried.
    pub(crate) steps: u64,
    /// Size of each task, as a sum of shares of the total capacity of each kind.
    pub(crate) sizes: Vec<f64>,
    /// Moves of the chain that is being tried: each task, with the machine from which it came.
    pub(crate) chain: Vec<(u32, u32)>,
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
            sizes: problem.sizes(),
            chain: Vec::new(),
            state,
        })
    }

    /// Replaces the assignment by another one, which must obey the rules.
    pub(crate) fn go_to(&mut self, assignment: &[u32]) {
        for (task, machine) in assignment.iter().enumerate() {
            self.put(task, *machine as usize);
        }
        self.note_if_best();
    }

    /// Returns the mean increase of the cost over random changes that raise it. If the temperature is this mean, most
    /// changes are accepted.
    pub(crate) fn heat(&mut self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        let samples = if self.state.problem.tasks() == 0 { 0 } else { SAMPLES };
        for _ in 0..samples {
            let (task, to) = self.draw();
            if let Some(change) = self.state.change_by_move(task, to).filter(|change| *change > 0) {
                sum += change as f64;
                count += 1.0;
            }
        }
        if count > 0.0 { sum / count } else { 1.0 }
    }

    /// Anneals until `spent`, called with the number of changes and the best cost so far, returns 1 or more.
    pub(crate) fn anneal(&mut self, cooling: Cooling, spent: &mut dyn FnMut(u64, f64) -> f64) {
        if self.state.problem.tasks() == 0 || self.state.problem.machines() < 2 {
            return;
        }
        loop {
            let part = spent(self.steps, self.best_cost);
            if part >= 1.0 {
                break;
            }
            self.temperature = cooling.at(part);
            for _ in 0..BATCH {
                self.step();
            }
            self.steps += BATCH;
        }
    }

    /// Draws the largest increase of the cost that is accepted for the next change.
    #[inline]
    pub(crate) fn bound(&mut self) -> f64 {
        let random = self.rng.next_u32() as usize % EXPONENTIALS;
        self.exponentials[random] * self.temperature
    }

    #[inline]
    pub(crate) fn random(&mut self) -> u32 {
        self.rng.next_u32()
    }

    /// A random number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        scaled(u64::from(self.rng.next_u32()), bound)
    }

    /// Two random numbers below their bounds.
    #[inline]
    pub(crate) fn two_below(&mut self, first: usize, second: usize) -> (usize, usize) {
        let random = self.rng.next_u64();
        (scaled(random, first), scaled(random >> 32, second))
    }

    /// A random task and a random machine.
    #[inline]
    pub(crate) fn draw(&mut self) -> (usize, usize) {
        let problem = self.state.problem;
        self.two_below(problem.tasks(), problem.machines())
    }

    pub(crate) fn put(&mut self, task: usize, to: usize) {
        self.state.put(task, to);
        if !self.is_stray[task] {
            self.is_stray[task] = true;
            self.strays.push(task as u32);
        }
    }

    pub(crate) fn note_if_best(&mut self) {
        if self.state.cost < self.best_cost {
            self.best_cost = self.state.cost;
            for task in self.strays.drain(..) {
                self.best[task as usize] = self.state.at[task as usize];
                self.is_stray[task as usize] = false;
            }
        }
    }
}

/// Scales the low 32 bits of a random number to a number below `bound`.
fn scaled(random: u64, bound: usize) -> usize {
    (((random & 0xffff_ffff) * bound as u64) >> 32) as usize
}
