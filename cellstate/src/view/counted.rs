//! Counts of placed and unfinished tasks in task sets.
//!
//! A disruption budget covers some tasks of a tenant. The number of evictions that it allows depends on how many of
//! these tasks run. A scheduler with budgets requests the counts before the first sync ([`View::count_tasks`]). Each
//! new job is compared with the sets once. After that, only changes of tasks in a set take work. So a decision reads
//! two counts (placed and unfinished tasks) and scans no jobs.

use crate::delta::{Delta, TaskDelta};
use crate::state::map::FastMap;
use crate::view::View;
use omega_core::{Job, JobId, LabelSelector, TaskState, Text};
use smallvec::SmallVec;

/// A selection of one tenant's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    /// Name of the tenant.
    pub tenant: Text,
    /// Selector of the tasks. A selector without requirements selects no tasks.
    pub tasks: LabelSelector,
}

impl TaskSet {
    /// Whether the set contains the tasks of a group.
    #[must_use]
    pub fn includes(&self, job: &Job, group: usize) -> bool {
        self.tenant == job.tenant
            && !self.tasks.requirements.is_empty()
            && job
                .groups
                .get(group)
                .is_some_and(|group| !group.labels.is_empty() && self.tasks.matches(&group.labels))
    }
}

/// The counts of a task set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Placed tasks.
    pub placed: usize,
    /// Unfinished tasks, placed or pending.
    pub alive: usize,
}

/// The state of a counted task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Pending,
    Placed,
    Ended,
}

impl Mark {
    fn of(state: TaskState) -> Mark {
        match state.machine() {
            Some(_) => Mark::Placed,
            None if state.ended() => Mark::Ended,
            None => Mark::Pending,
        }
    }
}

/// A counted task: the position of its group, and its state.
#[derive(Clone, Copy, Debug)]
struct CountedTask {
    group: u16,
    mark: Mark,
}

/// A job with counted tasks.
#[derive(Debug)]
struct CountedJob {
    /// For each group, the positions of the sets that contain its tasks.
    sets: Vec<SmallVec<[u16; 2]>>,
    /// The tasks, by index.
    tasks: Vec<CountedTask>,
}

/// The task sets and their counts.
#[derive(Debug, Default)]
pub(super) struct Counted {
    sets: Vec<(TaskSet, TaskCounts)>,
    jobs: FastMap<JobId, CountedJob>,
}

impl Counted {
    /// Applies a delta.
    pub(super) fn apply(&mut self, delta: &Delta) {
        if self.sets.is_empty() {
            return;
        }
        if delta.full {
            self.jobs.clear();
            self.sets.iter_mut().for_each(|(_, counts)| *counts = TaskCounts::default());
        }
        for change in &delta.jobs {
            if let Some(job) = &change.job {
                self.add(change.id, job);
            }
        }
        delta.tasks.iter().for_each(|task| self.set_task(task));
        for ended in delta.jobs.iter().filter(|change| change.job.is_none()) {
            self.end(ended.id);
        }
    }

    /// Adds a new job, or the new groups of an updated job. Tasks of a new job are pending unless the delta lists them.
    fn add(&mut self, id: JobId, job: &Job) {
        let of_group = |group| {
            let includes = |(_, (set, _)): &(u16, &(TaskSet, _))| set.includes(job, group);
            (0..).zip(&self.sets).filter(includes).map(|(at, _)| at).collect()
        };
        let sets: Vec<SmallVec<[u16; 2]>> = (0..job.groups.len()).map(of_group).collect();
        if let Some(known) = self.jobs.get_mut(&id) {
            if known.sets != sets {
                known.tasks.iter().for_each(|task| count(&mut self.sets, known, *task, -1));
                known.sets = sets;
                known.tasks.iter().for_each(|task| count(&mut self.sets, known, *task, 1));
            }
            return;
        }
        if sets.iter().all(|sets| sets.is_empty()) {
            return;
        }
        let counts = (0..).zip(job.groups.iter().map(|group| group.count as usize));
        let tasks: Vec<_> = counts
            .flat_map(|(group, count)| {
                std::iter::repeat_n(CountedTask { group, mark: Mark::Pending }, count)
            })
            .collect();
        let job = CountedJob { sets, tasks };
        job.tasks.iter().for_each(|task| count(&mut self.sets, &job, *task, 1));
        self.jobs.insert(id, job);
    }

    fn set_task(&mut self, task: &TaskDelta) {
        let Some(job) = self.jobs.get_mut(&task.id.job) else { return };
        let index = task.id.index as usize;
        if job.tasks.len() <= index {
            // The delta lists each task that a resize of the group added, so these placeholders will be replaced.
            job.tasks.resize(index + 1, CountedTask { group: 0, mark: Mark::Ended });
        }
        let now = CountedTask { group: task.group, mark: Mark::of(task.state) };
        let before = std::mem::replace(&mut job.tasks[index], now);
        count(&mut self.sets, job, before, -1);
        count(&mut self.sets, job, now, 1);
    }

    fn end(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        job.tasks.iter().for_each(|task| count(&mut self.sets, &job, *task, -1));
    }
}

/// Adds a task to the counts of its sets if `more` is 1, or removes it if it is -1.
fn count(sets: &mut [(TaskSet, TaskCounts)], job: &CountedJob, task: CountedTask, more: isize) {
    let CountedTask { group, mark } = task;
    for set in job.sets.get(usize::from(group)).into_iter().flatten() {
        let counts = &mut sets[usize::from(*set)].1;
        let (placed, alive) = (mark == Mark::Placed, mark != Mark::Ended);
        counts.placed = counts.placed.strict_add_signed(isize::from(placed) * more);
        counts.alive = counts.alive.strict_add_signed(isize::from(alive) * more);
    }
}

impl View {
    /// Makes the view count the tasks of a set, if the view keeps placements. Call this before the first sync, because
    /// jobs of earlier syncs are not counted.
    pub fn count_tasks(&mut self, set: &TaskSet) {
        let Some(placements) = self.indexes.placements_mut() else { return };
        let sets = &mut placements.counted_mut().sets;
        if sets.len() < usize::from(u16::MAX) && !sets.iter().any(|(known, _)| known == set) {
            sets.push((set.clone(), TaskCounts::default()));
        }
    }

    /// The counts of a task set; `None` unless [`View::count_tasks`] was called. A task that a claim of this view
    /// evicts is counted as placed until the transaction has a result.
    #[must_use]
    pub fn task_counts(&self, set: &TaskSet) -> Option<TaskCounts> {
        let sets = &self.indexes.placements()?.counted().sets;
        sets.iter().find(|(known, _)| known == set).map(|(_, counts)| *counts)
    }
}
