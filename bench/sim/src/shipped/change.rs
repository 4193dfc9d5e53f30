//! Machines that are added, removed or changed during the run. Tasks of a removed machine are placed again.
//!
//! A new machine belongs to the schedulers that have the last rows. Random sampling uses only machines that the cell
//! had at the start, including those that were removed and added again.

use super::cell::{KINDS, Known, ShippedCell, ShippedError};
use crate::engine::Lost;
use omega_core::{Command, Machine, MachineId, Outcome, TaskId};
use omega_workload::{MachineChange, MachineEvent};
use std::collections::BTreeMap;

impl<'a> ShippedCell<'a> {
    /// Sets the changes of machines.
    pub fn set_changes(&mut self, changes: &'a [MachineEvent]) {
        self.changes = changes;
        if !changes.is_empty() {
            let names = self.described.iter().map(|machine| machine.name.clone());
            self.positions = names.zip(0..).collect();
        }
    }

    /// Applies a machine change as a live cell does. Returns the tasks that lost their machines.
    pub(super) fn change_machine(&mut self, number: usize) -> Vec<Lost> {
        let changes: &'a [MachineEvent] = self.changes;
        let change = &changes[number].change;
        let (MachineChange::Add(Machine { name, .. }) | MachineChange::Remove(name)) = change;
        let there = self.cell.read(|cell| cell.machine_by_name(name));
        match (change, there) {
            (MachineChange::Add(machine), there) => {
                self.add(machine, there);
                Vec::new()
            }
            (MachineChange::Remove(_), Some(id)) => self.remove(id),
            (MachineChange::Remove(_), None) => Vec::new(),
        }
    }

    /// Adds or updates a machine.
    fn add(&mut self, machine: &Machine, there: Option<MachineId>) {
        let before = there.map_or([0; 2], |id| self.capacity_of(id));
        let command = match there {
            Some(id) => Command::UpdateMachine { id, machine: machine.clone() },
            None => Command::RegisterMachine(machine.clone()),
        };
        match self.cell.apply(command) {
            Ok(done) => {
                self.capacity_moves(before, KINDS.map(|kind| machine.capacity.get(kind)));
                if let (Outcome::Machine(id), Some(at)) = (done, self.positions.get(&machine.name))
                {
                    self.machines[*at] = id;
                }
            }
            Err(why) => {
                let name = machine.name.to_string();
                self.refused.get_or_insert(ShippedError::Machine { name, why });
            }
        }
    }

    /// Removes a machine with its tasks.
    fn remove(&mut self, id: MachineId) -> Vec<Lost> {
        self.capacity_moves(self.capacity_of(id), [0; 2]);
        let removed = self.cell.apply(Command::RemoveMachine { id });
        removed.expect("a machine that is there can go");
        self.take_off(id).into_iter().map(|(job, tasks)| self.lose(job, tasks)).collect()
    }

    fn capacity_of(&self, id: MachineId) -> [u64; 2] {
        let of = |machine: &Machine| KINDS.map(|kind| machine.capacity.get(kind));
        self.cell.read(|cell| cell.machine(id).map_or([0; 2], |state| of(state.machine)))
    }

    fn capacity_moves(&mut self, from: [u64; 2], to: [u64; 2]) {
        for (all, (from, to)) in self.capacity.iter_mut().zip(from.into_iter().zip(to)) {
            *all = *all - from + to;
        }
    }

    /// Removes a machine's tasks from the groups of running tasks, and returns them by job. Removals are rare, so
    /// scanning all groups costs less than maintaining an index.
    fn take_off(&mut self, machine: MachineId) -> BTreeMap<usize, Vec<TaskId>> {
        let mut lost: BTreeMap<usize, Vec<TaskId>> = BTreeMap::new();
        for (number, group) in (0..).zip(&mut self.groups) {
            if group.tasks.iter().all(|(_, on, _)| *on != machine) {
                continue;
            }
            let Some(known) = self.known[group.job].as_deref() else { continue };
            self.ledger.moved(&known.job.tenant);
            let of_job = lost.entry(group.job).or_default();
            for (task, ..) in group.tasks.iter().filter(|(_, on, _)| *on == machine) {
                of_job.push(*task);
                let owned = &mut self.owned[group.scheduler];
                for (kind, amount) in known.request(*task).into_iter().enumerate() {
                    self.used[kind] -= amount;
                    owned[kind] -= amount;
                }
            }
            group.tasks.retain(|(_, on, _)| *on != machine);
            // A group whose tasks never end is freed here. Other groups are freed at their planned end.
            if group.tasks.is_empty() && group.next_ms == u64::MAX {
                self.groups_free.push(number);
            }
        }
        lost
    }

    /// Makes tasks of a job pending again.
    fn lose(&mut self, job: usize, tasks: Vec<TaskId>) -> Lost {
        let known = self.known[job].as_mut().expect("a job whose tasks ran is known");
        let Known { pending, running, .. } = &mut **known;
        let lost =
            Lost { job: job as u32, tasks: tasks.len() as u32, waiting: pending.len() as u32 };
        *running -= lost.tasks;
        pending.extend(tasks);
        pending.sort_unstable();
        lost
    }
}
