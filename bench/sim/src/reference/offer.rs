//! Offers of the reference's cell: the free resources of all machines, locked for one scheduler.

use super::cell::ReferenceCell;
use super::pool::Machines;
use super::row::Row;
use crate::engine::{Attempt, OfferCell, Taken};

/// Contents of one offer.
pub struct Offer {
    /// The machines as the scheduler sees them, including its own claims.
    rows: Vec<Row>,
    /// Locked resources of each machine.
    locked: Vec<[f64; 2]>,
    /// Free amounts of the offer.
    left: [f64; 2],
}

impl OfferCell for ReferenceCell<'_> {
    type Offer = Offer;

    fn offer(&mut self) -> Offer {
        let rows = self.rows.clone();
        let mut offer = Offer { rows, locked: Vec::with_capacity(self.rows.len()), left: [0.0; 2] };
        for row in &mut self.rows {
            let free = row.lock(self.capacity);
            offer.locked.push(free);
            offer.left = [offer.left[0] + free[0], offer.left[1] + free[1]];
        }
        self.locked = [self.locked[0] + offer.left[0], self.locked[1] + offer.left[1]];
        offer
    }

    fn left(&self, offer: &Offer) -> [f64; 2] {
        offer.left
    }

    fn place_in(&mut self, offer: &mut Offer, scheduler: usize, job: usize, tasks: u32) -> Attempt {
        let request = self.jobs[job].request;
        self.claims.clear();
        // If a task does not fit into the sum of what is left on all machines, it fits on no machine.
        if offer.left[0] > request.cpu && offer.left[1] > request.memory {
            let on = Machines { rows: &mut offer.rows, capacity: self.capacity };
            self.pools[scheduler].place(on, request, tasks, &mut self.claims);
        }
        let claimed = self.claims.len() as u32;
        offer.left[0] -= request.cpu * f64::from(claimed);
        offer.left[1] -= request.memory * f64::from(claimed);
        Attempt { claimed, taken: claimed, run: self.run(job, scheduler) }
    }

    fn answer(&mut self, offer: Offer, scheduler: usize, runs: &[Taken]) {
        for (row, locked) in self.rows.iter_mut().zip(&offer.locked) {
            row.unlock(*locked);
            self.locked = [self.locked[0] - locked[0], self.locked[1] - locked[1]];
        }
        for run in runs {
            let run = &self.runs[run.0 as usize];
            let request = self.jobs[run.job as usize].request;
            for machine in &run.machines {
                self.rows[*machine as usize].take(request);
            }
            let tasks = run.machines.len() as f64;
            self.count_used(scheduler, request, tasks);
        }
    }

    fn free_processors(&self) -> f64 {
        let taken = self.used[0] + self.locked[0];
        self.capacity[0] * self.rows.len() as f64 - taken
    }

    fn dominant_share(&self, scheduler: usize) -> f64 {
        let machines = self.rows.len() as f64;
        let share = |kind: usize| self.owned[scheduler][kind] / (self.capacity[kind] * machines);
        share(0).max(share(1))
    }

    fn locked(&self) -> f64 {
        self.locked[0] / (self.capacity[0] * self.rows.len() as f64)
    }
}
