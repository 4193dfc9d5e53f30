//! One run: the allocation of devices as tasks arrive, for a policy, a list and a seed.
//!
//! A task changes one machine only. So the score of each shape on a machine is cached with the machine's version, and
//! computed again when the machine has changed.

use super::arrivals::{Dice, arrivals};
use super::fragments::Shapes;
use super::input::Input;
use super::machine::{DeviceMachine, Shape};
use super::policy::Policy;
use std::collections::HashMap;

/// Loads at which a run is sampled: requested devices in percent of all devices.
pub const LOADS_PERCENT: [u32; 6] = [80, 90, 100, 110, 120, 130];

/// Settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Placement policy.
    pub policy: Policy,
    /// Seed of the random generator.
    pub seed: u64,
    /// Number of best machines among which a task is placed at random; 1 takes the best.
    pub among: usize,
}

/// State of the devices at one load; shares are in percent of all devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Share of the devices that is allocated.
    pub used: f64,
    /// Share of the devices that is free, but that the next task is expected to be unable to use.
    pub fragment: f64,
}

/// The version of a machine, and the score of a shape at that version; `None` if the shape does not fit.
type Kept = (u32, Option<i64>);

/// Simulates a run: a point for each of [`LOADS_PERCENT`].
#[must_use]
pub fn run(input: &Input, shapes: &Shapes, run: Run) -> [Point; LOADS_PERCENT.len()] {
    let mut dice = Dice::new(run.seed);
    let capacity_milli: i64 = input.machines.iter().map(DeviceMachine::left_milli).sum();
    let tasks = arrivals(&input.tasks, capacity_milli, &mut dice);
    let mut machines = input.machines.clone();
    dice.shuffle(&mut machines);
    let mut versions = vec![1_u32; machines.len()];
    let mut kept: HashMap<Shape, Vec<Kept>> = HashMap::new();
    let (mut arrived, mut used) = (0, 0);
    let mut points = [Point::default(); LOADS_PERCENT.len()];
    let mut next = 0;
    let mut best = Vec::new();
    for shape in &tasks {
        let scores = kept.entry(*shape).or_insert_with(|| vec![(0, None); machines.len()]);
        for ((score, machine), version) in scores.iter_mut().zip(&machines).zip(&versions) {
            if score.0 != *version {
                let fits = machine.fits(shape);
                *score = (*version, fits.then(|| run.policy.score(machine, shape, shapes)));
            }
        }
        let among = if run.policy == Policy::Random { machines.len() } else { run.among };
        find_best(scores, among, &mut best);
        if !best.is_empty() {
            let chosen = if best.len() > 1 { best[dice.below(best.len())] } else { best[0] };
            let machine = &mut machines[chosen];
            let devices =
                run.policy.devices(machine, shape, shapes, &mut |count| dice.below(count));
            machine.take(shape, devices);
            versions[chosen] += 1;
            used += shape.asked_milli();
        }
        arrived += shape.asked_milli();
        while next < points.len()
            && arrived * 100 >= capacity_milli * i64::from(LOADS_PERCENT[next])
        {
            points[next] = point(&machines, shapes, used, capacity_milli);
            next += 1;
        }
    }
    // A run may end slightly below its last load, by less than one device, so the remaining points get its final state.
    points[next..].fill(point(&machines, shapes, used, capacity_milli));
    points
}

fn point(machines: &[DeviceMachine], shapes: &Shapes, used: i64, capacity_milli: i64) -> Point {
    let percent = 100.0 / capacity_milli.max(1) as f64;
    let fragment: f64 = machines.iter().map(|machine| shapes.fragment(machine)).sum();
    Point { used: used as f64 * percent, fragment: fragment * percent }
}

/// Finds the machines with the best scores, at most `among` of them. Of machines with equal scores, the first are
/// found.
fn find_best(scores: &[Kept], among: usize, best: &mut Vec<usize>) {
    best.clear();
    let fitting = scores.iter().enumerate().filter_map(|(i, (_, score))| Some((i, (*score)?)));
    if among == 1 {
        // The search is reversed because `max_by_key` returns the last of equal scores.
        best.extend(fitting.rev().max_by_key(|(_, score)| *score).map(|(i, _)| i));
        return;
    }
    best.extend(fitting.map(|(i, _)| i));
    if best.len() > among {
        best.sort_by_key(|i| std::cmp::Reverse(scores[*i].1));
        best.truncate(among);
    }
}
