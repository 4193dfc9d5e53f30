//! Random orders of tasks and machines.
//!
//! The list of tasks is shuffled, then shortened, or extended by random tasks, to the requested load. The machines get
//! a random order of their own, by which policies choose between equal scores; the published program shuffles their
//! names. In the order of the list, a policy would often prefer the device models that come first.

use super::machine::Shape;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Requested devices at the end, in percent of all devices.
pub const LOAD_PERCENT_MAX: i64 = 130;

/// A seeded random generator.
pub struct Dice(Pcg64);

impl Dice {
    /// Creates a random generator with a seed.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(Pcg64::seed_from_u64(seed))
    }

    /// Uniform random number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Shuffles items; all orders are equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Returns the tasks in order of arrival. They request at most [`LOAD_PERCENT_MAX`] of the devices' capacity.
#[must_use]
pub fn arrivals(list: &[Shape], capacity_milli: i64, dice: &mut Dice) -> Vec<Shape> {
    let most_milli = capacity_milli * LOAD_PERCENT_MAX / 100;
    let mut tasks = list.to_vec();
    dice.shuffle(&mut tasks);
    let mut asked: i64 = tasks.iter().map(Shape::asked_milli).sum();
    if asked == 0 {
        // Without device requests, no number of tasks would reach the load.
        return tasks;
    }
    while asked > most_milli {
        asked -= tasks.remove(dice.below(tasks.len())).asked_milli();
    }
    loop {
        let task = list[dice.below(list.len())];
        // The published program adds only the part of one device here, even if the task requests several devices.
        if asked + i64::from(task.device_milli) > most_milli {
            return tasks;
        }
        asked += task.asked_milli();
        tasks.push(task);
    }
}
