//! Capacity of the simulated cell, and the resources that are allocated to the tasks of each scheduler.

use omega_core::{Amounts, KindId, Machine};

/// The resource kinds that are reported.
const KINDS: [KindId; 2] = [KindId::CPU, KindId::MEMORY];

/// Amounts of processors and memory, or sums of them over many machines.
pub(super) type Reported = [u128; 2];

/// Returns the amounts of the reported kinds.
pub(super) fn reported(amounts: &Amounts) -> Reported {
    KINDS.map(|kind| u128::from(amounts.get(kind)))
}

/// Capacity, and allocated resources.
pub(super) struct Usage {
    capacity: Reported,
    allocated: Reported,
    /// Resources of tasks that were placed in the open offer and have not started.
    held: Reported,
    /// Resources allocated to each scheduler's tasks.
    by_scheduler: Vec<Reported>,
}

impl Usage {
    /// Creates the usage of a cell with these machines, without schedulers.
    pub(super) fn new(machines: &[Machine]) -> Usage {
        let mut capacity = [0; 2];
        for machine in machines {
            let amounts = reported(&machine.capacity);
            capacity.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
        Usage { capacity, allocated: [0; 2], held: [0; 2], by_scheduler: Vec::new() }
    }

    /// Adds a scheduler with the next number.
    pub(super) fn add_scheduler(&mut self) {
        self.by_scheduler.push([0; 2]);
    }

    /// Adds a started task of a scheduler.
    pub(super) fn allocate(&mut self, scheduler: usize, request: Reported) {
        for (kind, amount) in request.into_iter().enumerate() {
            self.allocated[kind] += amount;
            self.by_scheduler[scheduler][kind] += amount;
        }
    }

    /// Removes a task of a scheduler.
    pub(super) fn release(&mut self, scheduler: usize, request: Reported) {
        for (kind, amount) in request.into_iter().enumerate() {
            self.allocated[kind] -= amount;
            self.by_scheduler[scheduler][kind] -= amount;
        }
    }

    /// Marks allocated resources of a scheduler as those of tasks that have not started.
    pub(super) fn hold(&mut self, scheduler: usize, amounts: Reported) {
        self.release(scheduler, amounts);
        self.held.iter_mut().zip(amounts).for_each(|(held, amount)| *held += amount);
    }

    /// Removes a task that has not started.
    pub(super) fn drop_held(&mut self, request: Reported) {
        self.held.iter_mut().zip(request).for_each(|(held, amount)| *held -= amount);
    }

    /// Adds all tasks of a scheduler that have not started.
    pub(super) fn start_held(&mut self, scheduler: usize) {
        let held = std::mem::take(&mut self.held);
        self.allocate(scheduler, held);
    }

    /// Replaces the capacity of one machine.
    pub(super) fn change_capacity(&mut self, from: Reported, to: Reported) {
        for (all, (from, to)) in self.capacity.iter_mut().zip(from.into_iter().zip(to)) {
            *all = *all - from + to;
        }
    }

    /// Allocated amounts.
    pub(super) fn allocated(&self) -> Reported {
        self.allocated
    }

    /// Free amounts.
    pub(super) fn free(&self) -> Reported {
        [0, 1].map(|kind| self.capacity[kind].saturating_sub(self.allocated[kind]))
    }

    /// Allocated shares of the capacity.
    pub(super) fn shares(&self) -> [f64; 2] {
        self.shares_of_capacity(self.allocated)
    }

    /// Largest of a scheduler's allocated shares of the capacity.
    pub(super) fn dominant_share(&self, scheduler: usize) -> f64 {
        let [processors, memory] = self.shares_of_capacity(self.by_scheduler[scheduler]);
        processors.max(memory)
    }

    fn shares_of_capacity(&self, amounts: Reported) -> [f64; 2] {
        [0, 1].map(|kind| amounts[kind] as f64 / self.capacity[kind].max(1) as f64)
    }
}
