//! The queue's state of one job and its tasks.

use super::Nanos;
use crate::framework::events::Events;
use crate::placing::refusals::RejectingPlugins;
use omega_core::{Job, TaskId};
use smallvec::SmallVec;
use std::sync::Arc;

/// State of a task in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TaskMark {
    Waiting,
    /// The task is in an unanswered transaction. It still counts as pending.
    Taken,
    /// The task's claim waits for a permit. It counts as pending.
    Held,
    Placed,
    Ended,
}

impl TaskMark {
    #[inline]
    pub(super) fn is_pending(self) -> bool {
        matches!(self, TaskMark::Waiting | TaskMark::Taken | TaskMark::Held)
    }
}

/// A task in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskNote {
    pub(super) mark: TaskMark,
    pub(super) group: u16,
}

/// State of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobState {
    /// Nothing to try: no task is pending, or all pending tasks wait for a permit.
    None,
    Active,
    /// Some tasks of the job are in a transaction.
    Deciding,
    /// Waits after a conflict or a gang timeout until this time.
    Waiting(Nanos),
    /// In backoff until this time. The number is the event count at the job's rejection.
    Cooling(Nanos, u64),
    /// Sleeps until one of these events, or at the latest until this time.
    Sleeping(Nanos, Events),
    /// Waits for an equal rejected job: see [`crate::queue::classes`].
    Following,
}

impl JobState {
    /// Whether a job in this state was rejected and waits for a change.
    #[inline]
    pub(super) fn is_of_refused(self) -> bool {
        matches!(self, JobState::Cooling(..) | JobState::Sleeping(..) | JobState::Following)
    }
}

/// Numbers of tasks and jobs, which are kept because the queue may be long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueCounts {
    pub(super) pending: usize,
    pub(super) held: usize,
    /// Number of tasks to try of rejected jobs.
    pub(super) refused: usize,
    /// Number of jobs with pending tasks.
    pub(super) jobs: usize,
    /// Number of rejected jobs that are retried at a certain time.
    pub(super) timed: usize,
    /// Number of changes of turns and tasks so far.
    pub(super) changes: u64,
}

/// A job in the queue. There may be very many jobs, so the state of rejected jobs is kept elsewhere, and counts have
/// few bits.
#[derive(Debug)]
pub(super) struct Entry {
    /// The job as submitted.
    pub(super) job: Arc<Job>,
    /// State by task number. Up to four tasks need no allocation.
    pub(super) tasks: SmallVec<[TaskNote; 4]>,
    /// Pending tasks of each group, with the next one at the end. May contain tasks that are no longer pending.
    pub(super) pending: SmallVec<[SmallVec<[u32; 4]>; 1]>,
    pub(super) waiting: u32,
    /// Number of tasks that wait for a permit.
    pub(super) held: u32,
    pub(super) state: JobState,
    pub(super) failures: u32,
    /// Number of gang timeouts.
    pub(super) releases: u8,
}

/// Rejection of a job that is in backoff or sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RejectionRecord {
    pub(super) by: RejectingPlugins,
    /// Whether the rejecting plugin is an Admit plugin.
    pub(super) gated: bool,
}

impl RejectionRecord {
    /// Whether the job is retried at a certain time, even without an event.
    pub(super) fn is_timed(&self) -> bool {
        self.by.at_latest().is_some()
    }
}

impl Entry {
    /// A job with all tasks pending.
    pub(super) fn new(job: Arc<Job>) -> Entry {
        let mut tasks = SmallVec::new();
        let mut pending = SmallVec::new();
        for (index, group) in job.groups.iter().enumerate() {
            let first = tasks.len() as u32;
            let note = TaskNote { mark: TaskMark::Waiting, group: index as u16 };
            tasks.resize(tasks.len() + group.count as usize, note);
            pending.push((first..first + group.count).rev().collect());
        }
        Entry {
            job,
            waiting: tasks.len() as u32,
            tasks,
            pending,
            held: 0,
            state: JobState::None,
            failures: 0,
            releases: 0,
        }
    }

    /// Adds a task as the next of its group.
    #[inline]
    pub(super) fn list(&mut self, index: u32) {
        let group = usize::from(self.tasks[index as usize].group);
        if self.pending.len() <= group {
            self.pending.resize_with(group + 1, SmallVec::new);
        }
        self.pending[group].push(index);
    }

    /// Whether the job has tasks to try.
    #[inline]
    pub(super) fn may_be_tried(&self) -> bool {
        self.waiting > self.held
    }

    /// Number of tasks to try, if the job is rejected.
    #[inline]
    fn refused_tasks(&self) -> usize {
        if self.state.is_of_refused() { (self.waiting - self.held) as usize } else { 0 }
    }

    /// Sets the job's state, and updates the counts. Returns the state before.
    #[inline]
    pub(super) fn set_state(&mut self, state: JobState, counts: &mut QueueCounts) -> JobState {
        counts.refused -= self.refused_tasks();
        let before = std::mem::replace(&mut self.state, state);
        counts.changes += 1;
        counts.refused += self.refused_tasks();
        before
    }

    /// The mark of one of the job's tasks.
    #[inline]
    pub(super) fn mark_of(&self, task: TaskId) -> Option<TaskMark> {
        self.tasks.get(task.index as usize).map(|note| note.mark)
    }

    /// Sets the mark of a task, and updates the counts.
    #[inline]
    pub(super) fn mark(&mut self, index: usize, mark: TaskMark, counts: &mut QueueCounts) {
        let before = std::mem::replace(&mut self.tasks[index].mark, mark);
        let was = (before.is_pending(), before == TaskMark::Held);
        let is = (mark.is_pending(), mark == TaskMark::Held);
        counts.refused -= self.refused_tasks();
        counts.jobs -= usize::from(self.waiting > 0);
        counts.changes += 1;
        for (count, total, was, is) in [
            (&mut self.waiting, &mut counts.pending, was.0, is.0),
            (&mut self.held, &mut counts.held, was.1, is.1),
        ] {
            *count = *count + u32::from(is) - u32::from(was);
            *total = *total + usize::from(is) - usize::from(was);
        }
        counts.jobs += usize::from(self.waiting > 0);
        counts.refused += self.refused_tasks();
    }
}
