//! Offers of the shipped cell. An offer contains the whole cell, so only one offer is open at a time.
//!
//! No other scheduler may place tasks until the reply. Resources that are freed in the meantime are in the next offer.

use super::cell::ShippedCell;
use crate::engine::{Attempt, Cell, OfferCell, Taken};

/// The whole cell, offered to one scheduler.
pub struct WholeCell {
    /// Remaining processors and memory, in the cell's units.
    left: [f64; 2],
}

impl OfferCell for ShippedCell<'_> {
    type Offer = WholeCell;

    fn offer(&mut self) -> WholeCell {
        self.offered = true;
        WholeCell { left: self.usage.free().map(|amount| amount as f64) }
    }

    fn left(&self, offer: &WholeCell) -> [f64; 2] {
        offer.left
    }

    /// Commits placements immediately. They cannot conflict, and no other scheduler sees them before the reply. Until
    /// then, the tasks do not run, so their resources count as locked, not as used.
    fn place_in(
        &mut self,
        offer: &mut WholeCell,
        scheduler: usize,
        job: usize,
        tasks: u32,
    ) -> Attempt {
        let before = self.usage.allocated();
        let attempt = self.attempt(scheduler, job, tasks, crate::engine::Access::Live);
        let after = self.usage.allocated();
        let taken = [0, 1].map(|kind| after[kind] - before[kind]);
        self.usage.hold(scheduler, taken);
        self.unstarted.extend(attempt.run);
        offer.left.iter_mut().zip(taken).for_each(|(left, taken)| *left -= taken as f64);
        attempt
    }

    fn answer(&mut self, _: WholeCell, scheduler: usize, _: &[Taken]) {
        self.usage.start_held(scheduler);
        self.unstarted.clear();
        self.offered = false;
    }

    fn free_processors(&self) -> f64 {
        if self.offered { 0.0 } else { self.usage.free()[0] as f64 / 1000.0 }
    }

    fn dominant_share(&self, scheduler: usize) -> f64 {
        self.usage.dominant_share(scheduler)
    }

    fn locked(&self) -> f64 {
        if self.offered { 1.0 - self.used()[0] } else { 0.0 }
    }
}
