//! Jobs that found no room. Each sleeps until an event that may give it room.

use std::collections::{BTreeSet, HashMap};

/// Numbers of events after which a job may find room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Ends of tasks, and changes of machines.
    freed: u64,
    /// Commits that placed tasks. They help only jobs with rules about other tasks.
    placed: u64,
}

/// The jobs of all schedulers. Jobs are numbered by arrival, so older jobs are woken first.
#[derive(Debug, Default)]
pub(super) struct Asleep {
    marks: Marks,
    /// Jobs whose last attempt found no room, with the marks at the beginning of the attempt.
    tried: HashMap<u32, Marks>,
    /// Jobs that wait for freed room.
    for_room: BTreeSet<u32>,
    /// Jobs that wait for freed room, or for placements.
    for_tasks: BTreeSet<u32>,
}

impl Asleep {
    /// Returns the present marks, for an attempt that begins.
    pub(super) fn marks(&self) -> Marks {
        self.marks
    }

    /// Records that an attempt with these marks found no room for some task.
    pub(super) fn tried(&mut self, job: u32, marks: Marks) {
        self.tried.insert(job, marks);
    }

    /// Lets a job sleep, unless it may find room since its last attempt. Returns whether it sleeps. `has_rules` is
    /// whether the job has rules about other tasks.
    pub(super) fn sleep(&mut self, job: u32, has_rules: bool) -> bool {
        let Some(marks) = self.tried.remove(&job) else { return false };
        let is_freed = marks.freed != self.marks.freed;
        if is_freed || (has_rules && marks.placed != self.marks.placed) {
            return false;
        }
        let list = if has_rules { &mut self.for_tasks } else { &mut self.for_room };
        list.insert(job)
    }

    /// Wakes a job. Returns whether it slept.
    pub(super) fn wake(&mut self, job: u32) -> bool {
        self.for_room.remove(&job) || self.for_tasks.remove(&job)
    }

    /// Records that room was freed. Returns the jobs that slept.
    pub(super) fn freed(&mut self) -> BTreeSet<u32> {
        self.marks.freed += 1;
        let mut all = std::mem::take(&mut self.for_room);
        all.append(&mut self.for_tasks);
        all
    }

    /// Records that tasks were placed. Returns the jobs that slept and have rules about other tasks.
    pub(super) fn placed(&mut self) -> BTreeSet<u32> {
        self.marks.placed += 1;
        std::mem::take(&mut self.for_tasks)
    }
}
