//! Positions of tasks in long lists of machines' tasks.
//!
//! Most machines have some tens of tasks, so a task is found by a search from the end of its machine's list. On a
//! machine with 2^16 tasks, such searches would hold the cell's lock for seconds when a job with many tasks ends. So
//! once a task is not found in the last part of a long list, the positions of all tasks of the list are kept in a map,
//! until the list is short.

use crate::state::map::FastMap;
use omega_core::TaskId;

/// Maximum number of tasks that a search reads. Reading them takes about as long as a claim.
const SEARCHED: usize = 512;

/// Length below which the positions of a list are dropped. It is far below [`SEARCHED`], so that lists whose length
/// varies do not make and drop their positions again and again.
const SHORT: usize = SEARCHED / 4;

/// The known positions, by row.
///
/// Invariant: the map of each listed row has exactly the positions of the row's tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskPlaces(FastMap<u32, FastMap<TaskId, u32>>);

impl TaskPlaces {
    /// Adds a task to the list of a row.
    #[inline]
    pub fn push(&mut self, slot: usize, tasks: &mut Vec<TaskId>, task: TaskId) {
        if tasks.len() >= SHORT
            && let Some(places) = self.0.get_mut(&(slot as u32))
        {
            places.insert(task, tasks.len() as u32);
        }
        tasks.push(task);
    }

    /// Removes a task from the list of a row. Returns whether the list had it.
    #[inline]
    pub fn remove(&mut self, slot: usize, tasks: &mut Vec<TaskId>, task: TaskId) -> bool {
        if tasks.len() >= SHORT && self.has(slot, tasks, task) {
            return self.remove_known(slot, tasks, task);
        }
        // The search starts at the end, because undo and preemption remove the newest tasks.
        let position = tasks.iter().rposition(|other| *other == task);
        position.map(|position| tasks.swap_remove(position)).is_some()
    }

    /// Returns whether the positions of a list are known. Determines them first if the task is not near the end of a
    /// long list.
    fn has(&mut self, slot: usize, tasks: &[TaskId], task: TaskId) -> bool {
        let end = &tasks[tasks.len().saturating_sub(SEARCHED)..];
        let slot = slot as u32;
        if !self.0.contains_key(&slot) && end.len() < tasks.len() && !end.contains(&task) {
            self.0.insert(slot, tasks.iter().copied().zip(0..).collect());
        }
        self.0.contains_key(&slot)
    }

    #[inline(never)]
    fn remove_known(&mut self, slot: usize, tasks: &mut Vec<TaskId>, task: TaskId) -> bool {
        let slot = slot as u32;
        let Some(places) = self.0.get_mut(&slot) else { return false };
        let Some(position) = places.remove(&task) else { return false };
        tasks.swap_remove(position as usize);
        if let Some(moved) = tasks.get(position as usize) {
            places.insert(*moved, position);
        }
        if tasks.len() < SHORT {
            self.0.remove(&slot);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::JobId;
    use proptest::prelude::*;

    fn task(index: u32) -> TaskId {
        TaskId { job: JobId(1), index }
    }

    #[test]
    fn positions_are_kept_while_a_list_is_long() {
        let (mut places, mut tasks) = (TaskPlaces::default(), Vec::new());
        let count = 4 * SEARCHED as u32;
        (0..count).for_each(|index| places.push(7, &mut tasks, task(index)));
        assert!(places.remove(7, &mut tasks, task(count - 2)));
        assert!(places.0.is_empty(), "it was near the end");
        for index in 0..count - 2 {
            assert!(places.remove(7, &mut tasks, task(index)));
            assert_eq!(places.0.is_empty(), tasks.len() < SHORT, "{}", tasks.len());
        }
        assert_eq!(tasks, [task(count - 1)]);
        assert!(!places.remove(7, &mut tasks, task(0)));
    }

    proptest! {
        /// Two rows behave like sets, whichever positions are known.
        #[test]
        fn lists_are_sets(steps in proptest::collection::vec((0..2_usize, 0..4096_u32, 0..9_u8), 0..4000)) {
            let mut places = TaskPlaces::default();
            let mut lists = [Vec::new(), Vec::new()];
            let mut sets = [const { std::collections::BTreeSet::new() }; 2];
            for index in 0..2 * SEARCHED as u32 {
                places.push(0, &mut lists[0], task(index));
                sets[0].insert(task(index));
            }
            for (row, index, kind) in steps {
                let (list, set) = (&mut lists[row], &mut sets[row]);
                if kind < 4 && set.insert(task(index)) {
                    places.push(row, list, task(index));
                } else if kind >= 4 {
                    prop_assert_eq!(places.remove(row, list, task(index)), set.remove(&task(index)));
                }
                prop_assert_eq!(list.len(), set.len());
                if let Some(known) = places.0.get(&(row as u32)) {
                    prop_assert_eq!(known.len(), list.len());
                    prop_assert!(known.iter().all(|(task, at)| list[*at as usize] == *task));
                }
            }
            for (list, set) in lists.iter_mut().zip(&sets) {
                list.sort_unstable();
                prop_assert!(list.iter().eq(set));
            }
        }
    }
}
