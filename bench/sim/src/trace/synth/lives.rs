//! Run times of tasks whose end is not in the trace.
//!
//! A batch task that had not ended at the end of the trace has an unknown run time, which is at least the rest of the
//! trace. If the generated task ran forever, the cell would fill up in a longer trace. If it ended where the trace
//! ends, there would be no long tasks. So the generated task gets the run time of a random batch task that ran longer
//! than the rest of the trace. If there is no such batch task, the generated task runs forever. (Statisticians call
//! this redistribution to the right.) Services without an end run forever.

use super::chance::Chance;
use crate::trace::values::Values;

/// The run times of the batch tasks that have an end, and the time at which the trace ends.
pub(super) struct Lives {
    /// Run times in ascending order, each with the number of tasks that did not run longer.
    ended: Vec<(u64, u64)>,
    end_ms: u64,
}

impl Lives {
    pub(super) fn new(ended: &Values, end_ms: u64) -> Lives {
        Lives { ended: ended.cumulative(), end_ms }
    }

    /// Run time of a task that arrived at this time and has no end in the trace; `None` if it runs forever.
    pub(super) fn beyond(&self, at_ms: u64, chance: &mut Chance) -> Option<u64> {
        let seen_ms = self.end_ms.saturating_sub(at_ms);
        let shorter = self.ended.partition_point(|(run_ms, _)| *run_ms <= seen_ms);
        let below = shorter.checked_sub(1).map_or(0, |last| self.ended[last].1);
        let all = self.ended.last().map_or(0, |(_, count)| *count);
        if all == below {
            return None;
        }
        let drawn = below + chance.below(all - below);
        let position = self.ended.partition_point(|(_, count)| *count <= drawn);
        Some(self.ended[position].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_seen_longer_runs_longer() {
        let mut ended = Values::default();
        [(10, 5), (50, 1), (90, 3)]
            .into_iter()
            .for_each(|(run_ms, times)| ended.add(run_ms, times));
        let (lives, mut chance) = (Lives::new(&ended, 100), Chance::new(3));
        assert_eq!(lives.beyond(0, &mut chance), None, "nothing ran for 100 ms");
        assert_eq!(lives.beyond(10, &mut chance), None);
        assert_eq!(lives.beyond(20, &mut chance), Some(90));
        let drawn: Vec<u64> = (0..4000).filter_map(|_| lives.beyond(60, &mut chance)).collect();
        let long = drawn.iter().filter(|run_ms| **run_ms == 90).count();
        assert_eq!(drawn.len(), 4000);
        assert!((2850..3150).contains(&long), "three of four run 90 ms, not {long} of 4000");
        assert_eq!(Lives::new(&Values::default(), 5).beyond(0, &mut chance), None);
    }
}
