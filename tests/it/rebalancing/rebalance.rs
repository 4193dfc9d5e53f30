//! Plans and results of a rebalancing pass, in cells that are small enough to compute them by hand.

use crate::cell::small::{add_machine, amounts, cell, job, submit};
use crate::rebalancing::rebalance_reference::{naive, running};
use omega_cellstate::{Cell, CellHandle, SharedCell, TaskSet, View};
use omega_core::{
    Amounts, Command, Job, JobId, JobKind, KindId, LabelSelector, Labels, Machine, MachineId, Near,
    Requirement, TaskId, TaskRule, TaskSelector, Tenants, TopologyLevel,
};
use omega_schedulers::disruption::{DisruptionBudget, Keep, Share};
use omega_schedulers::rebalance::{
    Bounds, Ended, Fate, Hindrance, Move, Objectives, Plan, Rebalancer, Settings, Term, Why,
};
use omega_tests::random::Dice;
use std::sync::atomic::{AtomicBool, Ordering};

/// Submits a job whose tasks run on these rows.
fn runs(cell: &SharedCell, job: Job, rows: &[u32]) -> JobId {
    let id = submit(cell, job);
    for (row, index) in rows.iter().zip(0..) {
        let task = TaskId { job: id, index };
        cell.apply(Command::AdoptTask { task, machine: MachineId::first(*row) }).unwrap();
    }
    id
}

fn drain(cell: &SharedCell, row: u32) {
    cell.apply(Command::DrainMachine { id: MachineId::first(row), draining: true }).unwrap();
}

fn planned(cell: &SharedCell, settings: Settings) -> (Rebalancer, Plan) {
    let mut rebalancer = Rebalancer::new(cell, settings).unwrap();
    let plan = rebalancer.plan(cell, &mut || true).unwrap();
    (rebalancer, plan)
}

/// Makes a plan, and applies it completely.
fn pass(cell: &SharedCell, settings: Settings) -> Plan {
    let (mut rebalancer, plan) = planned(cell, settings);
    let done = rebalancer.apply_plan(cell, &plan).unwrap();
    assert_eq!(done.moved(), done.fates.len(), "{:?}", done.fates);
    cell.read(Cell::audit).unwrap();
    plan
}

/// Number of running tasks on each row.
fn counts(cell: &SharedCell, rows: usize) -> Vec<usize> {
    let mut counts = vec![0; rows];
    cell.read(|cell| running(cell).iter().for_each(|(.., machine)| counts[machine.row()] += 1));
    counts
}

#[test]
fn a_drained_machine_is_emptied() {
    let cell = cell(&[8, 8, 8]);
    runs(&cell, job("a", 6, 2), &[0, 0, 0, 1, 1, 2]);
    drain(&cell, 0);
    let plan = pass(&cell, Settings::new(Objectives::drain()));
    assert_eq!(counts(&cell, 3)[0], 0);
    assert_eq!((plan.misplaced, plan.moves().count()), (3, 3));
    assert!(plan.steps().all(|step| step.why == Why::Gain(Term::Misplaced)));
    assert_eq!((plan.stuck.len(), plan.ended), (0, Ended::NothingBetter));
}

#[test]
fn what_cannot_leave_a_drained_machine_is_told_with_the_reason() {
    let cell = cell(&[8, 8]);
    let wide = runs(&cell, job("wide", 1, 7), &[0]);
    runs(&cell, job("there", 1, 4), &[1]);
    let mut with_volumes = job("volumes", 1, 1);
    with_volumes.groups[0].volumes.push("disk".into());
    let with_volumes = runs(&cell, with_volumes, &[0]);
    drain(&cell, 0);
    let plan = pass(&cell, Settings::new(Objectives::drain()));
    let why = |job: JobId| plan.stuck.iter().find(|stuck| stuck.task.job == job).unwrap().why;
    assert_eq!(why(wide), Hindrance::NoMachine);
    assert_eq!(why(with_volumes), Hindrance::Volumes);
    assert_eq!(plan.moves().count(), 0);
}

/// Three machines in two zones. The first is draining, and a task on the second has runtime affinity to the task on the
/// first.
fn with_runtime_affinity(spare: &str) -> (SharedCell, JobId) {
    let cell = cell(&[]);
    for (name, zone) in [("m0", "a"), ("m1", "a"), ("m2", spare)] {
        let mut machine = Machine::new(name, amounts(if name == "m1" { 2 } else { 8 }));
        machine.labels = Labels::new([("zone", zone)]);
        add_machine(&cell, machine);
    }
    let mut db = job("db", 1, 2);
    db.groups[0].labels = Labels::new([("app", "db")]);
    let db = runs(&cell, db, &[0]);
    let mut web = job("web", 1, 2);
    let requirements = vec![Requirement::equals("app", "db")];
    let labels = LabelSelector { requirements };
    let tasks = TaskSelector::Labels { tenants: Tenants::Own, labels };
    let level = TopologyLevel::Label("zone".into());
    web.groups[0].rules.tasks.push(TaskRule::RuntimeAffinity(Near { tasks, level }));
    runs(&cell, web, &[1]);
    drain(&cell, 0);
    (cell, db)
}

#[test]
fn who_is_runtime_affinity_stays_near_those_who_need_it() {
    let (near, _) = with_runtime_affinity("a");
    pass(&near, Settings::new(Objectives::drain()));
    assert_eq!(counts(&near, 3), [0, 1, 1]);
    let (far, db) = with_runtime_affinity("b");
    let plan = pass(&far, Settings::new(Objectives::drain()));
    assert_eq!(counts(&far, 3), [1, 1, 0]);
    let why = plan.stuck.iter().find(|stuck| stuck.task.job == db).unwrap().why;
    assert_eq!(why, Hindrance::RuntimeAffinity);
}

/// A cell with a draining machine whose task fits on no machine until a smaller task is moved.
fn needs_room() -> SharedCell {
    let cell = cell(&[8, 8, 4]);
    runs(&cell, job("wide", 1, 6), &[0]);
    runs(&cell, job("small", 1, 4), &[1]);
    drain(&cell, 0);
    cell
}

#[test]
fn another_task_makes_room_in_the_same_transaction() {
    let cell = needs_room();
    let plan = pass(&cell, Settings::new(Objectives::drain()));
    assert_eq!(counts(&cell, 3), [0, 1, 1]);
    assert_eq!(plan.waves.len(), 1);
    assert_eq!(plan.waves[0].len(), 1, "one step of two moves");
    assert_eq!(plan.waves[0][0].moves.len(), 2);
}

#[test]
fn where_room_is_transient_the_other_task_goes_a_wave_before() {
    let cell = needs_room();
    let settings = Settings { transient: vec![KindId::CPU], ..Settings::new(Objectives::drain()) };
    let plan = pass(&cell, settings);
    assert_eq!(counts(&cell, 3), [0, 1, 1]);
    let waves: Vec<Vec<Why>> =
        plan.waves.iter().map(|wave| wave.iter().map(|step| step.why).collect()).collect();
    assert_eq!(waves, [vec![Why::MakesRoom], vec![Why::Gain(Term::Misplaced)]]);
}

/// Two machines: one has all its CPU allocated, the other all its memory. Only an exchange of tasks improves this.
fn lopsided() -> SharedCell {
    let cell = cell(&[8, 8]);
    let task = |name: &str, cores: u64, gib: u64| {
        let mut job = job(name, 1, cores);
        job.groups[0].request = Amounts::new([cores * 1000, gib << 30]);
        job
    };
    runs(&cell, task("a", 4, 8), &[0]);
    runs(&cell, task("b", 4, 8), &[0]);
    runs(&cell, task("c", 1, 32), &[1]);
    runs(&cell, task("d", 1, 32), &[1]);
    cell
}

#[test]
fn two_tasks_change_places_where_no_move_helps() {
    let cell = lopsided();
    let objectives = Objectives::balance();
    let before = cell.read(|cell| naive(cell, &objectives));
    let plan = pass(&cell, Settings::new(objectives.clone()));
    assert_eq!(plan.steps().map(|step| step.moves.len()).collect::<Vec<_>>(), [2]);
    assert!(cell.read(|cell| naive(cell, &objectives)) * 2 < before);
}

#[test]
fn two_tasks_do_not_go_through_each_others_transient_room() {
    for transient in [KindId::CPU, KindId::MEMORY] {
        let cell = lopsided();
        let settings =
            Settings { transient: vec![transient], ..Settings::new(Objectives::balance()) };
        let plan = pass(&cell, settings);
        assert_eq!(plan.moves().count(), 0, "no room on both machines at once");
    }
}

#[test]
fn load_leaves_the_machines_above_the_safety_level() {
    let cell = cell(&[10, 10, 10, 10]);
    runs(&cell, job("a", 10, 1), &[0; 10]);
    let objectives = Objectives { balance: 0, ..Objectives::balance() };
    let plan = pass(&cell, Settings::new(objectives));
    assert_eq!(counts(&cell, 4)[0], 8, "80 % of ten");
    assert_eq!(plan.before.load[0], 200_000);
    assert_eq!(plan.after.load[0], 0);
    assert_eq!(plan.after.moves, 2 * (10_000 + 100_000));
    assert_eq!(plan.after.job_moves, 20_000);
}

#[test]
fn defragmenting_empties_machines() {
    let cell = cell(&[8; 6]);
    runs(&cell, job("a", 12, 2), &[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    pass(&cell, Settings::new(Objectives::defragment()));
    let mut counts = counts(&cell, 6);
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 0, 4, 4, 4]);
}

#[test]
fn tasks_of_a_job_are_spread_again() {
    let cell = cell(&[]);
    for i in 0..6 {
        let mut machine = Machine::new(format!("m{i}"), amounts(8));
        machine.labels = Labels::new([("zone", format!("z{}", i / 2))]);
        add_machine(&cell, machine);
    }
    runs(&cell, job("a", 3, 1), &[0, 0, 1]);
    let objectives =
        Objectives { level: TopologyLevel::Label("zone".into()), ..Objectives::spread() };
    let plan = pass(&cell, Settings::new(objectives));
    assert_eq!((plan.before.crowding, plan.after.crowding), (30_000, 0));
    assert!(plan.steps().all(|step| step.why == Why::Gain(Term::Crowding)));
}

#[test]
fn tasks_that_the_machine_would_not_take_any_more_leave_it() {
    let cell = cell(&[]);
    let labelled = |name: &str, disk: &str| {
        let mut machine = Machine::new(name, amounts(8));
        machine.labels = Labels::new([("disk", disk)]);
        machine
    };
    let id = add_machine(&cell, labelled("m0", "ssd"));
    add_machine(&cell, labelled("m1", "ssd"));
    let mut picky = job("picky", 1, 1);
    let requirements = vec![Requirement::equals("disk", "ssd")];
    let selector = omega_core::MachineSelector { labels: requirements, ..Default::default() };
    picky.groups[0].rules.affinity.required = Some(vec![selector]);
    runs(&cell, picky, &[0]);
    assert_eq!(planned(&cell, Settings::new(Objectives::drain())).1.misplaced, 0);
    cell.apply(Command::UpdateMachine { id, machine: labelled("m0", "hdd") }).unwrap();
    let plan = pass(&cell, Settings::new(Objectives::drain()));
    assert_eq!((plan.misplaced, counts(&cell, 2)), (1, vec![0, 1]));
}

#[test]
fn moves_are_bounded_in_all_and_by_job() {
    let full = || {
        let cell = cell(&[10, 10, 10, 10]);
        runs(&cell, job("a", 5, 1), &[0; 5]);
        runs(&cell, job("b", 5, 1), &[0; 5]);
        drain(&cell, 0);
        cell
    };
    let bounded = |bounds| Settings { bounds, ..Settings::new(Objectives::drain()) };
    let plan = pass(&full(), bounded(Bounds { moves: 3, ..Bounds::default() }));
    assert_eq!((plan.moves().count(), plan.stuck.len(), plan.ended), (3, 7, Ended::Moves));
    let plan = pass(&full(), bounded(Bounds { moves_per_job: 2, ..Bounds::default() }));
    assert_eq!(plan.moves().count(), 4);
    assert!(plan.stuck.iter().all(|stuck| stuck.why == Hindrance::MovesOfJob));
    let plan = pass(&full(), bounded(Bounds { steps: 1, ..Bounds::default() }));
    assert_eq!((plan.moves().count(), plan.ended), (1, Ended::Steps));
    assert!(plan.stuck.iter().all(|stuck| stuck.why == Hindrance::NotReached));
    let (_, plan) = {
        let cell = full();
        let mut rebalancer = Rebalancer::new(&cell, Settings::new(Objectives::drain())).unwrap();
        let plan = rebalancer.plan(&cell, &mut || false).unwrap();
        (cell, plan)
    };
    assert_eq!((plan.moves().count(), plan.ended), (0, Ended::Told));
}

#[test]
fn no_wave_disturbs_more_tasks_than_a_disruption_budget_allows() {
    let cell = cell(&[10, 10, 10]);
    let mut web = job("web", 6, 1);
    web.groups[0].labels = Labels::new([("app", "web")]);
    let web = runs(&cell, web, &[0; 6]);
    runs(&cell, job("other", 2, 1), &[0; 2]);
    drain(&cell, 0);
    let tasks = LabelSelector { requirements: vec![Requirement::equals("app", "web")] };
    let set = TaskSet { tenant: "default".into(), tasks };
    let keeps = |keep| vec![DisruptionBudget { set: set.clone(), keep }];
    let two = keeps(Keep::MaxUnavailable(Share::Tasks(2)));
    let settings = Settings { disruptions: two, ..Settings::new(Objectives::drain()) };
    let (_, plan) = planned(&cell, settings);
    let of_web = |wave: &Vec<omega_schedulers::rebalance::Step>| {
        wave.iter().flat_map(|step| &step.moves).filter(|m: &&Move| m.task.job == web).count()
    };
    assert_eq!(plan.waves.iter().map(of_web).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!((plan.waves[0].len(), plan.stuck.len()), (4, 0));
    let none = keeps(Keep::MaxUnavailable(Share::Tasks(0)));
    let settings = Settings { disruptions: none, ..Settings::new(Objectives::drain()) };
    let plan = pass(&cell, settings);
    assert_eq!((plan.moves().count(), plan.stuck.len()), (2, 6));
    assert!(plan.stuck.iter().all(|stuck| stuck.why == Hindrance::Disruption));
}

#[test]
fn jobs_of_another_kind_are_left_alone() {
    let cell = cell(&[10, 10]);
    let batch = runs(&cell, job("batch", 1, 1), &[0]);
    runs(&cell, Job { kind: JobKind::Service, ..job("service", 1, 1) }, &[0]);
    drain(&cell, 0);
    let only = Some(JobKind::Service);
    let plan = pass(&cell, Settings { only, ..Settings::new(Objectives::drain()) });
    assert_eq!((counts(&cell, 2), plan.stuck[0].task.job), (vec![1, 1], batch));
    assert_eq!(plan.stuck[0].why, Hindrance::LeftAlone);
}

#[test]
fn rules_between_tasks_hold_at_each_step() {
    let cell = cell(&[8; 5]);
    let mut apart = job("apart", 3, 1);
    let from = TaskSelector::SameJob;
    let rule = TaskRule::AntiAffinity { from, level: TopologyLevel::Machine };
    apart.groups[0].rules.tasks.push(rule);
    let apart = runs(&cell, apart, &[0, 1, 2]);
    runs(&cell, job("plain", 4, 1), &[0, 0, 3, 4]);
    pass(&cell, Settings::new(Objectives::defragment()));
    let tasks = cell.read(running);
    let mut rows: Vec<_> =
        tasks.iter().filter(|t| t.0.job == apart).map(|(.., machine)| machine.row()).collect();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), 3, "one on each machine");
    assert_eq!(counts(&cell, 5).iter().filter(|count| **count > 0).count(), 3);
}

#[test]
fn a_plan_that_is_out_of_date_conflicts_and_breaks_nothing() {
    let cell = cell(&[8, 8, 8]);
    let a = runs(&cell, job("a", 3, 2), &[0, 0, 0]);
    drain(&cell, 0);
    let (mut rebalancer, plan) = planned(&cell, Settings::new(Objectives::drain()));
    cell.apply(Command::KillJob { job: a }).unwrap();
    let done = rebalancer.apply_plan(&cell, &plan).unwrap();
    assert_eq!(done.fates, [Fate::Stale; 3]);
    runs(&cell, job("b", 1, 2), &[0]);
    let (mut rebalancer, plan) = planned(&cell, Settings::new(Objectives::drain()));
    let to = plan.moves().next().unwrap().to;
    runs(&cell, job("full", 1, 8), &[to.slot]);
    let done = rebalancer.apply_plan(&cell, &plan).unwrap();
    assert!(matches!(done.fates[..], [Fate::Refused(_)]), "{:?}", done.fates);
    assert_eq!((plan.taken(&done).count(), counts(&cell, 3)[0]), (0, 1), "it runs where it ran");
    cell.read(Cell::audit).unwrap();
}

const THREADS: usize = 3;
const CELL: usize = 40;

/// A scheduler that claims and releases at random during a pass.
fn churn(cell: &SharedCell, thread: usize, stop: &AtomicBool) -> usize {
    let mut dice = Dice::new(thread as u64);
    let (id, number) = cell.register(format!("churn{thread}").into()).unwrap();
    let mut view = View::new(id, number);
    view.sync(cell).unwrap();
    let of = submit(cell, job(&format!("churn{thread}"), 60, 1));
    let spec = cell.read(|cell| cell.job(of).unwrap().clone());
    let group = view.compile(of, &spec, 0);
    let mut pending: Vec<TaskId> = (0..60).map(|index| TaskId { job: of, index }).collect();
    let mut placed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        view.sync(cell).unwrap();
        if let Some(task) = pending.pop()
            && view.claim(task, view.machine_id(dice.below(CELL)), group).is_err()
        {
            pending.push(task);
        }
        let mut txn = view.take_transaction();
        if dice.chance(50) && !placed.is_empty() {
            txn.releases.push(placed.swap_remove(dice.below(placed.len())));
        }
        if txn.items() == 0 {
            view.abandon(&txn);
            continue;
        }
        let commit = cell.commit(&txn).unwrap();
        view.settle(&txn, &commit);
        assert!(commit.conflicts.iter().all(|c| !matches!(c.item, omega_core::Item::Release(_))));
        pending.extend(&txn.releases);
        for (index, claim) in txn.claims.iter().enumerate() {
            match commit.conflict_of_claim(index) {
                None => placed.push(claim.task),
                Some(_) => pending.push(claim.task),
            }
        }
    }
    placed.len()
}

#[test]
fn a_pass_beside_other_schedulers_loses_nothing() {
    let cell = cell(&[8; CELL]);
    let mut rows = Vec::new();
    (0..CELL as u32).for_each(|row| rows.extend([row; 4].iter().take(row as usize % 5)));
    let still = runs(&cell, job("still", rows.len() as u32, 1), &rows);
    let stop = AtomicBool::new(false);
    let (mut moved, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let churning: Vec<_> = (0..THREADS)
            .map(|t| {
                scope.spawn({
                    let (cell, stop) = (&cell, &stop);
                    move || churn(cell, t, stop)
                })
            })
            .collect();
        let mut round = 0;
        // On a busy computer, plans may be so late that most moves are refused; then there are more rounds.
        while round < 60 || (moved <= 100 && round < 6000) {
            drain(&cell, round % CELL as u32);
            let objectives =
                [Objectives::defragment(), Objectives::balance(), Objectives::spread()]
                    [round as usize % 3]
                    .clone();
            let settings = Settings { seed: u64::from(round), ..Settings::new(objectives) };
            let (mut rebalancer, plan) = planned(&cell, settings);
            let done = rebalancer.apply_plan(&cell, &plan).unwrap();
            moved += done.moved();
            refused += done.fates.len() - done.moved();
            let id = MachineId::first(round % CELL as u32);
            cell.apply(Command::DrainMachine { id, draining: false }).unwrap();
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
        let others: usize = churning.into_iter().map(|thread| thread.join().unwrap()).sum();
        let still = cell.read(|cell| running(cell).iter().filter(|t| t.0.job == still).count());
        let all = cell.read(|cell| running(cell).len());
        assert_eq!(still, rows.len(), "no task that was moved is lost");
        assert_eq!(all, still + others, "nor any that others believe in");
    });
    cell.read(Cell::audit_no_overcommit).unwrap();
    assert!(moved > 100, "passes move tasks: {moved}, refused {refused}");
}
