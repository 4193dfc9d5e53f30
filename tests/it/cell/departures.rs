//! Expected departures of views, compared with those of a new view.
//!
//! `OMEGA_SEED=7 cargo test -p omega-tests departures` runs a single history.

use crate::cell::claims::Scheduler;
use crate::cell::histories::seeds;
use crate::cell::views::{PROBE, World};
use omega_cellstate::{Cell, CellHandle, Departure, SharedCell, View};
use omega_core::{
    Amounts, Command, DeviceRequest, DeviceSet, Job, JobId, JobKind, KindId, Kinds, Machine,
    MachineId, OptionalResources, Resize, TaskGroup, TaskId, Transaction, TransactionId,
};

/// The departures from a row, ascending by task and time.
fn sorted(view: &View, row: usize) -> Vec<Essence> {
    let mut all: Vec<Essence> = view.departures_from(row).map(essence).collect();
    all.sort_by_key(|(task, at_ms, ..)| (*task, *at_ms));
    all
}

/// Task, time, amounts without zeros at the end, and devices.
type Essence = (TaskId, Option<u64>, Vec<i64>, Option<(DeviceRequest, DeviceSet)>);

fn essence(one: &Departure) -> Essence {
    let mut amounts = one.amounts.to_vec();
    while amounts.last() == Some(&0) {
        amounts.pop();
    }
    (one.task, one.at_ms(), amounts, one.devices)
}

/// Compares a view with a new one. The view may also have departures of this number of own claims.
fn assert_departures(cell: &SharedCell, seed: u64, view: &View, own: usize) {
    let mut fresh = View::new(PROBE, 0).with_departures();
    fresh.sync(cell).unwrap();
    let mut more = 0;
    for row in 0..view.rows() {
        let context = format!("seed {seed} row {row} at {}", view.version());
        let mut ours = sorted(view, row);
        for expected in sorted(&fresh, row) {
            let at = ours.iter().position(|one| *one == expected);
            ours.remove(at.unwrap_or_else(|| panic!("{context}: no {expected:?} in {ours:?}")));
        }
        more += ours.len();
        if view.demand_profiles_on(row).is_some() {
            // Tasks with demand profiles take less than the sum of their requests.
            continue;
        }
        for kind in (0..view.kinds().count() as u8).map(KindId) {
            let amount = |one: &Departure| one.amounts.get(kind.index()).copied().unwrap_or(0);
            let full = |view: &View| {
                let leaving: i64 = view.departures_from(row).map(amount).sum();
                view.free(row, kind) + leaving
            };
            assert_eq!(full(view), full(&fresh), "{context} {kind:?}");
        }
    }
    assert_eq!(more, own, "seed {seed} at {}", view.version());
}

#[test]
fn departures_are_those_of_a_new_view() {
    for seed in seeds(300) {
        let mut world = World::new(seed);
        let mut views: Vec<View> = (0..2).map(|_| View::new(PROBE, 0).with_departures()).collect();
        for _ in 0..80 {
            world.step();
            for (view, percent) in views.iter_mut().zip([60, 10]) {
                if world.dice.chance(percent) {
                    view.sync(&world.cell).unwrap();
                    assert_departures(&world.cell, seed, view, 0);
                }
            }
        }
    }
}

#[test]
fn own_claims_are_departures_exactly_once() {
    for seed in seeds(300) {
        let mut world = World::new(seed);
        // Jobs must not be removed while their claims are in flight.
        world.keep_jobs();
        let (id, number) = world.register("claims");
        let mut me = Scheduler::new(View::new(id, number).with_departures());
        me.sync(&world);
        for _ in 0..80 {
            world.step();
            if me.step(&mut world) {
                let view = &me.view;
                let is_there =
                    |row| me.kept.iter().filter(move |k| k.machine == view.machine_id(row));
                let own = (0..view.rows()).map(|row| is_there(row).count()).sum();
                assert_departures(&world.cell, seed, view, own);
            }
        }
        me.finish(&mut world);
        me.sync(&world);
        assert_departures(&world.cell, seed, &me.view, 0);
    }
}

/// A cell with a machine and a job of one task, and a view with a claim for the task that the cell has accepted.
fn accepted(job: Job, with_optional: bool) -> (SharedCell, View) {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([4])))).unwrap();
    cell.apply(Command::SubmitJob(job)).unwrap();
    let (me, number) = cell.register("me".into()).unwrap();
    let mut view = View::new(me, number).with_departures();
    view.sync(&cell).unwrap();
    let job = cell.read(|cell| cell.job(TASK.job).unwrap().clone());
    let group = if with_optional {
        view.compile_with_optional(TASK.job, &job, 0).unwrap()
    } else {
        view.compile(TASK.job, &job, 0)
    };
    view.claim(TASK, MachineId::first(0), group).unwrap();
    let txn = view.take_transaction();
    let commit = cell.commit(&txn).unwrap();
    assert!(commit.is_complete());
    view.settle(&txn, &commit);
    (cell, view)
}

const TASK: TaskId = TaskId { job: JobId(0), index: 0 };

#[test]
fn an_accepted_claim_departs_by_the_newest_estimate() {
    let job = Job {
        kind: JobKind::Service,
        runtime_estimate_ms: Some(1000),
        ..Job::batch("j", TaskGroup::new(1, Amounts::new([1])))
    };
    let (cell, mut view) = accepted(job.clone(), false);
    let spec = Job { runtime_estimate_ms: Some(9000), ..job };
    cell.apply(Command::UpdateJob { job: TASK.job, version: None, spec }).unwrap();
    view.sync(&cell).unwrap();
    assert_departures(&cell, 0, &view, 0);
    assert_eq!(sorted(&view, 0)[0].1, Some(9000));
}

#[test]
fn an_accepted_claim_that_was_shrunk_frees_its_request() {
    let amounts = Amounts::new([2]);
    let optional = Some(OptionalResources { amounts, devices: None });
    let group = TaskGroup { optional, ..TaskGroup::new(1, Amounts::new([1])) };
    let (cell, mut view) = accepted(Job::batch("j", group), true);
    let (me, number) = cell.register("other".into()).unwrap();
    let id = TransactionId { scheduler: me, number };
    let mut txn = Transaction::new(id, cell.read(Cell::version), Vec::new());
    txn.resizes = vec![Resize { task: TASK, to: Amounts::new([1]) }];
    assert!(cell.commit(&txn).unwrap().is_complete());
    view.sync(&cell).unwrap();
    assert_departures(&cell, 0, &view, 0);
}
