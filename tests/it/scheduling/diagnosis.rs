//! Diagnoses, checked by applying their remedies: each remedy must make as many machines feasible as the diagnosis
//! predicts.

use crate::cell::small;
use crate::scheduling::placement_plugins::Silent;
use crate::scheduling::placement_world::World;
use omega_cellstate::{BLOCK, GroupRef};
use omega_core::{
    Command, CoreRequest, DeviceRequest, Job, KindId, Machine, Taint, TaskGroup, Toleration,
    TolerationOperator,
};
use omega_schedulers::explain::{
    Obstacle, Remedy, Shortage, describe_remedy, diagnose_while, explain_while,
};
use omega_schedulers::plugin::tasks;
use omega_schedulers::{
    Diagnosis, MachineFilter, MachineRef, PerMachine, Profile, Scheduler, Settings, Tasks,
    Unobserved, diagnose, explain,
};
use proptest::prelude::*;

/// Filter that accepts the machines in odd rows.
struct Odd;

impl MachineFilter for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn allows(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        machine.id().slot % 2 == 1
    }
}

/// A cell with some history and some draining machines.
fn world(seed: u64, machines: usize) -> World {
    used(World::new(seed, machines), machines)
}

fn used(mut world: World, machines: usize) -> World {
    (0..machines / 3).for_each(|_| world.churn());
    for row in 0..machines {
        if world.dice.chance(10) {
            let id = world.view.machine_id(row);
            world.cell.apply(Command::DrainMachine { id, draining: true }).unwrap();
        }
    }
    world.view.sync(&world.cell).unwrap();
    world
}

/// A group with large requests and requirements, for which often no machine is feasible.
fn hard_group(world: &mut World) -> TaskGroup {
    let mut group = world.random_group();
    let cores = group.cores.map_or(1, |cores| u64::from(cores.count));
    group.request.set(KindId::CPU, 1000 * cores.max(1 + world.dice.below(20) as u64));
    if world.dice.chance(20) {
        group.devices =
            Some(DeviceRequest { count: 1 + world.dice.below(5) as u8, milli_each: 600 });
    }
    if world.dice.chance(20) {
        group.rules.machine = Some(format!("m{}", world.dice.below(40)).into());
    }
    group
}

/// Number of machines that each filter rejects, computed one machine and one filter at a time.
fn removed(world: &World, profile: &Profile, group: GroupRef) -> Vec<(&'static str, usize)> {
    let tasks = tasks(&world.view, group);
    let filters: Vec<_> =
        profile.evaluator().filters().filter(|filter| filter.applies(&tasks)).collect();
    let mut removed: Vec<_> = filters.iter().map(|filter| (filter.name(), 0)).collect();
    for row in (0..world.view.rows()).filter(|row| world.view.machine(*row).is_some()) {
        let (block, bit) = (world.view.block(row / BLOCK), 1u64 << (row % BLOCK));
        let first = filters.iter().position(|filter| filter.filter(&tasks, block, bit) == 0);
        first.into_iter().for_each(|i| removed[i].1 += 1);
    }
    removed
}

/// Checks the properties of every diagnosis.
fn check_sums(world: &World, profile: &Profile, group: GroupRef) -> Diagnosis {
    let diagnosis = diagnose(&world.view, profile, group);
    let explanation = explain(&world.view, profile, group);
    assert_eq!(diagnosis.machines, explanation.machines);
    assert_eq!(diagnosis.feasible, explanation.feasible);
    assert_eq!(diagnosis.removed, removed(world, profile, group));
    let sum: usize = diagnosis.removed.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, diagnosis.machines - diagnosis.feasible, "each is removed once");
    let missed: usize = diagnosis.nearest.iter().map(|miss| miss.machines).sum();
    assert!(missed <= sum, "{diagnosis:?}");
    assert_eq!(diagnosis.nearest.is_empty(), sum == 0);
    assert!(diagnosis.nearest.iter().all(|miss| !miss.obstacles.is_empty()));
    let others = |miss: &omega_schedulers::explain::Miss| {
        miss.obstacles.iter().filter(|obstacle| !obstacle.is_room()).count()
    };
    assert!(diagnosis.nearest.iter().map(others).is_sorted(), "{diagnosis:?}");
    for remedy in &diagnosis.remedies {
        assert!(!describe_remedy(remedy, &world.view).is_empty());
    }
    diagnosis
}

/// Number of machines that accept a group.
fn feasible(world: &mut World, group: TaskGroup) -> usize {
    let group = world.submit(group);
    diagnose(&world.view, &Profile::first_fit(), group).feasible
}

fn toleration(taint: &Taint) -> Toleration {
    Toleration {
        key: Some(taint.key.clone()),
        operator: TolerationOperator::Equal,
        value: taint.value.clone(),
        effect: Some(taint.effect),
    }
}

/// Lifts the constraint that a remedy names, and compares the number of feasible machines.
fn check_lift(world: &mut World, group: &TaskGroup, before: usize, lift: (&Obstacle, usize)) {
    let (obstacle, machines) = lift;
    let mut changed = group.clone();
    match obstacle {
        Obstacle::Taints(taints) => {
            changed.rules.tolerations.extend(taints.iter().map(toleration));
            assert_eq!(feasible(world, changed), before + machines, "one sort of taint");
        }
        Obstacle::Affinity => {
            changed.rules.affinity.required = None;
            assert_eq!(feasible(world, changed), before + machines);
        }
        Obstacle::OtherMachine => {
            changed.rules.machine = None;
            assert_eq!(feasible(world, changed), before + machines);
        }
        Obstacle::Draining => {
            for row in 0..world.view.rows() {
                let id = world.view.machine_id(row);
                world.cell.apply(Command::DrainMachine { id, draining: false }).unwrap();
            }
            assert_eq!(feasible(world, changed), before + machines);
        }
        other => panic!("no rule or filter is in play: {other:?}"),
    }
}

/// The group's request minus the amounts that a machine lacks.
fn smaller(group: &TaskGroup, shortage: &Shortage) -> TaskGroup {
    let mut smaller = group.clone();
    for (kind, missing) in &shortage.amounts {
        smaller.request.set(*kind, group.request.get(*kind) - missing);
    }
    smaller.devices = group.devices.and_then(|devices| {
        let count = devices.count.saturating_sub(shortage.devices as u8);
        (count > 0).then_some(DeviceRequest { count, ..devices })
    });
    smaller.cores = group.cores.and_then(|cores| {
        // A group with a smaller CPU request can have only that many exclusive cores.
        let count = cores.count.saturating_sub(shortage.cores as u16);
        let count = count.min((smaller.request.get(KindId::CPU) / 1000) as u16);
        (count > 0).then_some(CoreRequest { count, ..cores })
    });
    smaller
}

/// Number of machines that would accept a group if the cell were empty.
fn feasible_when_empty(world: &World, group: &TaskGroup) -> usize {
    let mut empty = World::new(0, 0);
    for row in 0..world.view.rows() {
        let machine: Machine = (**world.view.machine(row).unwrap()).clone();
        small::add_machine(&empty.cell, machine);
    }
    empty.view.sync(&empty.cell).unwrap();
    for row in 0..world.view.rows() {
        if world.view.block(row / BLOCK).schedulable() >> (row % BLOCK) & 1 == 0 {
            let id = empty.view.machine_id(row);
            empty.cell.apply(Command::DrainMachine { id, draining: true }).unwrap();
        }
    }
    feasible(&mut empty, group.clone())
}

fn check_remedies(seed: u64, machines: usize) {
    let mut world = world(seed, machines);
    let spec = hard_group(&mut world);
    let group = world.submit(spec.clone());
    let diagnosis = check_sums(&world, &Profile::first_fit(), group);
    let room = |remedy: &&Remedy| !matches!(remedy, Remedy::Lift { .. });
    assert!(diagnosis.remedies.iter().filter(room).count() <= 1);
    for remedy in &diagnosis.remedies {
        match remedy {
            Remedy::Room { shortage, hold } => {
                assert_eq!(diagnosis.feasible + hold, feasible_when_empty(&world, &spec));
                let smaller = world.submit(smaller(&spec, shortage));
                assert!(
                    world.view.check_fit(shortage.machine.row(), smaller).is_ok(),
                    "{shortage:?}"
                );
            }
            Remedy::LargerMachine { shortage } => {
                assert_eq!(feasible_when_empty(&world, &spec), diagnosis.feasible);
                let mut larger = (**world.view.machine(shortage.machine.row()).unwrap()).clone();
                // The larger machine has another name, but the group may require the name of the old one.
                let named = spec.rules.machine.is_some();
                larger.name = "larger".into();
                for (kind, missing) in &shortage.amounts {
                    larger.capacity.set(*kind, larger.capacity.get(*kind) + missing);
                }
                larger.devices += shortage.devices as u8;
                let most = (0..8).max_by_key(|node| larger.numa.of(*node)).expect("eight nodes");
                let cores = larger.numa.of(most) + shortage.cores as u16;
                larger.numa = larger.numa.with(most, cores);
                let cpu = larger.capacity.get(KindId::CPU).max(larger.numa.cpu_milli());
                larger.capacity.set(KindId::CPU, cpu);
                small::add_machine(&world.cell, larger);
                let wider = TaskGroup {
                    rules: omega_core::PlacementRules { machine: None, ..spec.rules.clone() },
                    ..spec.clone()
                };
                let group = world.submit(if named { wider } else { spec.clone() });
                assert!(world.view.check_fit(world.view.rows() - 1, group).is_ok(), "{shortage:?}");
                return;
            }
            Remedy::Lift { obstacle, machines } => {
                check_lift(&mut world, &spec, diagnosis.feasible, (obstacle, *machines));
                if *obstacle == Obstacle::Draining {
                    return;
                }
            }
        }
    }
}

fn check_rules(seed: u64, machines: usize) {
    let mut world = used(World::new(seed, machines).with_reservations(seed), machines);
    let group = world.ruled_group();
    let group = world.submit(group);
    let profile = Profile::service().with_filter(Silent).with_filter(PerMachine(Odd));
    let diagnosis = check_sums(&world, &profile, group);
    let odd = Obstacle::Filter("odd");
    let lifted = diagnosis.remedies.iter().find_map(|remedy| match remedy {
        Remedy::Lift { obstacle, machines } if *obstacle == odd => Some(*machines),
        _ => None,
    });
    let without = diagnose(&world.view, &Profile::service(), group);
    assert_eq!(without.feasible, diagnosis.feasible + lifted.unwrap_or(0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_remedy_opens_what_it_says(seed in any::<u64>(), machines in 1usize..100) {
        check_remedies(seed, machines);
    }

    #[test]
    fn a_diagnosis_adds_up_with_rules_and_filters(seed in any::<u64>(), machines in 1usize..150) {
        check_rules(seed, machines);
    }
}

#[test]
fn the_work_on_an_explanation_ends_at_any_machine() {
    let mut world = world(1, 200);
    let group = hard_group(&mut world);
    let (group, profile) = (world.submit(group), Profile::first_fit());
    for machines in [0, 1, 100] {
        let calls = std::cell::Cell::new(0);
        let goes_on = || calls.replace(calls.get() + 1) < machines;
        assert_eq!(explain_while(&world.view, &profile, group, &goes_on), None);
        assert_eq!(calls.replace(0), machines + 1);
        assert_eq!(diagnose_while(&world.view, &profile, group, &goes_on), None);
        assert_eq!(calls.get(), machines + 1);
    }
    let explained = explain_while(&world.view, &profile, group, &|| true);
    assert_eq!(explained, Some(explain(&world.view, &profile, group)));
}

#[test]
fn the_room_for_a_gang_is_tried_and_given_back() {
    let cell = small::cell(&[2, 2]);
    let mut job = Job::batch("gang", TaskGroup::new(7, omega_core::Amounts::new([1000])));
    job.gang_min = Some(7);
    let id = small::submit(&cell, job);
    let settings = Settings::new("default");
    let mut scheduler = Scheduler::new(&cell, Profile::batch(), settings).unwrap();
    scheduler.step(&cell, 0, &mut Unobserved).unwrap();
    for _ in 0..2 {
        assert_eq!(scheduler.room_for_while(id, &|| false), 0);
        assert_eq!(scheduler.room_for(id), 4);
        assert_eq!(scheduler.view().open_claims(), 0);
        assert_eq!(scheduler.queue().waiting(), [(id, 7)]);
    }
    small::add_machine(&cell, Machine::new("more", omega_core::Amounts::new([3000, 1 << 30])));
    let mut placed = 0;
    for now in 1..20 {
        placed += scheduler.step(&cell, now * 1_000_000_000, &mut Unobserved).unwrap().placed;
    }
    assert_eq!(placed, 7, "what was tried is still in the queue");
}
