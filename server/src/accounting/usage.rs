//! Allocated amounts times time, used resources, and counts of tasks, by hour and job.
//!
//! The cell is examined after each command. The change log names the tasks that changed, so the cost of a command
//! depends on the number of its changes, and not on the number of running tasks. The time of a task's allocation is
//! added when the allocation changes or ends, split at full hours.

use omega_cellstate::{Cell, Changed};
use omega_core::{Amounts, JobId, MachineId, TaskId, TaskState, TaskUse, Text, Version};
use std::collections::BTreeMap;
use std::ops::Range;

/// Milliseconds in an hour.
pub(super) const HOUR_MS: u64 = 3_600_000;

/// Usage of one job, or of several, in one hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Allocated amounts times milliseconds, by resource kind. The sums fit into 128 bits: an amount is below 2^48, an
    /// hour has less than 2^22 milliseconds, and a job has at most a million tasks.
    pub(super) allocated: Vec<u128>,
    /// Used processor time in microseconds.
    pub(super) used_cpu_us: u128,
    /// Used bytes of memory times seconds.
    pub(super) used_byte_seconds: u128,
    /// Tasks that started to run.
    pub(super) started: u64,
    /// Tasks that finished.
    pub(super) finished: u64,
    /// Tasks that failed, including tasks that were placed again.
    pub(super) failed: u64,
}

impl Sums {
    /// Adds an allocation over a time.
    fn add_allocation(&mut self, amounts: &Amounts, time_ms: u64) {
        for (kind, amount) in amounts.iter() {
            if self.allocated.len() <= kind.index() {
                self.allocated.resize(kind.index() + 1, 0);
            }
            self.allocated[kind.index()] += u128::from(amount) * u128::from(time_ms);
        }
    }

    /// Adds other sums.
    pub(super) fn add(&mut self, other: &Sums) {
        if self.allocated.len() < other.allocated.len() {
            self.allocated.resize(other.allocated.len(), 0);
        }
        for (sum, more) in self.allocated.iter_mut().zip(&other.allocated) {
            *sum += more;
        }
        self.used_cpu_us += other.used_cpu_us;
        self.used_byte_seconds += other.used_byte_seconds;
        self.started += other.started;
        self.finished += other.finished;
        self.failed += other.failed;
    }
}

/// Position of a row: the hour since 1970, and the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) hour: u64,
    pub(super) job: JobId,
}

/// A task as it was after the last command.
#[derive(Clone, Debug)]
struct Tracked {
    state: TaskState,
    failures: u32,
    /// Allocation of the task while it has a machine.
    allocated: Amounts,
    /// Time up to which the allocation was added to the sums.
    since_ms: u64,
    /// The latest machine of the task, and the one before it. Only agents of these machines can report the task's use.
    machines: [Option<MachineId>; 2],
}

impl Tracked {
    /// Records that the task is on a machine, if it is on one.
    fn moved(machines: [Option<MachineId>; 2], to: Option<MachineId>) -> [Option<MachineId>; 2] {
        let [latest, _] = machines;
        if to.is_none() || to == latest { machines } else { [to, latest] }
    }
}

/// The usage of all jobs of a history; see the module documentation.
#[derive(Debug)]
pub(super) struct Usage {
    window_ms: Range<u64>,
    hour_ms: u64,
    rows: BTreeMap<Key, Sums>,
    names: BTreeMap<JobId, Owner>,
    /// Tasks that had a machine, by job and index.
    tracked: BTreeMap<JobId, BTreeMap<u32, Tracked>>,
    /// Version of the cell after the last command; `None` before the first.
    seen: Option<Version>,
    now_ms: u64,
}

/// The usage of jobs by hour, and the owners of all jobs that had a machine.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) rows: BTreeMap<Key, Sums>,
    pub(super) owners: BTreeMap<JobId, Owner>,
}

/// Name and tenant of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) job: Text,
    pub(super) tenant: Text,
}

impl Usage {
    /// Creates an empty usage, which counts only times within a range.
    pub(super) fn within(window_ms: Range<u64>) -> Usage {
        Usage {
            window_ms,
            hour_ms: HOUR_MS,
            rows: BTreeMap::new(),
            names: BTreeMap::new(),
            tracked: BTreeMap::new(),
            seen: None,
            now_ms: 0,
        }
    }

    /// Looks at the cell after a command, or at the beginning of a history.
    pub(super) fn observe(&mut self, cell: &Cell) {
        let changed = self.seen.and_then(|seen| cell.changed_since(seen));
        self.now_ms = cell.now_ms();
        match changed {
            Some(changed) => changed.for_each(|changed| match changed {
                Changed::Task(id) => self.observe_task(cell, id),
                Changed::Job(id) => self.observe_job(cell, id),
                Changed::Machine(_) => {}
            }),
            None => self.observe_all(cell),
        }
        self.seen = Some(cell.version());
    }

    /// Adds the time of all allocations that still exist, up to now. Returns the totals.
    pub(super) fn finish(mut self) -> Totals {
        for (id, tasks) in std::mem::take(&mut self.tracked) {
            tasks.values().for_each(|task| self.add_time(id, task));
        }
        Totals { rows: self.rows, owners: self.names }
    }

    /// Counts the reported use of tasks. The cell refuses reports from unknown machines. The use of a job that was deleted
    /// is not counted.
    pub(super) fn add_use(&mut self, cell: &Cell, machine: MachineId, used: &[TaskUse]) {
        if !self.window_ms.contains(&self.now_ms) || cell.machine(machine).is_none() {
            return;
        }
        for TaskUse { task, cpu_us, memory_byte_seconds } in used {
            let known = self.tracked.get(&task.job).and_then(|tasks| tasks.get(&task.index));
            if !known.is_some_and(|known| known.machines.contains(&Some(machine))) {
                continue;
            }
            let key = Key { hour: self.now_ms / self.hour_ms, job: task.job };
            let row = self.rows.entry(key).or_default();
            row.used_cpu_us += u128::from(*cpu_us);
            row.used_byte_seconds += u128::from(*memory_byte_seconds);
        }
    }

    fn observe_all(&mut self, cell: &Cell) {
        let known: Vec<JobId> = self.tracked.keys().copied().collect();
        let there = cell.jobs().flat_map(|(id, _)| cell.tasks(id)).map(|(id, _)| id);
        known.into_iter().for_each(|id| self.observe_job(cell, id));
        there.for_each(|id| self.observe_task(cell, id));
    }

    /// Examines the tracked tasks of a job, and drops the job if the cell has dropped it.
    fn observe_job(&mut self, cell: &Cell, id: JobId) {
        let Some(tasks) = self.tracked.get(&id) else { return };
        let tasks: Vec<u32> = tasks.keys().copied().collect();
        tasks.into_iter().for_each(|index| self.observe_task(cell, TaskId { job: id, index }));
        if cell.job(id).is_none() {
            self.tracked.remove(&id);
        }
    }

    fn observe_task(&mut self, cell: &Cell, id: TaskId) {
        let old = self.tracked.get_mut(&id.job).and_then(|tasks| tasks.remove(&id.index));
        if let Some(old) = &old {
            self.add_time(id.job, old);
        }
        let Some((spec, state)) = cell.job(id.job).zip(cell.task(id)) else { return };
        let new = Tracked {
            state,
            failures: cell.task_failures(id),
            allocated: cell.task_allocation(id).unwrap_or_default(),
            since_ms: self.now_ms,
            machines: Tracked::moved(
                old.as_ref().map_or([None; 2], |old| old.machines),
                state.machine(),
            ),
        };
        // The first observation has no earlier state to compare with.
        if self.seen.is_some() {
            self.count(id.job, old.as_ref(), &new);
        }
        // Ended tasks stay tracked, so that no end counts twice.
        if state.machine().is_some() || new.failures > 0 || old.is_some() {
            let owner = || Owner { job: spec.name.clone(), tenant: spec.tenant.clone() };
            self.names.entry(id.job).or_insert_with(owner);
            self.tracked.entry(id.job).or_default().insert(id.index, new);
        }
    }

    /// Counts the starts and ends of a task between two observations.
    fn count(&mut self, job: JobId, old: Option<&Tracked>, new: &Tracked) {
        let was = old.map(|old| old.state);
        let is_now = |state: TaskState| new.state == state && was != Some(state);
        let started = matches!(new.state, TaskState::Running(_)) && was != Some(new.state);
        let again = new.failures > old.map_or(0, |old| old.failures);
        let counts = Sums {
            started: started.into(),
            finished: is_now(TaskState::Finished).into(),
            failed: (is_now(TaskState::Failed) || again).into(),
            ..Sums::default()
        };
        let is_inside = self.window_ms.contains(&self.now_ms);
        if is_inside && counts != Sums::default() {
            let key = Key { hour: self.now_ms / self.hour_ms, job };
            self.rows.entry(key).or_default().add(&counts);
        }
    }

    /// Adds the time of an allocation up to now, split at full hours.
    fn add_time(&mut self, job: JobId, task: &Tracked) {
        if task.state.machine().is_none() {
            return;
        }
        let mut from = task.since_ms.max(self.window_ms.start);
        let to = self.now_ms.min(self.window_ms.end);
        while from < to {
            let hour = from / self.hour_ms;
            let until = to.min((hour + 1).saturating_mul(self.hour_ms));
            let row = self.rows.entry(Key { hour, job }).or_default();
            row.add_allocation(&task.allocated, until - from);
            from = until;
        }
    }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
