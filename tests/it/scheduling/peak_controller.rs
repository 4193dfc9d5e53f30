//! The peak controller: the order of throttling and restoring, compared with a naive reference model, and concurrently
//! with schedulers.

use crate::cell::small::{LONG, cell, job, placed, run, scheduler, submit, task};
use crate::scheduling::peaks::{batch, busy_by_day, cores, hour, service, wanting};
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, SharedCell, TaskSet};
use omega_core::{
    Amounts, Command, Commit, DAY_MS, Job, JobKind, KindId, KindShare, LabelSelector,
    MachineSelector, Operator, OptionalResources, Peak, PeakCalendar, Precedence, Requirement,
    SchedulerId, TaskId, Text, Transaction, Version,
};
use omega_schedulers::disruption::{DisruptionBudget, Keep, Share};
use omega_schedulers::peaks::{PeakController, Settings as KeeperSettings, StepCounts};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
use omega_tests::random::Dice;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn keeper(cell: &SharedCell) -> PeakController {
    PeakController::new(cell, KeeperSettings::new()).unwrap()
}

fn counts(throttled: u64, released: u64, restored: u64) -> StepCounts {
    StepCounts { throttled, released, restored, ..StepCounts::default() }
}

#[test]
fn tasks_give_up_what_they_took_then_the_youngest_of_the_least_important_go() {
    let cell = cell(&[12]);
    busy_by_day(&cell, 25);
    let mut scheduler = scheduler(&cell, "default");
    let at = |cell: &SharedCell, job: Job, now_ms| {
        cell.apply(Command::Expire { now_ms }).unwrap();
        submit(cell, job)
    };
    let old = at(&cell, wanting("old", 2, 1, 2), 10);
    run(&mut scheduler, &cell, LONG);
    let young = at(&cell, job("young", 2, 1), 20);
    run(&mut scheduler, &cell, 2 * LONG);
    let dear = Job { precedence: Precedence(5), ..job("dear", 1, 1) };
    let dear = at(&cell, dear, 30);
    let web = submit(&cell, service("web", 1, 2));
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!((cores(&cell, old), batch(&cell, 0)), (vec![Some(3), Some(3)], 9));
    let mut keeper = keeper(&cell);
    assert_eq!(keeper.step(&cell).unwrap(), StepCounts::default(), "it is night");
    hour(&cell, 8);
    // Six cores must become free. Four of them are optional resources of two tasks; for the rest, the newest tasks are
    // evicted, except the important one.
    assert_eq!(keeper.step(&cell).unwrap(), counts(2, 2, 0));
    assert_eq!(cores(&cell, old), [Some(1), Some(1)]);
    assert_eq!([old, young, dear, web].map(|job| placed(&cell, job)), [2, 0, 1, 1]);
    assert_eq!((batch(&cell, 0), cell.read(Cell::machines_over_peak)), (3, 0));
    assert_eq!(keeper.step(&cell).unwrap(), StepCounts::default(), "there is nothing left to do");
    hour(&cell, 20);
    run(&mut scheduler, &cell, 4 * LONG);
    assert_eq!(placed(&cell, young), 2);
    // Five cores are free, which is enough for the optional resources of both tasks.
    assert_eq!(keeper.step(&cell).unwrap(), counts(0, 0, 2));
    assert_eq!(cores(&cell, old), [Some(3), Some(3)]);
    assert_eq!(keeper.step(&cell).unwrap(), StepCounts::default());
    cell.read(|cell| cell.audit()).unwrap();
}

#[test]
fn budgets_are_kept_and_changes_come_by_and_by() {
    let cell = cell(&[8, 8]);
    busy_by_day(&cell, 0);
    let mut job = job("night", 16, 1);
    job.groups[0].labels = omega_core::Labels::new([("app", "night")]);
    let id = submit(&cell, job);
    run(&mut scheduler(&cell, "default"), &cell, LONG);
    assert_eq!(placed(&cell, id), 16);
    let tasks = LabelSelector { requirements: vec![Requirement::equals("app", "night")] };
    let set = TaskSet { tenant: "default".into(), tasks };
    let budget = DisruptionBudget { set, keep: Keep::MinAvailable(Share::Tasks(5)) };
    let settings =
        KeeperSettings { changes_max: 4, disruptions: vec![budget], ..KeeperSettings::new() };
    let mut keeper = PeakController::new(&cell, settings).unwrap();
    hour(&cell, 8);
    let mut steps = Vec::new();
    loop {
        let counts = keeper.step(&cell).unwrap();
        if counts.released == 0 {
            assert_eq!(counts.machines_over_share, 1, "the budget keeps five");
            break;
        }
        steps.push(counts.released);
    }
    assert_eq!((steps.iter().sum::<u64>(), placed(&cell, id)), (11, 5));
    assert!(steps.iter().all(|released| *released <= 4), "{steps:?}");
}

/// A batch task on a machine, for the reference model.
#[derive(Clone, Debug)]
struct Reference {
    id: TaskId,
    precedence: i32,
    placed_ms: u64,
    holds: [i64; 2],
    request: [i64; 2],
    /// Expected amounts: the allocation, the request, or zero.
    now: [i64; 2],
}

/// Tasks to throttle on a machine with this batch share. It follows the documented plan, and sums up the usage again
/// for each step.
fn reference_steps_back(
    mut tasks: Vec<Reference>,
    most: [Option<i64>; 2],
) -> (Vec<TaskId>, Vec<TaskId>) {
    tasks.sort_by_key(|t| (t.precedence, std::cmp::Reverse(t.placed_ms), std::cmp::Reverse(t.id)));
    let over = |tasks: &[Reference], kind: usize| {
        let sum: i64 = tasks.iter().map(|task| task.now[kind]).sum();
        most[kind].is_some_and(|most| sum > most)
    };
    let helps = |tasks: &[Reference], less: [i64; 2]| (0..2).any(|k| less[k] > 0 && over(tasks, k));
    let minus = |a: [i64; 2], b: [i64; 2]| [a[0] - b[0], a[1] - b[1]];
    for i in 0..tasks.len() {
        if helps(&tasks, minus(tasks[i].holds, tasks[i].request)) {
            tasks[i].now = tasks[i].request;
        }
    }
    for i in 0..tasks.len() {
        if helps(&tasks, tasks[i].now) {
            tasks[i].now = [0; 2];
        }
    }
    let may_have = |tasks: &[Reference], i: usize, amounts: [i64; 2]| {
        let mut after = tasks.to_vec();
        let more = minus(amounts, tasks[i].now);
        after[i].now = amounts;
        (0..2).all(|k| more[k] <= 0 || !over(&after, k))
    };
    let released = |task: &Reference| task.now == [0; 2] && task.holds != [0; 2];
    for i in (0..tasks.len()).rev() {
        if released(&tasks[i]) && may_have(&tasks, i, tasks[i].request) {
            tasks[i].now = tasks[i].request;
        }
    }
    for i in (0..tasks.len()).rev() {
        if !released(&tasks[i]) && may_have(&tasks, i, tasks[i].holds) {
            tasks[i].now = tasks[i].holds;
        }
    }
    let throttled = |task: &&Reference| !released(task) && task.now != task.holds;
    let mut lists = (
        tasks.iter().filter(throttled).map(|task| task.id).collect::<Vec<_>>(),
        tasks.iter().filter(|task| released(task)).map(|task| task.id).collect::<Vec<_>>(),
    );
    lists.0.sort();
    lists.1.sort();
    lists
}

const KINDS: [KindId; 2] = [KindId::CPU, KindId::MEMORY];

fn pair(amounts: &Amounts) -> [i64; 2] {
    KINDS.map(|kind| amounts.get(kind) as i64)
}

/// A cell that is full with batch tasks of random sizes, and a peak with random shares that begins at 8 h.
fn random_cell(dice: &mut Dice) -> (SharedCell, [Option<i64>; 2]) {
    let cell = cell(&[]);
    for row in 0..3 {
        let machine = omega_core::Machine::new(format!("m{row}"), Amounts::new([20, 20]));
        crate::cell::small::add_machine(&cell, machine);
    }
    let mut scheduler = scheduler(&cell, "default");
    for number in 0..8 {
        cell.apply(Command::Expire { now_ms: number * 10 }).unwrap();
        let request = Amounts::new([1 + dice.below(3) as u64, 1 + dice.below(3) as u64]);
        let mut one = Job::batch(
            format!("j{number}"),
            omega_core::TaskGroup::new(1 + dice.below(4) as u32, request),
        );
        one.precedence = Precedence(dice.below(3) as i32);
        if dice.chance(20) {
            one.kind = JobKind::Service;
        }
        if dice.chance(50) {
            let amounts = Amounts::new([dice.below(3) as u64, 1 + dice.below(3) as u64]);
            one.groups[0].optional = Some(OptionalResources { amounts, devices: None });
        }
        submit(&cell, one);
        run(&mut scheduler, &cell, (1 + number) * LONG);
    }
    let mut shares: Vec<KindShare> = Vec::new();
    for kind in KINDS {
        if dice.chance(70) {
            shares.push(KindShare { kind, percent: dice.below(101) as u8 });
        }
    }
    if shares.is_empty() {
        shares.push(KindShare { kind: KindId::CPU, percent: 40 });
    }
    let most = KINDS.map(|kind| {
        let share = shares.iter().find(|share| share.kind == kind)?;
        Some(20 * i64::from(share.percent) / 100)
    });
    let peak = Peak { from_ms: DAY_MS / 3, until_ms: DAY_MS / 2, batch_max: shares };
    let names = Requirement { key: "".into(), operator: Operator::NotIn, values: Vec::new() };
    let machines = MachineSelector { labels: Vec::new(), names: vec![names] };
    let calendar = PeakCalendar { name: "peak".into(), machines, peaks: vec![peak] };
    cell.apply(Command::SetPeaks(calendar)).unwrap();
    (cell, most)
}

/// The batch tasks of a machine, for the reference model.
fn references(cell: &Cell, machine: omega_cellstate::MachineState<'_>) -> Vec<Reference> {
    let of = |id: &TaskId| {
        let job = cell.job(id.job).unwrap();
        let holds = pair(&cell.task_allocation(*id).unwrap());
        (job.kind == JobKind::Batch).then(|| Reference {
            id: *id,
            precedence: job.precedence.0,
            placed_ms: cell.task_placed_ms(*id).unwrap(),
            holds,
            request: pair(&job.groups[0].request),
            now: holds,
        })
    };
    machine.tasks.iter().filter_map(of).collect()
}

#[test]
fn plans_are_those_of_the_naive_reference() {
    let (mut throttles, mut releases) = (0, 0);
    for seed in crate::cell::histories::seeds(300) {
        let mut dice = Dice::new(seed ^ 0x9EA);
        let (cell, most) = random_cell(&mut dice);
        hour(&cell, 8);
        let expected = cell.read(|cell| {
            let each = cell
                .machines()
                .map(|machine| reference_steps_back(references(cell, machine), most));
            each.fold((BTreeSet::new(), BTreeSet::new()), |mut all, (throttled, released)| {
                all.0.extend(throttled);
                all.1.extend(released);
                all
            })
        });
        let mut keeper = keeper(&cell);
        let before: Vec<(TaskId, Option<Amounts>)> = cell.read(|cell| {
            let jobs: Vec<_> = cell.jobs().map(|(id, _)| id).collect();
            let tasks = jobs.into_iter().flat_map(|id| cell.tasks(id).map(|t| t.0));
            tasks.map(|id| (id, cell.task_allocation(id))).collect()
        });
        let counts = keeper.step(&cell).unwrap();
        assert_eq!((counts.rejected, counts.machines_over_share), (0, 0), "seed {seed}");
        let (mut throttled, mut released) = (BTreeSet::new(), BTreeSet::new());
        cell.read(|cell| {
            for (id, held) in &before {
                match (held, cell.task_allocation(*id)) {
                    (Some(_), None) => _ = released.insert(*id),
                    (Some(held), Some(now)) if *held != now => _ = throttled.insert(*id),
                    _ => {}
                }
            }
        });
        assert_eq!((&throttled, &released), (&expected.0, &expected.1), "seed {seed}");
        assert_eq!(cell.read(Cell::machines_over_peak), 0, "seed {seed}");
        throttles += throttled.len();
        releases += released.len();
        assert_eq!(keeper.step(&cell).unwrap(), StepCounts::default(), "seed {seed}");
        cell.read(|cell| cell.audit()).unwrap();
    }
    assert!(throttles > 100 && releases > 100, "{throttles} {releases}");
}

/// Peaks begin and end while two controllers and schedulers run on threads. No task is lost, and after the beginning of
/// each peak, batch tasks are within their share.
#[test]
fn keepers_and_schedulers_on_threads_come_to_the_share() {
    let cell = cell(&[8; 4]);
    busy_by_day(&cell, 25);
    for i in 0..2 {
        for k in 0..20 {
            let job = wanting(&format!("j{i}-{k}"), 1, 1, 1);
            submit(&cell, Job { scheduler: format!("s{i}").into(), ..job });
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for i in 0..2 {
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
            scope.spawn(move || {
                let name = format!("keeper-{i}").into();
                let settings = KeeperSettings { name, changes_max: 3, ..KeeperSettings::new() };
                let mut keeper = PeakController::new(cell, settings).unwrap();
                while !over.load(Ordering::Relaxed) {
                    keeper.step(cell).unwrap();
                    std::thread::yield_now();
                }
            });
        }
        for day in 0..10 {
            hour(&cell, day * 24 + 2);
            while cell.read(|cell| (0..4).map(|row| on(cell, row)).sum::<i64>()) < 28 {
                std::thread::yield_now();
            }
            hour(&cell, day * 24 + 9);
            while cell.read(Cell::machines_over_peak) > 0 {
                std::thread::yield_now();
            }
            for _ in 0..50 {
                assert_eq!(cell.read(Cell::machines_over_peak), 0, "on day {day}");
                std::thread::yield_now();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    cell.read(|cell| cell.audit_no_overcommit().unwrap());
}

/// Number of cores allocated to batch tasks on a machine.
fn on(cell: &Cell, row: u32) -> i64 {
    cell.batch_allocated(omega_core::MachineId::first(row), KindId::CPU) / 1000
}

#[test]
fn a_task_whose_change_is_refused_is_left_alone_for_a_while() {
    let cell = cell(&[8]);
    busy_by_day(&cell, 50);
    let tenant = "default".into();
    let night = submit(&cell, wanting("night", 1, 1, 2));
    run(&mut scheduler(&cell, "default"), &cell, LONG);
    hour(&cell, 9);
    let mut keeper = keeper(&cell);
    assert_eq!(keeper.step(&cell).unwrap(), StepCounts::default(), "3 of 4");
    busy_by_day(&cell, 20);
    assert_eq!(keeper.step(&cell).unwrap(), counts(1, 0, 0));
    cell.apply(Command::SetQuota { tenant, limit: Some(Amounts::new([2000])) }).unwrap();
    hour(&cell, 20);
    assert_eq!(keeper.step(&cell).unwrap(), StepCounts { rejected: 1, ..StepCounts::default() });
    assert_eq!(keeper.step(&cell).unwrap(), StepCounts::default());
    cell.apply(Command::SetQuota { tenant: "default".into(), limit: None }).unwrap();
    cell.apply(Command::Expire { now_ms: 20 * crate::scheduling::peaks::HOUR + 60_000 }).unwrap();
    assert_eq!(keeper.step(&cell).unwrap(), counts(0, 0, 1));
    let id = task(night, 0);
    assert_eq!(cell.read(|cell| cell.task_allocation(id)).unwrap().get(KindId::CPU), 3000);
}

/// A remote cell that answers commits, but sends no deltas while it is disconnected.
struct Far<'a> {
    cell: &'a SharedCell,
    is_silent: AtomicBool,
}

impl CellHandle for Far<'_> {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        if !self.is_silent.load(Ordering::Relaxed) {
            return self.cell.sync(since, interest, delta);
        }
        let (lineage, now_ms, rows) = (delta.lineage, delta.now_ms, delta.rows);
        *delta = Delta { from: since, to: since, lineage, now_ms, rows, ..Delta::default() };
        Ok(())
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.cell.commit(txn)
    }
}

#[test]
fn nothing_is_done_twice_while_the_view_is_behind() {
    let cell = cell(&[8]);
    busy_by_day(&cell, 50);
    let night = submit(&cell, wanting("night", 2, 1, 2));
    run(&mut scheduler(&cell, "default"), &cell, LONG);
    hour(&cell, 9);
    let far = Far { cell: &cell, is_silent: AtomicBool::new(false) };
    let mut keeper = PeakController::new(&far, KeeperSettings::new()).unwrap();
    assert_eq!(keeper.step(&far).unwrap(), counts(1, 0, 0), "4 of 8 are allowed, not 6");
    far.is_silent.store(true, Ordering::Relaxed);
    assert!(keeper.is_behind());
    for _ in 0..3 {
        assert_eq!(keeper.step(&far).unwrap(), StepCounts::default());
    }
    far.is_silent.store(false, Ordering::Relaxed);
    assert_eq!(keeper.step(&far).unwrap(), StepCounts::default());
    assert!(!keeper.is_behind());
    assert_eq!(cores(&cell, night).iter().flatten().sum::<u64>(), 4);
}
