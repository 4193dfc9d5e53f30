//! Choice of the machine on which a plugin makes room: machines are tried from a random one on, and the cheapest wins.

use omega_cellstate::{PlacedTask, View};
use omega_core::Precedence;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Maximum number of machines with suitable tasks that are tried.
const MACHINES_TRIED: usize = 64;

/// Random generator for the first machine to try, seeded by the scheduler's number so that workers begin at different
/// machines.
#[derive(Clone, Debug, Default)]
pub(super) struct RandomStart(Option<Pcg64>);

impl RandomStart {
    /// Returns a random number below `bound`, or 0 if `bound` is 0.
    pub(super) fn draw(&mut self, view: &View, bound: usize) -> usize {
        let seed = u64::from(view.scheduler().0);
        self.0.get_or_insert_with(|| Pcg64::seed_from_u64(seed)).random_range(0..bound.max(1))
    }
}

/// Cost of making room: the precedence of the most important task, then the number of tasks.
type Cost = (Option<Precedence>, usize);

/// The cheapest of the machines that were tried, with the tasks to evict or to throttle there.
#[derive(Default)]
pub(super) struct Cheapest {
    tried: usize,
    best: Option<(Cost, usize, Vec<PlacedTask>)>,
}

impl Cheapest {
    /// Whether no further machine is to be tried.
    pub(super) fn has_tried_enough(&self) -> bool {
        self.tried == MACHINES_TRIED
    }

    /// Counts a machine that is tried.
    pub(super) fn count(&mut self) {
        self.tried += 1;
    }

    /// Takes a machine if it is cheaper than those before it.
    pub(super) fn add(&mut self, row: usize, tasks: Vec<PlacedTask>) {
        let cost = (tasks.iter().map(|task| task.precedence).max(), tasks.len());
        if self.best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            self.best = Some((cost, row, tasks));
        }
    }

    /// Returns the row of the machine, and the tasks; `None` if no machine was added.
    pub(super) fn into_best(self) -> Option<(usize, Vec<PlacedTask>)> {
        self.best.map(|(_, row, tasks)| (row, tasks))
    }
}
