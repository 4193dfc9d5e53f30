//! Updates of a cell whose tasks start, fail and are placed at random: the bounds hold at each step, and each update
//! ends.

use super::LeaderState;
use super::plan::Next;
use super::testing::{MACHINES, World, group, machine, restored};
use omega_cellstate::Cell;
use omega_core::limits::{TRANSACTION_ITEMS_MAX, VERSIONS_PER_JOB};
use omega_core::{
    Command, Job, Machine, OnFailure, Outcome, Run, Taint, TaintEffect, TaskGroup, TaskId,
    TaskReport, TaskRule, TaskSelector, TaskState, TopologyLevel, UpdateResult, UpdateRules,
};
use omega_store::log::Term;
use proptest::prelude::*;
use std::sync::Arc;

#[test]
fn the_last_task_is_replaced_without_ending_the_job() {
    let rules = UpdateRules { max_unavailable: 1, max_surge: 0, ..UpdateRules::default() };
    let mut world = World::new(Job { update: Some(rules), ..Job::service("web", group(1, "one")) });
    world.settle();
    world.update(|job| job.groups[0] = group(1, "two").into());
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["two"]);
}

#[test]
fn a_group_that_is_gone_ends_and_a_new_one_begins() {
    let job = Job::service("web", group(2, "one")).with_group(group(2, "old").named("old"));
    let mut world = World::new(job);
    world.settle();
    world.update(|job| job.groups[1] = group(1, "new").named("new").into());
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["one", "one", "new"]);
}

#[test]
fn a_failure_stops_the_update_or_takes_it_back() {
    for on_failure in [OnFailure::Stop, OnFailure::Rollback] {
        let rules = UpdateRules { on_failure, ..UpdateRules::default() };
        let job = Job { update: Some(rules), ..Job::service("web", group(3, "one")) };
        let mut world = World { bad: "two", ..World::new(job) };
        world.settle();
        world.update(|job| job.groups[0] = group(3, "two").into());
        let next = world.settle();
        assert_eq!(world.programs(), ["one"; 3], "what ran before runs on");
        let version = world.cell.job_version(world.id);
        match on_failure {
            OnFailure::Stop => {
                assert_eq!((next, version), (Next::Stopped, Some(1)));
                assert_eq!(world.result(), Some(UpdateResult::Failed));
            }
            OnFailure::Rollback => {
                assert_eq!((next, version), (Next::Settled, Some(2)));
                assert_eq!(world.result(), Some(UpdateResult::Complete));
                assert_eq!(world.living(), 3);
            }
        }
    }
}

#[test]
fn a_failure_after_the_update_restores_nothing() {
    for changes_leader in [false, true] {
        let mut world = World::new(restored(2, "one"));
        world.settle();
        world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
        assert_eq!(world.settle(), Next::Settled);
        assert_eq!(world.result(), Some(UpdateResult::Complete));
        if changes_leader {
            world.change_leader();
        }
        world.fail();
        assert_eq!(world.settle(), Next::Settled);
        assert_eq!(world.programs(), ["two"; 2]);
        assert_eq!(world.cell.job_version(world.id), Some(1));
    }
}

#[test]
fn a_new_leader_restores_a_version_after_a_failure_of_the_update() {
    let mut world = World::new(restored(3, "one"));
    world.settle();
    world.bad = "two";
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    assert!(matches!(world.control(), Next::Roll(_)));
    world.place(0);
    world.start();
    world.change_leader();
    let result = UpdateResult::Failed;
    assert_eq!(world.control(), Next::Ended { version: 1, result });
    world.change_leader();
    assert!(matches!(world.control(), Next::Rollback { version: 1, .. }));
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["one"; 3]);
}

#[test]
fn earlier_content_that_fails_now_is_not_rolled_out_again() {
    for changes_leader in [false, true] {
        let mut world = World::new(restored(3, "one"));
        world.settle();
        world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
        world.settle();
        world.bad = "one";
        world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("one"))));
        if changes_leader {
            world.change_leader();
        }
        assert_eq!(world.settle(), Next::Settled);
        assert_eq!(world.programs(), ["two"; 3]);
        assert_eq!(world.cell.job_version(world.id), Some(3));
    }
}

/// Restarts the tasks of a job.
fn restart(world: &mut World) {
    let now_ms = world.now_ms;
    world.update(|job| *job = omega_client::restart::restarted(job, now_ms));
}

#[test]
fn a_restart_replaces_all_tasks_within_the_bounds() {
    let mut world = World::new(restored(3, "one"));
    world.settle();
    let before = world.tasks(|state| matches!(state, TaskState::Running(_)));
    restart(&mut world);
    for round in 0..100 {
        world.now_ms += 1000;
        world.control();
        assert!(world.running() >= 3 && world.living() <= 4, "no task is missing");
        world.place(round);
        world.start();
    }
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.result(), Some(UpdateResult::Complete));
    let after = world.tasks(|state| matches!(state, TaskState::Running(_)));
    assert!(after.len() == 3 && before.iter().all(|task| !after.contains(task)), "{after:?}");
}

#[test]
fn a_restart_that_fails_does_not_return_to_other_content() {
    let mut world = World::new(restored(3, "one"));
    world.settle();
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    world.settle();
    world.bad = "two";
    restart(&mut world);
    assert_eq!(world.settle(), Next::Stopped);
    assert_eq!(
        (world.programs(), world.cell.job_version(world.id)),
        (vec!["two".into(); 3], Some(2))
    );
    // A version that never worked goes back, also if it was restarted meanwhile.
    let mut world = World { bad: "two", ..World::new(restored(3, "one")) };
    world.settle();
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    restart(&mut world);
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(
        (world.programs(), world.cell.job_version(world.id)),
        (vec!["one".into(); 3], Some(3))
    );
}

/// The restart fails for a reason outside of the programs, which worked before and are the best that is known.
#[test]
fn a_failed_restart_does_not_count_against_its_programs() {
    let mut world = World::new(restored(3, "one"));
    world.settle();
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    world.settle();
    world.bad = "two";
    restart(&mut world);
    let name = world.cell.job(world.id).unwrap().groups[0].name.clone();
    world.apply(Command::ResizeGroup { job: world.id, group: name, count: 4 });
    assert_eq!(world.settle(), Next::Stopped, "it does not go back, although it was resized");
    world.bad = "three";
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("three"))));
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), vec!["two"; 4], "the latest programs that worked");
}

#[test]
fn an_update_that_moves_tasks_to_a_new_group_is_watched() {
    let mut world = World::new(restored(5, "one"));
    world.settle();
    world.bad = "two";
    world.update(|job| {
        job.groups[0].count = 3;
        job.groups.push(group(2, "two").named("canary").into());
    });
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!((world.programs(), world.living()), (vec!["one".to_owned(); 5], 5));
    assert_eq!(world.cell.job_version(world.id), Some(2), "it was rolled back");
}

#[test]
fn failures_before_an_update_do_not_concern_it() {
    let mut world = World::new(restored(2, "p0"));
    world.settle();
    world.fail();
    world.settle();
    // The last of these versions gets the position of the first, which is forgotten.
    for version in 1..=VERSIONS_PER_JOB + 1 {
        world.update(|job| {
            job.groups[0].run = Some(Arc::new(Run::new(format!("p{version}").as_str())))
        });
        assert_eq!(world.settle(), Next::Settled);
        assert_eq!(world.programs(), vec![format!("p{version}"); 2]);
    }
}

#[test]
fn a_version_that_was_replaced_before_its_end_can_be_restored() {
    let mut world = World::new(restored(2, "one"));
    world.settle();
    world.update(|job| job.groups[0].count = 3);
    world.control();
    world.bad = "two";
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["one"; 3]);
}

#[test]
fn a_version_that_failed_is_not_restored() {
    for changes_leader in [false, true] {
        let mut world = World::new(restored(3, "one"));
        world.settle();
        world.bad = "two";
        world.update(|job| {
            job.update = Some(UpdateRules::default());
            job.groups[0].run = Some(Arc::new(Run::new("two")));
        });
        assert_eq!(world.settle(), Next::Stopped);
        if changes_leader {
            world.change_leader();
        }
        world.bad = "three";
        world.update(|job| {
            job.update = restored(3, "one").update;
            job.groups[0].run = Some(Arc::new(Run::new("three")));
        });
        assert_eq!(world.settle(), Next::Settled);
        assert_eq!(world.programs(), ["one"; 3]);
    }
}

#[test]
fn a_rollback_that_fails_is_the_last() {
    let mut world = World::new(restored(3, "one"));
    world.settle();
    world.bad = "two";
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    while !matches!(world.control(), Next::Rollback { .. }) {
        world.place(0);
        world.start();
    }
    // The earlier program fails now, too.
    world.bad = "one";
    world.control();
    world.place(0);
    world.start();
    for round in 0..100 {
        world.now_ms += 1000;
        assert!(!matches!(world.control(), Next::Rollback { .. }), "round {round}");
        world.place(round);
        world.start();
    }
    assert_eq!(world.cell.job_version(world.id), Some(2));
}

#[test]
fn a_job_that_has_failed_once_leaves_an_evacuated_machine() {
    let mut world = World::new(Job { update: None, ..restored(2, "one") });
    world.settle();
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    world.settle();
    world.fail();
    world.settle();
    let task = world.tasks(|state| !state.ended())[0];
    let id = world.cell.task(task).and_then(TaskState::machine).expect("it runs");
    world.evacuate(id);
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.cell.machine(id).map(|state| state.tasks.len()), Some(0));
    assert_eq!(world.programs(), ["two"; 2]);
}

#[test]
fn a_failure_stops_nothing_if_no_earlier_task_is_left() {
    let rules = UpdateRules { max_unavailable: 1, max_surge: 0, ..UpdateRules::default() };
    let mut world = World::new(Job { update: Some(rules), ..restored(1, "one") });
    world.settle();
    world.bad = "two";
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    let failures = |world: &World| {
        let tasks = world.cell.tasks(world.id);
        tasks.map(|(id, _)| world.cell.task_failures(id)).sum::<u32>()
    };
    while failures(&world) == 0 {
        world.now_ms += 1000;
        world.control();
        world.place(0);
        world.start();
    }
    world.bad = "none";
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["two"]);
}

#[test]
fn a_rollback_keeps_the_count_of_a_group() {
    let mut world = World::new(restored(2, "one"));
    world.settle();
    world.bad = "two";
    world.update(|job| job.groups[0].count = 3);
    world.settle();
    world.update(|job| {
        (job.groups[0].count, job.groups[0].run) = (4, Some(Arc::new(Run::new("two"))))
    });
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["one"; 4]);
}

#[test]
fn a_job_shrinks_by_more_tasks_than_a_step_may_end() {
    let many = TRANSACTION_ITEMS_MAX as u32 + 500;
    let mut world = World::new(Job::service("web", group(many, "one")));
    world.update(|job| job.groups[0].count = 10);
    for _ in 0..3 {
        world.control();
    }
    assert_eq!(world.living(), 10);
}

#[test]
fn a_new_task_is_healthy_only_after_its_time() {
    let rules = UpdateRules { min_healthy_ms: 60_000, ..UpdateRules::default() };
    let mut world = World::new(Job { update: Some(rules), ..Job::service("web", group(1, "one")) });
    world.settle();
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    let began = world.now_ms;
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["two"]);
    assert!(world.now_ms - began > 60_000);
}

/// A group with one task on each machine.
fn on_each_machine() -> TaskGroup {
    let (from, level) = (TaskSelector::SameGroup, TopologyLevel::Machine);
    let mut each = TaskGroup { per_machine: true, ..group(1, "one") };
    each.rules.tasks.push(TaskRule::AntiAffinity { from, level });
    each
}

#[test]
fn a_machine_with_a_full_disk_keeps_the_task_that_belongs_to_it() {
    let mut world = World::new(Job::service("log", on_each_machine()));
    world.settle();
    let before = world.programs();
    let id = world.cell.machine_by_name("m0").expect("it is there");
    let (key, effect) = (omega_client::agent::DISK_FULL, TaintEffect::NoSchedule);
    let taint = Taint { key: key.into(), value: "".into(), effect };
    world.apply(Command::AddTaint { id, taint });
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), before);
}

#[test]
fn changed_machines_wake_the_jobs_that_depend_on_them() {
    let mut world = World::new(Job::service("log", on_each_machine()));
    world.settle();
    let web = Command::SubmitJob(Job::service("web", group(1, "one")));
    let Ok(Outcome::Job(web)) = world.cell.apply(web) else { panic!("a job") };
    let task = TaskId { job: web, index: 0 };
    let id = |world: &World, name: &str| world.cell.machine_by_name(name).expect("it is there");
    let machine = id(&world, "m1");
    world.apply(Command::AdoptTask { task, machine });
    let mut lead = LeaderState::new(Term(1));
    let open = |lead: &mut LeaderState, cell: &Cell| {
        lead.open.values_mut().for_each(|open| open.is_idle = true);
        lead.read_changes(cell);
        let open = lead.open.iter().filter(|(_, open)| !open.is_idle);
        (open.map(|(id, _)| *id).collect::<Vec<_>>(), lead.evacuated.len())
    };
    assert_eq!(open(&mut lead, &world.cell), (vec![world.id], 0));
    assert_eq!(open(&mut lead, &world.cell), (vec![], 0), "nothing changed");
    for name in ["m0", "m1"] {
        let machine = id(&world, name);
        world.evacuate(machine);
    }
    assert_eq!(open(&mut lead, &world.cell), (vec![world.id, web], 2));
}

#[test]
fn each_machine_has_one_task_and_a_new_one_too() {
    let mut world = World::new(Job::service("log", on_each_machine()));
    world.settle();
    assert_eq!(world.running(), MACHINES as usize);
    world.apply(Command::RegisterMachine(machine("new")));
    world.settle();
    assert_eq!(world.running(), MACHINES as usize + 1);
    let on = |world: &World, name: &str| {
        let id = world.cell.machine_by_name(name).expect("it is there");
        world.cell.machine(id).map_or(0, |state| state.tasks.len())
    };
    assert_eq!(on(&world, "new"), 1);
    let id = world.cell.machine_by_name("m0").expect("it is there");
    let taints = [Taint { key: "off".into(), value: "".into(), effect: TaintEffect::NoSchedule }];
    let tainted = Machine { taints: Box::new(taints), ..machine("m0") };
    world.apply(Command::UpdateMachine { id, machine: tainted });
    world.settle();
    assert_eq!((on(&world, "m0"), world.living()), (0, MACHINES as usize));
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    world.settle();
    assert_eq!(world.programs(), ["two"; MACHINES as usize]);
}

#[test]
fn a_machine_is_evacuated_with_new_tasks_elsewhere_first() {
    let mut world = World::new(Job::service("web", group(3, "one")));
    world.settle();
    let task = world.tasks(|state| !state.ended())[0];
    let id = world.cell.task(task).and_then(TaskState::machine).expect("it runs");
    world.evacuate(id);
    for round in 0..100 {
        world.control();
        assert!(world.running() >= 3, "round {round}");
        world.place(round);
        world.start();
    }
    assert_eq!(world.cell.machine(id).map(|state| state.tasks.len()), Some(0));
    assert_eq!((world.running(), world.living()), (3, 3));
    assert_eq!(world.cell.job_version(world.id), Some(0), "it is no update");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Place(usize),
    Start,
    Control,
    Lose(usize),
    Update(u8, u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..8_usize).prop_map(Event::Place),
        6 => Just(Event::Start),
        8 => Just(Event::Control),
        1 => (0..8_usize).prop_map(Event::Lose),
        1 => (0..3_u8, 1..6_u32).prop_map(|(program, count)| Event::Update(program, count)),
    ]
}

proptest! {
    /// No step of the controller leaves fewer tasks available or more tasks in total than the rules allow. In the end,
    /// all tasks are of the last version.
    #[test]
    fn bounds_hold_at_each_step(
        surge in 0..3_u32,
        unavailable in 0..3_u32,
        events in prop::collection::vec(event(), 0..200),
    ) {
        let max_surge = if unavailable == 0 { surge.max(1) } else { surge };
        let rules = UpdateRules { max_unavailable: unavailable, max_surge, ..UpdateRules::default() };
        let job = Job { update: Some(rules), ..Job::service("web", group(3, "p0")) };
        let mut world = World::new(job);
        for event in events {
            match event {
                Event::Place(choice) => world.place(choice),
                Event::Start => world.start(),
                Event::Lose(choice) => {
                    let running = world.tasks(|state| matches!(state, TaskState::Running(_)));
                    if let Some(task) = running.get(choice) {
                        let machine = world.cell.task(*task).and_then(TaskState::machine).unwrap();
                        let report = TaskReport::Lost;
                        world.apply(Command::ReportTask { task: *task, machine, placed_ms: 0, report });
                    }
                }
                Event::Update(program, count) => {
                    world.update(|job| job.groups[0] = group(count, &format!("p{program}")).into());
                }
                Event::Control => {
                    let wanted = world.cell.job_target(world.id).unwrap().task_count() as usize;
                    let (living, running) = (world.living(), world.running());
                    world.control();
                    let least = wanted.saturating_sub(unavailable as usize).min(running);
                    prop_assert!(world.running() >= least);
                    prop_assert!(world.living() <= living.max(wanted + max_surge as usize));
                }
            }
        }
        prop_assert_eq!(world.settle(), Next::Settled);
        let target = world.cell.job_target(world.id).unwrap().clone();
        let program = target.groups[0].run.as_ref().unwrap().command.to_string();
        prop_assert_eq!(world.programs(), vec![program; target.groups[0].count as usize]);
        prop_assert_eq!(world.living() as u64, target.task_count());
    }
}
