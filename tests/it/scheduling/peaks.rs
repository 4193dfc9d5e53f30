//! Peak hours and schedulers: limits, the end of limits, explanations, preemption, and races.

use crate::cell::small::{
    LONG, add_machine, cell, job, placed, run, scheduler, step, submit, task,
};
use omega_cellstate::{Cell, CellHandle, SharedCell};
use omega_core::{
    Amounts, Command, DAY_MS, Item, Job, JobId, JobKind, KindId, KindShare, Machine, MachineId,
    MachineSelector, OptionalResources, Peak, PeakCalendar, Precedence, Preemption, Reason, Resize,
    TaskState, Transaction, TransactionId, Version,
};
use omega_schedulers::explain::describe_obstacle;
use omega_schedulers::plugins::{DefaultPreemption, Throttle};
use omega_schedulers::{Observer, Profile, Scheduler, Settings, Unobserved};
use std::sync::atomic::{AtomicBool, Ordering};

/// An hour, in milliseconds.
pub(crate) const HOUR: u64 = DAY_MS as u64 / 24;

/// Sets a calendar that limits batch tasks to this percentage of the CPU of the machines `m0`, `m1`, ..., from 8 to 20
/// h.
pub(crate) fn busy_by_day(cell: &SharedCell, percent: u8) {
    let share = KindShare { kind: KindId::CPU, percent };
    let hour = HOUR as u32;
    let peak = Peak { from_ms: 8 * hour, until_ms: 20 * hour, batch_max: vec![share] };
    let names = (0..8).map(|row| format!("m{row}").as_str().into()).collect();
    let names = omega_core::Requirement {
        key: "".into(),
        operator: omega_core::Operator::In,
        values: names,
    };
    let machines = MachineSelector { labels: Vec::new(), names: vec![names] };
    let calendar = PeakCalendar { name: "web".into(), machines, peaks: vec![peak] };
    cell.apply(Command::SetPeaks(calendar)).unwrap();
}

pub(crate) fn hour(cell: &SharedCell, hour: u64) {
    cell.apply(Command::Expire { now_ms: hour * HOUR }).unwrap();
}

pub(crate) fn service(name: &str, tasks: u32, cores: u64) -> Job {
    Job { kind: JobKind::Service, precedence: Precedence(100), ..job(name, tasks, cores) }
}

/// A batch job whose tasks have optional cores.
pub(crate) fn wanting(name: &str, tasks: u32, cores: u64, more: u64) -> Job {
    let mut job = job(name, tasks, cores);
    let amounts = Amounts::new([more * 1000]);
    job.groups[0].optional = Some(OptionalResources { amounts, devices: None });
    job
}

/// Number of cores allocated to batch tasks on a machine.
pub(crate) fn batch(cell: &SharedCell, row: u32) -> i64 {
    cell.read(|cell| cell.batch_allocated(MachineId::first(row), KindId::CPU)) / 1000
}

/// Number of cores allocated to each task of a job.
pub(crate) fn cores(cell: &SharedCell, job: JobId) -> Vec<Option<u64>> {
    let held = |cell: &Cell, id| cell.task_allocation(id).map(|held| held.get(KindId::CPU) / 1000);
    cell.read(|cell| cell.tasks(job).map(|(id, _)| held(cell, id)).collect())
}

/// Resizes a task to this many cores. Returns the reason if the cell rejects it.
fn resize(cell: &SharedCell, job: JobId, cores: u64) -> Option<Reason> {
    let (scheduler, number) = cell.register("by-hand".into()).unwrap();
    let id = TransactionId { scheduler, number };
    let mut txn = Transaction::new(id, Version(0), Vec::new());
    txn.resizes.push(Resize { task: task(job, 0), to: Amounts::new([cores * 1000]) });
    cell.commit(&txn).unwrap().conflict_of(Item::Resize(0))
}

/// Number of decisions so far.
#[derive(Default)]
struct Decisions(usize);

impl Observer for Decisions {
    fn deciding(&mut self) {
        self.0 += 1;
    }
}

#[test]
fn batch_that_is_held_back_sleeps_until_the_peak_is_over() {
    let cell = cell(&[10]);
    busy_by_day(&cell, 30);
    hour(&cell, 9);
    let (night, web) = (submit(&cell, job("night", 5, 1)), submit(&cell, service("web", 5, 1)));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, night), placed(&cell, web)), (3, 5), "30 percent of 10 cores");
    run(&mut scheduler, &cell, 2 * LONG);
    let mut seen = Decisions::default();
    for at in [10, 15, 19] {
        hour(&cell, at);
        for _ in 0..20 {
            scheduler.step(&cell, 2 * LONG, &mut seen).unwrap();
        }
    }
    assert_eq!(seen.0, 0, "nothing changes before the peak is over");
    hour(&cell, 20);
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(placed(&cell, night), 5);
    hour(&cell, 24 + 9);
    let late = submit(&cell, job("late", 1, 1));
    run(&mut scheduler, &cell, 4 * LONG);
    assert_eq!((placed(&cell, night), placed(&cell, late)), (5, 0), "what runs stays");
    assert_eq!(cell.read(Cell::machines_over_peak), 1);
    cell.apply(Command::RemovePeaks { name: "web".into() }).unwrap();
    run(&mut scheduler, &cell, 5 * LONG);
    assert_eq!(placed(&cell, late), 0, "10 of 10 cores are taken");
    cell.apply(Command::KillJob { job: web }).unwrap();
    run(&mut scheduler, &cell, 6 * LONG);
    assert_eq!(placed(&cell, late), 1);
    cell.read(|cell| cell.audit()).unwrap();
}

#[test]
fn what_leaves_lets_batch_in_during_a_peak() {
    let cell = cell(&[10]);
    busy_by_day(&cell, 30);
    hour(&cell, 9);
    let (first, next) = (submit(&cell, job("first", 3, 1)), submit(&cell, job("next", 1, 1)));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, first), placed(&cell, next)), (3, 0));
    crate::cell::small::report(&cell, task(first, 1), omega_core::TaskReport::Finished);
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, next), 1);
}

#[test]
fn batch_takes_no_wants_and_grows_no_more_in_a_peak() {
    let cell = cell(&[10]);
    busy_by_day(&cell, 30);
    let web = submit(&cell, service("web", 1, 1));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    hour(&cell, 9);
    let night = submit(&cell, wanting("night", 2, 1, 2));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(cores(&cell, night), [Some(1), Some(1)], "one with 3 would keep the other off");
    assert_eq!(resize(&cell, night, 2), None, "to 3 of 3");
    assert_eq!(resize(&cell, night, 3), Some(Reason::PeakHours(KindId::CPU)));
    assert_eq!(resize(&cell, web, 6), None, "services grow");
    assert_eq!(resize(&cell, night, 1), None);
    hour(&cell, 20);
    assert_eq!(resize(&cell, night, 3), None);
    assert_eq!(batch(&cell, 0), 4);
    cell.read(|cell| cell.audit()).unwrap();
}

#[test]
fn who_waits_is_told_until_when() {
    let cell = cell(&[10]);
    busy_by_day(&cell, 0);
    hour(&cell, 9);
    let night = submit(&cell, job("night", 1, 1));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    let diagnosis = scheduler.diagnose(night, 0).unwrap();
    assert!(diagnosis.removed.contains(&("peak_hours", 1)), "{:?}", diagnosis.removed);
    let told = describe_obstacle(&diagnosis.nearest[0].obstacles[0], scheduler.view().kinds());
    assert_eq!(told, "in peak hours until 20:00 (web), with no cpu left for batch tasks");
}

/// A scheduler that throttles other tasks, and evicts if that is not enough.
fn pushy(cell: &SharedCell) -> Scheduler {
    pushy_as(cell, "default")
}

fn pushy_as(cell: &SharedCell, name: &str) -> Scheduler {
    let profile = Profile::first_fit()
        .with_post_filter(Throttle::default())
        .with_post_filter(DefaultPreemption::default());
    Scheduler::new(cell, profile, Settings::new(name)).unwrap()
}

#[test]
fn who_took_more_gives_it_up_before_anybody_is_evicted() {
    let cell = cell(&[10]);
    let night = submit(&cell, wanting("night", 2, 1, 4));
    let mut scheduler = pushy(&cell);
    run(&mut scheduler, &cell, LONG);
    assert_eq!(cores(&cell, night), [Some(5), Some(5)]);
    let meek = Job { preemption: Preemption::Never, ..service("meek", 1, 4) };
    let meek = submit(&cell, meek);
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, meek), 0, "it takes nothing from anybody");
    let web = submit(&cell, service("web", 1, 4));
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!((placed(&cell, web), cores(&cell, night)), (1, vec![Some(5), Some(1)]));
    let more = submit(&cell, service("more", 1, 5));
    run(&mut scheduler, &cell, 4 * LONG);
    // Throttling frees four cores of the other task; to free more, the scheduler must evict the task.
    assert_eq!(placed(&cell, more), 1);
    let left = cores(&cell, night).into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(left, [1], "one was evicted: it held five");
    cell.read(|cell| cell.audit()).unwrap();
    crate::cell::small::assert_settled(&mut scheduler, &cell, 5 * LONG);
}

/// Schedulers on several threads throttle the same batch tasks for their services, and each task is throttled once.
#[test]
fn who_gives_way_to_several_at_once_gives_once() {
    let cell = cell(&[8; 4]);
    let night = submit(&cell, wanting("night", 8, 1, 3));
    run(&mut scheduler(&cell, "default"), &cell, LONG);
    assert_eq!(cores(&cell, night), [Some(4); 8]);
    let webs: Vec<JobId> = (0..4)
        .map(|i| {
            let web = service(&format!("web{i}"), 6, 1);
            submit(&cell, Job { scheduler: format!("s{i}").into(), ..web })
        })
        .collect();
    let mut schedulers: Vec<Scheduler> =
        (0..4).map(|i| pushy_as(&cell, &format!("s{i}"))).collect();
    std::thread::scope(|scope| {
        for scheduler in &mut schedulers {
            let cell = &cell;
            scope.spawn(move || {
                for round in 1..200 {
                    step(scheduler, cell, round * LONG);
                }
            });
        }
    });
    for web in webs {
        assert_eq!(placed(&cell, web), 6, "24 cores of 32: the others keep one each");
    }
    assert_eq!(placed(&cell, night), 8, "nobody had to go");
    schedulers.iter_mut().for_each(|s| crate::cell::small::assert_settled(s, &cell, 300 * LONG));
}

/// Schedulers on threads place batch tasks and services while peaks begin and end. Placements during a peak never raise
/// batch tasks above their share.
#[test]
fn schedulers_on_threads_keep_to_the_share_meanwhile() {
    let cell = cell(&[8; 6]);
    busy_by_day(&cell, 50);
    for i in 0..3 {
        for k in 0..30 {
            let name = format!("j{i}-{k}");
            let kind = if k % 3 == 0 { service(&name, 1, 1) } else { wanting(&name, 1, 1, 1) };
            submit(&cell, Job { scheduler: format!("s{i}").into(), ..kind });
        }
    }
    let over = AtomicBool::new(false);
    hour(&cell, 9);
    let running = |cell: &Cell| {
        let jobs = cell.jobs().map(|(id, _)| id);
        jobs.flat_map(|id| cell.tasks(id)).filter(|(_, s)| *s != TaskState::Pending).count()
    };
    // On a busy computer, the threads of the schedulers may start late, or stand still meanwhile.
    let until_tasks_run = || {
        while cell.read(running) == 0 {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for i in 0..3 {
            let (cell, over) = (&cell, &over);
            scope.spawn(move || {
                let settings = Settings::new(format!("s{i}").as_str());
                let mut scheduler = Scheduler::new(cell, Profile::batch(), settings).unwrap();
                let mut now = LONG;
                while !over.load(Ordering::Relaxed) {
                    scheduler.step(cell, now, &mut Unobserved).unwrap();
                    now += 1_000_000;
                    std::thread::yield_now();
                }
            });
        }
        until_tasks_run();
        for day in 0..20 {
            hour(&cell, day * 24 + 9);
            let before: Vec<i64> = (0..6).map(|row| batch(&cell, row)).collect();
            for _ in 0..50 {
                for (row, before) in (0..6).zip(&before) {
                    let now = batch(&cell, row);
                    assert!(now <= 4.max(*before), "on day {day}: {before} before, {now} now");
                }
                std::thread::yield_now();
            }
            hour(&cell, day * 24 + 20);
            let ids: Vec<_> = cell.read(|cell| cell.jobs().map(|(id, _)| id).take(3).collect());
            for job in ids {
                cell.apply(Command::KillJob { job }).unwrap();
            }
        }
        until_tasks_run();
        over.store(true, Ordering::Relaxed);
    });
    cell.read(|cell| cell.audit_no_overcommit().unwrap());
}

#[test]
fn a_machine_that_comes_to_match_is_held_back_too() {
    let cell = cell(&[]);
    busy_by_day(&cell, 0);
    hour(&cell, 9);
    let night = submit(&cell, job("night", 2, 1));
    let mut scheduler = scheduler(&cell, "default");
    add_machine(&cell, Machine::new("m0", Amounts::new([4000])));
    run(&mut scheduler, &cell, LONG);
    assert_eq!(placed(&cell, night), 0);
    add_machine(&cell, Machine::new("other", Amounts::new([4000])));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, night), 2);
}
