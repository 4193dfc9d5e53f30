//! Search of the reference's schedulers: random first fit over a list of machines. The order of the list persists
//! between searches.

use super::java_random::JavaRandom;
use super::row::{Claim, Request, Row};

/// A scheduler's random generator, and its order of the machines.
///
/// Invariant: `machines` contains the number of each machine once.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    random: JavaRandom,
    machines: Vec<u32>,
    /// Number of machines at the end of the pool that a search skips.
    left_out: u32,
}

/// Machines that a search may claim.
pub(super) struct Machines<'a> {
    pub(super) rows: &'a mut [Row],
    pub(super) capacity: [f64; 2],
}

impl Pool {
    pub(super) fn new(machines: u32, left_out: u32, seed: i64) -> Pool {
        Pool { random: JavaRandom::new(seed), machines: (0..machines).collect(), left_out }
    }

    /// Claims machines for a number of tasks, by drawing machines until all tasks have one or no machine is left.
    pub(super) fn place(
        &mut self,
        on: Machines<'_>,
        request: Request,
        tasks: u32,
        claims: &mut Vec<Claim>,
    ) {
        let mut remaining = (self.machines.len() as u32).saturating_sub(self.left_out);
        let mut wanted = tasks;
        while wanted > 0 && remaining > 0 {
            let drawn = self.random.below(remaining) as usize;
            let machine = self.machines[drawn];
            let row = &mut on.rows[machine as usize];
            if row.fits(on.capacity, request) {
                claims.push(Claim { machine, seen: *row });
                row.take(request);
                wanted -= 1;
            } else {
                remaining -= 1;
                self.machines.swap(drawn, remaining as usize);
            }
        }
    }
}
