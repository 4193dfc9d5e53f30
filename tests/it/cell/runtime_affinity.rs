//! Runtime affinity with several schedulers: one scheduler removes tasks to which tasks of another scheduler have
//! runtime affinity.

use crate::cell::small::{LONG, add_machine, amounts, cell, job, placed, report, submit};
use omega_cellstate::{Cell, CellHandle, SharedCell, View};
use omega_core::{
    Job, JobId, LabelSelector, Labels, Machine, Near, Precedence, Reason, Requirement, TaskId,
    TaskReport, TaskRule, TaskSelector, Tenants, TopologyLevel, Transaction,
};
use omega_schedulers::plugins::{CandidateMachines, DefaultPreemption};
use omega_schedulers::{Profile, Scheduler, Search, Settings, Unobserved};
use omega_tests::random::Dice;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

const ZONES: usize = 3;

fn zones(machines: usize, cores: u64) -> SharedCell {
    let cell = cell(&[]);
    for i in 0..machines {
        let mut machine = Machine::new(format!("m{i}"), amounts(cores));
        machine.labels = Labels::new([("zone", format!("z{}", i % ZONES))]);
        add_machine(&cell, machine);
    }
    cell
}

fn near_db() -> Near {
    let labels = LabelSelector { requirements: vec![Requirement::equals("app", "db")] };
    let tasks = TaskSelector::Labels { tenants: Tenants::Any, labels };
    Near { tasks, level: TopologyLevel::Label("zone".into()) }
}

fn db(tasks: u32, cores: u64) -> Job {
    let mut job = Job { scheduler: "db".into(), ..job("db", tasks, cores) };
    job.groups[0].labels = Labels::new([("app", "db")]);
    job
}

fn web(tasks: u32, cores: u64) -> Job {
    let mut job = Job { scheduler: "web".into(), ..job("web", tasks, cores) };
    job.groups[0].rules.tasks.push(TaskRule::RuntimeAffinity(near_db()));
    job
}

fn zones_of(cell: &SharedCell, job: JobId) -> BTreeSet<usize> {
    let rows = |cell: &Cell| -> Vec<usize> {
        cell.tasks(job).filter_map(|(_, state)| Some(state.machine()?.row())).collect()
    };
    cell.read(rows).into_iter().map(|row| row % ZONES).collect()
}

/// Claims random machines and releases the scheduler's own placed tasks. Ends when `enough` returns true for the number
/// of rounds and the number of releases that were rejected because of other tasks. Returns the number of these rejected
/// releases.
fn churn(
    cell: &SharedCell,
    (job, seed): (JobId, u64),
    enough: impl Fn(usize, usize) -> bool,
) -> usize {
    let mut dice = Dice::new(seed);
    let (id, number) = cell.register(format!("s{seed}").into()).unwrap();
    let mut view = View::new(id, number);
    let spec = cell.read(|cell| cell.job(job).unwrap().clone());
    let (mut needed, mut round) = (0, 0);
    while !enough(round, needed) {
        round += 1;
        view.sync(cell).unwrap();
        let group = view.compile(job, &spec, 0);
        let states: Vec<_> = cell.read(|cell| cell.tasks(job).collect());
        let mut releases = Vec::new();
        for (task, state) in states {
            if state.machine().is_none() && dice.chance(40) {
                let machine = view.machine_id(dice.below(view.rows()));
                let _ = view.claim(task, machine, group);
            } else if state.machine().is_some() && dice.chance(30) {
                releases.push(task);
            }
        }
        let txn = Transaction { releases, ..view.take_transaction() };
        if txn.items() == 0 {
            view.abandon(&txn);
            continue;
        }
        let commit = cell.commit(&txn).unwrap();
        view.settle(&txn, &commit);
        let why = commit.conflicts.iter().map(|conflict| conflict.reason);
        needed += why.filter(|reason| *reason == Reason::RuntimeAffinityNeeded).count();
    }
    needed
}

#[test]
fn schedulers_that_race_leave_nobody_alone() {
    let cell = zones(9, 8);
    let (db, web) = (submit(&cell, db(6, 1)), submit(&cell, web(6, 1)));
    let (done, checked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (cell, done, checked) = (&cell, &done, &checked);
        // The schedulers go on until the rule was checked, which may begin late on a busy computer.
        let taken_away = |round, needed| {
            round >= 300 && (needed > 0 || round >= 100_000) && checked.load(Ordering::Relaxed) > 0
        };
        let over = |round, _| round >= 300 && done.load(Ordering::Relaxed) == 2;
        let databases = [(db, 1), (db, 2)].map(|of| {
            scope.spawn(move || {
                let needed = churn(cell, of, taken_away);
                done.fetch_add(1, Ordering::Relaxed);
                needed
            })
        });
        let needing = [(web, 3), (web, 4)].map(|of| scope.spawn(move || churn(cell, of, over)));
        let threads = databases.into_iter().chain(needing).collect::<Vec<_>>();
        // The rule is checked at each version, not only at the end.
        while !threads.iter().all(|thread| thread.is_finished()) {
            checked.fetch_add(1, Ordering::Relaxed);
            cell.read(|cell| {
                let zones = |job| -> BTreeSet<usize> {
                    let rows = cell.tasks(job).filter_map(|(_, state)| state.machine());
                    rows.map(|machine| machine.row() % ZONES).collect()
                };
                assert!(zones(web).is_subset(&zones(db)), "at {}", cell.version());
            });
        }
        let needed: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(needed > 0, "nobody ever wanted to leave who was needed");
    });
    assert!(zones_of(&cell, web).is_subset(&zones_of(&cell, db)));
    cell.read(Cell::audit).unwrap();
}

fn evicting(cell: &SharedCell, name: &str) -> Scheduler {
    let plugin = DefaultPreemption::new(CandidateMachines::default(), Vec::new());
    let profile = Profile::first_fit().with_post_filter(plugin);
    Scheduler::new(cell, profile, Settings::new(name).with_search(Search::Full)).unwrap()
}

fn run_at(scheduler: &mut Scheduler, cell: &SharedCell, now: u64) {
    for _ in 0..50 {
        if scheduler.step(cell, now, &mut Unobserved).unwrap().idle {
            return;
        }
    }
    panic!("it tries again and again");
}

/// Three databases run in separate zones, and a task has runtime affinity to one of them. The other two may be evicted.
#[test]
fn an_important_task_evicts_the_one_that_nobody_needs() {
    let cell = zones(3, 4);
    let mut apart = db(3, 2);
    let level = TopologyLevel::Label("zone".into());
    let rule = TaskRule::AntiAffinity { from: TaskSelector::SameJob, level };
    apart.groups[0].rules.tasks.push(rule);
    let databases = submit(&cell, apart);
    let needing = submit(&cell, Job { precedence: Precedence(9), ..web(1, 2) });
    for name in ["db", "web"] {
        run_at(&mut evicting(&cell, name), &cell, 0);
    }
    let home = zones_of(&cell, needing);
    // The other two machines have two free cores each, so this job fits on none without an eviction.
    let filler = submit(&cell, Job { precedence: Precedence(7), ..job("filler", 2, 2) });
    run_at(&mut evicting(&cell, "default"), &cell, 0);
    let top = Job { precedence: Precedence(5), scheduler: "top".into(), ..job("top", 4, 2) };
    let top = submit(&cell, top);
    let mut scheduler = evicting(&cell, "top");
    run_at(&mut scheduler, &cell, 0);
    // Two of the three databases were evicted, but not the one in the zone of the dependent task.
    assert_eq!((placed(&cell, top), placed(&cell, databases)), (2, 1));
    assert_eq!((placed(&cell, filler), placed(&cell, needing)), (2, 1));
    assert!(home.is_subset(&zones_of(&cell, databases)));
    cell.read(Cell::audit).unwrap();
    // Without the dependent task, the last database may be evicted, too.
    report(&cell, TaskId { job: needing, index: 0 }, TaskReport::Finished);
    run_at(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, top), placed(&cell, databases)), (4, 0));
}
