//! Disruption budgets as declared: the number of tasks of a set that must keep running.
//!
//! The number of allowed evictions changes with every commit. So a budget is declared once, and its current state
//! ([`Budget`]) is computed from the counts of the view for each preemption. The arithmetic is that of Kubernetes'
//! disruption controller: shares are rounded up.

use crate::preemption::Budget;
use omega_cellstate::{TaskCounts, TaskSet, View};

/// A number of tasks, or a fraction of the desired tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A number of tasks.
    Tasks(u32),
    /// A percentage of the tasks that have not ended, rounded up.
    Percent(u32),
}

impl Share {
    fn of(self, tasks: usize) -> usize {
        match self {
            Share::Tasks(count) => count as usize,
            Share::Percent(percent) => tasks.saturating_mul(percent as usize).div_ceil(100),
        }
    }
}

/// Number of tasks to keep running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Minimum number of tasks that must have a machine.
    MinAvailable(Share),
    /// Maximum number of tasks that may be without a machine.
    MaxUnavailable(Share),
}

/// Bound on the voluntary disruption of a set of tasks. (Kubernetes' `PodDisruptionBudget`.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// Selector of the protected tasks.
    pub set: TaskSet,
    /// Number of tasks that must keep running.
    pub keep: Keep,
}

impl DisruptionBudget {
    /// Number of further tasks that may be evicted, given the counts of tasks and the number of evictions in progress.
    #[must_use]
    pub fn allowed(&self, counts: TaskCounts, going: usize) -> u32 {
        let up = match self.keep {
            Keep::MinAvailable(share) => share.of(counts.alive),
            Keep::MaxUnavailable(share) => counts.alive.saturating_sub(share.of(counts.alive)),
        };
        let allowed = counts.placed.saturating_sub(going).saturating_sub(up);
        u32::try_from(allowed).unwrap_or(u32::MAX)
    }

    /// Returns the budget's current state. The view must count the budget's tasks. Tasks that the view's own claims
    /// evict count as evicted. If the view has no counts, no eviction is allowed.
    #[must_use]
    pub fn now(&self, view: &View) -> Budget {
        let counts = view.task_counts(&self.set).unwrap_or_default();
        let going = view.evicted().filter(|task| {
            let job = view.job_of(task.id);
            job.is_some_and(|job| self.set.includes(job, usize::from(task.group)))
        });
        let allowed = self.allowed(counts, going.count());
        Budget { tasks: self.set.clone(), allowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::LabelSelector;

    fn allowed(keep: Keep, placed: usize, alive: usize, going: usize) -> u32 {
        let set = TaskSet { tenant: "shop".into(), tasks: LabelSelector::default() };
        DisruptionBudget { set, keep }.allowed(TaskCounts { placed, alive }, going)
    }

    #[test]
    fn what_may_go_is_what_kubernetes_would_let_go() {
        let (min, max) = (Keep::MinAvailable, Keep::MaxUnavailable);
        let cases = [
            (min(Share::Tasks(2)), 5, 5, 0, 3),
            (min(Share::Tasks(2)), 5, 5, 2, 1),
            (min(Share::Tasks(2)), 2, 5, 0, 0),
            (min(Share::Tasks(9)), 5, 5, 0, 0),
            (min(Share::Percent(50)), 5, 5, 0, 2),
            (min(Share::Percent(0)), 5, 5, 0, 5),
            (max(Share::Tasks(1)), 5, 5, 0, 1),
            (max(Share::Tasks(1)), 4, 5, 0, 0),
            (max(Share::Tasks(1)), 5, 5, 1, 0),
            (max(Share::Tasks(0)), 5, 5, 0, 0),
            (max(Share::Percent(30)), 5, 5, 0, 2),
            (max(Share::Percent(100)), 3, 5, 0, 3),
            (max(Share::Percent(100)), 0, 0, 0, 0),
            (max(Share::Tasks(7)), 3, 5, 4, 0),
        ];
        for (keep, placed, alive, going, expected) in cases {
            let found = allowed(keep, placed, alive, going);
            assert_eq!(found, expected, "{keep:?}: {going} going of {placed} of {alive}");
        }
    }
}
