//! Load reports: the columnar plugins, compared with a naive form for one machine; wake-ups of jobs for which all
//! machines were too loaded; and schedulers with different thresholds in one cell.

use crate::cell::small::{LONG, add_machine, amounts, cell, job, placed, rows, run, step, submit};
use crate::scheduling::placement_world::World;
use omega_cellstate::{BLOCK, Cell, SharedCell, View};
use omega_core::{Amounts, Command, JobKind, KindId, Machine, MachineId, Overcommit, Policy};
use omega_schedulers::plugin::tasks;
use omega_schedulers::plugins::{HalfLife, Limit, LoadAware, LoadLimit};
use omega_schedulers::{Filter, Profile, Scheduler, Score, Search, Settings, Tasks};
use proptest::prelude::*;
use std::sync::Barrier;

const HALF_LIFE: u32 = 60;

fn limits() -> Vec<Limit> {
    vec![Limit { kind: KindId::CPU, service_percent: 60, batch_percent: 85 }]
}

/// Usage of a kind on a machine, in a type that cannot overflow.
fn naive_use(view: &View, row: usize, kind: KindId) -> i128 {
    let block = view.block(row / BLOCK);
    let claimable = i128::from(block.capacity(kind).unwrap()[row % BLOCK]);
    let claimed = (claimable - i128::from(view.free(row, kind))).max(0);
    let Some(report) = view.load(row) else { return claimed };
    let age = report.age_ms(view.now_ms());
    let mut weight = 0.5f64.powf((age % 60_000 * 16 / 60_000) as f64 / 16.0) * 1024.0;
    weight = weight.round();
    for _ in 0..age / 60_000 {
        weight = (weight / 2.0).floor();
    }
    let since = (claimed - i128::from(report.claimed.get(kind))).max(0);
    let reported = i128::from(report.used.get(kind)) + since;
    (weight as i128 * reported + (1024 - weight as i128) * claimed) / 1024
}

fn naive_score(tasks: &Tasks<'_>, row: usize) -> i32 {
    let machine = tasks.view.machine(row).unwrap();
    let mut sum = 0;
    for (kind, weight) in [(KindId::CPU, 3), (KindId::MEMORY, 1)] {
        let capacity = i128::from(machine.capacity.get(kind));
        let request = i128::from(tasks.group.request.get(kind));
        let left = (capacity - naive_use(tasks.view, row, kind) - request).clamp(0, capacity);
        sum += weight * if capacity == 0 { 0 } else { 100 * left / capacity };
    }
    (sum * 100 / 4) as i32
}

fn naive_limit(tasks: &Tasks<'_>, row: usize) -> bool {
    let request = i128::from(tasks.group.request.get(KindId::CPU));
    let capacity = i128::from(tasks.view.machine(row).unwrap().capacity.get(KindId::CPU));
    let percent = if tasks.job.kind == JobKind::Service { 60 } else { 85 };
    request == 0 || 100 * (naive_use(tasks.view, row, KindId::CPU) + request) <= percent * capacity
}

/// A random world in which machines report load, tasks start and end, and time passes. After each step, the columns are
/// compared.
fn check(seed: u64, machines: usize) {
    let mut world = World::new(seed, machines);
    let half_life = HalfLife::seconds(HALF_LIFE);
    let (limit, aware) = (
        LoadLimit::new(half_life, &limits()),
        LoadAware::new(half_life, &[(KindId::CPU, 3), (KindId::MEMORY, 1)]),
    );
    Filter::keep(&limit, &mut world.view);
    Score::keep(&aware, &mut world.view);
    // Ended jobs are never removed.
    let policy = Policy { ttl_after_finished_ms: u64::MAX, ..Policy::default() };
    world.cell.apply(Command::SetPolicy(policy)).unwrap();
    let mut now_ms = 1_000_000;
    for _ in 0..8 {
        world.churn();
        for row in 0..world.view.rows() {
            let Some(machine) = world.view.machine(row).cloned() else { continue };
            if world.dice.chance(30) {
                let percent = world.dice.below(130) as u64;
                let used = machine.capacity.as_slice().iter().map(|all| all / 100 * percent);
                let (id, load) = (world.view.machine_id(row), Amounts::new(used));
                world.cell.apply(Command::ReportLoad { id, load }).unwrap();
            }
        }
        now_ms += world.dice.below(90_000) as u64;
        world.cell.apply(Command::Expire { now_ms }).unwrap();
        if world.dice.chance(20) {
            world.change_a_machine();
        }
        let mut group = world.random_group();
        group.count = 1;
        let group = world.submit(group);
        let tasks = tasks(&world.view, group);
        for index in 0..world.view.blocks() {
            let block = world.view.block(index);
            let there = block.present();
            let mut scores = [0; BLOCK];
            aware.score(&tasks, block, there, &mut scores);
            let left =
                if limit.applies(&tasks) { limit.filter(&tasks, block, there) } else { there };
            for lane in (0..BLOCK).filter(|lane| there >> lane & 1 == 1) {
                let row = block.first_row() + lane;
                let context = format!("seed {seed} row {row}");
                assert_eq!(scores[lane], naive_score(&tasks, row), "{context}");
                assert_eq!(left >> lane & 1 == 1, naive_limit(&tasks, row), "{context}");
                // The value for a single machine equals its value in the block.
                let mut alone = [0; BLOCK];
                aware.score(&tasks, block, 1 << lane, &mut alone);
                assert_eq!(alone[lane], scores[lane], "{context}");
                assert_eq!(limit.why(&tasks, row).is_none(), left >> lane & 1 == 1, "{context}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn load_in_columns_is_load_machine_by_machine(seed in any::<u64>(), machines in 1usize..150) {
        check(seed, machines);
    }
}

fn report(cell: &SharedCell, row: u32, cores: u64) {
    let load = Amounts::new([cores * 1000]);
    cell.apply(Command::ReportLoad { id: MachineId::first(row), load }).unwrap();
}

fn scheduler(cell: &SharedCell, profile: Profile) -> Scheduler {
    let settings = Settings::new("default").with_search(Search::Full);
    Scheduler::new(cell, profile, settings).unwrap()
}

fn limited() -> Profile {
    Profile::first_fit().with_filter(LoadLimit::new(HalfLife::seconds(HALF_LIFE), &limits()))
}

#[test]
fn a_job_that_found_all_machines_hot_wakes_when_one_reports_that_it_is_not() {
    let cell = cell(&[10, 10]);
    report(&cell, 0, 9);
    report(&cell, 1, 9);
    let mut scheduler = scheduler(&cell, limited());
    let id = submit(&cell, job("a", 1, 1));
    let mut now = 0;
    for _ in 0..3 {
        now += LONG / 100;
        assert_eq!(run(&mut scheduler, &cell, now), 0);
    }
    let told = scheduler.diagnose(id, 0).unwrap();
    assert_eq!(told.feasible, 0);
    assert!(
        format!("{:?}", told.nearest)
            .contains("about 9 of 10 cpu is in use, and with the task it may be at most")
    );
    report(&cell, 1, 2);
    now += LONG / 100;
    assert_eq!(run(&mut scheduler, &cell, now), 1);
    assert_eq!(rows(&cell, id), [Some(1)]);
}

#[test]
fn old_reports_give_way_to_what_is_claimed() {
    let cell = cell(&[10]);
    report(&cell, 0, 9);
    let mut scheduler = scheduler(&cell, limited());
    let id = submit(&cell, job("a", 1, 1));
    assert_eq!(run(&mut scheduler, &cell, LONG), 0);
    cell.apply(Command::Expire { now_ms: 3_600_000 }).unwrap();
    // The passing of time alone wakes no job; the next event does.
    let other = submit(&cell, job("b", 1, 1));
    assert_eq!(run(&mut scheduler, &cell, 40 * LONG), 2);
    assert_eq!((placed(&cell, id), placed(&cell, other)), (1, 1));
}

#[test]
fn what_was_claimed_since_a_report_keeps_others_from_rushing_there() {
    let cell = cell(&[10, 10, 10]);
    report(&cell, 0, 4);
    report(&cell, 1, 0);
    report(&cell, 2, 4);
    let aware = LoadAware::new(HalfLife::seconds(HALF_LIFE), &[(KindId::CPU, 1)]);
    let mut scheduler = scheduler(&cell, Profile::first_fit().with_score(aware, 1));
    for i in 0..10 {
        submit(&cell, job(&format!("j{i}"), 1, 1));
    }
    run(&mut scheduler, &cell, LONG);
    let tasks: Vec<usize> = cell.read(|cell| cell.machines().map(|m| m.tasks.len()).collect());
    assert_eq!(tasks, [2, 6, 2], "the machine that reported idle gets what it has more");
}

#[test]
fn whatever_limits_schedulers_have_the_cells_bound_holds() {
    let machines = 24;
    let shared = cell(&[]);
    let overcommit_max = Overcommit::none().with(KindId::CPU, 150);
    shared.apply(Command::SetPolicy(Policy { overcommit_max, ..Policy::default() })).unwrap();
    for i in 0..machines {
        let overcommit = Overcommit::none().with(KindId::CPU, 100 + 25 * (i % 5));
        let machine = Machine { overcommit, ..Machine::new(format!("m{i}"), amounts(8)) };
        add_machine(&shared, machine);
        report(&shared, i, u64::from(i % 3));
    }
    let percents = [50, 100, 400, 1000];
    let barrier = Barrier::new(percents.len());
    std::thread::scope(|scope| {
        for (number, percent) in percents.into_iter().enumerate() {
            let (shared, barrier) = (&shared, &barrier);
            scope.spawn(move || {
                let name = format!("s{number}");
                let limit =
                    Limit { kind: KindId::CPU, service_percent: percent, batch_percent: percent };
                let limit = LoadLimit::new(HalfLife::seconds(HALF_LIFE), &[limit]);
                let profile = Profile::batch().with_filter(limit);
                let settings = Settings::new(name.clone()).with_search(Search::Full);
                let mut scheduler = Scheduler::new(shared, profile, settings).unwrap();
                for i in 0..20 {
                    let job = job(&format!("{name}-{i}"), 4, 1);
                    submit(shared, omega_core::Job { scheduler: name.clone().into(), ..job });
                }
                barrier.wait();
                for round in 0..200 {
                    step(&mut scheduler, shared, round * LONG);
                    if round % 10 == 0 {
                        report(shared, (round as u32 * 7 + number as u32) % machines, round % 8);
                    }
                }
            });
        }
    });
    shared.read(|cell: &Cell| {
        cell.audit_no_overcommit().unwrap();
        let most: Vec<i64> = cell.machines().map(|m| m.claimable[0] - m.free[0]).collect();
        assert!(cell.machines().all(|machine| machine.free[0] >= 0), "{most:?}");
        assert!(most.iter().any(|claimed| *claimed > 8000), "some machine is overcommitted");
        assert!(cell.machines().all(|m| m.claimable[0] <= 12_000));
    });
}
