//! Search: several walks at once, in rounds; each round begins at the best assignment of the one before.
//!
//! The result depends on the problem, the seed, the number of walks and the steps. With a time as the budget, it also
//! depends on how many steps the computer makes.

use crate::problem::{Problem, ProblemError};
use crate::state::Costs;
use crate::walk::{Cooling, Walk};
use std::thread;

/// Budget of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Changes that each walk tries.
    Steps(u64),
    /// As long as [`Watch::spent`] is below 1.
    Watched,
}

/// Parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Seed of the walks.
    pub seed: u64,
    /// Walks at once, each on a thread.
    pub walks: usize,
    /// Budget.
    pub budget: Budget,
}

/// Clock and observer of a search.
pub trait Watch: Sync {
    /// Part of the time that is spent; 1 or more ends the search.
    fn spent(&self) -> f64;

    /// Learns the cost of the best assignment of a walk so far.
    fn best(&self, _cost: i64) {}
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Machine of each task.
    pub assignment: Vec<u32>,
    /// Its costs.
    pub costs: Costs,
    /// Changes tried by all walks.
    pub steps: u64,
}

/// Round: the part of the budget at which it ends, and its temperatures as parts of the mean increase of a random change.
struct Round {
    end: f64,
    hot: f64,
    cold: f64,
}

/// The first round decides which tasks share machines. The others begin colder, at its best assignment: they polish it
/// down to costs that are small beside those at the start, as of moves.
const ROUNDS: [Round; 3] = [
    Round { end: 0.85, hot: 8.0, cold: 2e-2 },
    Round { end: 0.93, hot: 2e-2, cold: 2e-4 },
    Round { end: 1.0, hot: 2e-3, cold: 0.0 },
];

/// Least temperature: an increase of 1 is hardly ever made.
const COLDEST: f64 = 0.2;

/// Looks for an assignment of less cost, from the initial one on. The result is never worse and breaks no rule.
///
/// # Errors
/// If the initial assignment breaks a rule.
pub fn search(
    problem: &Problem,
    settings: Settings,
    watch: &dyn Watch,
) -> Result<Found, ProblemError> {
    let seeds =
        (0..settings.walks.max(1) as u64).map(|walk| settings.seed.wrapping_mul(1 << 16) + walk);
    let mut walks = seeds.map(|seed| Walk::new(problem, seed)).collect::<Result<Vec<_>, _>>()?;
    let heat = walks[0].heat();
    walks[0].descend(&mut |walk| {
        watch.best(walk.best_cost as i64);
        let is_enough = matches!(settings.budget, Budget::Steps(most) if walk.steps >= most);
        is_enough || watch.spent() >= 1.0
    });
    let mut begin = 0.0;
    for round in &ROUNDS {
        let cooling = Cooling {
            hot: (heat * round.hot).max(2.0 * COLDEST),
            cold: (heat * round.cold).max(COLDEST),
        };
        let part = Part { begin, end: round.end };
        thread::scope(|scope| {
            for walk in &mut walks {
                scope.spawn(move || run(walk, cooling, settings.budget, part, watch));
            }
        });
        let best = walks.iter().min_by(|a, b| a.best_cost.total_cmp(&b.best_cost));
        if let Some(best) = best.map(|walk| walk.best.clone()) {
            walks.iter_mut().for_each(|walk| walk.go_to(&best));
        }
        begin = round.end;
    }
    let steps = walks.iter().map(|walk| walk.steps).sum();
    let best = walks.swap_remove(0);
    Ok(Found { costs: best.state.costs(), assignment: best.state.at, steps })
}

/// Part of a budget.
#[derive(Clone, Copy, Debug)]
struct Part {
    begin: f64,
    end: f64,
}

fn run(walk: &mut Walk<'_>, cooling: Cooling, budget: Budget, part: Part, watch: &dyn Watch) {
    let mut told = f64::INFINITY;
    walk.anneal(cooling, &mut |steps, best| {
        if best < told {
            told = best;
            watch.best(best as i64);
        }
        let spent = match budget {
            Budget::Watched => watch.spent(),
            Budget::Steps(_) if watch.spent() >= 1.0 => 1.0,
            Budget::Steps(most) => steps as f64 / most.max(1) as f64,
        };
        if spent >= 1.0 { 1.0 } else { (spent - part.begin) / (part.end - part.begin) }
    });
}
