//! Index of a frontend's jobs and the states of their tasks.
//!
//! A task is pending, claimed, placed, or over. States come from deltas. The frontend's own claims are recorded before
//! a delta contains them. A task's request counts as used by its job and its tenant from the claim until the task has
//! left its machine.
//!
//! Invariant: the used amounts are the sums of the requests of claimed and placed tasks. The list of pending tasks of a
//! group has exactly the tasks whose state is pending.

use crate::queue::dominant::{Sums, count};
use omega_cellstate::{Delta, TaskDelta};
use omega_core::{Amounts, Job, JobId, MachineId, TaskId, TaskState, Text};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The task waits for a machine.
    Waiting,
    /// This frontend has claimed a machine for the task, and the cell has not answered yet.
    Claimed,
    /// The task has a machine.
    Placed(MachineId),
    /// The task is not to be placed: it has ended, or the cell rejected its claim and the next sync brings its state.
    Over,
}

impl Mark {
    fn of(state: TaskState) -> Mark {
        match state {
            TaskState::Pending => Mark::Waiting,
            TaskState::Placed(machine) | TaskState::Running(machine) => Mark::Placed(machine),
            TaskState::Finished | TaskState::Failed | TaskState::Killed => Mark::Over,
        }
    }

    /// Whether the resources of the task count as used, because the task has a machine or a claim.
    fn uses(self) -> bool {
        matches!(self, Mark::Claimed | Mark::Placed(_))
    }
}

/// A task as recorded: the position of its group in the job, and its state.
#[derive(Clone, Copy, Debug)]
struct TaskEntry {
    group: u16,
    mark: Mark,
}

/// A task that has lost its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) task: TaskId,
    pub(crate) machine: MachineId,
    /// Current state of the task; `None` if its job was removed.
    pub(crate) state: Option<TaskState>,
    /// Tenant that owns the task's job.
    pub(crate) tenant: Text,
}

/// A job of the frontend.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) job: Arc<Job>,
    /// Resources that a task of each group needs, by group and kind.
    needs: Vec<Vec<i64>>,
    tasks: Vec<TaskEntry>,
    waiting: Vec<BTreeSet<u32>>,
    /// Resources that the job's tasks use.
    pub(crate) used: Sums,
}

/// Index of a frontend's jobs and the states of their tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskIndex {
    jobs: BTreeMap<JobId, Entry>,
    usage: Usage,
    /// Jobs that changed or ended since the last call of `take_stale`; their compiled data in the view is outdated.
    stale: BTreeSet<JobId>,
    left: Vec<Left>,
}

/// Resources that the tasks of each tenant use.
#[derive(Debug, Default)]
struct Usage {
    tenants: BTreeMap<Text, Sums>,
    /// Number of changes of the used amounts of jobs and tenants so far.
    changes: u64,
}

impl Usage {
    /// Sets a task's group and mark, and updates the used amounts of its job and its tenant. Returns the old group and
    /// mark.
    fn set(&mut self, entry: &mut Entry, index: u32, now: TaskEntry) -> TaskEntry {
        let before = entry.set(index, now);
        if before.group == now.group && before.mark.uses() == now.mark.uses() {
            return before;
        }
        self.changes += 1;
        let tenant = match self.tenants.get_mut(&entry.job.tenant) {
            Some(sums) => sums,
            None => self.tenants.entry(entry.job.tenant.clone()).or_default(),
        };
        for (task, sign) in [(before, -1), (now, 1)] {
            if task.mark.uses() {
                let need = entry.needs.get(usize::from(task.group)).map_or(&[][..], Vec::as_slice);
                count(&mut entry.used, need, sign);
                count(tenant, need, sign);
            }
        }
        before
    }

    /// Subtracts the used amounts of a job that was removed.
    fn remove(&mut self, entry: &Entry) {
        self.changes += 1;
        let Some(tenant) = self.tenants.get_mut(&entry.job.tenant) else { return };
        for task in entry.tasks.iter().filter(|task| task.mark.uses()) {
            count(tenant, entry.need(task.group), -1);
        }
        if tenant.iter().all(|sum| *sum == 0) {
            self.tenants.remove(&entry.job.tenant);
        }
    }

    /// Clears all amounts.
    fn clear(&mut self) {
        self.changes += 1;
        self.tenants.clear();
    }
}

fn amounts(request: &Amounts) -> Vec<i64> {
    request.as_slice().iter().map(|amount| *amount as i64).collect()
}

impl Entry {
    fn new(job: Arc<Job>) -> Entry {
        let mut entry = Entry {
            needs: Vec::new(),
            tasks: Vec::new(),
            waiting: Vec::new(),
            used: Sums::new(),
            job,
        };
        entry.keep_needs();
        let groups = entry.job.clone();
        for (group, index) in groups.groups.iter().zip(0..) {
            let first = entry.tasks.len() as u32;
            let task = TaskEntry { group: index, mark: Mark::Waiting };
            entry.tasks.extend((0..group.count).map(|_| task));
            entry.waiting[usize::from(index)] = (first..entry.tasks.len() as u32).collect();
        }
        entry
    }

    fn keep_needs(&mut self) {
        self.needs = self.job.groups.iter().map(|group| amounts(&group.request)).collect();
        self.waiting.resize_with(self.job.groups.len(), BTreeSet::new);
    }

    /// Resources that a task of a group needs, by kind.
    fn need(&self, group: u16) -> &[i64] {
        self.needs.get(usize::from(group)).map_or(&[], Vec::as_slice)
    }

    /// The pending tasks of a group, the oldest first.
    pub(crate) fn waiting(&self, group: usize) -> impl Iterator<Item = u32> + '_ {
        self.waiting.get(group).into_iter().flatten().copied()
    }

    /// Number of pending tasks of a group.
    pub(crate) fn waiting_count(&self, group: usize) -> usize {
        self.waiting.get(group).map_or(0, BTreeSet::len)
    }

    /// Largest number of tasks that the job has had so far.
    pub(crate) fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// The group and the mark of a task.
    pub(crate) fn task(&self, index: u32) -> Option<(usize, Mark)> {
        self.tasks.get(index as usize).map(|task| (usize::from(task.group), task.mark))
    }

    /// Sets a task's group and mark. Returns the old ones.
    fn set(&mut self, index: u32, now: TaskEntry) -> TaskEntry {
        let TaskEntry { group, mark } = now;
        let at = index as usize;
        if self.tasks.len() <= at {
            self.tasks.resize(at + 1, TaskEntry { group, mark: Mark::Over });
        }
        if self.waiting.len() <= usize::from(group) {
            self.waiting.resize_with(usize::from(group) + 1, BTreeSet::new);
        }
        let before = std::mem::replace(&mut self.tasks[at], now);
        if before.mark == Mark::Waiting {
            self.waiting[usize::from(before.group)].remove(&index);
        }
        if mark == Mark::Waiting {
            self.waiting[usize::from(group)].insert(index);
        }
        before
    }
}

impl TaskIndex {
    /// A job of the frontend.
    pub(crate) fn job(&self, id: JobId) -> Option<&Entry> {
        self.jobs.get(&id)
    }

    /// All jobs, ascending by id.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (JobId, &Entry)> {
        self.jobs.iter().map(|(id, entry)| (*id, entry))
    }

    /// Sums of the resources used by the tenant's tasks that belong to jobs of this frontend.
    pub(crate) fn used_by(&self, tenant: &str) -> Option<&Sums> {
        self.usage.tenants.get(tenant)
    }

    /// Returns a number that grows whenever used amounts change.
    pub(crate) fn changes(&self) -> u64 {
        self.usage.changes
    }

    /// Returns and clears the set of jobs whose compiled data in the view is outdated.
    pub(crate) fn take_stale(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.stale)
    }

    /// Returns and clears the tasks that have lost their machine.
    pub(crate) fn take_left(&mut self) -> Vec<Left> {
        std::mem::take(&mut self.left)
    }

    /// The group and the mark of a task.
    pub(crate) fn task(&self, id: TaskId) -> Option<(usize, Mark)> {
        self.jobs.get(&id.job)?.task(id.index)
    }

    /// Records the mark of a task before a delta contains its state.
    pub(crate) fn note(&mut self, id: TaskId, mark: Mark) {
        let Some(entry) = self.jobs.get_mut(&id.job) else { return };
        let Some(known) = entry.tasks.get(id.index as usize).copied() else { return };
        self.usage.set(entry, id.index, TaskEntry { mark, ..known });
    }

    /// Applies the delta of a sync. `is_claimed` returns whether a task has a claim that the cell has not answered.
    pub(crate) fn apply(&mut self, delta: &Delta, is_claimed: impl Fn(TaskId) -> bool) {
        let before = if delta.full { self.forget_all() } else { Vec::new() };
        for change in &delta.jobs {
            self.stale.insert(change.id);
            match (&change.job, self.jobs.get_mut(&change.id)) {
                (Some(job), Some(entry)) => {
                    entry.job = job.clone();
                    entry.keep_needs();
                }
                (Some(job), None) => drop(self.jobs.insert(change.id, Entry::new(job.clone()))),
                (None, _) => self.remove(change.id),
            }
        }
        for change in &delta.tasks {
            let mark = match Mark::of(change.state) {
                Mark::Waiting if is_claimed(change.id) => Mark::Claimed,
                mark => mark,
            };
            self.apply_task(change, mark);
        }
        if delta.full {
            let ended = delta.tasks.iter().filter(|task| task.state.ended());
            let ended: BTreeMap<TaskId, TaskState> =
                ended.map(|task| (task.id, task.state)).collect();
            for had in before {
                let ended = ended.get(&had.task).copied();
                if let Some(state) = self.compare(had.task, had.machine, ended) {
                    self.left.push(Left { state, ..had });
                }
            }
            self.mark_claimed(is_claimed);
        }
    }

    fn apply_task(&mut self, change: &TaskDelta, mark: Mark) {
        let Some(entry) = self.jobs.get_mut(&change.id.job) else { return };
        let now = TaskEntry { group: change.group, mark };
        let before = self.usage.set(entry, change.id.index, now);
        if let Mark::Placed(machine) = before.mark
            && mark != Mark::Placed(machine)
        {
            let tenant = entry.job.tenant.clone();
            self.left.push(Left { task: change.id, machine, state: Some(change.state), tenant });
        }
    }

    /// Removes a job, and subtracts the resources that its tasks use.
    fn remove(&mut self, id: JobId) {
        let Some(entry) = self.jobs.remove(&id) else { return };
        self.usage.remove(&entry);
        for (index, known) in (0..).zip(&entry.tasks) {
            if let Mark::Placed(machine) = known.mark {
                let task = TaskId { job: id, index };
                let tenant = entry.job.tenant.clone();
                self.left.push(Left { task, machine, state: None, tenant });
            }
        }
    }

    /// Clears the index before a full delta. Returns the tasks that had machines, as if their jobs had been removed.
    fn forget_all(&mut self) -> Vec<Left> {
        let jobs = std::mem::take(&mut self.jobs);
        self.usage.clear();
        let mut placed = Vec::new();
        for (job, entry) in jobs {
            self.stale.insert(job);
            for (index, known) in (0..).zip(&entry.tasks) {
                if let Mark::Placed(machine) = known.mark {
                    let task = TaskId { job, index };
                    let tenant = entry.job.tenant.clone();
                    placed.push(Left { task, machine, state: None, tenant });
                }
            }
        }
        placed
    }

    /// Compares the state of a task before and after a full delta. Before the delta, the task had a machine.
    ///
    /// Returns `None` if the task still has the same machine; otherwise its new state, which is `None` if its job was
    /// removed. `ended` is the state of the task in the delta if it has ended.
    fn compare(
        &self,
        task: TaskId,
        machine: MachineId,
        ended: Option<TaskState>,
    ) -> Option<Option<TaskState>> {
        match self.task(task).map(|(_, mark)| mark) {
            Some(Mark::Placed(now)) if now == machine => None,
            Some(Mark::Placed(now)) => Some(Some(TaskState::Placed(now))),
            Some(Mark::Waiting | Mark::Claimed) => Some(Some(TaskState::Pending)),
            Some(Mark::Over) => Some(ended.or(Some(TaskState::Killed))),
            None => Some(None),
        }
    }

    /// Marks tasks with unanswered claims as claimed, because a full delta reports them as pending.
    fn mark_claimed(&mut self, is_claimed: impl Fn(TaskId) -> bool) {
        let ids: Vec<TaskId> = self
            .jobs
            .iter()
            .flat_map(|(job, entry)| {
                let waiting = entry.waiting.iter().flatten();
                waiting.map(|index| TaskId { job: *job, index: *index })
            })
            .filter(|task| is_claimed(*task))
            .collect();
        ids.into_iter().for_each(|task| self.note(task, Mark::Claimed));
    }
}
