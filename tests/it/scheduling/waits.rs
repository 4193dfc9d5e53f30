//! Jobs that wait for preferred machines, and transactions that wait for more claims. They wait as long as they should,
//! not longer, and without needless steps.

use crate::cell::small::{
    add_machine, amounts, cell, job, placed, report, rows, step, submit, task,
};
use omega_cellstate::{CellHandle, CommitHook, SharedCell};
use omega_core::{
    Command, Job, JobId, Labels, Machine, MachineSelector, Preferred, TaskReport, Transaction,
};
use omega_schedulers::{
    Delay, Nanos, Observer, Profile, Scheduler, Search, Settings, Step, WaitFigures,
};
use omega_tests::random::Dice;
use std::sync::atomic::{AtomicUsize, Ordering};

const MS: Nanos = 1_000_000;

/// Machines of one core, `m0` to `m5`. Each rack has two of the machines, and each machine has its own label.
fn racks() -> SharedCell {
    let cell = cell(&[]);
    for i in 0..6 {
        let mut machine = Machine::new(format!("m{i}"), amounts(1));
        machine.labels = Labels::new([("rack", format!("r{}", i / 2)), ("is", format!("m{i}"))]);
        add_machine(&cell, machine);
    }
    cell
}

/// A job that prefers a machine.
fn prefers(name: &str, tasks: u32, machine: u32) -> Job {
    let mut job = job(name, tasks, 1);
    let machines = MachineSelector::label("is", format!("m{machine}"));
    job.groups[0].rules.affinity.preferred = vec![Preferred { weight: 1, machines }];
    job
}

fn waiting(cell: &SharedCell) -> Scheduler {
    let delay = Delay::new(30 * MS, Some(("rack".into(), 20 * MS)));
    let profile = Profile::batch().with_delay(delay);
    let settings = Settings::new("default").with_search(Search::Full);
    Scheduler::new(cell, profile, settings).unwrap()
}

/// Fills machines with jobs that prefer them.
fn take(cell: &SharedCell, scheduler: &mut Scheduler, machines: &[u32], now: Nanos) -> Vec<JobId> {
    let ids: Vec<JobId> = machines
        .iter()
        .map(|machine| submit(cell, prefers(&format!("takes-{machine}"), 1, *machine)))
        .collect();
    settle(scheduler, cell, now);
    let on: Vec<u32> = ids.iter().filter_map(|id| rows(cell, *id)[0]).collect();
    assert_eq!(on, machines);
    ids
}

fn settle(scheduler: &mut Scheduler, cell: &SharedCell, now: Nanos) -> Step {
    for _ in 0..100 {
        let step = step(scheduler, cell, now);
        if step.idle {
            return step;
        }
    }
    panic!("it spins");
}

#[derive(Default)]
struct Decisions {
    count: usize,
    figures: WaitFigures,
}

impl Observer for Decisions {
    fn deciding(&mut self) {
        self.count += 1;
    }

    fn waits(&mut self, figures: WaitFigures) {
        self.figures = figures;
    }
}

#[test]
fn a_job_waits_for_its_machine_then_for_its_rack_and_no_longer() {
    let cell = racks();
    let mut scheduler = waiting(&cell);
    take(&cell, &mut scheduler, &[0, 1], 0);
    let id = submit(&cell, prefers("a", 1, 0));
    let mut seen = Decisions::default();
    for now in 0..50 {
        scheduler.step(&cell, now * MS, &mut seen).unwrap();
        assert_eq!(placed(&cell, id), 0, "after {now} ms");
        let told = format!("{:?}", scheduler.diagnose(id, 0).unwrap());
        let wanted = if now < 30 { "for a preferred machine" } else { "for a machine near" };
        assert!(told.contains(wanted), "after {now} ms: {told}");
    }
    assert!(seen.count < 15, "{} looks", seen.count);
    let before = rows(&cell, id);
    settle(&mut scheduler, &cell, 50 * MS);
    assert_eq!((before, placed(&cell, id)), (vec![None], 1));
    scheduler.step(&cell, 51 * MS, &mut seen).unwrap();
    let expected = WaitFigures { met: 2, missed: 1, waits: 1, waited: 50 * MS };
    assert_eq!(seen.figures, expected);
}

#[test]
fn who_is_told_until_when_need_not_ask_before() {
    let cell = racks();
    let mut scheduler = waiting(&cell);
    take(&cell, &mut scheduler, &[0], 0);
    let id = submit(&cell, prefers("a", 1, 0));
    let mut now = 0;
    let mut steps = 0;
    while placed(&cell, id) == 0 {
        let step = settle(&mut scheduler, &cell, now);
        steps += 1;
        if placed(&cell, id) == 0 {
            now = step.until.expect("it will be tried again");
        }
    }
    assert_eq!((now, rows(&cell, id)), (30 * MS, vec![Some(1)]), "the other machine of the rack");
    assert!(steps < 15, "{steps} steps");
}

#[test]
fn a_machine_that_comes_free_ends_the_wait() {
    let cell = racks();
    let mut scheduler = waiting(&cell);
    let first = take(&cell, &mut scheduler, &[0], 0)[0];
    let id = submit(&cell, prefers("a", 1, 0));
    settle(&mut scheduler, &cell, MS);
    settle(&mut scheduler, &cell, 10 * MS);
    report(&cell, task(first, 0), TaskReport::Finished);
    settle(&mut scheduler, &cell, 11 * MS);
    settle(&mut scheduler, &cell, 29 * MS);
    assert_eq!(rows(&cell, id), [Some(0)]);
}

#[test]
fn nothing_is_waited_for_while_there_is_no_room() {
    let cell = racks();
    let mut scheduler = waiting(&cell);
    let all = take(&cell, &mut scheduler, &[0, 1, 2, 3, 4, 5], 0);
    let id = submit(&cell, prefers("a", 1, 0));
    (0..20).for_each(|second| _ = settle(&mut scheduler, &cell, second * 1000 * MS));
    report(&cell, task(all[5], 0), TaskReport::Finished);
    settle(&mut scheduler, &cell, 20_000 * MS);
    settle(&mut scheduler, &cell, 21_500 * MS);
    assert_eq!(placed(&cell, id), 1, "the wait began when there was room, and is over");
    let other = submit(&cell, prefers("b", 1, 5));
    report(&cell, task(all[4], 0), TaskReport::Finished);
    settle(&mut scheduler, &cell, 21_501 * MS);
    settle(&mut scheduler, &cell, 21_525 * MS);
    assert_eq!(placed(&cell, other), 0, "it waits since there is room");
    settle(&mut scheduler, &cell, 21_532 * MS);
    assert_eq!(rows(&cell, other), [Some(4)]);
}

#[test]
fn who_prefers_what_is_not_there_does_not_wait() {
    let cell = racks();
    let mut scheduler = waiting(&cell);
    let id = submit(&cell, prefers("a", 2, 77));
    settle(&mut scheduler, &cell, 0);
    assert_eq!(placed(&cell, id), 2);
}

#[test]
fn a_gang_waits_together() {
    let cell = racks();
    let mut scheduler = waiting(&cell);
    let gang = Job { gang_min: Some(2), ..prefers("gang", 2, 3) };
    let id = submit(&cell, gang);
    settle(&mut scheduler, &cell, 0);
    settle(&mut scheduler, &cell, 29 * MS);
    assert_eq!(placed(&cell, id), 0);
    settle(&mut scheduler, &cell, 30 * MS);
    let mut on = rows(&cell, id);
    on.sort_unstable();
    assert_eq!(on, [Some(2), Some(3)]);
}

/// Random jobs arrive and end. The scheduler steps only when something is due, and places all jobs. Once there is room,
/// no job waits longer than the sum of the delays for its preferred machine and for its rack.
#[test]
fn nobody_waits_longer_than_it_should() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let cell = racks();
        let mut scheduler = waiting(&cell);
        let mut came: Vec<(JobId, Nanos)> = Vec::new();
        let (mut now, mut number) = (0, 0);
        for _ in 0..40 {
            if dice.chance(60) {
                number += 1;
                let tasks = 1 + dice.below(2) as u32;
                let machine = dice.below(6) as u32;
                came.push((submit(&cell, prefers(&format!("j{number}"), tasks, machine)), now));
            }
            if !came.is_empty() && dice.chance(60) {
                let (id, _) = *dice.pick(&came);
                let states: Vec<_> = cell.read(|cell| cell.tasks(id).collect());
                for (task, _) in states.into_iter().filter(|(_, state)| state.machine().is_some()) {
                    report(&cell, task, TaskReport::Finished);
                }
            }
            let end = now + dice.below(20) as Nanos * MS;
            loop {
                let step = settle(&mut scheduler, &cell, now);
                match step.until.filter(|until| *until <= end) {
                    Some(until) => now = until.max(now + 1),
                    None => break,
                }
            }
            now = end;
        }
        // All jobs are placed once the running ones have ended, and free room is left unused for at most 50 ms in all.
        for _ in 0..200 {
            settle(&mut scheduler, &cell, now);
            let running: Vec<_> = came
                .iter()
                .flat_map(|(id, _)| cell.read(|cell| cell.tasks(*id).collect::<Vec<_>>()))
                .collect();
            if running.iter().all(|(_, state)| state.ended()) {
                break;
            }
            for (task, _) in running.iter().filter(|(_, state)| state.machine().is_some()) {
                report(&cell, *task, TaskReport::Finished);
            }
            now += 51 * MS;
        }
        assert_eq!(scheduler.queue().pending_tasks(), 0, "seed {seed}");
    }
}

// --- Delayed transactions ------------------------------------------------------------------------

fn holding(cell: &impl CellHandle, hold: Nanos, claims_max: usize) -> Scheduler {
    let settings = Settings { hold, claims_max, ..Settings::new("default") };
    Scheduler::new(cell, Profile::batch(), settings).unwrap()
}

#[test]
fn jobs_that_come_soon_share_a_transaction() {
    let (cell, commits) = (cell(&[8, 8]), AtomicUsize::new(0));
    let counting = CommitHook::new(&cell, |cell: &SharedCell, txns: &[&Transaction]| {
        commits.fetch_add(txns.len(), Ordering::Relaxed);
        cell.commit_all(txns)
    });
    let mut scheduler = holding(&counting, 5 * MS, 4);
    let commits = || commits.load(Ordering::Relaxed);
    let a = submit(&cell, job("a", 1, 1));
    let first = step(&mut scheduler, &counting, MS);
    assert_eq!((first.holds, first.until, commits()), (true, Some(6 * MS), 0));
    let b = submit(&cell, job("b", 1, 1));
    assert_eq!(step(&mut scheduler, &counting, 3 * MS).until, Some(6 * MS), "from the first on");
    assert_eq!(step(&mut scheduler, &counting, 6 * MS).placed, 2);
    assert_eq!(commits(), 1);
    // A full transaction is sent at once.
    submit(&cell, job("c", 4, 1));
    assert_eq!(step(&mut scheduler, &counting, 7 * MS).placed, 4);
    assert_eq!((placed(&cell, a), placed(&cell, b), commits()), (1, 1, 2));
    assert!(!step(&mut scheduler, &counting, 8 * MS).holds);
}

#[test]
fn what_is_held_survives_what_happens_meanwhile() {
    // A cell whose change log has room for only three changes sends full deltas.
    for changes in [3, 1000] {
        let cell = crate::cell::small::cell_that_remembers(changes, &[8, 8]);
        let mut scheduler = holding(&cell, 5 * MS, 100);
        let a = submit(&cell, job("a", 2, 1));
        let gone = submit(&cell, job("gone", 2, 1));
        assert!(step(&mut scheduler, &cell, 0).holds);
        cell.apply(Command::KillJob { job: gone }).unwrap();
        for i in 0..5 {
            add_machine(&cell, Machine::new(format!("more-{i}"), amounts(8)));
        }
        let b = submit(&cell, job("b", 3, 1));
        for now in 1..20 {
            step(&mut scheduler, &cell, now * MS);
        }
        assert_eq!((placed(&cell, a), placed(&cell, b), placed(&cell, gone)), (2, 3, 0));
        assert_eq!((scheduler.queue().pending_tasks(), scheduler.view().open_claims()), (0, 0));
        cell.read(|cell| cell.audit_no_overcommit()).unwrap();
    }
}

#[test]
fn schedulers_that_hold_place_all_that_there_is_on_threads() {
    let cell = cell(&[16; 40]);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let cell = &cell;
            scope.spawn(move || {
                let name = format!("s{number}");
                let settings = Settings { hold: 3 * MS, ..Settings::new(name.clone()) };
                let mut scheduler = Scheduler::new(cell, Profile::batch(), settings).unwrap();
                let mut now = 0;
                for i in 0..50 {
                    let job = job(&format!("{name}-{i}"), 3, 1);
                    submit(cell, Job { scheduler: name.clone().into(), ..job });
                    step(&mut scheduler, cell, now);
                    now += MS;
                }
                for _ in 0..2000 {
                    now = step(&mut scheduler, cell, now).until.unwrap_or(now + MS);
                }
                assert_eq!(scheduler.queue().pending_tasks(), 0);
            });
        }
    });
    cell.read(|cell| cell.audit_no_overcommit()).unwrap();
    assert_eq!(cell.read(|cell| cell.machines().map(|m| m.tasks.len()).sum::<usize>()), 600);
}
