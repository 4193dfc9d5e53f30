//! Machines that are added, removed or changed during the run. Tasks of a removed machine are placed again.
//!
//! A new machine belongs to the schedulers that have the last rows. Random sampling uses only machines that the cell
//! had at the start, including those that were removed and added again.

use super::cell::ShippedCell;
use super::error::ShippedError;
use super::usage::{Reported, reported};
use crate::engine::Lost;
use omega_cellstate::Cell;
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
                self.usage.change_capacity(before, reported(&machine.capacity));
                if let (Outcome::Machine(id), Some(at)) = (done, self.positions.get(&machine.name))
                {
                    self.machines[*at] = id;
                }
            }
            Err(why) => {
                let name = machine.name.to_string();
                self.rejected.get_or_insert(ShippedError::Machine { name, why });
            }
        }
    }

    /// Removes a machine with its tasks.
    fn remove(&mut self, id: MachineId) -> Vec<Lost> {
        self.usage.change_capacity(self.capacity_of(id), [0; 2]);
        let removed = self.cell.apply(Command::RemoveMachine { id });
        removed.expect("a machine that is there can go");
        let lost = self.take_off(id).into_iter().map(|(job, tasks)| self.lose(job, tasks));
        let lost: Vec<Lost> = lost.collect();
        // Tasks of jobs that have not arrived are counted when the jobs arrive.
        lost.into_iter().filter(|lost| !self.early.contains_key(&(lost.job as usize))).collect()
    }

    fn capacity_of(&self, id: MachineId) -> Reported {
        let capacity = |cell: &Cell| Some(reported(&cell.machine(id)?.machine.capacity));
        self.cell.read(capacity).unwrap_or_default()
    }

    /// Removes a machine's tasks from the groups of running tasks, and returns them by job. Removals are rare, so
    /// scanning all groups costs less than maintaining an index.
    fn take_off(&mut self, machine: MachineId) -> BTreeMap<usize, Vec<TaskId>> {
        let mut lost: BTreeMap<usize, Vec<TaskId>> = BTreeMap::new();
        let mut freed = Vec::new();
        for (number, group) in self.groups.iter_mut() {
            let tasks: Vec<TaskId> = group.on(machine).collect();
            if tasks.is_empty() {
                continue;
            }
            let Some(job) = self.jobs.get(group.job) else { continue };
            self.accounting.mark_changed(&job.job.tenant);
            let is_started = !self.unstarted.contains(&number);
            for request in tasks.iter().map(|task| job.request(*task)) {
                if is_started {
                    self.usage.release(group.scheduler, request);
                } else {
                    self.usage.drop_held(request);
                }
            }
            lost.entry(group.job).or_default().extend(tasks);
            group.remove_on(machine);
            // A group whose tasks never end is freed here. Other groups are freed at their planned end.
            if group.is_empty() && group.next_ms().is_none() {
                freed.push(number);
            }
        }
        self.unstarted.retain(|number| !freed.contains(number));
        freed.into_iter().for_each(|number| self.groups.free(number));
        lost
    }

    /// Makes tasks of a job pending again.
    fn lose(&mut self, number: usize, tasks: Vec<TaskId>) -> Lost {
        let job = self.jobs.get_mut(number).expect("a job whose tasks ran is present");
        let waiting = job.pending().len() as u32;
        let lost = Lost { job: number as u32, tasks: tasks.len() as u32, waiting };
        job.lose(tasks);
        lost
    }
}
