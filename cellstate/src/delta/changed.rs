//! The ids of changed objects, without their new values.
//!
//! A reader that keeps no copy of the cell uses these ids instead of deltas, and looks up each changed object. Each id
//! costs a few nanoseconds, however many objects exist.

use crate::cell::{Cell, Change};
use crate::queries::MachineState;
use omega_core::{JobId, TaskId, Version};
use std::collections::vec_deque;

/// A changed object, to be looked up by the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The machine in this row was registered, updated, drained, undrained or removed.
    Machine(u32),
    /// A job was submitted, resized, updated or ended. It may have been forgotten since.
    Job(JobId),
    /// A task changed its state. Its job may have been forgotten since.
    Task(TaskId),
}

/// A position in the change log. A reader that stops there continues later without reading the entries before it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangePosition {
    since: Version,
    /// Number of the log's entries between the version and the position.
    entries: usize,
}

impl ChangePosition {
    /// The position before the first change after a version.
    #[must_use]
    pub fn after(since: Version) -> ChangePosition {
        ChangePosition { since, entries: 0 }
    }

    /// The version from which the position counts.
    #[must_use]
    pub fn since(self) -> Version {
        self.since
    }
}

/// The changes from a position on, at most a given number of log entries.
#[derive(Debug)]
pub struct Changes<'c> {
    entries: vec_deque::Iter<'c, Change>,
    position: ChangePosition,
    /// Number of entries that may still be read.
    left: usize,
}

impl Changes<'_> {
    /// The position after the entries that were read.
    #[must_use]
    pub fn position(&self) -> ChangePosition {
        self.position
    }

    /// Number of log entries after the position, including entries that are not changes of objects.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.entries.len()
    }
}

impl Iterator for Changes<'_> {
    type Item = Changed;

    fn next(&mut self) -> Option<Changed> {
        while self.left > 0 {
            let change = self.entries.next()?;
            self.left -= 1;
            self.position.entries += 1;
            if let Some(changed) = changed_object(change) {
                return Some(changed);
            }
        }
        None
    }
}

fn changed_object(change: &Change) -> Option<Changed> {
    match *change {
        Change::Machine(slot) => Some(Changed::Machine(slot)),
        Change::Job(id, _) => Some(Changed::Job(id)),
        Change::Task(id, _) => Some(Changed::Task(id)),
        Change::Tracker(_) | Change::Count(..) | Change::Quota | Change::Policy(_) => None,
    }
}

impl Cell {
    /// The machines, jobs and tasks that changed after a version, in order. An id may occur more than once, and changes
    /// of free amounts are not included. `None` if the log no longer contains these changes, or if the version is in
    /// the future.
    #[must_use]
    pub fn changed_since(&self, since: Version) -> Option<impl Iterator<Item = Changed> + '_> {
        self.changes_from(ChangePosition::after(since), usize::MAX)
    }

    /// The changes from a position on, in order, of at most `entries_max` log entries. The start costs the same at each
    /// position. `None` in the cases of [`Cell::changed_since`].
    #[must_use]
    pub fn changes_from(
        &self,
        position: ChangePosition,
        entries_max: usize,
    ) -> Option<Changes<'_>> {
        if position.since > self.version {
            return None;
        }
        let entries = self.log.since_skipping(position.since, position.entries)?;
        Some(Changes { entries, position, left: entries_max })
    }

    /// The number of rows, including those without a machine.
    #[must_use]
    pub fn row_count(&self) -> u32 {
        self.machines.row_count() as u32
    }

    /// The machine in a row.
    #[must_use]
    pub fn machine_in(&self, slot: u32) -> Option<MachineState<'_>> {
        if (slot as usize) < self.machines.row_count() {
            self.machine(self.machines.id(slot as usize))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Command, Job, Kinds, Machine, MachineId, TaskGroup};

    fn changed(cell: &Cell, since: u64) -> Option<Vec<Changed>> {
        cell.changed_since(Version(since)).map(Iterator::collect)
    }

    #[test]
    fn what_changed_is_named_until_they_are_forgotten() {
        let mut cell = Cell::with_change_limit(Kinds::standard(), 4);
        let machine = MachineId::first(0);
        let task = TaskId { job: JobId(0), index: 0 };
        cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([10])))).unwrap();
        let group = TaskGroup::new(1, Amounts::new([1]));
        cell.apply(Command::SubmitJob(Job::batch("j", group))).unwrap();
        cell.apply(Command::AdoptTask { task, machine }).unwrap();
        let all = vec![Changed::Machine(0), Changed::Job(task.job), Changed::Task(task)];
        assert_eq!(changed(&cell, 0), Some(all));
        assert_eq!(changed(&cell, 2), Some(vec![Changed::Task(task)]));
        assert_eq!(changed(&cell, 3), Some(vec![]));
        assert_eq!(changed(&cell, 4), None, "that has not been yet");
        let beyond = ChangePosition { since: Version(0), entries: 9 };
        assert!(cell.changes_from(beyond, 1).is_none(), "the log has no such entry");
        (0..4).for_each(|_| drop(cell.apply(Command::RemoveMachine { id: machine })));
        cell.apply(Command::RegisterMachine(Machine::new("n", Amounts::new([10])))).unwrap();
        cell.apply(Command::RegisterMachine(Machine::new("o", Amounts::new([10])))).unwrap();
        assert_eq!(changed(&cell, 0), None, "that is too long ago");
        assert_eq!(&*cell.machine_in(0).unwrap().machine.name, "n");
        assert!(cell.machine_in(9).is_none());
    }

    #[test]
    fn each_entry_is_read_once_when_changes_are_read_in_parts() {
        let mut cell = Cell::new(Kinds::standard());
        let job = Job::batch("j", TaskGroup::new(1000, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).unwrap();
        cell.apply(Command::DeleteJob { job: JobId(0) }).unwrap();
        let whole = changed(&cell, 0).expect("the log has all changes");
        assert!(whole.len() > 1000);
        for entries_max in [1, 7, 64, 5000] {
            let (mut position, mut parts) = (ChangePosition::after(Version(0)), Vec::new());
            let mut entries = 0;
            loop {
                let mut part = cell.changes_from(position, entries_max).expect("it is kept");
                let before = part.remaining();
                parts.extend(part.by_ref());
                entries += before - part.remaining();
                assert!(before - part.remaining() <= entries_max);
                position = part.position();
                if part.remaining() == 0 {
                    break;
                }
            }
            assert_eq!(parts, whole);
            assert_eq!(entries, position.entries, "{entries_max} entries at once");
        }
    }
}
