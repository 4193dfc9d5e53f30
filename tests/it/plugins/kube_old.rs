//! Plugins of earlier versions of kube-scheduler: they check labels that machines must have or lack, respect machines
//! that avoid some jobs, and keep the tasks of a job in one domain.

use crate::cell::histories::seeds;
use crate::cell::small::{self, add_machine, amounts, rows, run, submit};
use omega_cellstate::{Cell, CellHandle, SharedCell, View};
use omega_core::{
    Amounts, Job, Kinds, Labels, Machine, MachineSelector, Requirement, TaskGroup, Text,
};
use omega_schedulers::appraise::{appraise_filter, appraise_score};
use omega_schedulers::plugins::{NodeLabel, NodePreferAvoid, ServiceAffinity};
use omega_schedulers::{Filter, Profile, Scheduler, Score, Search, Settings};
use omega_tests::random::Dice;

const KEYS: [&str; 3] = ["a", "b", "c"];

fn random_machines(dice: &mut Dice) -> Vec<Machine> {
    let machine = |dice: &mut Dice, index| {
        let mut machine = Machine::new(format!("m{index}"), amounts(4));
        let labels = KEYS.iter().filter(|_| dice.chance(50)).map(|key| (*key, "x"));
        let mut labels: Vec<(&str, &str)> = labels.collect();
        let avoided = ["job/j", "tenant/t, job/k", "job/k,tenant/u", "nonsense", ""];
        if dice.chance(50) {
            labels.push(("avoid", *dice.pick(&avoided)));
        }
        machine.labels = Labels::new(labels);
        machine
    };
    (0..1 + dice.below(150)).map(|index| machine(dice, index)).collect()
}

fn view_of(machines: &[Machine]) -> (SharedCell, View) {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for machine in machines {
        add_machine(&cell, machine.clone());
    }
    let (id, number) = cell.register("s".into()).unwrap();
    let mut view = View::new(id, number);
    view.sync(&cell).unwrap();
    (cell, view)
}

#[test]
fn labels_that_are_there_and_that_are_not() {
    for seed in seeds(60) {
        let mut dice = Dice::new(seed);
        let machines = random_machines(&mut dice);
        let (present, absent): (Vec<&str>, Vec<&str>) = match dice.below(3) {
            0 => (vec!["a"], vec!["b", "c"]),
            1 => (vec!["a", "b"], vec![]),
            _ => (vec![], vec![]),
        };
        let texts = |keys: &[&str]| keys.iter().map(|key| Text::from(*key)).collect::<Vec<_>>();
        let filter = NodeLabel::requiring(&texts(&present), &texts(&absent));
        let score = NodeLabel::preferring(&texts(&present), &texts(&absent));
        let (cell, mut view) = view_of(&machines);
        Filter::keep(&filter, &mut view);
        Score::keep(&score, &mut view);
        let id = submit(&cell, small::job("j", 1, 1));
        let job = cell.read(|cell| cell.job(id).unwrap().clone());
        let group = view.compile(id, &job, 0);
        let has = |machine: &Machine, key: &str| machine.labels.get(key).is_some();
        let met = |machine: &Machine| {
            let there = present.iter().filter(|key| has(machine, key)).count();
            there + absent.iter().filter(|key| !has(machine, key)).count()
        };
        let wishes = present.len() + absent.len();
        let refused = appraise_filter(&view, &filter, group);
        let refused: Vec<usize> = refused.iter().map(|refusal| refusal.row as usize).collect();
        let unmet = (0..machines.len()).filter(|row| met(&machines[*row]) < wishes);
        assert_eq!(refused, unmet.collect::<Vec<_>>(), "seed {seed}");
        let all: Vec<u32> = (0..machines.len() as u32).collect();
        let points =
            machines.iter().map(|machine| (100 * met(machine) / wishes.max(1) * 100) as i64);
        let ours = appraise_score(&view, &score, group, &all).map(|columns| columns.scores);
        assert_eq!(ours, (wishes > 0).then(|| points.collect()), "seed {seed}");
    }
}

#[test]
fn machines_that_would_rather_not() {
    for seed in seeds(40) {
        let mut dice = Dice::new(seed);
        let machines = random_machines(&mut dice);
        let (cell, mut view) = view_of(&machines);
        let score = NodePreferAvoid::new("avoid");
        score.keep(&mut view);
        let all: Vec<u32> = (0..machines.len() as u32).collect();
        for (name, tenant) in [("j", "v"), ("k", "t"), ("other", "u"), ("x", "y")] {
            let mut job = small::job(name, 1, 1);
            job.tenant = tenant.into();
            let id = submit(&cell, job);
            let job = cell.read(|cell| cell.job(id).unwrap().clone());
            let group = view.compile(id, &job, 0);
            let named = |machine: &Machine| {
                let said = machine.labels.get("avoid").map_or("", |value| &**value);
                let mut names = said.split(',').map(str::trim);
                names.any(|n| n == format!("job/{name}") || n == format!("tenant/{tenant}"))
            };
            let ours = appraise_score(&view, &score, group, &all).map(|columns| columns.scores);
            let expected = machines.iter().map(|machine| if named(machine) { 0 } else { 10_000 });
            let anyone = machines.iter().any(|machine| machine.labels.get("avoid").is_some());
            assert_eq!(ours, anyone.then(|| expected.collect()), "seed {seed}");
        }
    }
}

/// A cell with two machines in each of these zones.
fn zones(names: &[&str]) -> SharedCell {
    let cell = small::cell(&[]);
    for (i, zone) in names.iter().flat_map(|zone| [zone, zone]).enumerate() {
        let mut machine = Machine::new(format!("m{i}"), amounts(2));
        machine.labels = Labels::new([("zone", *zone)]);
        add_machine(&cell, machine);
    }
    cell
}

fn scheduler(cell: &SharedCell) -> Scheduler {
    let profile = Profile::first_fit().with_filter(ServiceAffinity::same(vec!["zone".into()]));
    Scheduler::new(cell, profile, Settings::new("default").with_search(Search::Full)).unwrap()
}

#[test]
fn tasks_of_a_job_follow_its_first_within_one_decision_too() {
    let cell = zones(&["a", "b"]);
    let mut scheduler = scheduler(&cell);
    let id = submit(&cell, small::job("j", 5, 1));
    assert_eq!(run(&mut scheduler, &cell, 0), 4, "a zone has room for four");
    let zone = |row: u32| row / 2;
    let placed: Vec<u32> = rows(&cell, id).into_iter().flatten().map(zone).collect();
    assert!(placed.iter().all(|zone| *zone == placed[0]), "{placed:?}");
    // Another job can be placed in another zone.
    let other = submit(&cell, small::job("k", 1, 1));
    assert_eq!(run(&mut scheduler, &cell, small::LONG), 1);
    assert_ne!(rows(&cell, other)[0].map(zone), Some(placed[0]));
}

#[test]
fn a_label_that_the_task_requires_itself_decides() {
    let cell = zones(&["a", "b"]);
    let mut scheduler = scheduler(&cell);
    let mut first = TaskGroup::new(1, Amounts::new([1000]));
    first.rules.affinity.required = Some(vec![MachineSelector::label("zone", "a")]);
    let mut second = TaskGroup { name: "second".into(), ..first.clone() };
    second.rules.affinity.required = Some(vec![MachineSelector {
        labels: vec![Requirement::equals("zone", "b")],
        names: Vec::new(),
    }]);
    let mut job = Job::batch("j", first);
    job.groups.push(second.into());
    let id = submit(&cell, job);
    assert_eq!(run(&mut scheduler, &cell, 0), 2);
    let placed: Vec<u32> = rows(&cell, id).into_iter().flatten().collect();
    assert!(placed[0] < 2 && placed[1] >= 2, "{placed:?}");
}

#[test]
fn a_job_waits_until_its_zone_has_room_again() {
    let cell = zones(&["a", "b"]);
    let mut scheduler = scheduler(&cell);
    let id = submit(&cell, small::job("j", 5, 1));
    assert_eq!(run(&mut scheduler, &cell, 0), 4);
    let zone = rows(&cell, id).into_iter().flatten().next().unwrap() / 2;
    let mut more = Machine::new("more", amounts(2));
    more.labels = Labels::new([("zone", if zone == 0 { "b" } else { "a" })]);
    add_machine(&cell, more.clone());
    assert_eq!(run(&mut scheduler, &cell, small::LONG), 0);
    more.name = "right".into();
    more.labels = Labels::new([("zone", if zone == 0 { "a" } else { "b" })]);
    add_machine(&cell, more);
    assert_eq!(run(&mut scheduler, &cell, 3 * small::LONG), 1);
}
