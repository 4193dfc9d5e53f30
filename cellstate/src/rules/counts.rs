//! Counts by domain, in pages of 64.
//!
//! At the machine level a domain is a row, so a page corresponds to a block of machines. A filter looks up the page
//! once, and then reads only machines with a count. Other levels usually have few domains, all on the first page, which
//! needs no lookup. A page stores only counts that are not zero, so a rule about few tasks takes little memory in a
//! large cell.

use super::bits;
use super::level::{Domain, PAGE};
use crate::state::map::FastMap;
use smallvec::SmallVec;
use std::ops::AddAssign;

/// The value of [`PAGE`] in the type of domains.
const PAGE_DOMAINS: Domain = PAGE as Domain;

/// The counts of a tracker in one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Placed tasks that the tracker selects.
    pub matched: u32,
    /// Placed tasks with a rule that keeps matched tasks out of the domain, or limits their number.
    pub holders: u32,
    /// Required affinities of placed tasks to the matched tasks.
    pub seekers: u32,
    /// Preferences of placed tasks for or against matched tasks.
    pub pullers: u32,
    /// The sum of the weights of the preferences in `pullers`.
    pub pull: i64,
}

/// A change of a [`Count`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    pub matched: i32,
    pub holders: i32,
    pub seekers: i32,
    pub pullers: i32,
    pub pull: i64,
}

impl AddAssign<Step> for Count {
    fn add_assign(&mut self, step: Step) {
        let add =
            |count: u32, step| count.checked_add_signed(step).expect("counts equal a recount");
        self.matched = add(self.matched, step.matched);
        self.holders = add(self.holders, step.holders);
        self.seekers = add(self.seekers, step.seekers);
        self.pullers = add(self.pullers, step.pullers);
        self.pull += step.pull;
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    first: Page,
    /// The other pages by number, from 1. None of them is empty.
    others: FastMap<u32, Page>,
}

/// The counts of 64 domains.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// One bit for each domain whose count is not zero.
    there: u64,
    /// The counts that are not zero, in the order of their domains.
    counts: SmallVec<[Count; 1]>,
}

impl Page {
    /// The position of a domain's count in `counts`.
    fn rank(&self, bit: u32) -> usize {
        (self.there & ((1 << bit) - 1)).count_ones() as usize
    }

    /// Each count that is not zero, with its domain on the page.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Count)> + '_ {
        bits(self.there).zip(self.counts.iter().copied())
    }

    pub(super) fn get(&self, bit: u32) -> Count {
        match self.there >> bit & 1 {
            0 => Count::default(),
            _ => self.counts[self.rank(bit)],
        }
    }

    fn set(&mut self, bit: u32, count: Count) {
        let rank = self.rank(bit);
        match (self.there >> bit & 1 == 1, count == Count::default()) {
            (true, false) => self.counts[rank] = count,
            (false, false) => self.counts.insert(rank, count),
            (true, true) => drop(self.counts.remove(rank)),
            (false, true) => return,
        }
        let mask = 1 << bit;
        self.there = if count == Count::default() { self.there & !mask } else { self.there | mask };
    }
}

impl Counts {
    /// The page of the domains from `64 * number` on; `None` if all their counts are zero.
    pub(super) fn page(&self, number: u32) -> Option<&Page> {
        if number == 0 { Some(&self.first) } else { self.others.get(&number) }
    }

    pub(super) fn get(&self, domain: Domain) -> Count {
        let page = self.page(domain / PAGE_DOMAINS);
        page.map_or(Count::default(), |page| page.get(domain % PAGE_DOMAINS))
    }

    pub(super) fn set(&mut self, domain: Domain, count: Count) {
        let (number, bit) = (domain / PAGE_DOMAINS, domain % PAGE_DOMAINS);
        if number == 0 {
            self.first.set(bit, count);
            return;
        }
        let page = self.others.entry(number).or_default();
        page.set(bit, count);
        if page.there == 0 {
            self.others.remove(&number);
        }
    }

    /// Every count that is not zero, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Domain, Count)> + '_ {
        let others = self.others.iter().map(|(number, page)| (*number, page));
        std::iter::once((0, &self.first)).chain(others).flat_map(|(number, page)| {
            page.iter().map(move |(bit, count)| (number * PAGE_DOMAINS + bit as u32, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares random updates of counts with a map.
        #[test]
        fn pages_are_a_map(steps in prop::collection::vec((0u32..200, 0u32..3), 0..400)) {
            let mut counts = Counts::default();
            let mut map = BTreeMap::new();
            for (domain, matched) in steps {
                let count = Count { matched, ..Count::default() };
                counts.set(domain, count);
                map.insert(domain, count);
                if matched == 0 {
                    map.remove(&domain);
                }
            }
            for domain in 0..256 {
                let expected = map.get(&domain).copied().unwrap_or_default();
                prop_assert_eq!(counts.get(domain), expected);
            }
            let all: BTreeMap<_, _> = counts.iter().collect();
            prop_assert_eq!(all, map);
            prop_assert!(counts.others.values().all(|page| page.there != 0));
        }
    }
}
