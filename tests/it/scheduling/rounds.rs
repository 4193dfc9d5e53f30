//! Rounds that follow each other without a pause: a scheduler syncs once for several transactions, but often enough for
//! its decisions.

use crate::cell::small::{add_machine, amounts, job, placed, submit};
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, SharedCell};
use omega_core::{Commit, JobId, Kinds, Machine, SchedulerId, Text, Transaction, Version};
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::{Profile, Scheduler, Settings, Step, Unobserved};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A cell that counts syncs.
struct Counted {
    cell: SharedCell,
    syncs: AtomicUsize,
}

impl Counted {
    /// A cell of machines with `room` cores each.
    fn new(machines: usize, room: u64) -> Counted {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        for i in 0..machines {
            add_machine(&cell, Machine::new(format!("m{i}"), amounts(room)));
        }
        Counted { cell, syncs: AtomicUsize::new(0) }
    }

    fn syncs(&self) -> usize {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl CellHandle for Counted {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(&self, since: Version, of: &Interest, delta: &mut Delta) -> Result<(), HandleError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.cell.sync(since, of, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.cell.commit(txn)
    }
}

fn scheduler(cell: &Counted, profile: Profile) -> Scheduler {
    let settings = Settings { claims_max: 1, ..Settings::new("default") };
    Scheduler::new(cell, profile, settings).unwrap()
}

/// Runs rounds until there is no work. Returns the sums over all rounds, and the number of rounds.
fn go_on(scheduler: &mut Scheduler, cell: &Counted) -> (Step, usize) {
    let mut sums = Step::default();
    for round in 0.. {
        let now = 1_000_000 * round as u64;
        let step = scheduler.go_on(cell, now, &mut Unobserved).unwrap();
        sums.placed += step.placed;
        sums.conflicts += step.conflicts;
        if step.idle {
            return (sums, round);
        }
    }
    unreachable!("the rounds end")
}

#[test]
fn a_busy_scheduler_syncs_once_for_many_small_transactions() {
    let cell = Counted::new(100, 10);
    let jobs: Vec<JobId> =
        (0..640).map(|i| submit(&cell.cell, job(&format!("j{i}"), 1, 1))).collect();
    let mut scheduler = scheduler(&cell, Profile::batch());
    let (sums, rounds) = go_on(&mut scheduler, &cell);
    assert_eq!((sums.placed, sums.conflicts, rounds), (640, 0, 640 / 16), "sixteen in a round");
    assert!(jobs.iter().all(|job| placed(&cell.cell, *job) == 1));
    // There is a sync before the first transaction, one for each 32 transactions, and one that finds no more work.
    assert_eq!(cell.syncs(), 1 + 640 / 32 + 1);
}

#[test]
fn a_conflict_is_followed_by_a_sync() {
    let cell = Counted::new(1, 24);
    (0..24).for_each(|i| _ = submit(&cell.cell, job(&format!("j{i}"), 1, 1)));
    let mut mine = scheduler(&cell, Profile::batch());
    assert_eq!(mine.go_on(&cell, 0, &mut Unobserved).unwrap().placed, 16);
    // Another scheduler fills the machine; this scheduler learns of that only by its conflicts.
    let other = Counted { cell: cell.cell.clone(), syncs: AtomicUsize::new(0) };
    let large = submit(&cell.cell, omega_core::Job { scheduler: "other".into(), ..job("l", 8, 1) });
    let mut others = Scheduler::new(&other, Profile::batch(), Settings::new("other")).unwrap();
    others.step(&other, 0, &mut Unobserved).unwrap();
    assert_eq!(placed(&cell.cell, large), 8);
    let before = cell.syncs();
    let step = mine.go_on(&cell, 1, &mut Unobserved).unwrap();
    assert_eq!((step.placed, step.conflicts, cell.syncs()), (0, 8, before));
    let (sums, _) = go_on(&mut mine, &cell);
    assert!(cell.syncs() > before);
    assert_eq!((sums.placed, sums.conflicts), (0, 0), "it has seen that there is no room");
}

#[test]
fn jobs_that_come_while_it_is_busy_are_placed_in_their_order() {
    let cell = Counted::new(100, 10);
    (0..100).for_each(|i| _ = submit(&cell.cell, job(&format!("j{i}"), 1, 1)));
    let mut scheduler = scheduler(&cell, Profile::batch());
    scheduler.go_on(&cell, 0, &mut Unobserved).unwrap();
    let mut urgent = job("urgent", 1, 1);
    urgent.precedence = omega_core::Precedence(9);
    let urgent = submit(&cell.cell, urgent);
    // After the next sync at the latest, the urgent job comes first.
    for round in 1..=32 / 16 {
        scheduler.go_on(&cell, round, &mut Unobserved).unwrap();
    }
    assert_eq!(placed(&cell.cell, urgent), 1);
    assert_eq!(scheduler.queue().pending_tasks(), 101 - (32 + 16));
}

#[test]
fn a_scheduler_that_evicts_syncs_in_each_round() {
    let cell = Counted::new(100, 10);
    (0..50).for_each(|i| _ = submit(&cell.cell, job(&format!("j{i}"), 1, 1)));
    let profile = Profile::batch().with_post_filter(DefaultPreemption::default());
    let (sums, rounds) = go_on(&mut scheduler(&cell, profile), &cell);
    assert_eq!((sums.placed, rounds), (50, 50));
    assert_eq!(cell.syncs(), 51);
}
