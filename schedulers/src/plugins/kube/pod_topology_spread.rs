//! Tasks spread over the domains of a topology. (Kubernetes' PodTopologySpread.)
//!
//! A hard spread is a filter, with the same counts as the cell's check. A soft spread is a score: fewer selected tasks
//! in a machine's domain are better. The weight of one task grows with the logarithm of the number of domains.

use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks, lanes};
use crate::framework::relative::{Feasible, Ranking, RelativeScore, Stance};
use crate::plugins::kube::normalize::{POINT, hundredths};
use crate::plugins::rules::lacks_place;
use omega_cellstate::{BLOCK, Block, RuleFamily, SoftSpread, SoftSpreadCounts};
use smallvec::SmallVec;

/// The plugin `pod_topology_spread`; see the head of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodTopologySpread;

impl Filter for PodTopologySpread {
    fn name(&self) -> &'static str {
        "pod_topology_spread"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.family_concerns(tasks.need, RuleFamily::Spread)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        block.family_allows(tasks.need, RuleFamily::Spread, among)
    }

    fn curable(&self, tasks: &Tasks<'_>, block: Block<'_>, refused: u64) -> u64 {
        refused & !lacks_place(tasks, block, RuleFamily::Spread, refused)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::SPREAD
    }
}

impl RelativeScore for PodTopologySpread {
    fn name(&self) -> &'static str {
        "pod_topology_spread"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> Stance {
        if tasks.need.soft_spreads().is_empty() { Stance::Silent } else { Stance::Ranks }
    }

    fn prepare<'a>(
        &'a self,
        tasks: Tasks<'a>,
        feasible: Feasible<'a>,
    ) -> Option<Box<dyn Ranking + 'a>> {
        let wishes = tasks.need.soft_spreads().iter();
        let wishes = wishes.filter_map(|wish| Some((*wish, tasks.view.soft_spread(wish)?)));
        let wishes: SmallVec<[_; 4]> = wishes.collect();
        let placed = feasible.blocks().map(|(block, among)| placed(&wishes, block, among));
        let placed: Vec<u64> = placed.collect();
        let spreads = wishes.iter().map(|(wish, counts)| Spread {
            counts: *counts,
            skew_free: f64::from(wish.skew_max) - 1.0,
            weight: weight(wish, counts, feasible, &placed),
        });
        Some(Box::new(Spreads { feasible, spreads: spreads.collect(), placed }))
    }
}

/// Feasible machines that have a domain for each soft spread; other machines are ignored.
fn placed(wishes: &[(SoftSpread, SoftSpreadCounts<'_>)], block: Block<'_>, among: u64) -> u64 {
    wishes.iter().fold(among, |word, (_, counts)| counts.placed(block, word))
}

/// Weight of one task in a domain, which grows with the number of domains. The logarithm comes from a library and not
/// from the platform, so that results are equal on all platforms.
fn weight(
    wish: &SoftSpread,
    counts: &SoftSpreadCounts<'_>,
    feasible: Feasible<'_>,
    placed: &[u64],
) -> f64 {
    let domains = if wish.by_machine {
        placed.iter().map(|word| word.count_ones() as usize).sum()
    } else {
        domains(counts, feasible, placed)
    };
    libm::log((domains + 2) as f64)
}

/// Number of domains of the machines in `placed`.
fn domains(counts: &SoftSpreadCounts<'_>, feasible: Feasible<'_>, placed: &[u64]) -> usize {
    let mut seen: Vec<u64> = Vec::new();
    for ((block, _), word) in feasible.blocks().zip(placed) {
        for lane in lanes(*word) {
            let domain = counts.domain(block.first_row() + lane).unwrap_or_default() as usize;
            if seen.len() <= domain / 64 {
                seen.resize(domain / 64 + 1, 0);
            }
            seen[domain / 64] |= 1 << (domain % 64);
        }
    }
    seen.iter().map(|word| word.count_ones() as usize).sum()
}

/// A soft spread in a decision.
struct Spread<'a> {
    counts: SoftSpreadCounts<'a>,
    /// Number of tasks by which a domain may exceed another without a lower score.
    skew_free: f64,
    weight: f64,
}

/// All soft spreads in a decision.
struct Spreads<'a> {
    feasible: Feasible<'a>,
    spreads: SmallVec<[Spread<'a>; 4]>,
    /// For each block of `feasible`, the feasible machines that have a domain for each soft spread.
    placed: Vec<u64>,
}

impl Spreads<'_> {
    /// For each feasible machine, in the order of the machines: whether it has a domain for each soft spread.
    fn takes_part(&self) -> impl Iterator<Item = bool> + '_ {
        let blocks = self.feasible.blocks().zip(&self.placed);
        blocks
            .flat_map(|((_, among), placed)| lanes(among).map(move |lane| placed >> lane & 1 == 1))
    }
}

impl Ranking for Spreads<'_> {
    fn raw(&self, block: Block<'_>, among: u64, raw: &mut [i64; BLOCK]) {
        let mut sums = [0.0; BLOCK];
        for spread in &self.spreads {
            let counts = spread.counts.of_block(block);
            for (sum, count) in sums.iter_mut().zip(&counts) {
                *sum += f64::from(*count) * spread.weight + spread.skew_free;
            }
        }
        raw.iter_mut().zip(&sums).for_each(|(raw, sum)| *raw = rounded(*sum));
        let placed = self.spreads.iter().fold(among, |word, s| s.counts.placed(block, word));
        lanes(among & !placed).for_each(|lane| raw[lane] = 0);
    }

    fn normalize(&self, raw: &[i64], scores: &mut [i32]) {
        let all_take_part = self.feasible.blocks().zip(&self.placed).all(|((_, a), b)| a == *b);
        if all_take_part {
            let (least, most) = (raw.iter().min(), raw.iter().max());
            let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
            let with = |(score, raw): (&mut i32, &i64)| *score = score_of(*raw, least, most);
            scores.iter_mut().zip(raw).for_each(with);
            return;
        }
        let taking_part = || raw.iter().zip(self.takes_part()).filter(|(_, part)| *part);
        let least = taking_part().map(|(raw, _)| *raw).min().unwrap_or(0);
        let most = taking_part().map(|(raw, _)| *raw).max().unwrap_or(0);
        for ((score, raw), takes_part) in scores.iter_mut().zip(raw).zip(self.takes_part()) {
            *score = if takes_part { score_of(*raw, least, most) } else { 0 };
        }
    }
}

/// Score of a raw value, by its position between the smallest and the largest.
fn score_of(raw: i64, least: i64, most: i64) -> i32 {
    let points = if most == 0 { 100 } else { hundredths(most + least - raw, most) };
    points as i32 * POINT
}

/// Rounds to the nearest integer, with halves away from zero. Written so that it is inlined.
fn rounded(value: f64) -> i64 {
    let whole = value as i64;
    let rest = value - whole as f64;
    whole + i64::from(rest >= 0.5) - i64::from(rest <= -0.5)
}

#[cfg(test)]
mod tests {
    use super::rounded;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_is_that_of_the_library(value in -1e9f64..1e9, half in -1000i32..1000) {
            let half = f64::from(half) / 2.0;
            for value in [value, half, half.next_up(), half.next_down()] {
                prop_assert_eq!(rounded(value), libm::round(value) as i64, "{}", value);
            }
        }
    }
}
