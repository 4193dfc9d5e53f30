//! Updates of services whose tasks have all ended, and of services that are scaled to zero.

use super::plan::Next;
use super::testing::{World, group, restored};
use omega_core::{Command, Job, OnFailure, Run, TaskState, UpdateResult, UpdateRules};
use std::sync::Arc;

#[test]
fn an_update_that_is_scaled_to_zero_goes_on_when_there_are_tasks_again() {
    let mut world = World::new(Job::service("web", group(3, "one")));
    world.settle();
    world.update(|job| job.groups[0] = group(3, "two").into());
    let (job, name) = (world.id, world.cell.job(world.id).unwrap().groups[0].name.clone());
    let scale = |count| Command::ScaleGroup { job, group: name.clone(), count };
    world.apply(scale(0));
    assert_eq!((world.settle(), world.result()), (Next::Settled, None));
    world.apply(scale(3));
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(
        (world.programs(), world.result()),
        (vec!["two".to_owned(); 3], Some(UpdateResult::Complete))
    );
}

#[test]
fn failures_before_an_ended_service_ran_again_do_not_count() {
    let mut world = World::new(Job::service("web", group(3, "one")));
    world.settle();
    world.fail();
    world.settle();
    assert_eq!(world.living(), 2, "a task without restarts is not replaced");
    let (job, group) = (world.id, world.cell.job(world.id).unwrap().groups[0].name.clone());
    world.cell.apply(Command::ResizeGroup { job, group, count: 0 }).unwrap();
    world.settle();
    world.update(|job| job.groups[0].count = 3);
    world.settle();
    let task = world.tasks(|state| !state.ended())[0];
    let id = world.cell.task(task).and_then(TaskState::machine).expect("it runs");
    world.evacuate(id);
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.cell.machine(id).map(|state| state.tasks.len()), Some(0));
    assert_eq!((world.running(), world.living()), (3, 3));
}

#[test]
fn an_update_that_ends_all_tasks_is_rolled_back_or_fails() {
    for on_failure in [OnFailure::Rollback, OnFailure::Stop] {
        let rules =
            UpdateRules { max_unavailable: 1, max_surge: 0, on_failure, ..UpdateRules::default() };
        let job = Job { update: Some(rules), ..Job::service("web", group(1, "one")) };
        let mut world = World { bad: "two", ..World::new(job) };
        world.settle();
        world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
        assert_eq!(world.settle(), Next::Settled);
        let (programs, result) = match on_failure {
            OnFailure::Rollback => (vec!["one"], UpdateResult::Complete),
            OnFailure::Stop => (vec![], UpdateResult::Failed),
        };
        assert_eq!(
            (world.programs(), world.result()),
            (programs.iter().map(|one| one.to_string()).collect(), Some(result))
        );
    }
}

#[test]
fn an_update_runs_although_all_tasks_failed_before_its_first_step() {
    for on_failure in [OnFailure::Rollback, OnFailure::Stop] {
        let rules = UpdateRules { on_failure, ..UpdateRules::default() };
        let job = Job { update: Some(rules), ..Job::service("web", group(1, "one")) };
        let mut world = World::new(job);
        world.settle();
        world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
        world.fail();
        assert!(!world.cell.is_alive(world.id));
        assert_eq!(world.settle(), Next::Settled);
        assert_eq!(
            (world.programs(), world.result()),
            (vec!["two".to_owned()], Some(UpdateResult::Complete))
        );
    }
}

#[test]
fn a_rollback_runs_although_all_tasks_failed_before_its_first_step() {
    let rules = UpdateRules { on_failure: OnFailure::Rollback, ..UpdateRules::default() };
    let job = Job { update: Some(rules), ..Job::service("web", group(2, "one")) };
    let mut world = World { bad: "two", ..World::new(job) };
    world.settle();
    world.update(|job| job.groups[0].run = Some(Arc::new(Run::new("two"))));
    let (job, name) = (world.id, world.cell.job(world.id).unwrap().groups[0].name.clone());
    for count in [0, 2] {
        world.apply(Command::ScaleGroup { job, group: name.clone(), count });
    }
    assert_eq!(world.settle(), Next::Settled);
    assert_eq!(world.programs(), ["one"; 2]);
}

#[test]
fn a_killed_job_is_not_rolled_back() {
    let mut world = World::new(restored(2, "one"));
    world.settle();
    world.bad = "two";
    world.update(|job| job.groups[0] = group(2, "two").into());
    while world.tasks(|state| state == TaskState::Failed).is_empty() {
        world.control();
        world.place(0);
        world.start();
    }
    world.apply(Command::KillJob { job: world.id });
    assert_eq!((world.settle(), world.living()), (Next::Settled, 0));
}

/// Otherwise the update would be shown as under way for as long as the job is known.
#[test]
fn an_update_fails_when_its_job_is_killed() {
    let mut world = World::new(restored(2, "one"));
    world.settle();
    world.update(|job| job.groups[0] = group(2, "two").into());
    assert!(matches!(world.control(), Next::Roll(_)));
    world.apply(Command::KillJob { job: world.id });
    let result = UpdateResult::Failed;
    assert_eq!(world.control(), Next::Ended { version: 1, result });
    assert_eq!((world.control(), world.result()), (Next::Settled, Some(result)));
    world.change_leader();
    assert_eq!((world.settle(), world.living()), (Next::Settled, 0));
}
