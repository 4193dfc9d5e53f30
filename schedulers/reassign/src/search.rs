//! Search: several walks at once, in rounds. Each round starts from the best assignment of the previous round.
//!
//! The result depends on the problem, the seed, the number of walks and the steps. If the budget is a time, the result
//! also depends on the speed of the computer.

use crate::problem::{Problem, ProblemError};
use crate::state::Costs;
use crate::walk::{Cooling, Walk};
use std::thread;

/// Budget of a search: when the search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Number of changes that each walk tries. The search ends earlier if [`Watch::spent`] reaches 1.
    Steps(u64),
    /// Time only: the search ends when [`Watch::spent`] reaches 1.
    Watched,
}

/// Parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Seed of the walks.
    pub seed: u64,
    /// Number of walks, each on its own thread.
    pub walks: usize,
    /// Budget.
    pub budget: Budget,
}

/// Clock and observer of a search.
pub trait Watch: Sync {
    /// Part of the time that has passed, from 0. The search ends at 1 or more.
    fn spent(&self) -> f64;

    /// Called when a walk finds a better assignment, with the cost of the assignment.
    fn best(&self, _cost: i64) {}
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Machine of each task.
    pub assignment: Vec<u32>,
    /// Costs of the assignment.
    pub costs: Costs,
    /// Changes tried by all walks.
    pub steps: u64,
}

/// A round of the search. `end` is the part of the budget that is spent when the round ends. `hot` and `cold` are its
/// first and last temperature, relative to the mean increase of the cost by a random change.
struct Round {
    end: f64,
    hot: f64,
    cold: f64,
}

/// The rounds. The first round decides which tasks share machines. Each later round starts colder, from the best
/// assignment so far, and reduces the smaller costs, such as those of moves.
const ROUNDS: [Round; 3] = [
    Round { end: 0.85, hot: 8.0, cold: 2e-2 },
    Round { end: 0.93, hot: 2e-2, cold: 2e-4 },
    Round { end: 1.0, hot: 2e-3, cold: 0.0 },
];

/// Lowest temperature: at this temperature, an increase of the cost by 1 is hardly ever accepted.
const COLDEST: f64 = 0.2;

/// Searches for an assignment with a lower cost. The result is never worse than the initial one, and breaks no rule.
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

/// Part of the budget, from `begin` to `end`, that one round may spend.
#[derive(Clone, Copy, Debug)]
struct Part {
    begin: f64,
    end: f64,
}

fn run(walk: &mut Walk<'_>, cooling: Cooling, budget: Budget, part: Part, watch: &dyn Watch) {
    let mut reported = f64::INFINITY;
    walk.anneal(cooling, &mut |steps, best| {
        if best < reported {
            reported = best;
            watch.best(best as i64);
        }
        let spent = match budget {
            Budget::Watched => watch.spent(),
            // If a larger part of the time than of the steps is spent, the temperature follows the time.
            Budget::Steps(most) => watch.spent().max(steps as f64 / most.max(1) as f64),
        };
        if spent >= 1.0 { 1.0 } else { (spent - part.begin) / (part.end - part.begin) }
    });
}
