//! Expected departures of views, compared with those of a new view.
//!
//! `OMEGA_SEED=7 cargo test -p omega-tests departures` runs a single history.

use crate::cell::claims::Scheduler;
use crate::cell::histories::seeds;
use crate::cell::views::{PROBE, World};
use omega_cellstate::{Departure, View};
use omega_core::{DeviceRequest, DeviceSet, KindId, TaskId};

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
fn assert_departures(world: &World, view: &View, own: usize) {
    let mut fresh = View::new(PROBE, 0).with_departures();
    fresh.sync(&world.cell).unwrap();
    let mut more = 0;
    for row in 0..view.rows() {
        let context = format!("seed {} row {row} at {}", world.seed, view.version());
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
    assert_eq!(more, own, "seed {} at {}", world.seed, view.version());
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
                    assert_departures(&world, view, 0);
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
                assert_departures(&world, view, own);
            }
        }
        me.finish(&mut world);
        me.sync(&world);
        assert_departures(&world, &me.view, 0);
    }
}
