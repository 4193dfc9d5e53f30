//! Tests of updates.

use super::*;
use omega_core::limits::{GROUPS_PER_JOB_MAX, LEVELS_PER_JOB_MAX, VERSIONS_TOGETHER};
use omega_core::{Amounts, Command, GroupGrowth, Kinds, Machine, MachineId, TaskReport};
use omega_core::{TaskRule, TaskSelector, TopologyLevel};

const AT: MachineId = MachineId { slot: 0, incarnation: 0 };

fn web(cores: u64) -> Job {
    Job::service("web", TaskGroup::new(2, Amounts::new([cores])))
}

/// A cell with one machine and one service, whose tasks fail for good as soon as they are placed.
fn cell() -> (Cell, JobId) {
    let mut cell = Cell::new(Kinds::standard());
    cell.apply(Command::RegisterMachine(Machine::new("box", Amounts::new([8])))).unwrap();
    let Ok(Outcome::Job(id)) = cell.apply(Command::SubmitJob(web(1))) else { panic!("a job") };
    (cell, id)
}

fn fail_all(cell: &mut Cell, job: JobId) {
    let living = cell.tasks(job).filter(|(_, state)| !state.ended());
    let living: Vec<TaskId> = living.map(|(id, _)| id).collect();
    for task in living {
        let report = TaskReport::Failed;
        cell.apply(Command::AdoptTask { task, machine: AT }).unwrap();
        cell.apply(Command::ReportTask { task, machine: AT, placed_ms: 0, report }).unwrap();
    }
}

fn living(cell: &Cell, job: JobId) -> usize {
    cell.tasks(job).filter(|(_, state)| !state.ended()).count()
}

#[test]
fn an_update_of_an_ended_service_starts_it_again() {
    let (mut cell, job) = cell();
    let update = |spec| Command::UpdateJob { job, version: None, spec };
    for (round, cores) in [(1, 2), (2, 2), (3, 1)] {
        fail_all(&mut cell, job);
        assert_eq!(living(&cell, job), 0);
        let result = UpdateResult::Failed;
        cell.apply(Command::EndUpdate { job, version: round - 1, result }).unwrap();
        cell.apply(update(web(cores))).unwrap();
        assert_eq!((living(&cell, job), cell.job_version(job)), (2, Some(round)));
        cell.audit().unwrap();
    }
    // Nothing is left of the earlier ends, so the job is forgotten only after its last one.
    let keep = |now_ms| Command::Expire { now_ms };
    cell.apply(keep(1 << 40)).unwrap();
    cell.apply(keep(1 << 41)).unwrap();
    assert!(cell.job(job).is_some());
    fail_all(&mut cell, job);
    cell.apply(keep(1 << 42)).unwrap();
    cell.apply(keep(1 << 43)).unwrap();
    assert!(cell.job(job).is_none());
}

#[test]
fn an_update_may_replace_the_groups_of_the_largest_service() {
    let mut cell = Cell::new(Kinds::standard());
    let service = |image: usize| {
        let group = |at: usize| {
            let mut group = TaskGroup::new(1, Amounts::zero()).named(format!("group-{at}"));
            group.images = [format!("image-{image}").into()].into();
            group
        };
        let groups = 1..GROUPS_PER_JOB_MAX;
        groups.fold(Job::service("web", group(0)), |job, at| job.with_group(group(at)))
    };
    let answer = cell.apply(Command::SubmitJob(service(0)));
    let Ok(Outcome::Job(job)) = answer else { panic!("{answer:?}") };
    let update = |image| Command::UpdateJob { job, version: None, spec: service(image) };
    // No task is of versions after 0, so their groups leave their places to those of later versions.
    for image in 1..VERSIONS_PER_JOB + 3 {
        cell.apply(update(image)).unwrap();
        let groups = &cell.job(job).unwrap().groups;
        assert_eq!(groups.len(), VERSIONS_TOGETHER * GROUPS_PER_JOB_MAX);
        cell.audit().unwrap();
    }
    let restored = Cell::from_snapshot_state(cell.snapshot_state()).unwrap();
    assert_eq!(restored.state_hash(), cell.state_hash());
    let version = cell.job_version(job).unwrap();
    let step = RollStep::of(version).with_tasks("group-0", 1);
    cell.apply(Command::RollJob { job, step }).unwrap();
    let refused = cell.apply(update(0)).map(drop);
    assert_eq!(refused, Ok(()), "the groups of version 0 are still there");
    let refused = cell.apply(update(1)).unwrap_err();
    assert!(matches!(refused, Rejection::TooMany { max: 512, .. }), "{refused}");
}

/// No task is of the second version, so its rules count no longer when the job goes on to the third.
#[test]
fn an_update_may_replace_many_groups_with_rules_by_one() {
    let mut cell = Cell::new(Kinds::standard());
    let service = |version: usize, groups: usize| {
        let group = |at: usize| {
            let rule = |level: usize| TaskRule::MaxPerDomain {
                of: TaskSelector::SameGroup,
                level: TopologyLevel::Label(format!("{version}.{level}").into()),
                count: 1,
            };
            let mut group = TaskGroup::new(1, Amounts::zero()).named(format!("group-{at}"));
            group.rules.tasks = (0..LEVELS_PER_JOB_MAX).map(rule).collect();
            group
        };
        (1..groups).fold(Job::service("web", group(0)), |job, at| job.with_group(group(at)))
    };
    let answer = cell.apply(Command::SubmitJob(service(0, 1)));
    let Ok(Outcome::Job(job)) = answer else { panic!("{answer:?}") };
    for (version, groups) in [(1, 9), (2, 1), (3, 9), (4, 1)] {
        let spec = service(version, groups);
        cell.apply(Command::UpdateJob { job, version: None, spec }).unwrap();
        cell.audit().unwrap();
    }
    assert_eq!(cell.machine_index.rules.level_count(), 2 * LEVELS_PER_JOB_MAX);
    let restored = Cell::from_snapshot_state(cell.snapshot_state()).unwrap();
    assert_eq!(restored.state_hash(), cell.state_hash());
}

#[test]
fn a_killed_service_does_not_start_again() {
    let (mut cell, job) = cell();
    cell.apply(Command::KillJob { job }).unwrap();
    assert!(cell.job_was_killed(job));
    let update = Command::UpdateJob { job, version: None, spec: web(2) };
    assert!(matches!(cell.apply(update), Err(Rejection::BadJob(_))));
    assert_eq!(living(&cell, job), 0);
}

/// Ends all tasks of a service in one step that adds as many new ones.
fn replace_all(cell: &mut Cell, job: JobId) {
    let living = cell.tasks(job).filter(|(_, state)| !state.ended());
    let stops: Vec<u32> = living.map(|(id, _)| id.index).collect();
    let adds = vec![GroupGrowth { group: "main".into(), count: stops.len() as u32 }];
    let version = cell.job_version(job).unwrap();
    let step = RollStep { adds, stops, ..RollStep::of(version) };
    cell.apply(Command::RollJob { job, step }).unwrap();
}

#[test]
fn the_steps_of_an_update_are_no_resizes() {
    let (mut cell, job) = cell();
    cell.keep_history(1 << 20);
    cell.apply(Command::UpdateJob { job, version: None, spec: web(2) }).unwrap();
    replace_all(&mut cell, job);
    let resizes = |cell: &Cell| {
        cell.job_events(job).filter(|event| matches!(event.kind, EventKind::Resized { .. })).count()
    };
    assert_eq!(resizes(&cell), 0);
    cell.apply(Command::ResizeGroup { job, group: "main".into(), count: 3 }).unwrap();
    assert_eq!(resizes(&cell), 1);
}
