//! Gangs placed by several transactions: they complete under contention, and release their machines at the timeout.

use crate::cell::small::{LONG, cell, job, placed, report, run, scheduler, step, submit, task};
use omega_cellstate::SharedCell;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Command, Job, JobId, TaskGroup, TaskReport};
use omega_schedulers::{Profile, Scheduler, Search, Settings};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A gang with a timeout.
fn gang(name: &str, tasks: u32, hold_ms: u32) -> Job {
    Job { gang_min: Some(tasks), gang_timeout_ms: Some(hold_ms), ..job(name, tasks, 1) }
}

fn expire(cell: &SharedCell, now_ms: u64) {
    cell.apply(Command::Expire { now_ms }).unwrap();
}

fn holds(cell: &SharedCell, job: JobId) -> bool {
    cell.read(|cell| cell.gang_wait(job).is_some())
}

/// A scheduler for the jobs that name it, with a maximum number of claims per transaction.
fn small_scheduler(cell: &SharedCell, name: &str, claims: usize) -> Scheduler {
    let mut settings = Settings::new(name).with_search(Search::Full);
    settings.claims_max = claims;
    Scheduler::new(cell, Profile::first_fit(), settings).unwrap()
}

#[test]
fn a_gang_takes_what_room_there_is_and_runs_when_it_is_complete() {
    let cell = cell(&[2, 2]);
    let first = submit(&cell, job("first", 2, 1));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    let gang = submit(&cell, gang("gang", 4, 1000));
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, gang), holds(&cell, gang)), (2, true));
    for index in 0..2 {
        report(&cell, task(first, index), TaskReport::Finished);
    }
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((placed(&cell, gang), holds(&cell, gang)), (4, false));
    let counts = cell.read(omega_cellstate::Cell::gang_counts);
    assert_eq!((counts.begun, counts.completed, counts.timed_out), (1, 1, 0));
}

#[test]
fn a_gang_may_be_larger_than_a_transaction() {
    let tasks = TRANSACTION_ITEMS_MAX as u32 + 2000;
    let cell = cell(&[u64::from(tasks)]);
    let group = TaskGroup::new(tasks, omega_core::Amounts::new([1000]));
    let gang = Job { groups: [group.into()].into(), ..gang("gang", tasks, 1000) };
    let gang = submit(&cell, gang);
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    assert_eq!((placed(&cell, gang), holds(&cell, gang)), (tasks as usize, false));
}

#[test]
fn a_gang_that_was_released_waits_while_others_take_the_room() {
    let cell = cell(&[3]);
    let large = submit(&cell, gang("large", 4, 1000));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    let small = submit(&cell, job("small", 3, 1));
    run(&mut scheduler, &cell, 1);
    assert_eq!((placed(&cell, large), placed(&cell, small)), (3, 0));
    expire(&cell, 1000);
    expire(&cell, 2000);
    assert_eq!((placed(&cell, large), holds(&cell, large)), (0, false));
    // The pending gang gets the resources with its next retry, which is within a second.
    for at in (0..20).map(|tenth| LONG + tenth * 100_000_000) {
        run(&mut scheduler, &cell, at);
    }
    assert_eq!((placed(&cell, large), placed(&cell, small)), (0, 3));
    assert!(step(&mut scheduler, &cell, LONG + 1).idle, "it does not spin");
}

#[test]
fn of_two_gangs_that_each_hold_half_one_gets_through_and_then_the_other() {
    let cell = cell(&[2, 2]);
    let [a, b] =
        ["a", "b"].map(|name| submit(&cell, Job { scheduler: name.into(), ..gang(name, 4, 1000) }));
    let mut both = ["a", "b"].map(|name| small_scheduler(&cell, name, 2));
    both.iter_mut().for_each(|one| _ = step(one, &cell, 0));
    assert_eq!((placed(&cell, a), placed(&cell, b)), (2, 2));
    let mut through = Vec::new();
    for second in 1..30 {
        expire(&cell, second * 1000);
        for one in &mut both {
            run(one, &cell, second * 1_000_000_000);
        }
        for id in [a, b] {
            if placed(&cell, id) == 4 && !holds(&cell, id) {
                through.push((second, id));
                cell.apply(Command::KillJob { job: id }).unwrap();
            }
        }
    }
    assert_eq!(through.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [a, b]);
    assert!(through[0].0 <= 3, "at the first end of both holds: {through:?}");
    cell.read(|cell| cell.audit().unwrap());
}

#[test]
fn gangs_of_many_schedulers_on_threads_all_get_through() {
    const SCHEDULERS: usize = 4;
    const GANGS: usize = 5;
    let cell = cell(&[4, 4]);
    let mut waiting = Vec::new();
    for at in 0..SCHEDULERS {
        for number in 0..GANGS {
            let name = format!("s{at}-{number}");
            let job = Job { scheduler: format!("s{at}").into(), ..gang(&name, 6, 3000) };
            waiting.push(submit(&cell, job));
        }
    }
    let (now_ms, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for at in 0..SCHEDULERS {
            let (cell, now_ms, over) = (&cell, &now_ms, &over);
            scope.spawn(move || {
                let mut scheduler = small_scheduler(cell, &format!("s{at}"), 2);
                while !over.load(Ordering::Relaxed) {
                    let now = now_ms.load(Ordering::Relaxed) * 1_000_000;
                    let idle = step(&mut scheduler, cell, now).idle;
                    if idle {
                        std::thread::yield_now();
                    }
                }
            });
        }
        for round in 0.. {
            assert!(round < 1_000_000, "{} gangs never ran", waiting.len());
            let now = now_ms.fetch_add(50, Ordering::Relaxed);
            if round % 10 == 0 {
                expire(&cell, now);
                cell.read(|cell| cell.audit().unwrap());
            }
            waiting.retain(|id| {
                let runs = placed(&cell, *id) == 6;
                assert!(!runs || !holds(&cell, *id));
                if runs {
                    cell.apply(Command::KillJob { job: *id }).unwrap();
                }
                !runs
            });
            if waiting.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
    });
}
