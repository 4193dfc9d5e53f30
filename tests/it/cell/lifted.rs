//! Views that contain the placed tasks: such a view minus some tasks equals a view of the cell after their release.

use crate::cell::histories::seeds;
use crate::cell::soft_spreads::draw;
use crate::cell::views::{World, assert_equal_views};
use omega_cellstate::{PlacedTask, TaskCounts, TaskSet, View};
use omega_core::{KindId, LabelSelector, Operator, Requirement, SchedulerId, TaskId};

fn rows(view: &View) -> Vec<Vec<TaskId>> {
    let ids = |row| {
        let mut ids: Vec<TaskId> = view.tasks_on(row).iter().map(|task| task.id).collect();
        ids.sort();
        ids
    };
    (0..view.rows()).map(ids).collect()
}

/// Sets of tasks that overlap, and an empty set.
fn sets() -> Vec<TaskSet> {
    let set = |tenant: &str, requirements: Vec<Requirement>| TaskSet {
        tenant: tenant.into(),
        tasks: LabelSelector { requirements },
    };
    let any = Requirement { operator: Operator::Exists, ..Requirement::equals("app", "") };
    vec![
        set("red", vec![Requirement::equals("app", "web")]),
        set("red", vec![any.clone()]),
        set("blue", vec![any]),
        set("blue", Vec::new()),
    ]
}

fn count(world: &World, set: &TaskSet) -> TaskCounts {
    let tasks =
        world.reference.tasks().filter(|(_, job, task)| set.includes(&job.spec, task.group));
    let alive: Vec<_> = tasks.filter(|(.., task)| !task.state.ended()).collect();
    let placed = alive.iter().filter(|(.., task)| task.state.machine().is_some()).count();
    TaskCounts { placed, alive: alive.len() }
}

#[test]
fn a_view_knows_what_runs_where() {
    for seed in seeds(300) {
        let mut world = World::new(seed);
        let mut view = View::new(SchedulerId(0), 0).with_placements();
        let sets = sets();
        sets.iter().for_each(|set| view.count_tasks(set));
        for _ in 0..80 {
            world.step();
            if !world.dice.chance(30) {
                continue;
            }
            view.sync(&world.cell).unwrap();
            let mut expected = vec![Vec::new(); view.rows()];
            for (id, job, task, row) in world.reference.placed() {
                expected[row].push(id);
                let known = view.tasks_on(row).iter().find(|placed| placed.id == id);
                let group = task.group as u16;
                let precedence = job.spec.precedence;
                let (devices, placed_ms) = (task.devices, task.placed_ms);
                let placed = PlacedTask { id, group, precedence, devices, placed_ms };
                assert_eq!(known, Some(&placed), "seed {seed}");
                assert_eq!(view.job_of(id), Some(&job.spec), "seed {seed}");
            }
            assert_eq!(rows(&view), expected, "seed {seed}");
            let lowest = world.reference.placed().map(|(_, job, ..)| job.spec.precedence).min();
            assert_eq!(view.lowest_precedence(), lowest, "seed {seed}");
            for set in &sets {
                assert_eq!(view.task_counts(set), Some(count(&world, set)), "seed {seed} {set:?}");
            }
            for row in 0..view.rows() {
                let tasks = view.tasks_on(row);
                assert!(tasks.is_sorted_by(|a, b| a.is_before(b)), "seed {seed}");
                let kinds = view.kinds().count();
                for (task, request) in
                    tasks.iter().zip(view.requests_on(row).chunks(view.request_stride()))
                {
                    let (job, known) = world.reference.task(task.id).unwrap();
                    let held = job.allocation(known);
                    let expected = (0..kinds as u8).map(|k| held.get(KindId(k)) as i64);
                    assert!(expected.eq(request[..kinds].iter().copied()), "seed {seed}");
                }
            }
        }
    }
}

/// Removes random tasks from a view, and compares free amounts and checks of machines with those of a cell without
/// these tasks.
#[test]
fn a_view_without_a_task_is_a_view_of_a_cell_without_it() {
    for seed in seeds(300) {
        let mut world = World::new(seed);
        (0..60).for_each(|_| world.step());
        let mut view = View::new(SchedulerId(0), 0).with_placements();
        view.sync(&world.cell).unwrap();
        let placed: Vec<(usize, PlacedTask)> = (0..view.rows())
            .flat_map(|row| view.tasks_on(row).iter().map(move |task| (row, *task)))
            .collect();
        let gone: Vec<_> = placed.into_iter().filter(|_| world.dice.chance(40)).collect();
        for (row, task) in &gone {
            view.lift(*row, *task);
        }
        assert_eq!(view.lifted(), gone.len());
        let mut without = world.without(gone.iter().map(|(_, task)| task.id));
        for row in 0..view.rows() {
            for kind in (0..view.kinds().count() as u8).map(KindId) {
                assert_eq!(view.free(row, kind), without.free(row, kind), "seed {seed} row {row}");
            }
            assert_eq!(view.devices(row), without.devices(row), "seed {seed} row {row}");
            assert_eq!(view.cores(row), without.cores(row), "seed {seed} row {row}");
        }
        for id in world.groups() {
            let (group, other) = (world.compile(&mut view, id), world.compile(&mut without, id));
            let room = [view.quota_room(group, 9), without.quota_room(other, 9)];
            assert_eq!(room[0], room[1], "seed {seed} {id:?}");
            for row in 0..view.rows() {
                let context = format!("seed {seed} group {id:?} row {row}");
                assert_eq!(view.check_fit(row, group), without.check_fit(row, other), "{context}");
                let need = (view.need(group), without.need(other));
                assert_eq!(draw(&view, need.0, row), draw(&without, need.1, row), "{context}");
            }
        }
        for (row, task) in &gone {
            view.put_back(*row, *task);
        }
        assert_eq!(view.lifted(), 0);
        assert_equal_views(&world, &mut view);
        world.step();
        view.sync(&world.cell).unwrap();
        assert_equal_views(&world, &mut view);
    }
}
