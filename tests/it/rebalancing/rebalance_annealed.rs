//! Plans by annealing: they have a higher total gain than plans of single moves, and obey the same rules and limits.

use crate::cell::small::{cell, job, submit};
use crate::rebalancing::rebalance_reference::naive;
use omega_cellstate::{Cell, SharedCell};
use omega_core::{Command, Job, MachineId, TaskId, TaskRule, TaskSelector, TopologyLevel};
use omega_reassign::{Budget, Watch};
use omega_schedulers::rebalance::{Annealing, Objectives, Plan, Rebalancer, Settings};
use omega_tests::random::Dice;

/// A watch that never ends a search.
struct Endless;

impl Watch for Endless {
    fn spent(&self) -> f64 {
        0.0
    }
}

/// Ten machines of ten cores, two thirds full of jobs of different sizes; tasks of every third job never share a
/// machine.
fn packed(dice: &mut Dice) -> SharedCell {
    let machines = 10;
    let cell = cell(&vec![10; machines]);
    let mut free = vec![10; machines];
    for number in 0..14 {
        let cores = 1 + dice.below(6) as u64;
        let mut wanted: Job = job(&format!("j{number}"), 3, cores);
        if number % 3 == 0 {
            let level = TopologyLevel::Machine;
            let apart = TaskRule::AntiAffinity { from: TaskSelector::SameJob, level };
            wanted.groups[0].rules.tasks.push(apart);
        }
        let id = submit(&cell, wanted);
        let mut used = Vec::new();
        for index in 0..3 {
            let start = dice.below(machines);
            let rows = (0..machines).map(|at| (start + at) % machines);
            let mut rows = rows.filter(|row| free[*row] >= cores && !used.contains(row));
            let Some(row) = rows.next() else { continue };
            free[row] -= cores;
            used.push(row);
            let (task, machine) = (TaskId { job: id, index }, MachineId::first(row as u32));
            cell.apply(Command::AdoptTask { task, machine }).unwrap();
        }
    }
    cell
}

/// Makes a plan by annealing with this many steps, and applies it to a copy of the cell, which must then be as planned.
fn annealed(cell: &SharedCell, settings: Settings, steps: u64) -> Plan {
    let cell = SharedCell::new(cell.read(Cell::clone));
    let objectives = settings.objectives.clone();
    let mut rebalancer = Rebalancer::new(&cell, settings).unwrap();
    let settings = omega_reassign::Settings { seed: 1, walks: 2, budget: Budget::Steps(steps) };
    let annealing = Annealing { settings, watch: &Endless };
    let plan = rebalancer.plan_annealed(&cell, annealing, &mut || true).unwrap();
    let done = rebalancer.apply_plan(&cell, &plan).unwrap();
    assert_eq!(done.moved(), done.fates.len(), "{:?}", done.fates);
    cell.read(Cell::audit).unwrap();
    let moving = plan.after.moves * i128::from(objectives.moves)
        + plan.after.job_moves * i128::from(objectives.job_moves);
    let now = cell.read(|cell| naive(cell, &objectives)) + moving;
    assert_eq!(plan.after.total(&objectives), now, "the cost of the cell that comes of it");
    plan
}

#[test]
fn annealed_plans_are_better_in_sum() {
    let (mut plain, mut better) = (0, 0);
    for seed in 0..40 {
        let cell = packed(&mut Dice::new(seed));
        let objectives = Objectives::balance();
        let mut rebalancer = Rebalancer::new(&cell, Settings::new(objectives.clone())).unwrap();
        let usual = rebalancer.plan(&cell, &mut || true).unwrap();
        let plan = annealed(&cell, Settings::new(objectives.clone()), 20_000);
        assert_eq!(plan.before, usual.before, "seed {seed}");
        plain += usual.gain();
        better += plan.gain();
        let again = annealed(&cell, Settings::new(objectives), 20_000);
        assert_eq!(plan, again, "seed {seed}: the same seed and steps give the same plan");
    }
    assert!(better > plain, "gains: {better} with annealing, {plain} without");
}

#[test]
fn annealing_keeps_limits_on_moves() {
    for seed in 0..40 {
        let cell = packed(&mut Dice::new(seed));
        let mut settings = Settings::new(Objectives::balance());
        settings.bounds.moves = 4;
        settings.bounds.moves_per_job = 1;
        let plan = annealed(&cell, settings, 20_000);
        assert!(plan.moves().count() <= 4, "seed {seed}");
        let mut jobs: Vec<_> = plan.moves().map(|m| m.task.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        assert_eq!(jobs.len(), plan.moves().count(), "seed {seed}: one of each job");
    }
}
