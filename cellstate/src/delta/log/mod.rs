//! The change log: changes by version, from which deltas for views are made.
//!
//! ```text
//!   version   41        42      43            44
//!   rows      1 7 9   | 4     | 2           |
//!   others    a b     | c     | d e         | f
//!             ^starts[41]      ^starts[43]
//! ```
//!
//! Rows whose amounts changed are in a separate list, because most changes are of this sort and take only one number.
//! Both lists share one index by version. Each commit writes the ends of the lists and of the index. It must fetch the
//! cache lines of these ends from the processor that ran the previous commit, so one index instead of two saves a cache
//! line.
//!
//! The latest changed rows are also kept with their amounts; see `recent_rows.rs`.
//!
//! The log is bounded. A reader that needs older changes takes a snapshot instead.

mod recent_rows;

use omega_core::{SequenceNumber, Version};
use recent_rows::{RecentRows, RowsPart};
use std::collections::vec_deque::{self, VecDeque};

/// Bounded lists of changes, in the order of versions.
///
/// Invariant: `starts` has one entry for each version after `base`.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ChangeLog<T> {
    rows: Track<u32>,
    recent: RecentRows,
    others: Track<T>,
    starts: VecDeque<Start>,
    base: Version,
    capacity: usize,
}

/// The start of a version: the position of its first change in each list. Positions count all changes ever added.
#[derive(Clone, Copy, Debug)]
struct Start {
    rows: u64,
    others: u64,
}

/// A list of changes that drops its oldest ones.
#[derive(Clone, Debug)]
struct Track<T> {
    changes: VecDeque<T>,
    dropped: u64,
}

impl<T> Track<T> {
    fn new() -> Track<T> {
        Track { changes: VecDeque::new(), dropped: 0 }
    }

    fn end(&self) -> u64 {
        self.dropped + self.changes.len() as u64
    }

    fn drop_before(&mut self, position: u64) {
        // Usually only one or two changes are dropped, and `drain` of a range would cost more than this loop.
        while self.dropped < position {
            self.changes.pop_front();
            self.dropped += 1;
        }
    }

    fn from(&self, position: u64) -> impl Iterator<Item = &T> {
        self.changes.range((position - self.dropped) as usize..)
    }
}

impl<T> ChangeLog<T> {
    /// An empty log that begins after `base`, for machines with this number of kinds. It keeps at most `capacity` rows,
    /// other changes, and versions.
    pub fn new(base: Version, capacity: usize, kinds: usize) -> ChangeLog<T> {
        ChangeLog {
            rows: Track::new(),
            recent: RecentRows::new(kinds),
            others: Track::new(),
            starts: VecDeque::new(),
            base,
            capacity,
        }
    }

    /// The version before the first one whose changes the log has.
    pub fn base(&self) -> Version {
        self.base
    }

    /// Opens the next version, to which [`ChangeLog::push`] and [`ChangeLog::push_row`] then add changes.
    pub fn open_version(&mut self) {
        self.starts.push_back(self.end());
        if self.starts.len() > self.capacity {
            self.drop_oldest();
        }
    }

    /// Adds a row whose amounts changed in the newest version. If it changes again, it must be added again.
    #[inline]
    pub fn push_row(&mut self, row: u32, sequence: SequenceNumber, free: &[i64]) {
        self.recent.push(sequence, free);
        self.rows.changes.push_back(row);
        while self.rows.changes.len() > self.capacity && self.starts.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Adds a change of anything except amounts to the newest version.
    #[inline]
    pub fn push(&mut self, change: T) {
        self.others.changes.push_back(change);
        while self.others.changes.len() > self.capacity && self.starts.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Adds several changes of anything except amounts to the newest version.
    pub fn extend(&mut self, changes: impl IntoIterator<Item = T>) {
        changes.into_iter().for_each(|change| self.push(change));
    }

    /// Positions after the last change of each list.
    fn end(&self) -> Start {
        Start { rows: self.rows.end(), others: self.others.end() }
    }

    /// Drops the oldest version.
    fn drop_oldest(&mut self) {
        self.starts.pop_front();
        self.base = self.base.next();
        let next = self.starts.front().copied().unwrap_or_else(|| self.end());
        self.rows.drop_before(next.rows);
        self.others.drop_before(next.others);
    }

    /// Counts the entries of each list after a version; `None` if some of these changes were dropped.
    pub fn counts_since(&self, version: Version) -> Option<Counts> {
        let start = self.start_after(version)?;
        let Start { rows, others } = self.end();
        let count = |end: u64, start: u64| (end - start) as usize;
        Some(Counts { rows: count(rows, start.rows), others: count(others, start.others) })
    }

    /// The rows that changed after a version, oldest first. A row may occur more than once.
    ///
    /// If changes after the version were dropped, the result is empty. `counts_since` detects this; call it first.
    pub fn rows_since(&self, version: Version) -> impl Iterator<Item = u32> {
        let start = self.start_after(version).unwrap_or_else(|| self.end());
        self.rows.from(start.rows).copied()
    }

    /// The sequence number and free amounts of each row that changed after a version, as they were after that change,
    /// in the order of [`ChangeLog::rows_since`]. `None` if there are more changes than `recent` keeps, or if some were
    /// dropped.
    pub fn amounts_since(&self, version: Version) -> Option<[RowsPart<'_>; 2]> {
        self.recent.last(self.counts_since(version)?.rows)
    }

    /// The other changes after a version, oldest first. If some of them were dropped, the result is empty.
    pub fn since(&self, version: Version) -> impl Iterator<Item = &T> {
        let start = self.start_after(version).unwrap_or_else(|| self.end());
        self.others.from(start.others)
    }

    /// The other changes after a version without the first `count` ones, oldest first. The start costs the same for
    /// each `count`. `None` if some of these changes were dropped, or if there are fewer than `count`.
    pub fn since_skipping(&self, version: Version, count: usize) -> Option<vec_deque::Iter<'_, T>> {
        let start = self.start_after(version)?;
        let first = (start.others - self.others.dropped) as usize + count;
        (first <= self.others.changes.len()).then(|| self.others.changes.range(first..))
    }

    fn start_after(&self, version: Version) -> Option<Start> {
        let versions = usize::try_from(version.0.checked_sub(self.base.0)?).ok()?;
        Some(self.starts.get(versions).copied().unwrap_or_else(|| self.end()))
    }
}

/// Numbers of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub rows: usize,
    pub others: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog<u32>, version: u64) -> Option<Vec<u32>> {
        let counts = log.counts_since(Version(version))?;
        let others: Vec<u32> = log.since(Version(version)).copied().collect();
        assert_eq!(counts.others, others.len());
        Some(others)
    }

    fn rows_since(log: &ChangeLog<u32>, version: u64) -> Option<Vec<u32>> {
        let counts = log.counts_since(Version(version))?;
        let rows: Vec<u32> = log.rows_since(Version(version)).collect();
        assert_eq!(counts.rows, rows.len());
        Some(rows)
    }

    #[test]
    fn changes_come_back_by_version_until_they_are_forgotten() {
        let mut log = ChangeLog::new(Version(10), 4, 1);
        log.open_version(); // 11
        log.push(1);
        log.push(2);
        log.push_row(7, SequenceNumber(0), &[0]);
        log.open_version(); // 12: nothing here
        log.open_version(); // 13
        log.push(3);
        log.push_row(8, SequenceNumber(0), &[0]);
        assert_eq!(since(&log, 9), None);
        assert_eq!(since(&log, 10), Some(vec![1, 2, 3]));
        assert_eq!(rows_since(&log, 10), Some(vec![7, 8]));
        assert_eq!(since(&log, 11), Some(vec![3]));
        assert_eq!(since(&log, 12), Some(vec![3]));
        assert_eq!(rows_since(&log, 12), Some(vec![8]));
        assert_eq!(since(&log, 13), Some(vec![]));
        log.push(4);
        log.push(5);
        assert_eq!(since(&log, 10), None, "five changes do not fit into four");
        assert_eq!(rows_since(&log, 10), None, "the rows of a forgotten version are forgotten");
        assert_eq!(since(&log, 12), Some(vec![3, 4, 5]));
        assert_eq!(rows_since(&log, 12), Some(vec![8]));
    }

    #[test]
    fn one_version_may_exceed_the_bound() {
        let mut log = ChangeLog::new(Version(0), 2, 1);
        log.open_version();
        for i in 0..5 {
            log.push(i);
            log.push_row(i, SequenceNumber(0), &[0]);
        }
        assert_eq!(since(&log, 0), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(rows_since(&log, 0), Some(vec![0, 1, 2, 3, 4]));
        log.open_version();
        log.push(9);
        assert_eq!(since(&log, 0), None);
        assert_eq!(since(&log, 1), Some(vec![9]));
        assert_eq!(rows_since(&log, 1), Some(vec![]));
    }

    #[test]
    fn versions_without_changes_are_bounded() {
        let mut log = ChangeLog::<u32>::new(Version(0), 3, 1);
        (0..5).for_each(|_| log.open_version());
        assert_eq!(log.counts_since(Version(1)), None);
        assert_eq!(log.counts_since(Version(2)), Some(Counts { rows: 0, others: 0 }));
    }
}
