//! Backfill plans: pending jobs, explanations, a comparison with a reference model, races.

use crate::cell::small::{
    LONG, add_machine, amounts, cell, job, placed, report, rows, run, submit,
};
use omega_cellstate::{Cell, Departure, SharedCell, View};
use omega_core::{
    Amounts, Command, Job, JobId, JobKind, KindId, Machine, Precedence, RollStep, TaskGroup,
    TaskId, TaskReport, TaskState,
};
use omega_schedulers::explain::describe_obstacle;
use omega_schedulers::{
    Backfill, BackfillFigures, Nanos, Observer, Profile, Scheduler, Settings, Unobserved,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

fn scheduler(cell: &SharedCell, depth: usize) -> Scheduler {
    with(cell, Backfill::new(depth))
}

fn with(cell: &SharedCell, backfill: Backfill) -> Scheduler {
    let profile = Profile::batch().with_backfill(backfill.with_interval_ms(0));
    Scheduler::new(cell, profile, Settings::new("default")).unwrap()
}

fn tell_time(cell: &SharedCell, now_ms: u64) {
    cell.apply(Command::Expire { now_ms }).unwrap();
}

fn runs(job: Job, run_ms: u64) -> Job {
    Job { runtime_estimate_ms: Some(run_ms), ..job }
}

/// A gang of this many tasks of four cores.
fn gang(name: &str, tasks: u32, run_ms: u64) -> Job {
    Job { gang_min: Some(tasks), ..runs(job(name, tasks, 4), run_ms) }
}

fn finish(cell: &SharedCell, id: JobId) {
    let tasks: Vec<_> = cell.read(|cell| cell.tasks(id).collect());
    for (task, state) in tasks {
        if state.machine().is_some() {
            report(cell, task, TaskReport::Finished);
        }
    }
}

/// Two machines of four cores, one of them in use until `1000`, and a gang that needs both.
fn one_is_taken(depth: usize) -> (SharedCell, Scheduler, [JobId; 2]) {
    let cell = cell(&[4, 4]);
    let mut scheduler = scheduler(&cell, depth);
    let first = submit(&cell, runs(job("first", 1, 4), 1000));
    run(&mut scheduler, &cell, 0);
    let wide = submit(&cell, gang("wide", 2, 500));
    run(&mut scheduler, &cell, LONG);
    (cell, scheduler, [first, wide])
}

#[test]
fn what_would_begin_beyond_the_window_has_no_plan_yet() {
    let cell = cell(&[4, 4]);
    let mut scheduler = with(&cell, Backfill::new(1).with_window_ms(600));
    submit(&cell, runs(job("first", 1, 4), 1000));
    run(&mut scheduler, &cell, 0);
    let wide = submit(&cell, gang("wide", 2, 500));
    run(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.planned(), []);
    tell_time(&cell, 400);
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(scheduler.planned(), [], "the window ends before what is 600 away");
    tell_time(&cell, 401);
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(scheduler.planned(), [(wide, 1000)]);
    // The other machine must stay free of tasks that run past the planned start of the gang.
    let long = submit(&cell, runs(job("long", 1, 4), 1000));
    run(&mut scheduler, &cell, 4 * LONG);
    assert_eq!(placed(&cell, long), 0);
}

/// A job that is blocked by its tenant's quota delays no other job: the plan is for the first job that lacks only
/// machines.
#[test]
fn a_job_over_its_quota_has_no_plan() {
    let cell = cell(&[4, 4]);
    let limit = |cores: u64| {
        let limit = Some(Amounts::new([cores * 1000, 1 << 40]));
        cell.apply(Command::SetQuota { tenant: "red".into(), limit }).unwrap();
    };
    limit(4);
    let red = |job| Job { tenant: "red".into(), ..job };
    let mut scheduler = scheduler(&cell, 1);
    submit(&cell, red(runs(job("first", 1, 4), 1000)));
    run(&mut scheduler, &cell, 0);
    let over = submit(&cell, red(gang("over", 2, 500)));
    let wide = submit(&cell, gang("wide", 2, 500));
    run(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.planned(), [(wide, 1000)]);
    // Quota for one of the job's two tasks makes no difference.
    limit(8);
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(scheduler.planned(), [(wide, 1000)]);
    // With quota for both tasks, the job is the first one that lacks only machines.
    limit(12);
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(scheduler.planned(), [(over, 1000)]);
    limit(4);
    run(&mut scheduler, &cell, 4 * LONG);
    tell_time(&cell, 1);
    run(&mut scheduler, &cell, 5 * LONG);
    assert_eq!(placed(&cell, over), 0);
}

#[test]
fn who_ends_in_time_may_pass_and_who_does_not_may_not() {
    let (cell, mut scheduler, [first, wide]) = one_is_taken(1);
    assert_eq!(scheduler.planned(), [(wide, 1000)]);
    let long = submit(&cell, runs(job("long", 1, 4), 1001));
    let unknown = submit(&cell, job("unknown", 1, 1));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!([long, unknown, wide].map(|id| placed(&cell, id)), [0, 0, 0]);
    let diagnosis = scheduler.diagnose(long, 0).unwrap();
    let text = diagnosis.nearest.iter().flat_map(|machine| &machine.obstacles);
    let text: Vec<_> = text.map(|one| describe_obstacle(one, scheduler.view().kinds())).collect();
    let expected = "kept free for wide, which is planned to start in 1 s";
    assert!(text.iter().any(|text| text == expected), "{text:?}");
    let short = submit(&cell, runs(job("short", 1, 4), 1000));
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!([long, unknown, short, wide].map(|id| placed(&cell, id)), [0, 0, 1, 0]);
    tell_time(&cell, 1000);
    [first, short].iter().for_each(|id| finish(&cell, *id));
    run(&mut scheduler, &cell, 4 * LONG);
    assert_eq!([long, unknown, wide].map(|id| placed(&cell, id)), [0, 0, 2]);
    tell_time(&cell, 1500);
    finish(&cell, wide);
    run(&mut scheduler, &cell, 5 * LONG);
    assert_eq!([long, unknown].map(|id| placed(&cell, id)), [1, 1]);
    assert_eq!(scheduler.planned(), []);
}

/// The second plan is on other machines than the first. Both are checked after each change of their own machines only.
#[test]
fn a_claim_of_another_scheduler_on_a_planned_machine_changes_its_plan_at_once() {
    let cell = cell(&[4, 4, 4, 4]);
    let mut scheduler = scheduler(&cell, 2);
    for (name, run_ms) in [("a", 1000), ("b", 1000), ("c", 2000), ("d", 2000)] {
        submit(&cell, runs(job(name, 1, 4), run_ms));
    }
    run(&mut scheduler, &cell, 0);
    let [first, second] = ["first", "second"].map(|name| submit(&cell, gang(name, 2, 5000)));
    run(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.planned(), [(first, 1000), (second, 2000)]);
    let taken = |name: &str, of: JobId, run_ms| {
        let machine = cell.read(|cell| {
            let task = TaskId { job: of, index: 0 };
            cell.task(task).and_then(|state| state.machine()).unwrap()
        });
        finish(&cell, of);
        let job = Job { scheduler: "other".into(), ..runs(job(name, 1, 4), run_ms) };
        let task = TaskId { job: submit(&cell, job), index: 0 };
        cell.apply(Command::AdoptTask { task, machine }).unwrap();
    };
    // `d` ends, and another scheduler places a longer task on its machine. No time passes.
    taken("longer", JobId(3), 3000);
    run(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.planned(), [(first, 1000), (second, 3000)]);
    // The machine of `a` is taken too, so the first gang gets that of `c`.
    taken("longest", JobId(0), 4000);
    run(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.planned(), [(first, 2000), (second, 4000)]);
}

#[test]
fn who_goes_before_a_planned_job_is_not_bound_by_its_plan() {
    let (cell, mut scheduler, [_, wide]) = one_is_taken(1);
    let urgent = runs(job("urgent", 1, 4), 5000);
    let urgent = submit(&cell, Job { precedence: Precedence(1), ..urgent });
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, urgent), 1);
    assert_eq!(scheduler.planned(), [(wide, 5000)], "later, as the queue has it");
}

#[test]
fn a_plan_ends_with_its_job_and_what_it_kept_is_free() {
    let (cell, mut scheduler, [_, wide]) = one_is_taken(1);
    let long = submit(&cell, runs(job("long", 1, 4), 9000));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, long), 0);
    cell.apply(Command::KillJob { job: wide }).unwrap();
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(placed(&cell, long), 1);
    assert_eq!(scheduler.planned(), []);
}

/// An update adds a group at a position that the job did not have when it got its plan.
#[test]
fn a_planned_job_that_is_updated_gets_a_plan_for_its_new_group() {
    let cell = cell(&[4]);
    let mut scheduler = scheduler(&cell, 1);
    let web = runs(Job { kind: JobKind::Service, ..job("web", 3, 2) }, 1000);
    let id = submit(&cell, web.clone());
    run(&mut scheduler, &cell, 0);
    tell_time(&cell, 1);
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, id), scheduler.planned()), (2, vec![(id, 1000)]));

    let more = TaskGroup::new(1, Amounts::new([4000])).named("more");
    let spec = web.with_group(more);
    cell.apply(Command::UpdateJob { job: id, version: None, spec }).unwrap();
    let step = RollStep::of(1).with_tasks("more", 1);
    cell.apply(Command::RollJob { job: id, step }).unwrap();
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(scheduler.planned(), [], "the pending tasks of both groups need six cores");

    let tasks: Vec<_> = cell.read(|cell| cell.tasks(id).collect());
    let waits = |(_, state): &&(TaskId, TaskState)| *state == TaskState::Pending;
    let old = tasks.iter().find(waits).expect("a task of the first group is pending").0;
    let step = RollStep::of(1).with_stop(old);
    cell.apply(Command::RollJob { job: id, step }).unwrap();
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(scheduler.planned(), [(id, 1000)]);
    // Two cores become free, but the new group's task needs all four of them from its planned start on.
    let running = tasks.iter().find(|(_, state)| state.machine().is_some()).expect("it runs").0;
    report(&cell, running, TaskReport::Finished);
    let long = submit(&cell, runs(job("long", 1, 1), 5000));
    run(&mut scheduler, &cell, 4 * LONG);
    assert_eq!((placed(&cell, long), scheduler.planned()), (0, vec![(id, 1000)]));
    tell_time(&cell, 1000);
    finish(&cell, id);
    run(&mut scheduler, &cell, 5 * LONG);
    assert_eq!([id, long].map(|id| placed(&cell, id)), [1, 0]);
    assert_eq!(scheduler.planned(), [(long, 2000)]);
}

#[test]
fn a_second_plan_needs_depth_and_keeps_clear_of_the_first() {
    for (depth, starts) in [(1, &[1000][..]), (2, &[1000, 1500])] {
        let (cell, mut scheduler, _) = one_is_taken(depth);
        submit(&cell, gang("next", 2, 100));
        run(&mut scheduler, &cell, 2 * LONG);
        let planned: Vec<u64> = scheduler.planned().into_iter().map(|(_, start)| start).collect();
        assert_eq!(planned, starts);
    }
}

#[test]
fn who_runs_over_its_time_is_given_more_and_the_plan_follows() {
    let (cell, mut scheduler, [_, wide]) = one_is_taken(1);
    for (now_ms, start_ms) in [(1000, 11_000), (10_999, 11_000), (11_000, 21_000)] {
        tell_time(&cell, now_ms);
        run(&mut scheduler, &cell, LONG + now_ms * 1_000_000);
        assert_eq!(scheduler.planned(), [(wide, start_ms)], "at {now_ms}");
    }
}

#[test]
fn devices_come_back_with_the_tasks_that_have_them() {
    let cell = cell(&[]);
    let machine = Machine { devices: 4, ..Machine::new("m", amounts(64)) };
    add_machine(&cell, machine);
    let with_devices = |name: &str, count: u8, run_ms| {
        let mut job = runs(job(name, 1, 1), run_ms);
        job.groups[0].devices = Some(omega_core::DeviceRequest { count, milli_each: 1000 });
        job
    };
    let mut scheduler = scheduler(&cell, 1);
    submit(&cell, with_devices("three", 3, 700));
    run(&mut scheduler, &cell, 0);
    let four = submit(&cell, with_devices("four", 4, 100));
    let [long, short] =
        [800, 700].map(|run_ms| submit(&cell, with_devices(&format!("one-{run_ms}"), 1, run_ms)));
    let none = submit(&cell, runs(job("none", 1, 1), 800));
    run(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.planned(), [(four, 700)]);
    assert_eq!([long, short, none].map(|id| placed(&cell, id)), [0, 1, 1]);
}

/// The last figures of a scheduler.
#[derive(Default)]
struct Figures(BackfillFigures);

impl Observer for Figures {
    fn backfill(&mut self, figures: BackfillFigures) {
        self.0 = figures;
    }
}

#[test]
fn what_became_of_plans_is_counted() {
    let (cell, mut scheduler, [first, wide]) = one_is_taken(1);
    submit(&cell, runs(job("short", 1, 4), 100));
    run(&mut scheduler, &cell, 2 * LONG);
    let mut seen = Figures::default();
    let mut look = |scheduler: &mut Scheduler, now: Nanos| {
        for _ in 0..10 {
            scheduler.step(&cell, now, &mut seen).unwrap();
        }
        seen.0
    };
    let expected =
        BackfillFigures { held: 1, made: 1, backfilled: 1, ..BackfillFigures::default() };
    assert_eq!(look(&mut scheduler, 2 * LONG), expected);
    // The first job ends five seconds late, so the wide job also starts late.
    tell_time(&cell, 6000);
    finish(&cell, JobId(2));
    finish(&cell, first);
    let figures = look(&mut scheduler, 3 * LONG);
    assert_eq!(placed(&cell, wide), 2);
    assert_eq!((figures.held, figures.started, figures.late, figures.late_ms), (0, 1, 1, 5000));
}

// --- The reference model ------------------------------------------------------------------------

/// A gang: number of tasks, cores and memory of each, estimated run time, how much earlier than estimated the gang
/// ends, whether it has priority, and the delay after the previous gang's arrival.
type Gang = (u32, u64, u64, Option<u64>, u64, bool, u64);

fn gangs() -> impl Strategy<Value = Vec<Gang>> {
    let run = prop_oneof![8 => (1u64..40).prop_map(Some), 1 => Just(None)];
    let one = (1u32..6, 1u64..5, 0u64..5, run, 0u64..10, any::<bool>(), 0u64..12);
    prop::collection::vec(one, 1..20)
}

/// Earliest time at which enough tasks of a job fit next to the running ones, computed by trying each time and machine.
fn naive_start(cell: &Cell, id: JobId) -> Option<u64> {
    let job = cell.job(id).unwrap();
    let request = &job.groups[0].request;
    let fits = |at_ms: u64| {
        let room = cell.machines().map(|machine| {
            let mut free = machine.machine.capacity.as_slice().to_vec();
            free.resize(4, 0);
            for task in machine.tasks.iter().copied() {
                let of = cell.job(task.job).unwrap();
                let placed_ms = cell.task_placed_ms(task).unwrap();
                let leaves = of.runtime_estimate_ms.is_some_and(|run| placed_ms + run <= at_ms);
                if !leaves {
                    let amounts = of.groups[0].request.as_slice();
                    free.iter_mut().zip(amounts).for_each(|(free, amount)| *free -= amount);
                }
            }
            let wanted = request.as_slice().iter().zip(&free).filter(|(amount, _)| **amount > 0);
            wanted.map(|(amount, free)| free / amount).min().unwrap_or(u64::MAX)
        });
        room.fold(0, u64::saturating_add) >= u64::from(job.gang_min.unwrap())
    };
    (cell.now_ms()..cell.now_ms() + 200).find(|at_ms| fits(*at_ms))
}

/// Checks that the amounts claimed on each machine equal the sum of the amounts that expected ends of tasks will free.
fn assert_all_leave(view: &View) {
    for row in 0..view.rows() {
        let capacity = &view.machine(row).unwrap().capacity;
        for kind in (0..view.kinds().count() as u8).map(KindId) {
            let leaves = |one: &Departure| one.amounts.get(kind.index()).copied().unwrap_or(0);
            let leaving: i64 = view.departures_from(row).map(leaves).sum();
            assert_eq!(capacity.get(kind) as i64 - view.free(row, kind), leaving, "{row} {kind:?}");
        }
    }
}

/// The first job of the queue with pending tasks.
fn first_waiting(cell: &Cell) -> Option<JobId> {
    let waits = |id: &JobId| cell.tasks(*id).any(|(_, state)| state == TaskState::Pending);
    let mut waiting: Vec<(JobId, Precedence)> =
        cell.jobs().filter(|(id, _)| waits(id)).map(|(id, job)| (id, job.precedence)).collect();
    waiting.sort_by_key(|(id, precedence)| (std::cmp::Reverse(*precedence), *id));
    waiting.first().map(|(id, _)| *id)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The first job of the queue gets the earliest start that an exhaustive search finds; no placement delays that
    /// start, and the job starts by then.
    #[test]
    fn the_first_is_promised_the_earliest_moment(gangs in gangs(), exact in any::<bool>()) {
        let cell = cell(&[]);
        for (index, (cores, memory)) in [(4, 4), (4, 8), (8, 6), (2, 8)].into_iter().enumerate() {
            add_machine(&cell, Machine::new(format!("m{index}"), Amounts::new([cores * 1000, memory])));
        }
        let mut scheduler = scheduler(&cell, 1);
        let mut coming: Vec<(u64, Gang)> = Vec::new();
        let mut at_ms = 1;
        for gang in gangs {
            at_ms += gang.6;
            coming.push((at_ms, gang));
        }
        let mut ends: Vec<(u64, JobId)> = Vec::new();
        let mut ended_in: Vec<Option<u64>> = Vec::new();
        let mut promised: Option<(JobId, u64)> = None;
        for now_ms in 1..400 {
            tell_time(&cell, now_ms);
            let mut happened = false;
            for (_, id) in ends.extract_if(.., |(end, _)| *end == now_ms) {
                finish(&cell, id);
                happened = true;
            }
            let mut newer_first = false;
            for (_, (tasks, cores, memory, run_ms, sooner, first, _)) in
                coming.extract_if(.., |(at, _)| *at == now_ms)
            {
                let group = TaskGroup::new(tasks, Amounts::new([cores * 1000, memory]));
                let precedence = Precedence(i32::from(first));
                let job = Job { runtime_estimate_ms: run_ms, precedence, ..Job::batch(format!("gang-{}", ended_in.len()), group) };
                submit(&cell, Job { gang_min: Some(tasks), ..job });
                let sooner = if exact { 0 } else { sooner };
                ended_in.push(run_ms.map(|run| run.saturating_sub(sooner).max(1)));
                newer_first |= first;
                happened = true;
            }
            let before = cell.read(|cell| cell.jobs().map(|(id, _)| (id, ())).collect::<Vec<_>>());
            let had: Vec<bool> = before.iter().map(|(id, ())| placed(&cell, *id) > 0).collect();
            run(&mut scheduler, &cell, now_ms * LONG);
            for ((id, ()), had) in before.into_iter().zip(had) {
                if !had && placed(&cell, id) > 0 {
                    let run = ended_in[id.0 as usize];
                    ends.extend(run.map(|run| (now_ms + run, id)));
                }
            }
            assert_all_leave(scheduler.view());
            let first = cell.read(first_waiting);
            let naive = first.and_then(|id| Some((id, cell.read(|cell| naive_start(cell, id))?)));
            let planned = scheduler.planned().first().copied();
            if happened || planned.is_some() {
                prop_assert_eq!(planned, naive, "at {}", now_ms);
            }
            if let (Some((id, before)), Some((same, now))) = (promised, planned)
                && id == same && !newer_first
            {
                prop_assert!(now <= before, "{}: {} was moved from {} to {}", now_ms, id, before, now);
            }
            promised = planned;
        }
        cell.read(|cell| cell.audit().unwrap());
    }
}

// --- Races -------------------------------------------------------------------------------------

/// Two schedulers with backfill plans race: the cell's invariants hold, and every job is placed in the end.
#[test]
fn schedulers_with_plans_race_and_all_jobs_are_placed() {
    let cell = cell(&[4; 6]);
    let names = ["s0", "s1"];
    for k in 0..60u64 {
        let wide = k % 5 == 0;
        let job = if wide {
            gang(&format!("wide-{k}"), 4, 50)
        } else {
            runs(job(&format!("small-{k}"), 1, 1 + k % 4), 10 + k % 30)
        };
        submit(&cell, Job { scheduler: names[(k % 2) as usize].into(), ..job });
    }
    let over = AtomicBool::new(false);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        for name in names {
            let (cell, over) = (&cell, &over);
            scope.spawn(move || {
                let profile = Profile::batch().with_backfill(Backfill::new(3).with_interval_ms(0));
                let mut scheduler = Scheduler::new(cell, profile, Settings::new(name)).unwrap();
                let mut now = LONG;
                while !over.load(Ordering::Relaxed) {
                    scheduler.step(cell, now, &mut Unobserved).unwrap();
                    now += LONG;
                    std::thread::yield_now();
                }
            });
        }
        let pending = |cell: &Cell| {
            cell.jobs().any(|(id, _)| cell.tasks(id).any(|task| task.1 == TaskState::Pending))
        };
        let mut now_ms = 1;
        while cell.read(pending) && rounds < 1_000_000 {
            rounds += 1;
            now_ms += 1;
            tell_time(&cell, now_ms);
            let running: Vec<_> = cell.read(|cell| {
                let tasks = cell.jobs().flat_map(|(id, _)| cell.tasks(id));
                let placed = tasks.filter_map(|(task, state)| Some((task, state.machine()?)));
                let is_over = |task: &(omega_core::TaskId, _)| {
                    let run = cell.job(task.0.job).unwrap().runtime_estimate_ms.unwrap();
                    cell.task_placed_ms(task.0).unwrap() + run <= now_ms
                };
                placed.filter(is_over).collect()
            });
            for (task, machine) in running {
                let report = TaskReport::Finished;
                cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report }).unwrap();
            }
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(rounds < 1_000_000, "there is no end to it");
    cell.read(|cell| cell.audit().unwrap());
    assert!(rows(&cell, JobId(0)).len() <= 4);
}
