//! Search for the boundary at which objectives are met. The searched value is a number of machines, or a load in
//! thousandths. It is doubled or halved until two probes enclose the boundary; then each round divides the interval
//! into five equal parts.
//!
//! The probes of a round run in parallel. The number of probes does not depend on the computer, so the search is
//! reproducible.

use std::collections::BTreeMap;

/// Probes in a round that divides the interval.
const CUTS: u64 = 4;

/// Side of the boundary that is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// The smallest number: this and all larger numbers meet the objectives.
    Least,
    /// The largest number: this and all smaller numbers meet the objectives.
    Most,
}

/// Bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The smallest number.
    pub from: u64,
    /// The first number to try.
    pub start: u64,
    /// The largest number.
    pub to: u64,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The answer with the requested precision; `None` if no number that was tried meets the objectives.
    pub holds: Option<u64>,
    /// The number nearest to the answer that misses an objective; `None` if all numbers up to the limit meet the
    /// objectives.
    pub fails: Option<u64>,
    /// A number that fails on the side of the boundary where all should pass, which contradicts the assumption of the
    /// search.
    pub contradicts: Option<u64>,
}

/// Searches. `probe` returns the result for each number of a round.
///
/// # Errors
/// If a probe fails.
pub fn search<E>(
    limits: Limits,
    sense: Sense,
    precision: f64,
    probe: &mut impl FnMut(&[u64]) -> Result<Vec<bool>, E>,
) -> Result<Found, E> {
    let Limits { from, to, .. } = limits;
    let start = limits.start.clamp(from, to);
    let mut known = BTreeMap::new();
    let mut ask = |known: &mut BTreeMap<u64, bool>, numbers: Vec<u64>| {
        let mut new: Vec<u64> = numbers.into_iter().filter(|n| !known.contains_key(n)).collect();
        new.sort_unstable();
        new.dedup();
        let answers = probe(&new)?;
        known.extend(new.into_iter().zip(answers));
        Ok(())
    };
    ask(&mut known, vec![start])?;
    let upward = known[&start] == (sense == Sense::Most);
    if upward {
        // Larger runs take longer, so the search starts small and grows.
        let mut last = start;
        while last < to && bracket(&known, sense).is_open() {
            let next = last.saturating_mul(2).min(to);
            last = last.saturating_mul(4).min(to);
            ask(&mut known, vec![next, last])?;
        }
    } else {
        ask(&mut known, [start / 8, start / 4, start / 2, from].map(|n| n.max(from)).to_vec())?;
    }
    loop {
        let found = bracket(&known, sense);
        let (Some(holds), Some(fails)) = (found.holds, found.fails) else { return Ok(found) };
        let (low, between) = (holds.min(fails), holds.abs_diff(fails));
        if between <= 1 || between as f64 <= precision * holds as f64 {
            return Ok(found);
        }
        let cut = |part: u64| {
            low + (u128::from(between) * u128::from(part) / u128::from(CUTS + 1)) as u64
        };
        let cuts = (1..=CUTS).map(cut).filter(|n| *n != low);
        ask(&mut known, cuts.collect())?;
    }
}

impl Found {
    /// Whether the boundary is not yet bracketed by probes.
    fn is_open(self) -> bool {
        self.holds.is_none() || self.fails.is_none()
    }
}

/// Returns the boundary between the failing and the passing numbers tried so far, and a number that contradicts this
/// boundary, if there is one.
fn bracket(known: &BTreeMap<u64, bool>, sense: Sense) -> Found {
    let holding = known.iter().filter(|(_, holds)| **holds).map(|(n, _)| *n);
    let failing = || known.iter().filter(|(_, holds)| !**holds).map(|(n, _)| *n);
    match sense {
        Sense::Least => {
            let holds = holding.min();
            let fails = failing().filter(|n| holds.is_none_or(|holds| *n < holds)).max();
            let contradicts = holds.and_then(|holds| failing().find(|n| *n > holds));
            Found { holds, fails, contradicts }
        }
        Sense::Most => {
            let holds = holding.max();
            let fails = failing().find(|n| holds.is_none_or(|holds| *n > holds));
            let contradicts = holds.and_then(|holds| failing().find(|n| *n < holds));
            Found { holds, fails, contradicts }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const LIMITS: Limits = Limits { from: 1, start: 100, to: 1000 };

    /// Runs a search over a fixed function. Returns the result, and every number that was tried.
    fn searched(sense: Sense, precision: f64, holds: impl Fn(u64) -> bool) -> (Found, Vec<u64>) {
        let mut tried = Vec::new();
        let mut probe = |numbers: &[u64]| {
            tried.extend_from_slice(numbers);
            Ok::<_, Infallible>(numbers.iter().map(|n| holds(*n)).collect())
        };
        let Ok(found) = search(LIMITS, sense, precision, &mut probe);
        (found, tried)
    }

    #[test]
    fn the_edge_is_found_wherever_it_is() {
        for edge in 2..=1000 {
            let (found, tried) = searched(Sense::Least, 0.0, |n| n >= edge);
            assert_eq!((found.holds, found.fails), (Some(edge), Some(edge - 1)));
            assert!(tried.len() <= 25, "{edge}: {tried:?}");
            let (found, _) = searched(Sense::Most, 0.0, |n| n < edge);
            assert_eq!((found.holds, found.fails), (Some(edge - 1), Some(edge)));
        }
    }

    #[test]
    fn no_number_is_tried_twice_or_beyond_the_limits() {
        for edge in [1, 7, 99, 100, 101, 640, 1001] {
            let (_, mut tried) = searched(Sense::Least, 0.0, |n| n >= edge);
            let all = tried.len();
            tried.sort_unstable();
            tried.dedup();
            assert_eq!(tried.len(), all);
            assert!(tried.iter().all(|n| (1..=1000).contains(n)), "{tried:?}");
        }
    }

    #[test]
    fn all_and_nothing_are_told_apart() {
        let all = Found { holds: Some(1), ..Found::default() };
        assert_eq!(searched(Sense::Least, 0.0, |_| true).0, all);
        let none = Found { fails: Some(1000), ..Found::default() };
        assert_eq!(searched(Sense::Least, 0.0, |_| false).0, none);
        let all = Found { holds: Some(1000), ..Found::default() };
        assert_eq!(searched(Sense::Most, 0.0, |_| true).0, all);
        let none = Found { fails: Some(1), ..Found::default() };
        assert_eq!(searched(Sense::Most, 0.0, |_| false).0, none);
    }

    #[test]
    fn a_coarse_answer_needs_fewer_probes() {
        let (found, tried) = searched(Sense::Least, 0.1, |n| n >= 777);
        let (holds, fails) = (found.holds.unwrap(), found.fails.unwrap());
        assert!(fails < 777 && 777 <= holds && holds - fails <= holds / 10, "{found:?}");
        assert!(tried.len() < searched(Sense::Least, 0.0, |n| n >= 777).1.len());
    }

    #[test]
    fn a_number_that_contradicts_is_told() {
        let (found, _) = searched(Sense::Least, 0.0, |n| n >= 20 && n != 50);
        assert_eq!((found.holds, found.contradicts), (Some(20), Some(50)));
    }
}
