//! Tests of single cases of requests. `random.rs` has random histories.

use super::*;
use crate::framework::profile::Profile;
use crate::frontends::fixtures::{cell, lossy, machine, place, report, rival, submit, task};
use crate::queue::Nanos;
use crate::queue::dominant::Weight;
use omega_cellstate::{HandleError, SharedCell};
use omega_core::{Amounts, Command, JobId, TaskId, TaskReport, Text};

/// A frontend that waits two rounds for a machine and three more for a rack.
fn front(cell: &SharedCell) -> Frontend {
    let settings = Settings { machine_delay: 2, rack_delay: 3, ..Settings::new("front") };
    Frontend::new(cell, Profile::first_fit(), settings).unwrap()
}

/// Joins the job with this id, after a step that syncs it.
fn join(cell: &SharedCell, front: &mut Frontend, job: JobId) {
    front.step(cell, 0).unwrap();
    let name = cell.read(|cell| cell.job(job).unwrap().name.clone());
    assert_eq!(front.join(&name, 0), Ok(job));
}

fn anywhere(containers: u32) -> Heartbeat {
    Heartbeat::asking([Ask::new("main", Place::Anywhere, containers)])
}

fn near(machine: &str, rack: &str) -> Heartbeat {
    Heartbeat::asking(Ask::near("main", machine, rack, 1))
}

/// Reply to an empty heartbeat: allocated containers by task, machine and locality, and ended containers.
type Told = (Vec<(u32, Text, Locality)>, Vec<(u32, How)>);

fn told(front: &mut Frontend, job: JobId, now: Nanos) -> Told {
    let answer = front.heartbeat(job, Heartbeat::default(), now).unwrap();
    let container = |c: Container| (c.task.index, c.machine_name, c.locality);
    let completed = answer.completed.iter().map(|done| (done.task.index, done.how)).collect();
    (answer.allocated.into_iter().map(container).collect(), completed)
}

#[test]
fn the_machine_that_was_asked_for_comes_first() {
    let cell = cell(&[[4000, 40], [4000, 40], [4000, 40]]);
    let job = submit(&cell, "a", 5, [1000, 10]);
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    let mut heartbeat = near("m2", "r1");
    heartbeat.asks[2].containers = 3;
    let answer = front.heartbeat(job, heartbeat, 7).unwrap();
    assert_eq!(answer.headroom, Amounts::new([12_000, 120]));
    assert_eq!(front.step(&cell, 10).unwrap(), 3);
    let on = |index, name: &str, near| (index, Text::from(name), near);
    let expected = [
        on(0, "m2", Locality::Machine),
        on(1, "m0", Locality::Elsewhere),
        on(2, "m0", Locality::Elsewhere),
    ];
    assert_eq!(told(&mut front, job, 11), (expected.to_vec(), vec![]));
    assert_eq!(told(&mut front, job, 12), (vec![], vec![]), "each is told once");
    assert_eq!(front.step(&cell, 13).unwrap(), 0, "nothing more is wanted");
    let Counters { on_machine, elsewhere, waited, waited_max, .. } = front.counters();
    assert_eq!((on_machine, elsewhere, waited, waited_max), (1, 2, 9, 3));
    cell.read(|cell| cell.audit_no_overcommit()).unwrap();
}

#[test]
fn locality_is_waited_for_and_then_given_up_step_by_step() {
    let cell = cell(&[[1000, 10], [1000, 10], [1000, 10]]);
    let job = submit(&cell, "a", 2, [1000, 10]);
    let full = place(&cell, 0, [1000, 10]).unwrap();
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    front.heartbeat(job, near("m0", "r0"), 0).unwrap();
    let rounds: Vec<usize> = (1..=3).map(|now| front.step(&cell, now).unwrap()).collect();
    assert_eq!(rounds, [0, 0, 1], "two rounds pass before another machine of the rack will do");
    assert_eq!(told(&mut front, job, 4).0, [(0, "m1".into(), Locality::Rack)]);
    // No machine of the rack has room now, so the wait is longer.
    front.heartbeat(job, near("m0", "r0"), 4).unwrap();
    let rounds: Vec<usize> = (5..=10).map(|now| front.step(&cell, now).unwrap()).collect();
    assert_eq!(rounds, [0, 0, 0, 0, 0, 1]);
    assert_eq!(told(&mut front, job, 11).0, [(1, "m2".into(), Locality::Elsewhere)]);
    assert_eq!(front.counters().passed_up, 7);
    report(&cell, full, TaskReport::Finished);
}

#[test]
fn rounds_without_room_are_no_wait() {
    let cell = cell(&[[1000, 10], [1000, 10]]);
    let job = submit(&cell, "a", 1, [1000, 10]);
    let full: Vec<TaskId> = (0..2).map(|slot| place(&cell, slot, [1000, 10]).unwrap()).collect();
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    front.heartbeat(job, near("m0", "r0"), 0).unwrap();
    assert!((1..50).all(|now| front.step(&cell, now).unwrap() == 0));
    assert_eq!(front.counters().passed_up, 0, "nothing was let pass");
    report(&cell, full[0], TaskReport::Finished);
    front.step(&cell, 50).unwrap();
    assert_eq!(told(&mut front, job, 51).0, [(0, "m0".into(), Locality::Machine)]);
}

#[test]
fn what_must_not_be_relaxed_waits_for_ever() {
    let cell = cell(&[[1000, 10]; 4]);
    let job = submit(&cell, "a", 1, [1000, 10]);
    let full = place(&cell, 0, [1000, 10]).unwrap();
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    let mut heartbeat = near("m0", "r0");
    heartbeat.asks.iter_mut().for_each(|ask| ask.relax = Relax::Forbidden);
    front.heartbeat(job, heartbeat, 0).unwrap();
    assert!((1..50).all(|now| front.step(&cell, now).unwrap() == 0));
    report(&cell, full, TaskReport::Finished);
    assert_eq!(front.step(&cell, 50).unwrap(), 1);
}

#[test]
fn what_is_given_back_waits_and_may_be_had_again() {
    let cell = cell(&[[4000, 40]]);
    let job = submit(&cell, "a", 3, [1000, 10]);
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    front.heartbeat(job, anywhere(3), 0).unwrap();
    front.step(&cell, 1).unwrap();
    assert_eq!(told(&mut front, job, 1).0.len(), 3);
    let release = |index| Heartbeat { releases: vec![task(job, index)], ..Heartbeat::default() };
    front.heartbeat(job, release(1), 2).unwrap();
    let again = front.heartbeat(job, release(1), 2);
    assert_eq!(again, Err(HeartbeatError::NotAContainer(task(job, 1))));
    report(&cell, task(job, 0), TaskReport::Finished);
    report(&cell, task(job, 2), TaskReport::Lost);
    front.step(&cell, 3).unwrap();
    front.step(&cell, 4).unwrap();
    let (_, mut completed) = told(&mut front, job, 5);
    completed.sort_by_key(|done| done.0);
    assert_eq!(completed, [(0, How::Finished), (1, How::Released), (2, How::Displaced)]);
    assert_eq!(front.containers_of(job).count(), 0);
    front.heartbeat(job, anywhere(2), 6).unwrap();
    assert_eq!(front.step(&cell, 7).unwrap(), 2);
    assert_eq!(front.counters().released, 1);
}

#[test]
fn a_machine_that_is_refused_is_left_out() {
    let cell = cell(&[[4000, 40], [4000, 40]]);
    let job = submit(&cell, "a", 6, [1000, 10]);
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    let mut heartbeat = anywhere(5);
    heartbeat.refuse = vec!["m0".into()];
    front.heartbeat(job, heartbeat, 0).unwrap();
    assert_eq!(front.step(&cell, 1).unwrap(), 4);
    assert!(told(&mut front, job, 1).0.iter().all(|(_, name, _)| **name == *"m1"));
    let readmit = Heartbeat { readmit: vec!["m0".into()], ..Heartbeat::default() };
    front.heartbeat(job, readmit, 2).unwrap();
    assert_eq!(front.step(&cell, 3).unwrap(), 1);
    assert!(told(&mut front, job, 4).0.iter().all(|(_, name, _)| **name == *"m0"));
}

#[test]
fn an_ask_that_crosses_an_allocation_is_not_served_twice() {
    let cell = cell(&[[9000, 90]]);
    let job = submit(&cell, "a", 9, [1000, 10]);
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    front.heartbeat(job, near("m0", "r0"), 0).unwrap();
    front.step(&cell, 1).unwrap();
    // The application has not been informed of its container yet, and requests two containers in total.
    let answer =
        front.heartbeat(job, Heartbeat::asking(Ask::near("main", "m0", "r0", 2)), 2).unwrap();
    assert_eq!(answer.allocated.len(), 1);
    assert_eq!(front.step(&cell, 3).unwrap(), 1);
    assert_eq!(front.step(&cell, 4).unwrap(), 0);
}

#[test]
fn a_wrong_heartbeat_changes_nothing_and_says_what_to_do() {
    let cell = cell(&[[4000, 40]]);
    let job = submit(&cell, "a", 3, [1000, 10]);
    let mut front = front(&cell);
    assert!(matches!(front.join("nobody", 0), Err(JoinError::UnknownJob(_))));
    join(&cell, &mut front, job);
    assert_eq!(front.join("a-0", 0), Err(JoinError::Joined(job)));
    front.heartbeat(job, anywhere(1), 0).unwrap();
    let ask = Ask::new("main", Place::Anywhere, 2);
    let rack = Ask { priority: Priority(3), ..Ask::new("main", Place::Rack("r0".into()), 1) };
    let many = |i: usize| Ask::new("main", Place::Machine(format!("x{i}").into()), 1);
    let cases = [
        (
            vec![Ask { group: "no".into(), ..ask.clone() }],
            vec![],
            HeartbeatError::NoGroup("no".into()),
        ),
        (vec![ask.clone(), ask.clone()], vec![], HeartbeatError::Twice(Box::new(ask.clone()))),
        (
            vec![ask.clone(), rack],
            vec![],
            HeartbeatError::NoTotal { priority: Priority(3), group: "main".into() },
        ),
        (vec![ask], vec![task(job, 0)], HeartbeatError::NotAContainer(task(job, 0))),
        (
            (0..LINES_MAX).map(many).collect(),
            vec![],
            HeartbeatError::TooMany { lines: LINES_MAX + 1 },
        ),
    ];
    let count = cases.len() as u64;
    for (asks, releases, expected) in cases {
        let heartbeat = Heartbeat { asks, releases, ..Heartbeat::default() };
        assert_eq!(front.heartbeat(job, heartbeat, 1), Err(expected));
    }
    let nobody = front.heartbeat(JobId(9), Heartbeat::default(), 1);
    assert_eq!(nobody, Err(HeartbeatError::UnknownApplication(JobId(9))));
    assert_eq!(front.counters().errors, count + 1);
    assert_eq!(front.step(&cell, 1).unwrap(), 1, "what was asked for before is asked for still");
}

#[test]
fn tasks_that_the_job_lacks_are_told() {
    let cell = cell(&[[9000, 90]]);
    let job = submit(&cell, "a", 2, [1000, 10]);
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    let answer = front.heartbeat(job, anywhere(5), 0).unwrap();
    assert_eq!(answer.missing, [Missing { group: "main".into(), tasks: 3 }]);
    assert_eq!(front.step(&cell, 1).unwrap(), 2);
    cell.apply(Command::ResizeGroup { job, group: "main".into(), count: 5 }).unwrap();
    assert_eq!(front.step(&cell, 2).unwrap(), 3);
    let answer = front.heartbeat(job, Heartbeat::default(), 3).unwrap();
    assert_eq!((answer.allocated.len(), answer.missing), (5, vec![]));
}

#[test]
fn whoever_is_silent_is_not_served_until_it_speaks() {
    let cell = cell(&[[9000, 90]]);
    let job = submit(&cell, "a", 2, [1000, 10]);
    let settings = Settings { silence_max: Some(100), ..Settings::new("front") };
    let mut front = Frontend::new(&cell, Profile::batch(), settings).unwrap();
    join(&cell, &mut front, job);
    front.heartbeat(job, anywhere(1), 0).unwrap();
    assert_eq!(front.step(&cell, 100).unwrap(), 0);
    front.heartbeat(job, Heartbeat::default(), 101).unwrap();
    assert_eq!(front.step(&cell, 102).unwrap(), 1);
    cell.apply(Command::KillJob { job }).unwrap();
    front.step(&cell, 200).unwrap();
    assert_eq!(front.applications.len(), 1, "it may come yet to hear what became of it");
    front.step(&cell, 201).unwrap();
    assert_eq!(front.applications.len(), 0);
}

#[test]
fn an_application_whose_job_is_over_hears_so_once() {
    let cell = cell(&[[9000, 90]]);
    let job = submit(&cell, "a", 2, [1000, 10]);
    let mut front = front(&cell);
    join(&cell, &mut front, job);
    front.heartbeat(job, anywhere(1), 0).unwrap();
    front.step(&cell, 1).unwrap();
    cell.apply(Command::KillJob { job }).unwrap();
    front.step(&cell, 2).unwrap();
    let other = submit(&cell, "b", 1, [1000, 10]);
    let releases = [job, other].map(|job| TaskId { job, index: 0 }).to_vec();
    let answer = front.heartbeat(job, Heartbeat { releases, ..anywhere(1) }, 3).unwrap();
    assert!(answer.is_over && answer.allocated.len() == 1);
    assert_eq!(answer.completed.len(), 1);
    assert!(front.releasing.is_empty(), "an application that is over releases nothing");
    let after = front.heartbeat(job, Heartbeat::default(), 4);
    assert_eq!(after, Err(HeartbeatError::UnknownApplication(job)));
}

#[test]
fn a_claim_that_others_were_quicker_than_is_asked_for_again() {
    let shared = cell(&[[1000, 10], [1000, 10]]);
    let job = submit(&shared, "a", 1, [1000, 10]);
    let mut front = front(&shared);
    join(&shared, &mut front, job);
    front.heartbeat(job, anywhere(1), 0).unwrap();
    let rival = rival(&shared, 0, [1000, 10]);
    assert_eq!(front.step(&rival, 1).unwrap(), 0);
    assert_eq!(front.counters().conflicts, 1);
    assert_eq!(front.step(&rival, 2).unwrap(), 1);
    assert_eq!(told(&mut front, job, 3).0, [(0, "m1".into(), Locality::Elsewhere)]);
}

#[test]
fn an_answer_that_was_lost_is_asked_for_again() {
    let shared = cell(&[[4000, 40]]);
    let job = submit(&shared, "a", 4, [1000, 10]);
    let lossy = lossy(&shared);
    let mut front = front(&shared);
    join(&shared, &mut front, job);
    front.heartbeat(job, anywhere(2), 0).unwrap();
    assert_eq!(front.step(&lossy, 1), Err(HandleError::Unknown));
    // Containers that were placed, but not yet reported to the application, are subtracted from its new requests.
    front.heartbeat(job, anywhere(3), 2).unwrap();
    assert_eq!(front.step(&lossy, 3).unwrap(), 3);
    assert_eq!(told(&mut front, job, 4).0.len(), 3);
    let running = shared.read(|cell| cell.machine(machine(0)).unwrap().tasks.len());
    assert_eq!(running, 3);
}

#[test]
fn a_front_that_is_started_again_finds_the_containers() {
    let cell = cell(&[[4000, 40]]);
    let job = submit(&cell, "a", 4, [1000, 10]);
    let mut first = front(&cell);
    join(&cell, &mut first, job);
    first.heartbeat(job, anywhere(2), 0).unwrap();
    first.step(&cell, 1).unwrap();
    drop(first);
    let mut second = front(&cell);
    join(&cell, &mut second, job);
    let containers: Vec<TaskId> = second.containers_of(job).map(|(task, _)| task).collect();
    assert_eq!(containers, [task(job, 0), task(job, 1)]);
    let release = Heartbeat { releases: containers, ..Heartbeat::default() };
    second.heartbeat(job, release, 2).unwrap();
    second.step(&cell, 3).unwrap();
    second.step(&cell, 4).unwrap();
    assert_eq!(told(&mut second, job, 5).1.len(), 2);
}

#[test]
fn queues_and_applications_share_by_what_they_need_most() {
    let cell = cell(&[[24_000, 240]]);
    let jobs = [("a", [1000, 5]), ("a", [1000, 5]), ("b", [500, 10])];
    let jobs = jobs.map(|(tenant, request)| submit(&cell, tenant, 99, request));
    let mut front = front(&cell);
    front.set_weight("b".into(), Weight::new(2).unwrap());
    jobs.iter().for_each(|job| join(&cell, &mut front, *job));
    for job in jobs {
        front.heartbeat(job, anywhere(99), 0).unwrap();
    }
    front.step(&cell, 1).unwrap();
    let counts = jobs.map(|job| front.containers_of(job).count());
    // Queue `b` has twice the weight. Its dominant resource is memory: each of its tasks has 10 of 240 units.
    assert_eq!(counts, [5, 5, 19]);
    assert_eq!(front.share(jobs[0]), front.share(jobs[1]));
}
