//! Precedence bands, which keep preemption from cascading, and eviction limits, in schedulers that evict.

use crate::cell::small::{LONG, cell, job, placed, run, submit};
use omega_cellstate::{CellHandle, SharedCell};
use omega_core::{
    Band, Command, Commit, EvictionCap, Item, Job, JobId, Policy, Precedence, Reason, Transaction,
};
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::{Observer, Profile, Scheduler, Settings};
use omega_tests::random::Dice;
use std::sync::atomic::{AtomicBool, Ordering};

fn evicting(cell: &impl CellHandle, name: &str) -> Scheduler {
    let profile = Profile::batch().with_post_filter(DefaultPreemption::default());
    let settings = Settings { takes: "default".into(), ..Settings::new(name) };
    Scheduler::new(cell, profile, settings).unwrap()
}

fn set(cell: &SharedCell, bands: &[(i32, i32)], eviction_cap: Option<EvictionCap>) {
    let band = |(from, to): &(i32, i32)| Band { from: Precedence(*from), to: Precedence(*to) };
    let bands = bands.iter().map(band).collect();
    let policy = Policy { bands, eviction_cap, ..Policy::default() };
    cell.apply(Command::SetPolicy(policy)).unwrap();
}

fn of(precedence: i32, name: &str, tasks: u32, cores: u64) -> Job {
    Job { precedence: Precedence(precedence), ..job(name, tasks, cores) }
}

fn expire(cell: &SharedCell, now_ms: u64) {
    cell.apply(Command::Expire { now_ms }).unwrap();
}

/// A submitted transaction, and its rejected items.
#[derive(Default)]
struct Seen {
    decisions: usize,
    evictions: usize,
    taken: usize,
    refused: Vec<Reason>,
}

impl Observer for Seen {
    fn deciding(&mut self) {
        self.decisions += 1;
    }

    fn committed(&mut self, txn: &Transaction, commit: &Commit) {
        self.evictions += txn.evictions.len();
        let items = (0..txn.evictions.len() as u32).map(Item::Eviction);
        self.taken += items.filter(|item| commit.conflict_of(*item).is_none()).count();
        self.refused.extend(commit.conflicts.iter().map(|conflict| conflict.reason));
    }
}

fn run_seen(scheduler: &mut Scheduler, cell: &SharedCell, now: u64) -> Seen {
    let mut seen = Seen::default();
    while !scheduler.step(cell, now, &mut seen).unwrap().idle {}
    seen
}

/// Machines with one task each, of these precedences.
fn full(precedences: &[i32]) -> (SharedCell, Vec<JobId>) {
    let cell = cell(&vec![1; precedences.len()]);
    let jobs = (0..).zip(precedences);
    let jobs = jobs.map(|(i, precedence)| submit(&cell, of(*precedence, &format!("j{i}"), 1, 1)));
    let jobs = jobs.collect();
    run(&mut evicting(&cell, "first"), &cell, 0);
    (cell, jobs)
}

#[test]
fn victims_are_looked_for_outside_the_band() {
    let (cell, jobs) = full(&[100, 150, 90, 95]);
    set(&cell, &[(100, 199)], None);
    let high = submit(&cell, of(199, "high", 3, 1));
    let mut scheduler = evicting(&cell, "second");
    let seen = run_seen(&mut scheduler, &cell, LONG);
    assert_eq!((seen.evictions, placed(&cell, high)), (2, 2));
    assert!(!seen.refused.contains(&Reason::SameBand), "it knows the bands: {:?}", seen.refused);
    assert_eq!(jobs.iter().map(|id| placed(&cell, *id)).collect::<Vec<_>>(), [1, 1, 0, 0]);
    let again = run_seen(&mut scheduler, &cell, LONG + 1);
    assert_eq!((again.decisions, again.evictions), (0, 0), "it waits for something to change");
    // Without the band, the eviction of more tasks is permitted, so the scheduler is woken.
    set(&cell, &[], None);
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((placed(&cell, high), placed(&cell, jobs[0])), (3, 0));
}

#[test]
fn what_was_evicted_in_a_band_moves_nobody_else_in_it() {
    let (cell, jobs) = full(&[1, 2, 3, 4, 5]);
    set(&cell, &[(1, 5)], None);
    submit(&cell, of(9, "urgent", 1, 1));
    let mut scheduler = evicting(&cell, "second");
    let evictions: usize = (1..9).map(|i| run_seen(&mut scheduler, &cell, i * LONG).taken).sum();
    assert_eq!(evictions, 1, "one goes, and pushes nobody");
    assert_eq!(jobs.iter().map(|id| placed(&cell, *id)).sum::<usize>(), 4);
}

#[test]
fn a_job_waits_for_the_cells_time_where_evictions_are_capped() {
    let (cell, _) = full(&[0; 6]);
    set(&cell, &[], Some(EvictionCap { count: 2, per_ms: 1000 }));
    expire(&cell, 10_000);
    let high = submit(&cell, of(5, "high", 5, 1));
    let mut scheduler = evicting(&cell, "second");
    run(&mut scheduler, &cell, LONG);
    assert_eq!(placed(&cell, high), 2);
    let mut decisions = 0;
    for i in 0..100 {
        decisions += run_seen(&mut scheduler, &cell, LONG + i * 20_000_000).decisions;
    }
    assert!(decisions <= 2, "{decisions} decisions while the time stood still");
    for (round, now_ms, expected) in
        [(2, 10_999, 2), (3, 11_000, 4), (4, 11_999, 4), (5, 12_000, 5)]
    {
        expire(&cell, now_ms);
        run(&mut scheduler, &cell, round * LONG);
        assert_eq!(placed(&cell, high), expected, "at {now_ms}");
    }
}

#[test]
fn a_job_that_needs_more_evictions_than_there_are_takes_another_machine_that_needs_fewer() {
    let cell = cell(&[4, 4]);
    let [many, one] = [(4, 1), (1, 4)].map(|(tasks, cores)| {
        let id = submit(&cell, of(i32::from(cores == 4), &format!("of{cores}"), tasks, cores));
        run(&mut evicting(&cell, &format!("s{cores}")), &cell, 0);
        id
    });
    set(&cell, &[], Some(EvictionCap { count: 3, per_ms: 1000 }));
    let high = submit(&cell, of(5, "high", 1, 4));
    run(&mut evicting(&cell, "last"), &cell, LONG);
    assert_eq!([many, one, high].map(|id| placed(&cell, id)), [4, 0, 1]);
}

/// Whatever the bands, a single scheduler never requests a forbidden eviction.
#[test]
fn a_scheduler_asks_for_nothing_that_bands_or_the_cap_forbid() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let precedences: Vec<i32> = (0..12).map(|_| dice.below(10) as i32).collect();
        let (cell, _) = full(&precedences);
        let middle = dice.below(8) as i32;
        let cap = EvictionCap { count: 1 + dice.below(4) as u32, per_ms: 1000 };
        set(&cell, &[(0, middle), (middle + 1, 9)], dice.chance(50).then_some(cap));
        for i in 0..6 {
            submit(&cell, of(dice.below(12) as i32, &format!("n{i}"), 1 + dice.below(3) as u32, 1));
        }
        let mut scheduler = evicting(&cell, "second");
        for i in 1..10 {
            expire(&cell, i * 500);
            let seen = run_seen(&mut scheduler, &cell, i * LONG);
            assert_eq!(seen.refused, [], "seed {seed}");
        }
        cell.read(|cell| cell.audit().unwrap());
    }
}

#[test]
fn schedulers_that_race_for_evictions_get_no_more_than_the_cap() {
    const COUNT: u32 = 5;
    let (cell, low) = full(&[0; 60]);
    set(&cell, &[], Some(EvictionCap { count: COUNT, per_ms: 100 }));
    expire(&cell, 1);
    for i in 0..4 {
        submit(&cell, Job { scheduler: format!("s{i}").into(), ..of(5, &format!("h{i}"), 10, 1) });
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (cell, over) = (&cell, &over);
            scope.spawn(move || {
                let profile = Profile::batch().with_post_filter(DefaultPreemption::default());
                let settings = Settings::new(format!("s{i}").as_str());
                let mut scheduler = Scheduler::new(cell, profile, settings).unwrap();
                let mut now = LONG;
                while !over.load(Ordering::Relaxed) {
                    scheduler.step(cell, now, &mut Seen::default()).unwrap();
                    now += 1_000_000;
                    std::thread::yield_now();
                }
            });
        }
        let gone = || 60 - low.iter().map(|id| placed(&cell, *id)).sum::<usize>();
        for span in 0..8u32 {
            // The limit is exhausted in each time span.
            let mut rounds = 0;
            while gone() < ((span + 1) * COUNT) as usize {
                std::thread::yield_now();
                rounds += 1;
                assert!(rounds < 100_000_000, "{} evictions in span {span}", gone());
            }
            for _ in 0..100 {
                std::thread::yield_now();
                assert_eq!(gone(), ((span + 1) * COUNT) as usize, "in span {span}");
            }
            expire(&cell, 1 + u64::from(span + 1) * 100);
        }
        over.store(true, Ordering::Relaxed);
    });
}
