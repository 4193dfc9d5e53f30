//! Allocations that differ from the request. Optional resources are used if they are free, and delay no task; resizes
//! are included in the usage; and if several schedulers grow tasks, the cell accepts or rejects these resizes one by
//! one.

use crate::cell::small::{LONG, cell, job, placed, report, rows, run, scheduler, submit, task};
use omega_cellstate::{Cell, CellHandle, Delta, Interest, SharedCell, View};
use omega_core::{
    Amounts, Command, Commit, Item, Job, JobId, KindId, MachineId, OptionalResources, Reason,
    Resize, TaskId, TaskReport, Transaction, TransactionId, Version,
};
use std::sync::Barrier;

/// A job whose tasks request one core, and `more` optional cores.
fn wanting(name: &str, tasks: u32, more: u64) -> Job {
    let mut job = job(name, tasks, 1);
    let amounts = Amounts::new([more * 1000]);
    job.groups[0].optional = Some(OptionalResources { amounts, devices: None });
    job
}

/// Number of cores allocated to each task of a job.
fn cores(cell: &SharedCell, job: JobId) -> Vec<Option<u64>> {
    let held = |cell: &Cell, id| cell.task_allocation(id).map(|held| held.get(KindId::CPU) / 1000);
    cell.read(|cell| cell.tasks(job).map(|(id, _)| held(cell, id)).collect())
}

/// Resizes a task to this many cores by a transaction of the scheduler with this name. Returns the reason if the cell
/// rejects it.
fn resize(cell: &SharedCell, name: &str, task: TaskId, cores: u64) -> Option<Reason> {
    let commit = try_resize(cell, name, task, cores);
    commit.conflict_of(Item::Resize(0))
}

fn try_resize(cell: &SharedCell, name: &str, task: TaskId, cores: u64) -> Commit {
    let (scheduler, number) = cell.register(name.into()).unwrap();
    let id = TransactionId { scheduler, number };
    let mut txn = Transaction::new(id, Version(0), Vec::new());
    txn.resizes.push(Resize { task, to: Amounts::new([cores * 1000]) });
    cell.commit(&txn).unwrap()
}

#[test]
fn what_is_wanted_is_taken_as_far_as_there_is_room() {
    let cell = cell(&[4, 2]);
    let job = submit(&cell, wanting("web", 3, 2));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    assert_eq!(cores(&cell, job), [Some(3), Some(1), Some(1)]);
    let counts = cell.read(Cell::allocation_counts);
    assert_eq!((counts.optional_met, counts.optional_missed), (1, 2));
    cell.read(|cell| cell.audit()).unwrap();
}

#[test]
fn nobody_waits_because_another_one_took_more() {
    let cell = cell(&[4]);
    let job = submit(&cell, wanting("web", 4, 3));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    assert_eq!(cores(&cell, job), [Some(1); 4]);
}

#[test]
fn what_helps_nobody_is_not_given_up() {
    // The third task fits on no machine. The first task keeps its optional resources, because they are on a machine
    // that the third task cannot use.
    let cell = cell(&[1, 1]);
    let fast = omega_core::Machine::new("fast", Amounts::new([1000, 0, 0, 1000]));
    crate::cell::small::add_machine(&cell, fast);
    let mut job = wanting("web", 4, 0);
    let amounts = Amounts::zero().with(KindId::GPU, 1000);
    job.groups[0].optional = Some(OptionalResources { amounts, devices: None });
    let job = submit(&cell, job);
    run(&mut scheduler(&cell, "default"), &cell, 0);
    assert_eq!(rows(&cell, job), [Some(2), Some(0), Some(1), None]);
    let held = cell.read(|cell| cell.task_allocation_override(task(job, 0))).unwrap();
    assert_eq!(held.get(KindId::GPU), 1000);
    assert_eq!(cell.read(|cell| cell.task_allocation_override(task(job, 1))), None);
}

#[test]
fn a_task_that_comes_back_takes_what_it_wants_anew() {
    let cell = cell(&[3]);
    let job = submit(&cell, wanting("web", 1, 2));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    assert_eq!(resize(&cell, "by-hand", task(job, 0), 2), None);
    assert_eq!(cores(&cell, job), [Some(2)]);
    report(&cell, task(job, 0), TaskReport::Lost);
    run(&mut scheduler, &cell, LONG);
    assert_eq!(cores(&cell, job), [Some(3)]);
}

#[test]
fn who_waits_for_room_or_quota_has_it_when_a_task_shrinks() {
    for limit in [None, Some(Amounts::new([2000]))] {
        let cell = cell(&[if limit.is_some() { 8 } else { 2 }]);
        let tenant = "default".into();
        cell.apply(Command::SetQuota { tenant, limit: limit.clone() }).unwrap();
        let first = submit(&cell, job("first", 1, 2));
        let mut scheduler = scheduler(&cell, "default");
        run(&mut scheduler, &cell, 0);
        let second = submit(&cell, job("second", 1, 1));
        run(&mut scheduler, &cell, 1);
        assert_eq!((placed(&cell, first), placed(&cell, second)), (1, 0));
        assert_eq!(run(&mut scheduler, &cell, LONG), 0, "it waits");
        assert_eq!(resize(&cell, "by-hand", task(first, 0), 1), None);
        run(&mut scheduler, &cell, 2 * LONG);
        assert_eq!(placed(&cell, second), 1, "{limit:?}");
    }
}

#[test]
fn a_task_whose_demand_varies_holds_all_day_what_it_is_resized_to() {
    let cell = cell(&[4]);
    let varies = |name: &str, points: [u64; 2]| {
        let mut job = job(name, 1, 3);
        let points = points.map(|cores| cores * 1000).into();
        job.groups[0].demand_profiles =
            vec![omega_core::DemandProfile { kind: KindId::CPU, points }];
        submit(&cell, job)
    };
    let (day, night) = (varies("day", [3, 1]), varies("night", [1, 3]));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    assert_eq!((placed(&cell, day), placed(&cell, night)), (1, 1), "4 at each point");
    let free = || cell.read(|cell| cell.machine(MachineId::first(0)).unwrap().free[0] / 1000);
    assert_eq!(free(), 0);
    // With 2 cores all day, both tasks together would use 3 cores by day, but 5 by night, more than the machine has.
    assert_eq!(resize(&cell, "by-hand", task(day, 0), 2), Some(Reason::NoRoom(KindId::CPU)));
    assert_eq!(resize(&cell, "by-hand", task(day, 0), 1), None);
    assert_eq!(free(), 0, "3 are needed by night beside it");
    assert_eq!(resize(&cell, "by-hand", task(night, 0), 1), None);
    assert_eq!(free(), 2);
    // With the amounts of its request, the task's demand varies again, but the resize is checked as if the demand were
    // constant.
    assert_eq!(resize(&cell, "by-hand", task(day, 0), 3), None);
    assert_eq!(free(), 0);
    cell.read(|cell| cell.audit()).unwrap();
    let snapshot = cell.read(Cell::snapshot_state);
    assert_eq!(Cell::from_snapshot_state(snapshot.clone()).unwrap().snapshot_state(), snapshot);
}

/// Four schedulers on threads grow four tasks in turn; there is room for one grown task at a time.
#[test]
fn schedulers_that_race_to_grow_tasks_are_judged_one_by_one() {
    const THREADS: u32 = 4;
    const ROUNDS: usize = 200;
    let cell = cell(&[2 * u64::from(THREADS) - 1]);
    let job = submit(&cell, job("web", THREADS, 1));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    assert_eq!(placed(&cell, job), THREADS as usize);
    let start = Barrier::new(THREADS as usize);
    let race = |index: u32| {
        let (cell, name) = (cell.clone(), format!("s{index}"));
        let mut taken = 0;
        start.wait();
        for _ in 0..ROUNDS {
            match resize(&cell, &name, task(job, index), u64::from(THREADS)) {
                None => {
                    taken += 1;
                    assert_eq!(
                        resize(&cell, &name, task(job, index), 1),
                        None,
                        "less is given back"
                    );
                }
                Some(reason) => assert_eq!(reason, Reason::NoRoom(KindId::CPU)),
            }
        }
        taken
    };
    let taken: u64 = std::thread::scope(|scope| {
        let race = &race;
        let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || race(i))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(taken > 0);
    cell.read(|cell| cell.audit_no_overcommit()).unwrap();
    let counts = cell.read(Cell::allocation_counts);
    assert_eq!(counts.resized, 2 * taken);
    assert_eq!(counts.resizes_refused, u64::from(THREADS) * ROUNDS as u64 - taken);
    assert_eq!(cores(&cell, job), [Some(1); THREADS as usize]);
}

#[test]
fn views_that_join_deltas_know_what_is_held_last() {
    let cell = cell(&[8]);
    let job = submit(&cell, job("web", 2, 1));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    let (id, number) = cell.register("watcher".into()).unwrap();
    let mut view = View::new(id, number).with_placements();
    view.sync(&cell).unwrap();
    let since = |version, delta: &mut Delta| {
        cell.read(|cell| cell.delta_since(version, &Interest::AllJobs, delta));
    };
    let mut joined = Delta { lineage: view.delta().lineage, ..Delta::default() };
    resize(&cell, "by-hand", task(job, 0), 5);
    since(view.version(), &mut joined);
    assert_eq!(
        joined.tasks_with_allocations().filter(|holding| holding.allocation.is_some()).count(),
        1
    );
    resize(&cell, "by-hand", task(job, 0), 1);
    resize(&cell, "by-hand", task(job, 1), 3);
    let mut later = Delta { lineage: joined.lineage, ..Delta::default() };
    since(joined.to, &mut later);
    joined.append(later);
    view.apply(&joined);
    let stride = view.request_stride();
    let held: Vec<i64> = view.requests_on(0).chunks(stride).map(|amounts| amounts[0]).collect();
    assert_eq!(held, [1000, 3000]);
    assert_eq!(view.free(0, KindId::CPU), 4000);
    assert_eq!(
        (view.has_allocation_override(task(job, 0)), view.has_allocation_override(task(job, 1))),
        (false, true)
    );
    // If the task was removed, the room that becomes free would be its allocation.
    let second = view.tasks_on(0)[1];
    view.lift(0, second);
    assert_eq!(view.free(0, KindId::CPU), 7000);
    view.put_back(0, second);
    assert_eq!(view.machine_id(0), MachineId::first(0));
}
