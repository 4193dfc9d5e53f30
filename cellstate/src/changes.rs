//! What changed, by version: from it come the deltas that bring views up to date.
//!
//! ```text
//!   version   41        42      43            44
//!   changes   a b c   | d     | e f         | g
//!             ^starts[41]     ^starts[43]
//! ```
//!
//! The log is bounded. A reader that asks for more than it holds takes a snapshot instead.

use omega_core::Version;
use std::collections::VecDeque;

/// A bounded list of changes, in the order of versions.
///
/// Invariant: `starts` has one entry for each version after `base`; an entry is the position of
/// the version's first change, counted from the first change ever.
#[derive(Clone, Debug)]
pub(crate) struct ChangeLog<T> {
    changes: VecDeque<T>,
    starts: VecDeque<u64>,
    base: Version,
    dropped: u64,
    capacity: usize,
}

impl<T> ChangeLog<T> {
    /// An empty log after `base`, for at most `capacity` changes and as many versions.
    pub(crate) fn new(base: Version, capacity: usize) -> ChangeLog<T> {
        ChangeLog { changes: VecDeque::new(), starts: VecDeque::new(), base, dropped: 0, capacity }
    }

    /// Opens the next version; [`ChangeLog::push`] adds to it.
    pub(crate) fn open_version(&mut self) {
        self.starts.push_back(self.dropped + self.changes.len() as u64);
        if self.starts.len() > self.capacity {
            self.drop_oldest();
        }
    }

    /// Adds a change to the newest version.
    pub(crate) fn push(&mut self, change: T) {
        self.changes.push_back(change);
        while self.changes.len() > self.capacity && self.starts.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Adds changes to the newest version.
    pub(crate) fn extend(&mut self, changes: impl IntoIterator<Item = T>) {
        changes.into_iter().for_each(|change| self.push(change));
    }

    /// Forgets the oldest version.
    fn drop_oldest(&mut self) {
        self.starts.pop_front();
        self.base = self.base.next();
        let next = self.starts.front().copied();
        let keep_from = next.unwrap_or(self.dropped + self.changes.len() as u64);
        while self.dropped < keep_from {
            self.changes.pop_front();
            self.dropped += 1;
        }
    }

    /// How many changes came after a version; `None` if some of them are forgotten.
    pub(crate) fn count_since(&self, version: Version) -> Option<usize> {
        let first = self.first_since(version)?;
        Some(self.changes.len() - first)
    }

    /// The changes after a version, oldest first. A change may be there more than once.
    ///
    /// Nothing comes for a version whose successors are forgotten: ask `count_since` first.
    pub(crate) fn since(&self, version: Version) -> impl Iterator<Item = &T> {
        let first = self.first_since(version).unwrap_or(self.changes.len());
        self.changes.range(first..)
    }

    fn first_since(&self, version: Version) -> Option<usize> {
        let versions = usize::try_from(version.0.checked_sub(self.base.0)?).ok()?;
        match self.starts.get(versions) {
            Some(start) => Some((start - self.dropped) as usize),
            None => Some(self.changes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog<u32>, version: u64) -> Option<Vec<u32>> {
        log.count_since(Version(version))?;
        Some(log.since(Version(version)).copied().collect())
    }

    #[test]
    fn changes_come_back_by_version_until_they_are_forgotten() {
        let mut log = ChangeLog::new(Version(10), 4);
        log.open_version(); // 11
        log.push(1);
        log.push(2);
        log.open_version(); // 12: nothing here
        log.open_version(); // 13
        log.push(3);
        assert_eq!(since(&log, 9), None);
        assert_eq!(since(&log, 10), Some(vec![1, 2, 3]));
        assert_eq!(since(&log, 11), Some(vec![3]));
        assert_eq!(since(&log, 12), Some(vec![3]));
        assert_eq!(since(&log, 13), Some(vec![]));
        log.push(4);
        log.push(5);
        assert_eq!(since(&log, 10), None, "five changes do not fit into four");
        assert_eq!(since(&log, 12), Some(vec![3, 4, 5]));
    }

    #[test]
    fn one_version_may_exceed_the_bound() {
        let mut log = ChangeLog::new(Version(0), 2);
        log.open_version();
        for i in 0..5 {
            log.push(i);
        }
        assert_eq!(since(&log, 0), Some(vec![0, 1, 2, 3, 4]));
        log.open_version();
        log.push(9);
        assert_eq!(since(&log, 0), None);
        assert_eq!(since(&log, 1), Some(vec![9]));
    }
}
