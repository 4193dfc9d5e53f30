//! The window by which a workload's clock may be ahead of the schedulers.
//!
//! ```text
//!   changes of the feeder   ...........|#################|
//!                                      ^ seen by all     ^ applied
//!                                        schedulers
//! ```
//!
//! The feeder is ahead by a bounded number of changes. It never waits until all schedulers have caught up,
//! because the other schedulers would have nothing to do while the slowest one works. Once the window is full,
//! the feeder waits until half of it is free. So the feeder and the schedulers each do much work at a time, and
//! seldom wake each other.

use omega_core::Version;
use std::collections::VecDeque;

/// Number of changes since the last wake after which schedulers are woken although the feeder continues.
const WAKE_EACH: u64 = 256;

/// Changes of the feeder that are in the cell.
#[derive(Debug)]
struct Applied {
    /// The cell's version after the changes.
    version: Version,
    /// Number of changes up to that version.
    changes: u64,
    /// The workload's time of the first of these changes.
    at_ms: u64,
}

/// The window. See the module documentation.
#[derive(Debug)]
pub(crate) struct Window {
    /// Maximum number of pending tasks. Up to four times as many arrivals and ends of tasks may not have been seen by
    /// all workers.
    size: usize,
    /// Newest version that each worker has seen.
    seen: Vec<Version>,
    /// Number of tasks that have arrived or ended so far.
    changes: u64,
    /// The changes that some worker has not seen yet.
    applied: VecDeque<Applied>,
    /// The workload's time of the first change for which the cell has no version yet.
    unapplied_ms: Option<u64>,
    /// Number of changes that every worker has seen.
    seen_by_all: u64,
    woken_at: u64,
    is_closed: bool,
}

impl Window {
    /// Creates a window of this size for this many workers.
    pub(crate) fn new(size: usize, workers: usize) -> Window {
        Window {
            size,
            seen: vec![Version(0); workers],
            changes: 0,
            applied: VecDeque::new(),
            unapplied_ms: None,
            seen_by_all: 0,
            woken_at: 0,
            is_closed: false,
        }
    }

    /// Counts arrivals or ends of tasks.
    pub(crate) fn changed(&mut self, tasks: u64) {
        self.changes += tasks;
    }

    /// Records changes at this time of the workload, which have no version yet.
    pub(crate) fn sent(&mut self, at_ms: u64) {
        self.unapplied_ms.get_or_insert(at_ms);
    }

    /// Records a version that includes all changes so far, of which the last are from this time of the workload.
    pub(crate) fn applied(&mut self, version: Version, at_ms: u64) {
        let at_ms = self.unapplied_ms.take().unwrap_or(at_ms);
        match self.applied.back_mut() {
            Some(last) if last.version >= version => last.changes = self.changes,
            _ => self.applied.push_back(Applied { version, changes: self.changes, at_ms }),
        }
    }

    /// Newest version that every worker has seen.
    pub(crate) fn version_seen_by_all(&self) -> Version {
        self.seen.iter().min().copied().unwrap_or_default()
    }

    /// Forgets the changes that every worker has seen.
    fn forget(&mut self) {
        let all = self.version_seen_by_all();
        while let Some(applied) = self.applied.pop_front_if(|applied| applied.version <= all) {
            self.seen_by_all = applied.changes;
        }
    }

    /// The workload's time of the first change that some worker has not seen.
    pub(crate) fn unseen_ms(&mut self) -> Option<u64> {
        self.forget();
        self.applied.front().map(|applied| applied.at_ms).or(self.unapplied_ms)
    }

    /// Records the version that a worker has seen.
    pub(crate) fn seen(&mut self, worker: usize, version: Version) {
        self.seen[worker] = self.seen[worker].max(version);
    }

    /// Whether the feeder may continue with this many pending tasks.
    pub(crate) fn is_open(&mut self, waiting: usize) -> bool {
        self.forget();
        let size = if self.is_closed { self.size.div_ceil(2) } else { self.size };
        let unseen = self.changes - self.seen_by_all;
        self.is_closed = waiting >= size || unseen >= 4 * size as u64;
        !self.is_closed
    }

    /// Whether to wake the workers although the feeder continues. If so, records that they were woken.
    pub(crate) fn is_worth_a_wake(&mut self) -> bool {
        self.changes - self.woken_at >= WAKE_EACH && self.owes_a_wake()
    }

    /// Whether there are changes for which the workers were not woken. If so, records that they were woken.
    pub(crate) fn owes_a_wake(&mut self) -> bool {
        std::mem::replace(&mut self.woken_at, self.changes) != self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_closes_over_what_not_every_worker_has_seen() {
        let mut window = Window::new(10, 2);
        window.changed(39);
        window.applied(Version(1), 5);
        assert!(window.is_open(9));
        window.changed(1);
        window.applied(Version(2), 7);
        assert_eq!(window.unseen_ms(), Some(5));
        assert!(!window.is_open(0));
        window.seen(0, Version(2));
        assert!(!window.is_open(0), "the other worker is behind");
        window.seen(1, Version(1));
        assert!(window.is_open(0), "one change is unseen");
        assert_eq!(window.unseen_ms(), Some(7));
        window.seen(1, Version(2));
        assert_eq!(window.unseen_ms(), None);
    }

    #[test]
    fn once_closed_it_opens_when_half_is_free() {
        let mut window = Window::new(10, 1);
        assert!(window.is_open(9));
        assert!(!window.is_open(10));
        assert!(!window.is_open(5));
        assert!(window.is_open(4));
        assert!(window.is_open(9));
    }

    #[test]
    fn a_window_of_one_opens() {
        let mut window = Window::new(1, 1);
        assert!(!window.is_open(1));
        assert!(window.is_open(0));
    }

    #[test]
    fn workers_are_woken_for_many_changes_or_before_a_wait() {
        let mut window = Window::new(10, 1);
        assert!(!window.owes_a_wake());
        window.changed(WAKE_EACH - 1);
        assert!(!window.is_worth_a_wake());
        window.changed(1);
        assert!(window.is_worth_a_wake() && !window.is_worth_a_wake() && !window.owes_a_wake());
        window.changed(1);
        assert!(window.owes_a_wake() && !window.owes_a_wake());
    }
}
