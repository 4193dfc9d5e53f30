//! Numbers of a job's tasks by state, and of their failures. They are updated as tasks change, so that a query need not
//! read each task of a large job.
//!
//! A record has only those numbers that cannot be derived from its numbers of tasks, of unfinished and of placed ones.

use omega_core::TaskState;
use smallvec::SmallVec;

/// Numbers of a job's tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Pending tasks.
    pub pending: u32,
    /// Placed tasks that do not run yet.
    pub placed: u32,
    /// Running tasks.
    pub running: u32,
    /// Finished tasks.
    pub finished: u32,
    /// Tasks that failed for good.
    pub failed: u32,
    /// Killed tasks.
    pub killed: u32,
    /// Sum over all tasks of the failures after which the task became pending again.
    pub failures: u64,
}

impl StateCounts {
    /// Number of tasks that have not ended.
    #[must_use]
    pub fn alive(&self) -> u32 {
        self.pending + self.placed + self.running
    }
}

/// Numbers of a group's tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupTally {
    /// Number of tasks that have not ended.
    pub alive: u32,
    /// Failures of the group's tasks, including final ones.
    pub failures: u64,
}

/// The stored numbers of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTally {
    running: u32,
    finished: u32,
    failed: u32,
    /// Groups by position, up to the last one that ever had a task.
    groups: SmallVec<[GroupTally; 1]>,
}

/// The other numbers of a job, from which [`TaskTally::states`] derives numbers of tasks.
#[derive(Clone, Copy, Debug)]
pub struct JobTotals {
    pub tasks: u32,
    pub alive: u32,
    pub placed: u32,
}

impl TaskTally {
    /// Counts tasks, each with the position of its group, its state, and its number of failures.
    pub fn of(tasks: impl Iterator<Item = (usize, TaskState, u16)>) -> TaskTally {
        let mut tally = TaskTally::default();
        for (group, state, failures) in tasks {
            tally.add_pending(group, 1);
            tally.change(group, TaskState::Pending, state);
            tally.groups[group].failures += u64::from(failures);
        }
        tally
    }

    /// Counts the tasks of a new job, whose groups have these numbers of tasks.
    pub fn of_groups(counts: impl Iterator<Item = u32>) -> TaskTally {
        let mut tally = TaskTally::default();
        counts.enumerate().for_each(|(group, count)| tally.add_pending(group, count));
        tally
    }

    /// Counts new tasks of a group.
    pub fn add_pending(&mut self, group: usize, count: u32) {
        if count > 0 {
            if self.groups.len() <= group {
                self.groups.resize(group + 1, GroupTally::default());
            }
            self.groups[group].alive += count;
        }
    }

    /// Counts the change of an unfinished task's state.
    #[inline]
    pub fn change(&mut self, group: usize, from: TaskState, to: TaskState) {
        self.running -= u32::from(matches!(from, TaskState::Running(_)));
        self.running += u32::from(matches!(to, TaskState::Running(_)));
        if to.ended() {
            self.groups[group].alive -= 1;
            self.groups[group].failures += u64::from(to == TaskState::Failed);
            self.failed += u32::from(to == TaskState::Failed);
            self.finished += u32::from(to == TaskState::Finished);
        }
    }

    /// Counts failures after which a task becomes pending again.
    pub fn add_failures(&mut self, group: usize, count: u16) {
        self.groups[group].failures += u64::from(count);
    }

    /// The numbers of a group's tasks.
    pub fn group(&self, group: usize) -> GroupTally {
        self.groups.get(group).copied().unwrap_or_default()
    }

    /// The numbers of tasks by state.
    pub fn states(&self, of: JobTotals) -> StateCounts {
        let TaskTally { running, finished, failed, .. } = *self;
        let failures: u64 = self.groups.iter().map(|group| group.failures).sum();
        StateCounts {
            pending: of.alive - of.placed,
            placed: of.placed - running,
            running,
            finished,
            failed,
            killed: of.tasks - of.alive - finished - failed,
            failures: failures - u64::from(failed),
        }
    }
}
