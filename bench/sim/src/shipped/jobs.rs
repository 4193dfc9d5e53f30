//! The jobs of a run: those that were read before their arrival, and those that have arrived and have not ended.
//!
//! Only these jobs are in memory, so it depends on the number of jobs present at one time, not on the length of a run.

use super::error::ShippedError;
use super::feed::Feed;
use super::usage::{Reported, reported};
use omega_core::{Job, JobId, MachineId, SharedGroup, TaskId};
use omega_workload::{Arrival, RunTime};
use std::collections::VecDeque;
use std::sync::Arc;

/// A job that has arrived and has not ended.
pub(super) struct PresentJob {
    pub(super) id: JobId,
    pub(super) job: Arc<Job>,
    /// Run times of the job's tasks.
    run: RunTime,
    /// Pending tasks, in ascending order.
    pending: Vec<TaskId>,
    /// Number of the job's placed tasks.
    running: u32,
}

impl PresentJob {
    /// Creates a job whose tasks are all pending.
    pub(super) fn new(id: JobId, job: Arc<Job>, run: RunTime) -> PresentJob {
        let tasks = job.task_count() as u32;
        let pending = (0..tasks).map(|index| TaskId { job: id, index }).collect();
        PresentJob { id, job, run, pending, running: 0 }
    }

    /// Pending tasks, in ascending order.
    pub(super) fn pending(&self) -> &[TaskId] {
        &self.pending
    }

    /// Number of placed tasks.
    pub(super) fn running(&self) -> u32 {
        self.running
    }

    /// Pending tasks of the group with this index, in ascending order.
    pub(super) fn pending_of(&self, group: usize) -> impl Iterator<Item = TaskId> {
        let first: u32 = self.job.groups[..group].iter().map(|group| group.count).sum();
        let of_group = first..first + self.job.groups[group].count;
        self.pending.iter().filter(move |task| of_group.contains(&task.index)).copied()
    }

    /// Index of the task group that a task belongs to.
    pub(super) fn group_of(&self, task: TaskId) -> usize {
        let mut first = 0;
        let of = |group: &SharedGroup| {
            first += group.count;
            task.index < first
        };
        self.job.groups.iter().position(of).expect("a task of the job is in a group of it")
    }

    /// Request of a task in the reported kinds.
    pub(super) fn request(&self, task: TaskId) -> Reported {
        reported(&self.job.groups[self.group_of(task)].request)
    }

    /// Run time of a task; for a task that never ends, a time later than all ends.
    pub(super) fn run_ms(&self, task: TaskId) -> u64 {
        self.run.of(task.index).unwrap_or(u64::MAX)
    }

    /// Whether the job is a gang that is still incomplete if `tasks` more of its tasks are placed.
    pub(super) fn gang_lacks(&self, tasks: usize) -> bool {
        let placed = self.job.task_count() as usize - self.pending.len();
        self.job.gang_min.is_some_and(|min| placed + tasks < min as usize)
    }

    /// Marks pending tasks as running.
    pub(super) fn start(&mut self, placed: &[(TaskId, MachineId)]) {
        self.running += placed.len() as u32;
        if placed.len() == self.pending.len() {
            self.pending = Vec::new();
            return;
        }
        let mut started: Vec<u32> = placed.iter().map(|(task, _)| task.index).collect();
        started.sort_unstable();
        self.pending.retain(|task| started.binary_search(&task.index).is_err());
    }

    /// Removes running tasks that have ended.
    pub(super) fn end(&mut self, tasks: u32) {
        self.running -= tasks;
    }

    /// Makes running tasks pending again.
    pub(super) fn lose(&mut self, tasks: Vec<TaskId>) {
        self.running -= tasks.len() as u32;
        self.pending.extend(tasks);
        self.pending.sort_unstable();
    }

    /// Whether all tasks have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.running == 0 && self.pending.is_empty()
    }
}

/// The jobs of a run, by number.
pub(super) struct Jobs<'a> {
    /// Jobs that were not read yet.
    feed: Box<dyn Feed + 'a>,
    /// Number of the next job of `feed`.
    next: usize,
    /// Jobs that were read before their arrival, with their numbers.
    ahead: VecDeque<(usize, Arrival)>,
    /// Jobs by number; `None` before arrival and after their end.
    present: Vec<Option<Box<PresentJob>>>,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(feed: Box<dyn Feed + 'a>) -> Jobs<'a> {
        Jobs { feed, next: 0, ahead: VecDeque::new(), present: Vec::new() }
    }

    /// Reads jobs up to and including the one with this number, and returns that job.
    pub(super) fn read(&mut self, number: usize) -> Result<Arrival, ShippedError> {
        if let Ok(at) = self.ahead.binary_search_by_key(&number, |(ahead, _)| *ahead) {
            return self.ahead.remove(at).map(|(_, arrival)| arrival).ok_or(ShippedError::Changed);
        }
        loop {
            let arrival = self.feed.next_job()?.ok_or(ShippedError::Changed)?;
            self.next += 1;
            if self.next > number {
                return Ok(arrival);
            }
            self.ahead.push_back((self.next - 1, arrival));
        }
    }

    /// Adds a job that arrives.
    pub(super) fn insert(&mut self, number: usize, job: PresentJob) {
        if self.present.len() <= number {
            self.present.resize_with(number + 1, || None);
        }
        self.present[number] = Some(Box::new(job));
    }

    /// Removes a job that has ended.
    pub(super) fn remove(&mut self, number: usize) {
        self.present[number] = None;
    }

    /// The job with this number; `None` if it has not arrived or has ended.
    pub(super) fn get(&self, number: usize) -> Option<&PresentJob> {
        self.present.get(number)?.as_deref()
    }

    /// The job with this number; `None` if it has not arrived or has ended.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut PresentJob> {
        self.present.get_mut(number)?.as_deref_mut()
    }

    /// All present jobs, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PresentJob> {
        self.present.iter().flatten().map(|job| &**job)
    }
}
