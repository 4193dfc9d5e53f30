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
        self.placers[scheduler].rng().random_range(0..machines)
    }

    /// Returns whether the next task would fit if the machine were empty. Placement rules are checked later, when the
    /// task starts.
    fn may_take(&mut self, machine: u32, _: usize, job: usize) -> bool {
        let Some((task, job)) = self.next_task(job) else { return false };
        let group = job.group_of(task);
        let capacity = &self.described[machine as usize].capacity;
        job.job.groups[group].request.iter().all(|(kind, amount)| amount <= capacity.get(kind))
    }

    fn start(&mut self, machine: u32, scheduler: usize, job: usize) -> Option<Taken> {
        let machine = self.machines[machine as usize];
        let (task, present) = self.next_task(job)?;
        let (spec, group) = (present.job.clone(), present.group_of(task));
        let placer = &mut self.placers[scheduler];
        placer.sync(&self.cell);
        if !placer.claim_on(&spec, group, task, machine) {
            return None;
        }
        let (_, placed) = self.commit(scheduler);
        let run = self.begin(scheduler, job, &placed);
        self.forget_placed(scheduler, job);
        run
    }
}
