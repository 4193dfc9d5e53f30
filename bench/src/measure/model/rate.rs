//! Rates of placements with many workers and processors, predicted from costs that were measured on one thread.
//!
//! The model is a closed queue: each running worker works without the cell's lock, waits for the lock, holds it, and
//! begins again. Mean value analysis (Reiser and Lavenberg, 1980) gives the rate for exponentially
//! distributed times. If there are more workers than processors, each processor runs one worker at a time.

use super::costs::Costs;

/// Placements per second with these costs on this many processors. On two or more, each placement locks the cell for
/// `fetch` more nanoseconds, to fetch cache lines from another processor.
pub(super) fn placements_per_s(costs: &Costs, processors: usize, fetch: f64) -> f64 {
    let fetch = if processors > 1 { fetch } else { 0.0 };
    let unlocked = costs.unlocked * costs.at_once;
    let locked = (costs.locked + fetch) * costs.at_once;
    let (mut queued, mut rate) = (0.0, 0.0);
    for busy in 1..=processors {
        let response = locked * (1.0 + queued);
        rate = busy as f64 / (unlocked + response);
        queued = rate * response;
    }
    1e9 * rate * costs.at_once
}

/// The `fetch` with which [`placements_per_s`] of two processors equals the measured rate; 0 if the measured rate is
/// above that without fetches.
pub(super) fn fitted_fetch(costs: &Costs, measured_per_s: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if placements_per_s(costs, 2, middle) > measured_per_s {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { locked: 100.0, unlocked: 900.0, at_once: 10.0 };

    fn near(value: f64, wanted: f64) -> bool {
        (value / wanted - 1.0).abs() < 1e-6
    }

    #[test]
    fn one_processor_never_waits() {
        assert!(near(placements_per_s(&COSTS, 1, 500.0), 1e6));
    }

    #[test]
    fn two_processors_wait_for_each_other() {
        // Each finds the cell locked with the probability 1/10: 2 / (900 + 100 * 1.1).
        assert!(near(placements_per_s(&COSTS, 2, 0.0), 2e9 / 1010.0));
    }

    #[test]
    fn the_cell_bounds_the_rate_of_many() {
        let rate = placements_per_s(&COSTS, 1000, 0.0);
        assert!((0.999e7..1.001e7).contains(&rate), "one placement per 100 ns: {rate}");
    }

    #[test]
    fn a_fitted_fetch_gives_the_measured_rate() {
        let measured = 1.5e6;
        let fetch = fitted_fetch(&COSTS, measured);
        assert!(near(placements_per_s(&COSTS, 2, fetch), measured));
        assert!(fitted_fetch(&COSTS, 3e6) < 1e-9, "no fetch makes two processors that fast");
    }
}
