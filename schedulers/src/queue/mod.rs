//! A scheduler's jobs with pending tasks, and their turns.
//!
//! ```text
//!               more pending tasks                    a turn
//!   new job ──▶ active ────────────────────────────────────▶ placed, or
//!                 ▲  ▲                                        │
//!                 │  └── time is up ── waiting ◀── conflict ──┤
//!                 └─ an event ────── sleeping ◀ cooling ◀ refused
//! ```
//!
//! Of several equal rejected jobs, only the first is retried (`classes.rs`).
//!
//! Jobs of higher precedence go first, then older jobs. A profile may have another order. A job that found no machine,
//! or that a plugin rejected, sleeps until an event that may change the rejection. Its backoff grows with each failure,
//! so that an unschedulable job costs less and less. A job that an Admit plugin rejects sleeps in the same way: it is
//! *gated*. After a long time every sleeping job is tried again without an event.
//!
//! Tasks may also be *held*: their claims on the view wait for a permit. A job whose pending tasks
//! are all held has no turn.

pub(crate) mod active;
mod backoff;
mod classes;
pub mod dominant;
mod entry;
mod figures;
pub(crate) mod place_in_order;
pub(crate) mod shares;
pub(crate) mod unschedulable;

pub use crate::framework::nanos::Nanos;

use crate::framework::events::{EventLog, Events};
use crate::framework::points::Order;
use crate::placing::refusals::RejectingPlugins;
use crate::queue::active::ActiveQueue;
use crate::queue::classes::Classes;
use crate::queue::shares::Shares;
use crate::queue::unschedulable::UnschedulableQueue;
use entry::{Entry, JobState, QueueCounts, RejectionRecord, TaskMark, TaskNote};
use foldhash::fast::FixedState;
use omega_cellstate::TaskDelta;
use omega_core::{Job, JobId, TaskId, TaskState};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub use backoff::Backoff;

/// Result of a job's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Tasks were placed. If the job still has pending tasks, its next turn follows at once.
    More,
    /// Claims were rejected.
    Conflict,
    /// Some tasks found no machine, or a plugin rejected them.
    Refused {
        /// Rejecting plugins, whose events wake the job.
        by: RejectingPlugins,
        /// Value of [`Queue::news`] when the decision was made.
        news: u64,
        /// Basis of the rejection.
        basis: Basis,
    },
}

/// Basis of a rejection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// A result for this job only.
    #[default]
    Job,
    /// A search whose result holds for all equal jobs.
    Search,
    /// The result of an earlier search for an equal job. It cost no search, so the job's backoff does not grow.
    EarlierSearch,
}

/// The queue. See the head of the file.
#[derive(Debug)]
pub struct Queue {
    jobs: HashMap<JobId, Entry, FixedState>,
    /// Rejections of jobs that are in backoff or asleep.
    refused: HashMap<JobId, RejectionRecord, FixedState>,
    order: Option<Arc<dyn Order>>,
    backoff: Backoff,
    active: ActiveQueue,
    classes: Classes,
    waiting: BTreeSet<(Nanos, JobId)>,
    cooling: BTreeSet<(Nanos, JobId)>,
    sleeping: UnschedulableQueue,
    event_log: EventLog,
    counts: QueueCounts,
}

/// Returns `at`, or the time of the rejection's unconditional retry if that is earlier.
fn bounded(by: RejectingPlugins, at: Nanos) -> Nanos {
    by.at_latest().map_or(at, |latest| latest.min(at))
}

impl Default for Queue {
    fn default() -> Queue {
        Queue::new(Backoff::default(), None)
    }
}

impl Queue {
    /// Creates an empty queue, ordered by a plugin, or by precedence and age if there is none.
    #[must_use]
    pub fn new(backoff: Backoff, order: Option<Arc<dyn Order>>) -> Queue {
        Queue {
            jobs: HashMap::default(),
            refused: HashMap::default(),
            active: ActiveQueue::new(order.clone()),
            order,
            backoff,
            classes: Classes::default(),
            waiting: BTreeSet::new(),
            cooling: BTreeSet::new(),
            sleeping: UnschedulableQueue::default(),
            event_log: EventLog::default(),
            counts: QueueCounts::default(),
        }
    }

    /// Shares of tenants, if the order of the queue uses them.
    pub(crate) fn shares(&mut self) -> Option<&mut Shares> {
        self.active.shares()
    }

    /// Clears the queue, before a full delta. The events since earlier values of [`Queue::news`] include all events.
    pub fn clear(&mut self) {
        let (changes, mut event_log) = (self.counts.changes, std::mem::take(&mut self.event_log));
        event_log.note(Events::ALL);
        *self = Queue { event_log, ..Queue::new(self.backoff, self.order.take()) };
        self.counts.changes = changes + 1;
    }

    /// Adds a job with all tasks pending, or updates the description of a known job.
    pub fn add_job(&mut self, id: JobId, job: Arc<Job>) {
        if let Some(before) = self.jobs.get(&id).map(|entry| entry.state) {
            // The job's class, and its position among other jobs, may depend on the old description, so the job is
            // removed first.
            self.pass_on(id);
            if matches!(before, JobState::Active | JobState::Following) {
                self.set_state(id, JobState::None);
            }
            if let Some(entry) = self.jobs.get_mut(&id) {
                entry.job = job;
            }
            // A rejected job may fit now, because its groups may have more tasks or other optional resources.
            self.wake(id);
            return;
        }
        let entry = Entry::new(job);
        self.counts.pending += entry.waiting as usize;
        self.counts.jobs += usize::from(entry.waiting > 0);
        self.jobs.insert(id, entry);
        self.wake(id);
    }

    /// Makes a job active if it has tasks to try. Does nothing if the job already has a turn, or waits after a
    /// conflict.
    pub fn wake(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(&id).filter(|entry| entry.may_be_tried()) else { return };
        if entry.state == JobState::None || entry.state.is_of_refused() {
            self.set_state(id, JobState::Active);
        }
    }

    /// Drops a job that has ended.
    pub fn remove_job(&mut self, id: JobId) {
        self.set_state(id, JobState::None);
        if let Some(entry) = self.jobs.remove(&id) {
            self.counts.pending -= entry.waiting as usize;
            self.counts.held -= entry.held as usize;
            self.counts.jobs -= usize::from(entry.waiting > 0);
        }
    }

    /// Records the state of a task. Returns whether the task lost its machine and belongs to a gang with a timeout: see
    /// [`Queue::rest_if_released`].
    pub fn set_task(&mut self, change: &TaskDelta) -> bool {
        let task = change.id;
        let Some(entry) = self.jobs.get_mut(&task.job) else { return false };
        let index = task.index as usize;
        if entry.tasks.len() <= index {
            // New tasks of a resized job count as placed until their own changes arrive.
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
            // If the job was resized before the queue received it, `add_job` may have assumed a wrong group for the
            // task.
            if moved {
                entry.list(task.index);
            }
            return false;
        }
        entry.mark(index, mark, &mut self.counts);
        let may_hold = entry.job.gang_timeout_ms.is_some();
        match (before, mark) {
            (_, TaskMark::Waiting) => {
                entry.list(task.index);
                self.wake(task.job);
            }
            (before, _) if before.is_pending() => self.rest(task.job),
            _ => {}
        }
        may_hold && (before, mark) == (TaskMark::Placed, TaskMark::Waiting)
    }

    /// Delays a gang that has lost its places after a timeout. The delay grows with each timeout, and is longer than
    /// the backoff of any other job, so that other jobs find the freed room first.
    pub fn rest_if_released(&mut self, id: JobId, now: Nanos) {
        if self.placed_tasks(id) > 0 {
            return;
        }
        let Some(entry) = self.jobs.get_mut(&id).filter(|entry| entry.may_be_tried()) else {
            return;
        };
        if entry.state != JobState::Deciding {
            let wait = self.backoff.after_release(entry.releases.into());
            entry.releases = entry.releases.saturating_add(1);
            self.set_state(id, JobState::Waiting(now.saturating_add(wait)));
        }
    }

    /// Ends a job's turn if it has nothing to try.
    fn rest(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(&id) else { return };
        if !entry.may_be_tried() && entry.state != JobState::Deciding {
            self.set_state(id, JobState::None);
        }
    }

    /// Wakes jobs whose delay has ended, and returns the job with the next turn; `None` if no job is active.
    pub fn next(&mut self, now: Nanos) -> Option<JobId> {
        while let Some((_, id)) = self.waiting.first().filter(|(until, _)| *until <= now) {
            let id = *id;
            self.set_state(id, JobState::Active);
        }
        while let Some((until, id)) = self.cooling.first().copied().filter(|c| c.0 <= now) {
            let by = self.rejecting_plugins(id);
            let state = match self.jobs[&id].state {
                JobState::Cooling(_, news) if !self.is_woken(by, news) => {
                    let until = bounded(by, until.saturating_add(self.backoff.sleep_max));
                    JobState::Sleeping(until, by.events())
                }
                _ => JobState::Active,
            };
            self.set_state(id, state);
        }
        while let Some(id) = self.sleeping.due(now) {
            self.set_state(id, JobState::Active);
            self.wake_followers(id);
        }
        self.wake_predecessor(self.active.first()?);
        self.active.first()
    }

    /// Time of the next job's turn if no event occurs; `None` if no job waits.
    #[must_use]
    pub fn next_turn(&self) -> Option<Nanos> {
        let first = |jobs: &BTreeSet<(Nanos, JobId)>| jobs.first().map(|(until, _)| *until);
        let all = [first(&self.waiting), first(&self.cooling), self.sleeping.first()];
        all.into_iter().flatten().min()
    }

    /// Plugins that rejected a job that is in backoff or asleep.
    fn rejecting_plugins(&self, id: JobId) -> RejectingPlugins {
        self.refused.get(&id).copied().unwrap_or_default().by
    }

    /// Whether jobs with this rejection are to be retried: an event that may help them was recorded after the `note`
    /// call with number `news`, or the rejection ends with time.
    fn is_woken(&self, by: RejectingPlugins, news: u64) -> bool {
        let events = by.events();
        events.meets(Events::TIME) || self.event_log.any_since(events, news)
    }

    /// Returns the number of times that events were recorded. A job that is rejected now is woken only by events that
    /// are recorded later.
    #[must_use]
    pub fn news(&self) -> u64 {
        self.event_log.now()
    }

    /// Records events. Returns the sleeping jobs that wait for one of them, each with the plugins that rejected it. The
    /// caller then wakes each job ([`Queue::wake`]) or lets it sleep on ([`Queue::sleep_on`]). Jobs in backoff are
    /// tried after their backoff.
    #[must_use]
    pub fn record_events(&mut self, events: Events) -> Vec<(JobId, RejectingPlugins)> {
        if events.is_empty() {
            return Vec::new();
        }
        self.event_log.note(events);
        self.counts.changes += 1;
        let listening = self.sleeping.listening(events).into_iter();
        listening.map(|id| (id, self.rejecting_plugins(id))).collect()
    }

    /// Records that recent events do not help a sleeping job. The job gets a backoff, so that it is not checked more
    /// often than it would be retried.
    pub fn sleep_on(&mut self, id: JobId, now: Nanos) {
        let Some(entry) = self.jobs.get(&id) else { return };
        if matches!(entry.state, JobState::Sleeping(..)) {
            let until = now.saturating_add(self.backoff.after_failures(entry.failures));
            let until = bounded(self.rejecting_plugins(id), until);
            self.set_state(id, JobState::Cooling(until, self.event_log.now()));
        }
    }

    /// Gates a job until one of these events.
    pub fn gate(&mut self, id: JobId, until: Events, now: Nanos) {
        if !self.jobs.contains_key(&id) {
            return;
        }
        self.pass_on(id);
        self.note_refusal(
            id,
            RejectionRecord { by: RejectingPlugins::waiting_for(until), gated: true },
        );
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        // The rejection cost no search, so there is a backoff only if the job would otherwise be retried by time alone.
        let state = if until.meets(Events::TIME) {
            entry.failures += 1;
            let wait = self.backoff.after_failures(entry.failures - 1);
            JobState::Cooling(now.saturating_add(wait), self.event_log.now())
        } else {
            JobState::Sleeping(now.saturating_add(self.backoff.sleep_max), until)
        };
        self.set_state(id, state);
    }

    /// The job with this id.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(&id).map(|entry| &entry.job)
    }

    /// Takes up to `limit` pending tasks of a group, in order, into `tasks`.
    pub fn take(&mut self, id: JobId, group: usize, limit: usize, tasks: &mut Vec<TaskId>) {
        tasks.clear();
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Some(pending) = entry.pending.get_mut(group) else { return };
        while tasks.len() < limit {
            let Some(index) = pending.pop() else { break };
            // An entry is stale if another scheduler has placed the task since the entry was added, or if the entry is
            // in the list of a wrong group. A placed task that became pending again is listed twice. Stale entries are
            // skipped.
            let note = &mut entry.tasks[index as usize];
            if note.mark == TaskMark::Waiting && usize::from(note.group) == group {
                note.mark = TaskMark::Taken;
                tasks.push(TaskId { job: id, index });
            }
        }
    }

    /// Lists unplaced tasks again, at the front of their groups.
    pub fn put_back(&mut self, tasks: impl DoubleEndedIterator<Item = TaskId>) {
        for task in tasks.rev() {
            let Some(entry) = self.jobs.get_mut(&task.job) else { continue };
            if matches!(entry.mark_of(task), Some(TaskMark::Taken | TaskMark::Held)) {
                entry.mark(task.index as usize, TaskMark::Waiting, &mut self.counts);
                entry.list(task.index);
            }
        }
    }

    /// Records that a task's claim waits for a permit, if the task is pending. Returns whether the task was pending.
    pub fn hold(&mut self, task: TaskId) -> bool {
        let Some(entry) = self.jobs.get_mut(&task.job) else { return false };
        if !entry.mark_of(task).is_some_and(TaskMark::is_pending) {
            return false;
        }
        entry.mark(task.index as usize, TaskMark::Held, &mut self.counts);
        self.rest(task.job);
        true
    }

    /// Moves a task from its permit wait into a transaction.
    pub fn resume(&mut self, task: TaskId) {
        let Some(entry) = self.jobs.get_mut(&task.job) else { return };
        if entry.mark_of(task) == Some(TaskMark::Held) {
            entry.mark(task.index as usize, TaskMark::Taken, &mut self.counts);
        }
    }

    /// Records that a task that waited for a permit was rejected. Its job goes into backoff unless it has a turn.
    pub fn refuse(&mut self, id: JobId, by: RejectingPlugins, now: Nanos) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if entry.state == JobState::None || entry.state.is_of_refused() {
            // The job also wakes on the events for which its other rejected tasks wait.
            let by = by.and(self.rejecting_plugins(id));
            let (news, basis) = (self.event_log.now(), Basis::Job);
            self.end(id, Verdict::Refused { by, news, basis }, now);
        }
    }

    /// Whether a gang would have enough running tasks if `more` further tasks were placed. The gang's minimum is
    /// enough; if fewer tasks than this have not ended, all of these are enough.
    #[must_use]
    pub fn gang_suffices(&self, id: JobId, more: usize) -> bool {
        let Some(entry) = self.jobs.get(&id) else { return true };
        let alive = entry.tasks.iter().filter(|task| task.mark != TaskMark::Ended).count();
        let wanted = entry.job.gang_min.map_or(0, |min| (min as usize).min(alive));
        self.placed_tasks(id) + more >= wanted
    }

    /// Returns the number of further tasks that must be placed for a gang to run. Tasks in an open transaction do not
    /// count as placed. `None` means that any number helps: the job is no gang, or enough of its tasks run.
    #[must_use]
    pub(crate) fn gang_lacks(&self, id: JobId) -> Option<u32> {
        let entry = self.jobs.get(&id)?;
        let count = |is_it: fn(TaskMark) -> bool| {
            entry.tasks.iter().filter(|task| is_it(task.mark)).count()
        };
        let alive = count(|mark| mark != TaskMark::Ended);
        let wanted = (entry.job.gang_min? as usize).min(alive);
        let lacks = wanted.saturating_sub(count(|mark| mark == TaskMark::Placed));
        (lacks > 0).then_some(lacks as u32)
    }

    /// Number of a job's tasks that have no machine, including claimed ones.
    #[must_use]
    pub(crate) fn waiting_count(&self, id: JobId) -> u32 {
        self.jobs.get(&id).map_or(0, |entry| entry.waiting)
    }

    /// The groups of a job with tasks to try, in order, and the number of those tasks.
    #[must_use]
    pub(crate) fn waiting_tasks(&self, id: JobId) -> Vec<(usize, u32)> {
        let Some(entry) = self.jobs.get(&id) else { return Vec::new() };
        let mut waiting = vec![0; entry.job.groups.len()];
        for task in entry.tasks.iter().filter(|task| task.mark == TaskMark::Waiting) {
            if let Some(count) = waiting.get_mut(usize::from(task.group)) {
                *count += 1;
            }
        }
        waiting.into_iter().enumerate().filter(|(_, count)| *count > 0).collect()
    }

    /// Whether no task of a job is pending.
    #[must_use]
    pub(crate) fn is_placed(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|entry| entry.waiting == 0)
    }

    /// The position of a task's group in its job.
    #[must_use]
    pub fn group_of(&self, task: TaskId) -> Option<usize> {
        let tasks = &self.jobs.get(&task.job)?.tasks;
        tasks.get(task.index as usize).map(|note| usize::from(note.group))
    }

    /// Records that a job's tasks go into a transaction. The job has no turn until [`Queue::end`].
    pub fn begin(&mut self, id: JobId) {
        self.set_state(id, JobState::Deciding);
    }

    /// Ends a job's turn once the cell has answered its part of the transaction. Returns whether the job has pending
    /// tasks.
    pub fn end(&mut self, id: JobId, verdict: Verdict, now: Nanos) -> bool {
        let Some(entry) = self.jobs.get_mut(&id) else { return false };
        let pending = entry.waiting > 0;
        let again = match verdict {
            _ if !entry.may_be_tried() => JobState::None,
            Verdict::More => JobState::Active,
            Verdict::Conflict => {
                entry.failures += 1;
                // After the first conflict the job is tried again at once, because single conflicts are normal with
                // optimistic concurrency.
                match entry.failures {
                    1 => JobState::Active,
                    n => JobState::Waiting(now.saturating_add(self.backoff.after_failures(n - 2))),
                }
            }
            Verdict::Refused { by, news, basis } => {
                let cost_nothing =
                    basis == Basis::EarlierSearch && !by.events().meets(Events::TIME);
                if !cost_nothing || entry.failures == 0 {
                    entry.failures += 1;
                }
                let wait = self.backoff.after_failures(entry.failures - 1);
                let of_class = basis != Basis::Job && by.at_latest().is_none();
                self.note_refusal(id, RejectionRecord { by, gated: false });
                if of_class && self.follows(id) {
                    JobState::Following
                } else {
                    JobState::Cooling(bounded(by, now.saturating_add(wait)), news)
                }
            }
        };
        self.set_state(id, again);
        pending
    }

    /// Number of tasks of a job that have a machine.
    #[must_use]
    pub fn placed_tasks(&self, id: JobId) -> usize {
        let tasks = self.jobs.get(&id).map_or(&[][..], |entry| &entry.tasks);
        tasks.iter().filter(|task| task.mark == TaskMark::Placed).count()
    }

    /// Records that the claim of a task was committed.
    pub fn placed(&mut self, task: TaskId) {
        let Some(entry) = self.jobs.get_mut(&task.job) else { return };
        if entry.mark_of(task).is_some_and(TaskMark::is_pending) {
            entry.mark(task.index as usize, TaskMark::Placed, &mut self.counts);
            entry.failures = 0;
        }
    }

    /// Number of failures of a job since one of its tasks was last placed.
    #[must_use]
    pub fn failures(&self, id: JobId) -> u32 {
        self.jobs.get(&id).map_or(0, |entry| entry.failures)
    }

    fn note_refusal(&mut self, id: JobId, refused: RejectionRecord) {
        self.counts.timed += usize::from(refused.is_timed());
        let before = self.refused.insert(id, refused);
        self.counts.timed -= usize::from(before.is_some_and(|before| before.is_timed()));
    }

    fn set_state(&mut self, id: JobId, state: JobState) {
        if !self.refused.is_empty() && !state.is_of_refused() {
            let before = self.refused.remove(&id);
            self.counts.timed -= usize::from(before.is_some_and(|before| before.is_timed()));
        }
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        match entry.set_state(state, &mut self.counts) {
            JobState::None | JobState::Deciding => {}
            JobState::Active => self.active.remove(&entry.job, id),
            JobState::Waiting(until) => drop(self.waiting.remove(&(until, id))),
            JobState::Cooling(until, _) => drop(self.cooling.remove(&(until, id))),
            JobState::Sleeping(until, events) => self.sleeping.remove(id, events, until),
            JobState::Following => self.classes.remove(&entry.job, id),
        }
        match state {
            JobState::None => self.pass_on(id),
            JobState::Deciding => {}
            JobState::Active => self.active.insert(&entry.job, id),
            JobState::Waiting(until) => drop(self.waiting.insert((until, id))),
            JobState::Cooling(until, _) => drop(self.cooling.insert((until, id))),
            JobState::Sleeping(until, events) => self.sleeping.insert(id, events, until),
            JobState::Following => self.classes.insert(&entry.job, id),
        }
    }
}

#[cfg(test)]
mod tests;
