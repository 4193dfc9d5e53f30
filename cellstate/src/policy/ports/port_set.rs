//! Sets of port numbers: a sorted list while they are small, and a bitmap beyond.
//!
//! Most machines have a few ports. A machine with thousands of them gets a bitmap of 8 KiB, in which free ports are
//! found 64 at a time.

use omega_core::PortRange;

/// Largest number of ports in a list. It takes an eighth of the memory of a bitmap.
const LIST_MAX: usize = 512;

/// Number of words of a bitmap.
const WORDS: usize = (1 << 16) / 64;

/// A set of port numbers.
#[derive(Clone, Debug)]
pub(super) enum PortSet {
    /// The ports in ascending order.
    List(Vec<u16>),
    Bitmap {
        words: Box<[u64; WORDS]>,
        count: usize,
    },
}

impl PortSet {
    pub(super) const EMPTY: PortSet = PortSet::List(Vec::new());

    pub(super) fn len(&self) -> usize {
        match self {
            PortSet::List(ports) => ports.len(),
            PortSet::Bitmap { count, .. } => *count,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn contains(&self, port: u16) -> bool {
        match self {
            PortSet::List(ports) => ports.binary_search(&port).is_ok(),
            PortSet::Bitmap { words, .. } => words[word_of(port)] & bit_of(port) != 0,
        }
    }

    /// Adds a port. Does nothing if the set has it.
    pub(super) fn insert(&mut self, port: u16) {
        match self {
            PortSet::List(ports) => {
                let Err(at) = ports.binary_search(&port) else { return };
                ports.insert(at, port);
                if ports.len() > LIST_MAX {
                    *self = PortSet::bitmap(ports);
                }
            }
            PortSet::Bitmap { words, count } => {
                let word = &mut words[word_of(port)];
                *count += usize::from(*word & bit_of(port) == 0);
                *word |= bit_of(port);
            }
        }
    }

    /// Removes a port. Does nothing if the set does not have it.
    pub(super) fn remove(&mut self, port: u16) {
        match self {
            PortSet::List(ports) => {
                ports.binary_search(&port).into_iter().for_each(|at| _ = ports.remove(at));
            }
            PortSet::Bitmap { words, count } => {
                let word = &mut words[word_of(port)];
                *count -= usize::from(*word & bit_of(port) != 0);
                *word &= !bit_of(port);
                // A bitmap becomes a list well below the limit, so that few changes near the limit convert the set.
                if *count < LIST_MAX / 2 {
                    *self = PortSet::List(self.iter().collect());
                }
            }
        }
    }

    fn bitmap(ports: &[u16]) -> PortSet {
        let mut words = Box::new([0; WORDS]);
        ports.iter().for_each(|port| words[word_of(*port)] |= bit_of(*port));
        PortSet::Bitmap { words, count: ports.len() }
    }

    /// The ports in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let (list, words) = match self {
            PortSet::List(ports) => (&ports[..], &[][..]),
            PortSet::Bitmap { words, .. } => (&[][..], &words[..]),
        };
        let marked = (0..).zip(words).flat_map(|(index, word)| ports_of(index, *word));
        list.iter().copied().chain(marked)
    }

    /// One bit for each of the 64 ports from `64 * index` on, set if the set has the port.
    fn word(&self, index: usize) -> u64 {
        match self {
            PortSet::List(ports) => {
                let from = ports.partition_point(|port| word_of(*port) < index);
                let ports = ports[from..].iter().take_while(|port| word_of(**port) == index);
                ports.fold(0, |word, port| word | bit_of(*port))
            }
            PortSet::Bitmap { words, .. } => words[index],
        }
    }

    /// The number of ports in a range.
    pub(super) fn count_in(&self, range: PortRange) -> usize {
        if range.count() == 0 {
            return 0;
        }
        match self {
            PortSet::List(ports) => {
                let upto = ports.partition_point(|port| *port <= range.last);
                upto - ports.partition_point(|port| *port < range.first)
            }
            PortSet::Bitmap { words, .. } => {
                let indexes = word_of(range.first)..=word_of(range.last);
                let marked = |index: usize| words[index] & mask(index, range.first, range.last);
                indexes.map(|index| marked(index).count_ones() as usize).sum()
            }
        }
    }

    /// The ports from `first` to `last` that are not in the set, in ascending order.
    pub(super) fn missing(&self, first: u16, last: u16) -> impl Iterator<Item = u16> + '_ {
        let indexes = word_of(first)..=word_of(last);
        let missing = move |index: usize| !self.word(index) & mask(index, first, last);
        indexes.flat_map(move |index| ports_of(index, missing(index)))
    }
}

/// Equal sets may have different forms.
impl PartialEq for PortSet {
    fn eq(&self, other: &PortSet) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for PortSet {}

impl Default for PortSet {
    fn default() -> PortSet {
        PortSet::EMPTY
    }
}

impl FromIterator<u16> for PortSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ports: I) -> PortSet {
        let mut set = PortSet::EMPTY;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

fn word_of(port: u16) -> usize {
    usize::from(port) / 64
}

fn bit_of(port: u16) -> u64 {
    1 << (port % 64)
}

/// The bits of the ports from `first` to `last` in a word.
fn mask(index: usize, first: u16, last: u16) -> u64 {
    let from = if index == word_of(first) { u64::MAX << (first % 64) } else { u64::MAX };
    let upto = if index == word_of(last) { u64::MAX >> (63 - last % 64) } else { u64::MAX };
    from & upto
}

/// The ports whose bits are set in a word, in ascending order.
fn ports_of(index: usize, word: u64) -> impl Iterator<Item = u16> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as u16)?;
        left &= left - 1;
        Some(index as u16 * 64 + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Compares a set that grows and shrinks across the limit of a list with a tree of ports.
        #[test]
        fn both_forms_are_a_set(
            around in 0u16..=u16::MAX,
            added in prop::collection::vec(0u16..1500, 0..1500),
            removed in prop::collection::vec(0u16..1500, 0..3000),
            (first, width) in (1u16..=u16::MAX, 0u16..2000),
        ) {
            let at = |offset: u16| around.wrapping_add(offset);
            let mut set: PortSet = added.iter().map(|offset| at(*offset)).collect();
            let mut model: BTreeSet<u16> = added.iter().map(|offset| at(*offset)).collect();
            let is_list = |set: &PortSet| matches!(set, PortSet::List(_));
            prop_assert_eq!(is_list(&set), model.len() <= LIST_MAX);
            for offset in &removed {
                set.remove(at(*offset));
                model.remove(&at(*offset));
                prop_assert_eq!(set.len(), model.len());
                let (most, least) = (LIST_MAX, LIST_MAX / 2);
                let fits = if is_list(&set) { set.len() <= most } else { set.len() >= least };
                prop_assert!(fits, "{} ports", set.len());
            }
            let ports: Vec<u16> = model.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), &ports[..]);
            let list = PortSet::List(ports.clone());
            prop_assert_eq!(&list, &PortSet::bitmap(&ports));
            let range = PortRange { first, last: first.saturating_add(width) };
            for set in [&set, &list] {
                prop_assert_eq!(set.count_in(range), model.range(first..=range.last).count());
                let missing: Vec<u16> = set.missing(first, range.last).collect();
                let expected = (first..=range.last).filter(|port| !model.contains(port));
                prop_assert_eq!(missing, expected.collect::<Vec<_>>());
            }
            prop_assert_eq!(set.count_in(PortRange::NONE), 0);
        }
    }
}
