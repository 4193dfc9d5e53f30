//! Number of free processors over time: the calendar of conservative backfilling.
//!
//! ```text
//!  free
//!   8 ─┐              ┌────────  steps: (0, 8) (10, 2) (25, 8)
//!   2  └──────────────┘
//!      0   10         25    ▶ ms
//! ```
//!
//! The steps are in a vector ordered by time. Neighbours differ, and in the last step, which has no end, all processors
//! are free. A search for a gap scans the vector; long queues are cheap because callers limit the scan.

/// Number of processors that are free from this time to the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    at_ms: u64,
    free: u64,
}

/// The number of free processors over time.
///
/// Invariant: the steps ascend by time, neighbours differ, and there is at least one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    steps: Vec<Step>,
}

/// A period for which a number of processors is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Start of the period.
    pub start_ms: u64,
    /// End of the period.
    pub end_ms: u64,
    /// Number of processors.
    pub processors: u64,
}

/// Gap to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Number of processors.
    pub processors: u64,
    /// Duration.
    pub for_ms: u64,
}

/// Limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time before which the gap must start.
    pub before_ms: u64,
    /// Start of the slot that the caller already has; `u64::MAX` without a slot. The slot is at least as long as the
    /// gap. A gap that starts earlier than the slot also ends earlier, so from `own_ms` on the slot's processors
    /// suffice for the gap.
    pub own_ms: u64,
}

impl Profile {
    /// A profile in which all processors are free forever.
    #[must_use]
    pub fn new(processors: u64) -> Profile {
        Profile { steps: vec![Step { at_ms: 0, free: processors }] }
    }

    /// Earliest start of a gap, not before `from_ms`. The machine must have at least as many processors as the gap.
    #[must_use]
    pub fn earliest(&self, from_ms: u64, gap: Gap) -> u64 {
        self.search(from_ms, Limits { before_ms: u64::MAX, own_ms: u64::MAX }, gap)
            .expect("at the end all processors are free for ever")
    }

    /// Earliest start of a gap within limits, not before `from_ms`; `None` if there is no such gap.
    #[must_use]
    pub fn search(&self, from_ms: u64, limits: Limits, gap: Gap) -> Option<u64> {
        let mut start_ms = from_ms;
        let first = self.steps.partition_point(|step| step.at_ms <= from_ms).saturating_sub(1);
        let mut steps = self.steps[first..].iter().peekable();
        while start_ms < limits.before_ms {
            let Some(step) = steps.next() else { return Some(start_ms) };
            if step.at_ms >= start_ms.saturating_add(gap.for_ms).min(limits.own_ms) {
                return Some(start_ms);
            }
            if step.free < gap.processors {
                start_ms = steps.peek()?.at_ms;
            }
        }
        None
    }

    /// Allocates a free slot.
    pub fn take(&mut self, slot: Slot) {
        self.change(slot, |free| free.checked_sub(slot.processors));
    }

    /// Frees a slot.
    pub fn give_back(&mut self, slot: Slot) {
        self.change(slot, |free| free.checked_add(slot.processors));
    }

    /// Drops steps before a time.
    pub fn forget_before(&mut self, now_ms: u64) {
        let past = self.steps.partition_point(|step| step.at_ms <= now_ms).saturating_sub(1);
        // Removing from the front of a vector moves all other steps, so many steps are removed at once.
        if past > 64 {
            self.steps.drain(..past);
        }
    }

    fn change(&mut self, slot: Slot, change: impl Fn(u64) -> Option<u64>) {
        if slot.start_ms >= slot.end_ms {
            return;
        }
        let first = self.split(slot.start_ms);
        let last = self.split(slot.end_ms);
        for step in &mut self.steps[first..last] {
            step.free = change(step.free).expect("a slot is taken of what is free");
        }
        // Within the slot, neighbouring steps still differ. Only at the two ends of the slot may neighbours have become
        // equal.
        for i in [last, first] {
            if i > 0 && self.steps[i].free == self.steps[i - 1].free {
                self.steps.remove(i);
            }
        }
    }

    /// Returns the index of the step that begins at this time. The step is split off from another one if needed.
    fn split(&mut self, at_ms: u64) -> usize {
        let i = self.steps.partition_point(|step| step.at_ms < at_ms);
        if self.steps.get(i).is_none_or(|step| step.at_ms != at_ms) {
            let free = self.steps[i.saturating_sub(1)].free;
            self.steps.insert(i, Step { at_ms, free });
        }
        i
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(start_ms: u64, end_ms: u64, processors: u64) -> Slot {
        Slot { start_ms, end_ms, processors }
    }

    #[test]
    fn the_earliest_gap_is_found() {
        let mut profile = Profile::new(8);
        profile.take(slot(10, 25, 6));
        profile.take(slot(25, 30, 8));
        let earliest =
            |from, processors, for_ms| profile.earliest(from, Gap { processors, for_ms });
        assert_eq!(earliest(0, 8, 10), 0);
        assert_eq!(earliest(1, 8, 10), 30, "one too late");
        assert_eq!(earliest(0, 2, 25), 0);
        assert_eq!(earliest(0, 2, 26), 30);
        assert_eq!(earliest(0, 3, 5), 0);
        assert_eq!(earliest(6, 3, 5), 30);
        let search = |before_ms, own_ms, processors, for_ms| {
            profile.search(6, Limits { before_ms, own_ms }, Gap { processors, for_ms })
        };
        assert_eq!(search(30, 30, 3, 5), None);
        assert_eq!(search(25, 25, 2, 50), Some(6), "what is in its own slot is free for it");
        assert_eq!(search(25, 26, 2, 50), None);
    }

    #[test]
    fn what_is_given_back_was_never_taken() {
        let mut profile = Profile::new(8);
        let slots = [slot(0, 10, 3), slot(5, 20, 2), slot(10, 12, 6), slot(20, 21, 8)];
        slots.iter().for_each(|slot| profile.take(*slot));
        slots.iter().for_each(|slot| profile.give_back(*slot));
        assert_eq!(profile, Profile::new(8));
    }
}
