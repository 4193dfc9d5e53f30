//! The machines of the shipped cell, probed one by one. The cell's own check decides whether a machine accepts a task.

use super::cell::ShippedCell;
use crate::engine::{SampledCell, Taken};
use rand::RngExt;

impl SampledCell for ShippedCell<'_> {
    fn machines(&self) -> u32 {
        self.machines.len() as u32
    }

    fn draw(&mut self, scheduler: usize) -> u32 {
        let machines = self.machines.len() as u32;
        self.seats[scheduler].rng().random_range(0..machines)
    }

    /// Returns whether the next task would fit if the machine were empty. Placement rules are checked later, when the
    /// task starts.
    fn may_take(&mut self, machine: u32, _: usize, job: usize) -> bool {
        let Some((task, known)) = self.next_task(job) else { return false };
        let group = known.group_of(task);
        let capacity = &self.described[machine as usize].capacity;
        known.job.groups[group].request.iter().all(|(kind, amount)| amount <= capacity.get(kind))
    }

    fn start(&mut self, machine: u32, scheduler: usize, job: usize) -> Option<Taken> {
        let machine = self.machines[machine as usize];
        let (task, known) = self.next_task(job)?;
        let (spec, group) = (known.job.clone(), known.group_of(task));
        let seat = &mut self.seats[scheduler];
        seat.sync(&self.cell);
        if !seat.claim_on(&spec, group, task, machine) {
            return None;
        }
        let (_, taken) = self.commit(scheduler);
        let run = self.begin(scheduler, job, &taken);
        self.forget_placed(scheduler, job);
        run
    }
}
