//! The score `objectives`, compared with the naive cost of each possible placement.

use crate::cell::histories::seeds;
use crate::cell::small::{add_machine, rows, run, submit};
use crate::rebalancing::rebalance_objectives::objectives;
use crate::rebalancing::rebalance_reference::naive;
use omega_cellstate::{Cell, SharedCell};
use omega_core::{
    Amounts, Command, Job, JobId, KindId, Kinds, Labels, Machine, MachineId, TaskGroup, TaskId,
};
use omega_schedulers::rebalance::{Objectives, ObjectivesScore, Ratio};
use omega_schedulers::{Profile, Scheduler, Search, Settings};
use omega_tests::random::Dice;
use std::collections::BTreeMap;

const MACHINES: u32 = 10;

/// Number of running tasks of each job.
const RUNNING: u32 = 5;

/// A cell with machines of similar sizes in three zones, on which tasks of four jobs run. One of the jobs has a pending
/// task, which is returned.
fn world(dice: &mut Dice) -> (SharedCell, TaskId) {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for row in 0..MACHINES {
        let (cpu, memory) = (4000 + 500 * dice.below(7) as u64, (8 + dice.below(7) as u64) << 30);
        let labels = Labels::new([("zone", format!("z{}", dice.below(3)))]);
        let machine = Machine::new(format!("m{row}"), Amounts::new([cpu, memory]));
        add_machine(&cell, Machine { labels, ..machine });
    }
    let mut runs = |name: &str, tasks: u32| -> JobId {
        let (cpu, memory) = (100 + 100 * dice.below(12) as u64, (1 + dice.below(20) as u64) << 27);
        let group = TaskGroup::new(tasks, Amounts::new([cpu, memory]));
        let id = submit(&cell, Job::batch(name, group));
        for index in 0..RUNNING {
            let machine = MachineId::first(dice.below(MACHINES as usize) as u32);
            cell.apply(Command::AdoptTask { task: TaskId { job: id, index }, machine }).unwrap();
        }
        id
    };
    (0..3).for_each(|number| _ = runs(&format!("j{number}"), RUNNING));
    let job = runs("j3", RUNNING + 1);
    (cell, TaskId { job, index: RUNNING })
}

/// The naive change of the cost if the task is placed, for each machine with room for it.
fn changes(cell: &Cell, task: TaskId, objectives: &Objectives) -> BTreeMap<u32, i128> {
    let before = naive(cell, objectives);
    let request = &cell.job(task.job).unwrap().groups[0].request;
    let has_room = |row: &u32| {
        let free = cell.machine(MachineId::first(*row)).unwrap().free;
        (0..).zip(free).all(|(kind, free)| *free >= request.get(KindId(kind)) as i64)
    };
    let change = |row: u32| {
        let mut placed = cell.clone();
        placed.apply(Command::AdoptTask { task, machine: MachineId::first(row) }).unwrap();
        (row, naive(&placed, objectives) - before)
    };
    (0..MACHINES).filter(has_room).map(change).collect()
}

/// Objectives without demand, which the score ignores, and without balances of kinds whose amounts differ by orders of
/// magnitude, because their costs have no sensible range.
fn sensible(mut objectives: Objectives) -> Objectives {
    objectives.demand.clear();
    objectives.pairs.retain(|pair| {
        matches!(pair.ratio, Ratio::Percent(_)) && pair.free.index() < 2 && pair.beside.index() < 2
    });
    objectives
}

/// Upper bound of the difference between two changes that one step of the score may hide.
fn resolution(objectives: &Objectives) -> i128 {
    let load: u32 = (0..4).map(|kind| objectives.safety(KindId(kind)).weight * 10).sum();
    let pairs = objectives.pairs.len() as u32 * objectives.balance * 9;
    let machine = objectives.fragments * 2 + objectives.in_use * 3;
    i128::from(machine + objectives.crowding + load + pairs) * 1_000_000 / 10_000
}

#[test]
fn a_task_is_placed_where_the_objectives_rise_least() {
    let (mut decided, mut not_first) = (0, 0);
    for seed in seeds(1000) {
        let mut dice = Dice::new(seed);
        let (cell, task) = world(&mut dice);
        let objectives = sensible(objectives(&mut dice));
        let changes = cell.read(|cell| changes(cell, task, &objectives));
        let score = ObjectivesScore::new(&objectives, &Kinds::standard());
        let profile = Profile::first_fit().with_score(score, 1);
        let settings = Settings::new("default").with_search(Search::Full);
        let mut scheduler = Scheduler::new(&cell, profile, settings).unwrap();
        run(&mut scheduler, &cell, 0);
        let Some(row) = rows(&cell, task.job)[RUNNING as usize] else {
            assert!(changes.is_empty(), "seed {seed}: {changes:?}");
            continue;
        };
        let least = changes.values().min().copied().unwrap();
        let (chosen, hidden) = (changes[&row], resolution(&objectives));
        decided += 1;
        not_first += usize::from(*changes.values().next().unwrap() > least + hidden);
        assert!(
            chosen <= least + hidden,
            "seed {seed}: row {row}, hidden {hidden}: {changes:?} {objectives:?}"
        );
    }
    let enough = decided > 800 && not_first > 300;
    assert!(seeds(1000) != (0..1000) || enough, "enough is tried: {decided} {not_first}");
}
