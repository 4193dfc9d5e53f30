//! The highest amount of one resource kind that a trace requests at any time, and its highest share of the capacity.
//!
//! Unlike the means of [`Load`](super::load::Load), a peak is exact. For this, the ends of the running tasks are kept,
//! so the memory grows with the number of tasks that would run at the same time, not with the length of the trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Tasks with equal requests, of which each requests `each`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub(super) each: u64,
    pub(super) tasks: u32,
}

impl Alike {
    fn total(self) -> u128 {
        u128::from(self.each) * u128::from(self.tasks)
    }
}

/// The requested amount of one kind, and its maximums so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Peak {
    /// Ends of the running tasks: the time, the request of each task, and the number of tasks.
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Amount that the running tasks request.
    requested: u128,
    largest: u128,
    largest_share: f64,
}

impl Peak {
    /// Adds tasks that begin now. They run until `end_ms`, or to the end of the trace.
    pub(super) fn begin(&mut self, alike: Alike, end_ms: Option<u64>) {
        self.requested = self.requested.saturating_add(alike.total());
        if let Some(end_ms) = end_ms {
            self.ends.push(Reverse((end_ms, alike.each, alike.tasks)));
        }
    }

    /// Updates the maximums after all changes at this time. Only arrivals and changes of machines need calls, because
    /// the requested amount never grows between them.
    pub(super) fn note(&mut self, now_ms: u64, capacity: u128) {
        while let Some(Reverse((end_ms, each, tasks))) = self.ends.peek().copied()
            && end_ms <= now_ms
        {
            self.ends.pop();
            self.requested = self.requested.saturating_sub(Alike { each, tasks }.total());
        }
        self.largest = self.largest.max(self.requested);
        if capacity > 0 {
            let share = self.requested as f64 / capacity as f64;
            self.largest_share = self.largest_share.max(share);
        }
    }

    /// The highest requested amount.
    pub(super) fn largest(&self) -> f64 {
        self.largest as f64
    }

    /// The highest share of the capacity at the same time; 0 if there never was any capacity.
    pub(super) fn largest_share(&self) -> f64 {
        self.largest_share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_follow_each_other_do_not_add_up() {
        let mut peak = Peak::default();
        let two = Alike { each: 3, tasks: 2 };
        peak.begin(two, Some(10));
        peak.begin(Alike { each: 1, tasks: 1 }, None);
        // Tasks that end when they begin are never counted.
        peak.begin(Alike { each: 100, tasks: 1 }, Some(0));
        peak.note(0, 14);
        assert_eq!((peak.largest(), peak.largest_share()), (7.0, 0.5));
        peak.begin(two, Some(20));
        peak.note(10, 14);
        assert_eq!((peak.largest(), peak.largest_share()), (7.0, 0.5));
        peak.begin(Alike { each: 2, tasks: 1 }, Some(15));
        peak.note(12, 0);
        assert_eq!((peak.largest(), peak.largest_share()), (9.0, 0.5));
        // A machine is removed after one of the tasks has ended.
        peak.note(16, 7);
        assert_eq!((peak.largest(), peak.largest_share()), (9.0, 1.0));
        assert_eq!(peak.ends.len(), 1);
    }
}
