//! Reservations in schedulers: the tasks that they exclude, their end, explanations, and races.

use crate::cell::small::{LONG, add_machine, amounts, cell, job, placed, rows, run, step, submit};
use omega_cellstate::{CellHandle, SharedCell};
use omega_core::{Command, Job, Labels, Machine, MachineSelector, Reservation, TenantConfig};
use omega_schedulers::explain::describe_obstacle;
use omega_schedulers::plugins::{LeastSlack, ShortestFirst};
use omega_schedulers::{Observer, Profile, Scheduler, Settings, Unobserved};
use std::sync::atomic::{AtomicBool, Ordering};

/// Machines of four cores: `m0` in rack `a`, `m1` in rack `b`, and so on in turn.
fn racks(count: usize) -> SharedCell {
    let cell = cell(&[]);
    for i in 0..count {
        let mut machine = Machine::new(format!("m{i}"), amounts(4));
        machine.labels = Labels::new([("rack", ["a", "b"][i % 2])]);
        add_machine(&cell, machine);
    }
    cell
}

fn reserve(cell: &SharedCell, name: &str, tenant: &str, (from_ms, until_ms): (u64, u64)) {
    let machines = MachineSelector::label("rack", "a");
    let tenants = vec![tenant.into()];
    let name = name.into();
    cell.apply(Command::Reserve(Reservation { name, machines, tenants, from_ms, until_ms }))
        .unwrap();
}

fn expire(cell: &SharedCell, now_ms: u64) {
    cell.apply(Command::Expire { now_ms }).unwrap();
}

fn scheduler(cell: &impl CellHandle) -> Scheduler {
    crate::cell::small::scheduler(cell, "default")
}

fn runs(job: Job, run_ms: u64) -> Job {
    Job { runtime_estimate_ms: Some(run_ms), ..job }
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
fn a_job_that_is_kept_off_sleeps_until_the_reservation_is_over() {
    let cell = racks(1);
    reserve(&cell, "demo", "show", (1000, 2000));
    let [open, short] =
        [job("open", 1, 1), runs(job("short", 1, 1), 1000)].map(|j| submit(&cell, j));
    let mut scheduler = scheduler(&cell);
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, open), placed(&cell, short)), (0, 1));
    run(&mut scheduler, &cell, 2 * LONG);
    let mut seen = Decisions::default();
    for now_ms in [500, 1000, 1999] {
        expire(&cell, now_ms);
        for _ in 0..20 {
            scheduler.step(&cell, 2 * LONG, &mut seen).unwrap();
        }
    }
    assert_eq!(seen.0, 0, "time alone brings the reservation nearer");
    expire(&cell, 2000);
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(placed(&cell, open), 1);
}

#[test]
fn what_was_remembered_of_a_machine_does_not_outlive_a_reservation() {
    let cell = racks(2);
    let mut scheduler = scheduler(&cell);
    let first = submit(&cell, job("first", 1, 1));
    run(&mut scheduler, &cell, LONG);
    assert_eq!(rows(&cell, first), [Some(0)], "a full scan takes the first of equals");
    reserve(&cell, "demo", "show", (0, 2000));
    let next = submit(&cell, job("next", 2, 1));
    let mut mine = job("mine", 1, 1);
    mine.tenant = "east".into();
    let tenant_config = TenantConfig { parent: Some("show".into()), ..TenantConfig::default() };
    cell.apply(Command::SetTenant { tenant: "east".into(), tenant_config }).unwrap();
    let mine = submit(&cell, mine);
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(rows(&cell, next), [Some(1); 2]);
    assert_eq!(placed(&cell, mine), 1, "below the tenant that it is for");
    cell.apply(Command::Unreserve { name: "demo".into() }).unwrap();
    let last = submit(&cell, job("last", 5, 1));
    run(&mut scheduler, &cell, 3 * LONG);
    let on_first = rows(&cell, last).into_iter().filter(|row| *row == Some(0)).count();
    assert!(placed(&cell, last) >= 4 && on_first >= 2, "{:?}", rows(&cell, last));
}

#[test]
fn who_waits_is_told_for_whom_the_machines_are() {
    let cell = racks(1);
    reserve(&cell, "demo", "show", (1000, 2000));
    let ids = [job("open", 1, 1), runs(job("long", 1, 1), 1001)].map(|job| submit(&cell, job));
    let mut scheduler = scheduler(&cell);
    run(&mut scheduler, &cell, LONG);
    let told = |scheduler: &mut Scheduler, id| {
        let diagnosis = scheduler.diagnose(id, 0).unwrap();
        assert!(diagnosis.removed.contains(&("reservations", 1)), "{:?}", diagnosis.removed);
        let obstacle = &diagnosis.nearest[0].obstacles[0];
        describe_obstacle(obstacle, scheduler.view().kinds())
    };
    assert_eq!(
        told(&mut scheduler, ids[0]),
        "reserved for show (demo) from a later time, and the task has no runtime estimate"
    );
    assert_eq!(
        told(&mut scheduler, ids[1]),
        "reserved for show (demo) from a time before the expected end of the task"
    );
    expire(&cell, 1000);
    scheduler.look(&cell, 2 * LONG).unwrap();
    assert_eq!(told(&mut scheduler, ids[1]), "reserved for show (demo)");
}

/// Reservations begin and end while schedulers on threads place tasks. By an independent check of the rule, no task of
/// another tenant is ever placed on a reserved machine.
#[test]
fn schedulers_on_threads_keep_out_of_what_is_reserved_meanwhile() {
    let cell = racks(8);
    for i in 0..3 {
        for k in 0..40 {
            let mut job = job(&format!("j{i}-{k}"), 1, 1);
            job.scheduler = format!("s{i}").into();
            job.tenant = ["show", "other"][k % 2].into();
            submit(&cell, job);
        }
    }
    let over = AtomicBool::new(false);
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
        for round in 0..30 {
            reserve(&cell, "demo", "show", (round * 10, round * 10 + 10));
            let strangers = |cell: &SharedCell| {
                cell.read(|cell| {
                    let reserved = cell
                        .machines()
                        .filter(|m| m.machine.labels.get("rack") == Some(&"a".into()));
                    let tasks = reserved.flat_map(|machine| machine.tasks.to_vec());
                    tasks.filter(|id| *cell.job(id.job).unwrap().tenant == *"other").count()
                })
            };
            let before = strangers(&cell);
            for _ in 0..50 {
                assert_eq!(strangers(&cell), before, "in round {round}");
                std::thread::yield_now();
            }
            expire(&cell, round * 10 + 10);
            if round % 10 == 9 {
                // Some tasks end, so that pending tasks get room.
                let ids: Vec<_> =
                    cell.read(|cell| cell.jobs().map(|(id, _)| id).take(20).collect());
                for job in ids {
                    cell.apply(Command::KillJob { job }).unwrap();
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    cell.read(|cell| cell.audit().unwrap());
}

#[test]
fn orders_of_time_decide_who_gets_the_last_machine() {
    let jobs = || {
        let (slow, quick) = (runs(job("slow", 1, 4), 600_000), runs(job("quick", 1, 4), 1000));
        let due = Job { deadline_ms: Some(700_000), ..runs(job("due", 1, 4), 650_000) };
        let soon = Job { deadline_ms: Some(60_000), ..runs(job("soon", 1, 4), 1000) };
        [slow, quick, due, soon]
    };
    let first = |profile: Profile| {
        let cell = racks(1);
        let ids = jobs().map(|job| submit(&cell, job));
        let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
        step(&mut scheduler, &cell, LONG);
        ids.iter().position(|id| placed(&cell, *id) == 1)
    };
    assert_eq!(first(Profile::batch()), Some(0), "the oldest");
    assert_eq!(first(Profile::batch().with_order(ShortestFirst::default())), Some(1));
    assert_eq!(first(Profile::batch().with_order(LeastSlack)), Some(2), "50 s are left, not 59");
}
