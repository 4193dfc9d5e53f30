//! Tolerances for rows of the two-level architecture, whose figures must agree in size and direction, not in every
//! digit.
//!
//! The reference orders schedulers with equal shares by object identity, so its digits cannot be reproduced. As long as
//! offers suffice for all jobs, the figures hardly depend on that order. Otherwise, small causes have large effects,
//! and the tolerance is the difference between runs with different seeds.

use super::{Expected, Figure, Got};

/// Tolerance between two figures: a difference, or a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tolerance {
    apart: f64,
    factor: f64,
}

/// Number of expected abandoned jobs above which a row counts as overloaded.
const ABANDONED_CALM_MAX: f64 = 20.0;

/// The tolerances, described for people.
pub const ALLOWED: &str = "two-level rows are compared by shape: no conflicts; abandoned and queued jobs at most 20 apart; \
    busyness and transactions within 5 %, jobs and tasks within 1 %, waits within 25 %; where jobs are left over or more \
    than 20 are abandoned, all within a factor of 4, and abandoned and queued jobs together";

/// Figures of which only the sum is compared in an overloaded run. Small causes decide whether a job that fails often
/// is abandoned shortly before the end, or is still queued at the end.
const UNPLACED: [Figure; 2] = [Figure::Abandoned, Figure::LeftInQueue];

/// Returns whether the run of a row is overloaded: the offers do not suffice for all jobs.
#[must_use]
pub fn is_strained(row: &[Expected]) -> bool {
    number(row, Figure::Abandoned) > ABANDONED_CALM_MAX || number(row, Figure::LeftInQueue) > 0.0
}

/// Expected value of a figure in a row.
fn number(row: &[Expected], figure: Figure) -> f64 {
    let found = row.iter().find(|expected| expected.figure == figure);
    found.and_then(|expected| expected.text.parse().ok()).unwrap_or(0.0)
}

/// Whether a figure of a two-level row is within its tolerance. `got` returns the simulated
/// figures.
pub fn agrees(row: &[Expected], expected: &Expected, got: impl Fn(Figure) -> Got) -> bool {
    let figure = expected.figure;
    let strained = is_strained(row);
    let tolerance = Tolerance::of(figure, strained);
    if strained && UNPLACED.contains(&figure) {
        let of_got = |figure| if let Got::Number(number) = got(figure) { number } else { 0.0 };
        let ours = UNPLACED.map(of_got).iter().sum();
        return tolerance.allows(ours, UNPLACED.map(|figure| number(row, figure)).iter().sum());
    }
    match got(figure) {
        Got::Number(ours) => tolerance.allows(ours, number(row, figure)),
        undefined => undefined.is(&expected.text),
    }
}

impl Tolerance {
    fn of(figure: Figure, strained: bool) -> Tolerance {
        let factor = match figure {
            Figure::Wasted | Figure::Failed | Figure::ConflictFraction => 1.0,
            _ if strained => 4.0,
            Figure::Busy | Figure::Useful | Figure::Succeeded => 1.05,
            Figure::WaitMean => 1.25,
            _ => 1.01,
        };
        let apart = match figure {
            Figure::Abandoned | Figure::LeftInQueue => ABANDONED_CALM_MAX,
            _ => 0.0,
        };
        Tolerance { apart, factor }
    }

    fn allows(self, a: f64, b: f64) -> bool {
        let (small, large) = (a.min(b), a.max(b));
        large - small <= self.apart || large <= small * self.factor
    }
}
