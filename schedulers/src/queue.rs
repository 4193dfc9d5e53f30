//! A scheduler's jobs with pending tasks, and when each has its turn.
//!
//! ```text
//!               more pending tasks                    a turn
//!   new job ──▶ active ────────────────────────────────────▶ placed, or
//!                 ▲  ▲                                        │
//!                 │  └── time is up ── waiting ◀── conflict ──┤
//!                 └─ news of room ──── parked ◀ cooling ◀ no room┘
//! ```
//!
//! Jobs of higher precedence go first, then older ones. What found no room waits until something
//! changed that may have made some, and after each failure in vain a little longer, so that a job
//! that cannot be placed costs less and less.

use crate::turns::Turns;
use foldhash::fast::FixedState;
use omega_cellstate::TaskDelta;
use omega_core::{Job, JobId, TaskId, TaskState};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Nanoseconds since any fixed moment, from the caller.
pub type Nanos = u64;

/// The first wait after a failure, and what it grows to by doubling: a millisecond is some
/// thousand decisions of others; a second is what a person waits gladly.
const BACKOFF_MIN: Nanos = 1_000_000;
const BACKOFF_MAX: Nanos = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TaskMark {
    Waiting,
    /// In a transaction that was not answered yet. It still counts as waiting.
    Taken,
    Placed,
    Ended,
}

impl TaskMark {
    fn is_pending(self) -> bool {
        matches!(self, TaskMark::Waiting | TaskMark::Taken)
    }
}

/// A task, as far as the queue cares.
#[derive(Clone, Copy, Debug)]
struct TaskNote {
    mark: TaskMark,
    group: u16,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It has no pending tasks.
    None,
    Active,
    /// Some of its tasks are in a transaction.
    Deciding,
    /// Not before this time.
    Waiting(Nanos),
    /// It found no room when the count of news was this; not before this time.
    Cooling(Nanos, u64),
    /// It found no room, and there were no news since.
    Parked,
}

/// A job that the queue knows.
#[derive(Debug)]
pub struct Entry {
    /// What it is.
    pub job: Arc<Job>,
    /// By number. Most jobs have one group of few tasks: then nothing is allocated for them.
    tasks: SmallVec<[TaskNote; 4]>,
    /// By group: pending tasks, the next one last. May hold tasks that are no longer pending.
    pending: SmallVec<[SmallVec<[u32; 4]>; 1]>,
    waiting: usize,
    turn: Turn,
    failures: u32,
}

/// How a job's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was asked for was placed; if tasks are left, the next turn is at once.
    More,
    /// Claims were refused.
    Conflict,
    /// There was no room, when the count of news was this.
    NoRoom {
        /// See [`Queue::next`].
        news: u64,
    },
}

impl Entry {
    /// Lists a task to be taken next of its group.
    fn list(&mut self, index: u32) {
        let group = usize::from(self.tasks[index as usize].group);
        if self.pending.len() <= group {
            self.pending.resize_with(group + 1, SmallVec::new);
        }
        self.pending[group].push(index);
    }
}

/// The queue. See the head of the file.
#[derive(Debug, Default)]
pub struct Queue {
    jobs: HashMap<JobId, Entry, FixedState>,
    active: Turns,
    waiting: BTreeSet<(Nanos, JobId)>,
    cooling: BTreeSet<(Nanos, JobId)>,
    parked: BTreeSet<JobId>,
    news: u64,
    tasks: usize,
}

impl Queue {
    /// How many tasks are pending.
    #[must_use]
    pub fn pending_tasks(&self) -> usize {
        self.tasks
    }

    /// How many jobs may be tried now.
    #[must_use]
    pub fn active_jobs(&self) -> usize {
        self.active.len()
    }

    /// Whether every pending task waits for room to come free.
    #[must_use]
    pub fn only_unplaceable(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty()
    }

    /// How many tasks belong to jobs that found no room.
    #[must_use]
    pub fn unplaceable_tasks(&self) -> usize {
        let ids = self.cooling.iter().map(|(_, id)| id).chain(&self.parked);
        ids.map(|id| self.jobs[id].waiting).sum()
    }

    /// Whether every job that found no room has been tried since the last news. If not, it
    /// is tried once its wait is over, even if nothing changes any more.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let tried = |turn| matches!(turn, Turn::Cooling(_, news) if news == self.news);
        self.only_unplaceable() && self.cooling.iter().all(|(_, id)| tried(self.jobs[id].turn))
    }

    /// All jobs with pending tasks, and how many, ascending by id.
    #[must_use]
    pub fn waiting(&self) -> Vec<(JobId, usize)> {
        let waiting = self.jobs.iter().filter(|(_, entry)| entry.waiting > 0);
        let mut jobs: Vec<_> = waiting.map(|(id, entry)| (*id, entry.waiting)).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Jobs that found no room, with how many of their tasks are pending, ascending by id.
    #[must_use]
    pub fn unplaceable(&self) -> Vec<(JobId, usize)> {
        let ids = self.cooling.iter().map(|(_, id)| id).chain(&self.parked);
        let mut jobs: Vec<_> = ids.map(|id| (*id, self.jobs[id].waiting)).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Every job that it knows, in no order.
    pub fn ids(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// Forgets everything, before a full delta.
    pub fn clear(&mut self) {
        *self = Queue::default();
    }

    /// Adds a job whose tasks are all pending, or notes that a known one changed.
    pub fn add_job(&mut self, id: JobId, job: Arc<Job>) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            // What was refused may fit now: a group has tasks more, or a share another size.
            entry.job = job;
            self.wake(id);
            return;
        }
        let mut tasks = SmallVec::new();
        let mut pending = SmallVec::new();
        for (index, group) in job.groups.iter().enumerate() {
            let first = tasks.len() as u32;
            let note = TaskNote { mark: TaskMark::Waiting, group: index as u16 };
            tasks.resize(tasks.len() + group.count as usize, note);
            pending.push((first..first + group.count).rev().collect());
        }
        let waiting = tasks.len();
        self.tasks += waiting;
        let entry = Entry { job, tasks, pending, waiting, turn: Turn::None, failures: 0 };
        self.jobs.insert(id, entry);
        self.wake(id);
    }

    /// Gives a job with pending tasks its turn, unless it has one or waits after a conflict.
    pub fn wake(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(&id).filter(|entry| entry.waiting > 0) else { return };
        if matches!(entry.turn, Turn::None | Turn::Cooling(..) | Turn::Parked) {
            self.set_turn(id, Turn::Active);
        }
    }

    /// Drops a job that has ended.
    pub fn remove_job(&mut self, id: JobId) {
        self.set_turn(id, Turn::None);
        if let Some(entry) = self.jobs.remove(&id) {
            self.tasks -= entry.waiting;
        }
    }

    /// Notes the state of a task.
    pub fn set_task(&mut self, change: &TaskDelta) {
        let task = change.id;
        let Some(entry) = self.jobs.get_mut(&task.job) else { return };
        let index = task.index as usize;
        if entry.tasks.len() <= index {
            // Until their own change comes, tasks that the job grew by are not to be placed.
            entry.tasks.resize(index + 1, TaskNote { mark: TaskMark::Placed, group: 0 });
        }
        let note = &mut entry.tasks[index];
        let moved = std::mem::replace(&mut note.group, change.group) != change.group;
        let mark = match change.state {
            TaskState::Pending => TaskMark::Waiting,
            state if state.ended() => TaskMark::Ended,
            _ => TaskMark::Placed,
        };
        let before = note.mark;
        if before.is_pending() && mark == TaskMark::Waiting {
            // A job that was resized before it was known here: the guess of `add_job` was wrong.
            if moved {
                entry.list(task.index);
            }
            return;
        }
        note.mark = mark;
        match (before, mark) {
            (_, TaskMark::Waiting) => {
                entry.list(task.index);
                entry.waiting += 1;
                self.tasks += 1;
                self.wake(task.job);
            }
            (before, _) if before.is_pending() => {
                entry.waiting -= 1;
                self.tasks -= 1;
                if entry.waiting == 0 && entry.turn != Turn::Deciding {
                    self.set_turn(task.job, Turn::None);
                }
            }
            _ => {}
        }
    }

    /// The job whose turn it is, after waking those whose time has come. Jobs that found no room
    /// wake when `news` is another number than before: the caller counts in it whatever may make
    /// room.
    pub fn next(&mut self, now: Nanos, news: u64) -> Option<JobId> {
        while let Some((_, id)) = self.waiting.first().filter(|(until, _)| *until <= now) {
            let id = *id;
            self.set_turn(id, Turn::Active);
        }
        while let Some((until, id)) = self.cooling.first().copied().filter(|c| c.0 <= now) {
            let unchanged = self.jobs[&id].turn == Turn::Cooling(until, news);
            self.set_turn(id, if unchanged { Turn::Parked } else { Turn::Active });
        }
        if std::mem::replace(&mut self.news, news) != news {
            for id in std::mem::take(&mut self.parked) {
                self.set_turn(id, Turn::Active);
            }
        }
        self.active.first()
    }

    /// The job of an id.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(&id).map(|entry| &entry.job)
    }

    /// Up to `limit` pending tasks of a group, in order, into `tasks`.
    pub fn take(&mut self, id: JobId, group: usize, limit: usize, tasks: &mut Vec<TaskId>) {
        tasks.clear();
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Some(pending) = entry.pending.get_mut(group) else { return };
        while tasks.len() < limit {
            let Some(index) = pending.pop() else { break };
            // A task may be listed twice, once from before someone else placed it, and in a group
            // that it turned out not to be of.
            let note = &mut entry.tasks[index as usize];
            if note.mark == TaskMark::Waiting && usize::from(note.group) == group {
                note.mark = TaskMark::Taken;
                tasks.push(TaskId { job: id, index });
            }
        }
    }

    /// Puts tasks back that were taken but not placed, to be taken first again.
    pub fn put_back(&mut self, tasks: impl DoubleEndedIterator<Item = TaskId>) {
        for task in tasks.rev() {
            let Some(entry) = self.jobs.get_mut(&task.job) else { continue };
            let Some(note) = entry.tasks.get_mut(task.index as usize) else { continue };
            if note.mark == TaskMark::Taken {
                note.mark = TaskMark::Waiting;
                entry.list(task.index);
            }
        }
    }

    /// Notes that a job's tasks go into a transaction: it has no turn until [`Queue::end`].
    pub fn begin(&mut self, id: JobId) {
        self.set_turn(id, Turn::Deciding);
    }

    /// Ends a job's turn, once its part of the transaction was answered. The answer is whether it
    /// has pending tasks left.
    pub fn end(&mut self, id: JobId, verdict: Verdict, now: Nanos) -> bool {
        let Some(entry) = self.jobs.get_mut(&id) else { return false };
        let again = match verdict {
            Verdict::More => Turn::Active,
            Verdict::Conflict => {
                entry.failures += 1;
                // The first conflict is the price of optimism, and is tried again at once.
                match entry.failures {
                    1 => Turn::Active,
                    n => Turn::Waiting(now + backoff(n - 2)),
                }
            }
            Verdict::NoRoom { news } => {
                entry.failures += 1;
                Turn::Cooling(now + backoff(entry.failures - 1), news)
            }
        };
        let pending = entry.waiting > 0;
        self.set_turn(id, if pending { again } else { Turn::None });
        pending
    }

    /// How many tasks of a job have a machine.
    #[must_use]
    pub fn placed_tasks(&self, id: JobId) -> usize {
        let tasks = self.jobs.get(&id).map_or(&[][..], |entry| &entry.tasks);
        tasks.iter().filter(|task| task.mark == TaskMark::Placed).count()
    }

    /// Notes that a transaction with this task was taken.
    pub fn placed(&mut self, task: TaskId) {
        let Some(entry) = self.jobs.get_mut(&task.job) else { return };
        let mark = &mut entry.tasks[task.index as usize].mark;
        if mark.is_pending() {
            *mark = TaskMark::Placed;
            entry.waiting -= 1;
            entry.failures = 0;
            self.tasks -= 1;
        }
    }

    fn set_turn(&mut self, id: JobId, turn: Turn) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let precedence = entry.job.precedence;
        match std::mem::replace(&mut entry.turn, turn) {
            Turn::None | Turn::Deciding => {}
            Turn::Active => self.active.remove(precedence, id),
            Turn::Waiting(until) => drop(self.waiting.remove(&(until, id))),
            Turn::Cooling(until, _) => drop(self.cooling.remove(&(until, id))),
            Turn::Parked => drop(self.parked.remove(&id)),
        }
        match turn {
            Turn::None | Turn::Deciding => {}
            Turn::Active => self.active.insert(precedence, id),
            Turn::Waiting(until) => drop(self.waiting.insert((until, id))),
            Turn::Cooling(until, _) => drop(self.cooling.insert((until, id))),
            Turn::Parked => drop(self.parked.insert(id)),
        }
    }
}

fn backoff(failures: u32) -> Nanos {
    BACKOFF_MIN.saturating_mul(1 << failures.min(20)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Precedence, TaskGroup};

    fn job(precedence: i32, count: u32) -> Arc<Job> {
        let mut job = Job::batch(format!("p{precedence}"), TaskGroup::new(count, Amounts::zero()));
        job.precedence = Precedence(precedence);
        Arc::new(job)
    }

    fn change(id: TaskId, state: TaskState) -> TaskDelta {
        TaskDelta { id, group: 0, state, cards: Default::default() }
    }

    #[test]
    fn higher_precedence_goes_first_and_then_the_older() {
        let mut queue = Queue::default();
        queue.add_job(JobId(0), job(1, 1));
        queue.add_job(JobId(1), job(5, 1));
        queue.add_job(JobId(2), job(5, 1));
        let mut order = Vec::new();
        while let Some(id) = queue.next(0, 0) {
            order.push(id.0);
            queue.remove_job(id);
        }
        assert_eq!(order, [1, 2, 0]);
    }

    #[test]
    fn what_found_no_room_waits_for_room_and_ever_longer() {
        let mut queue = Queue::default();
        queue.add_job(JobId(0), job(0, 2));
        queue.begin(JobId(0));
        assert_eq!(queue.next(0, 7), None, "it is being decided");
        queue.end(JobId(0), Verdict::NoRoom { news: 7 }, 0);
        assert!(queue.only_unplaceable());
        assert_eq!(queue.next(0, 8), None, "too early");
        assert!(!queue.is_settled(), "it is tried later");
        assert_eq!(queue.next(0, 7), None, "too early");
        assert!(queue.is_settled());
        assert_eq!(queue.next(BACKOFF_MIN, 7), None, "nothing came free");
        assert_eq!(queue.next(BACKOFF_MIN, 8), Some(JobId(0)));
        queue.end(JobId(0), Verdict::NoRoom { news: 8 }, 0);
        assert_eq!(queue.next(BACKOFF_MIN, 9), None);
        assert_eq!(queue.next(2 * BACKOFF_MIN, 9), Some(JobId(0)));
    }

    #[test]
    fn a_task_that_two_lists_name_is_taken_once_and_of_its_own_group() {
        let mut queue = Queue::default();
        let mut two = Job::clone(&job(0, 1));
        let second = TaskGroup { name: "second".into(), ..TaskGroup::new(1, Amounts::zero()) };
        two.groups.push(second);
        queue.add_job(JobId(0), Arc::new(two));
        let task = |index| TaskId { job: JobId(0), index };
        // Task 1 was guessed to be of the second group, and is of the first.
        queue.set_task(&change(task(1), TaskState::Pending));
        // Task 0 was placed by someone else and lost again.
        queue.set_task(&change(task(0), TaskState::Finished));
        queue.set_task(&change(task(0), TaskState::Pending));
        let mut tasks = Vec::new();
        queue.take(JobId(0), 1, 9, &mut tasks);
        assert_eq!(tasks, []);
        queue.take(JobId(0), 0, 9, &mut tasks);
        tasks.sort();
        assert_eq!(tasks, [task(0), task(1)]);
    }

    #[test]
    fn tasks_that_were_placed_or_ended_are_not_taken() {
        let mut queue = Queue::default();
        queue.add_job(JobId(0), job(0, 4));
        let task = |index| TaskId { job: JobId(0), index };
        queue.set_task(&change(task(1), TaskState::Killed));
        let mut tasks = Vec::new();
        queue.take(JobId(0), 0, 2, &mut tasks);
        assert_eq!(tasks, [task(0), task(2)]);
        queue.placed(task(0));
        queue.put_back([task(2)].into_iter());
        queue.take(JobId(0), 0, 9, &mut tasks);
        assert_eq!(tasks, [task(2), task(3)]);
        assert_eq!(queue.pending_tasks(), 2);
        queue.placed(task(2));
        queue.placed(task(3));
        queue.end(JobId(0), Verdict::More, 0);
        assert_eq!((queue.pending_tasks(), queue.next(0, 0)), (0, None));
        queue.set_task(&change(task(0), TaskState::Pending));
        assert_eq!(queue.next(0, 0), Some(JobId(0)), "an evicted task is pending again");
    }
}
