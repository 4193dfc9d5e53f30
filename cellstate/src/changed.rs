//! The ids of changed objects, without their new values.
//!
//! A reader that keeps no copy of the cell uses these ids instead of deltas, and looks up each changed object. Each id
//! costs a few nanoseconds, however many objects exist.

use crate::cell::{Cell, Change};
use crate::queries::MachineState;
use omega_core::{JobId, TaskId, Version};

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

impl Cell {
    /// The machines, jobs and tasks that changed after a version, in order. An id may occur more than once, and changes
    /// of free amounts are not included. `None` if the log no longer contains these changes, or if the version is in
    /// the future.
    #[must_use]
    pub fn changed_since(&self, since: Version) -> Option<impl Iterator<Item = Changed> + '_> {
        if since > self.version {
            return None;
        }
        self.log.counts_since(since)?;
        Some(self.log.since(since).filter_map(|change| match *change {
            Change::Machine(slot) => Some(Changed::Machine(slot)),
            Change::Job(id, _) => Some(Changed::Job(id)),
            Change::Task(id, _) => Some(Changed::Task(id)),
            Change::Tracker(_) | Change::Count(..) | Change::Quota | Change::Policy(_) => None,
        }))
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
        (0..4).for_each(|_| drop(cell.apply(Command::RemoveMachine { id: machine })));
        cell.apply(Command::RegisterMachine(Machine::new("n", Amounts::new([10])))).unwrap();
        cell.apply(Command::RegisterMachine(Machine::new("o", Amounts::new([10])))).unwrap();
        assert_eq!(changed(&cell, 0), None, "that is too long ago");
        assert_eq!(&*cell.machine_in(0).unwrap().machine.name, "n");
        assert!(cell.machine_in(9).is_none());
    }
}
