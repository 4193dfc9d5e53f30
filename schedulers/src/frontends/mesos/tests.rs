//! Tests of single cases of offers. `reference.rs` compares random histories with a naive reference.

use super::*;
use crate::frontends::fixtures::{cell, lossy, machine, place, report, submit, submit_job, task};
use crate::queue::Nanos;
use crate::queue::dominant::{Share, Weight};
use omega_cellstate::{HandleError, SharedCell};
use omega_core::{
    Amounts, Command, DeviceRequest, Job, KindId, Machine, MachineSelector, Reason, TaskGroup,
    TaskReport, TaskState,
};

/// A frontend that offers each framework all free resources, machine by machine.
fn front(cell: &SharedCell) -> Frontend {
    Frontend::new(cell, Settings::new("front")).unwrap()
}

fn join(front: &mut Frontend, tenant: &str) -> FrameworkId {
    front.register(Framework::new(format!("{tenant}-framework"), tenant)).unwrap()
}

/// Open offers of a framework: pairs of a machine's row and the offered CPU.
fn out(front: &Frontend, framework: FrameworkId) -> Vec<(u32, u64)> {
    let offers = front.offers_of(framework);
    offers.map(|offer| (offer.machine.slot, offer.amounts.get(KindId::CPU))).collect()
}

/// The dominant share of a tenant's tasks, without offers and weights.
fn used_share(front: &Frontend, tenant: &str) -> Share {
    front.session.totals.share(front.session.task_index.used_by(tenant), Weight::ONE)
}

fn ids(front: &Frontend, framework: FrameworkId) -> Vec<OfferId> {
    front.offers_of(framework).map(|offer| offer.id).collect()
}

/// Checks that the amounts offered, held back and available add up to the free amounts, in total and for each
/// machine.
fn check_account(front: &Frontend) {
    let Account { free, offered, held_back, available } = front.account();
    let sum = offered.checked_add(&held_back).and_then(|sum| sum.checked_add(&available));
    assert_eq!(sum, Some(free));
}

#[test]
fn what_is_free_is_offered_and_what_is_accepted_runs() {
    let cell = cell(&[[4000, 40], [2000, 20]]);
    let job = submit(&cell, "a", 3, [1000, 10]);
    let mut front = front(&cell);
    let framework = join(&mut front, "a");
    let events = front.step(&cell, 0).unwrap();
    assert_eq!((events.len(), out(&front, framework)), (2, vec![(0, 4000), (1, 2000)]));
    let offers = ids(&front, framework);
    let launch = |index, slot| Launch { task: task(job, index), machine: machine(slot) };
    let launches = [launch(0, 0), launch(1, 1), launch(2, 1)];
    front.accept(framework, &offers, &launches, Refuse::Nothing).unwrap();
    assert_eq!(out(&front, framework), [], "accepted offers are used up");
    check_account(&front);
    let events = front.step(&cell, 1).unwrap();
    let launched = |event: &&Event| matches!(event.happened, Happened::Launched { .. });
    assert_eq!(events.iter().filter(launched).count(), 3);
    assert_eq!(out(&front, framework), [(0, 3000)], "the rest is offered again");
    cell.read(|cell| cell.audit_no_overcommit()).unwrap();
    report(&cell, task(job, 1), TaskReport::Finished);
    let events = front.step(&cell, 2).unwrap();
    let state = Some(TaskState::Finished);
    let left = Happened::Left { task: task(job, 1), machine: machine(1), state };
    assert!(events.contains(&Event { framework, happened: left }));
    assert_eq!(out(&front, framework), [(0, 3000), (1, 1000)]);
}

#[test]
fn two_frameworks_share_by_what_they_need_most() {
    let cell = cell(&[[1000, 10]; 6]);
    let mut front = front(&cell);
    let a = join(&mut front, "a");
    let heavy = Framework { weight: Weight::new(2).unwrap(), ..Framework::new("b", "b") };
    let b = front.register(heavy).unwrap();
    front.step(&cell, 0).unwrap();
    assert_eq!((out(&front, a).len(), out(&front, b).len()), (2, 4));
    assert_eq!(front.share(a), front.share(b));
    assert_eq!(front.register(Framework::new("b", "c")), Err(RegisterError::NameTaken("b".into())));
}

#[test]
fn what_others_take_is_withdrawn_the_newest_first() {
    let cell = cell(&[[4000, 40], [4000, 40]]);
    let portion = Portion::AtMost(Amounts::new([2000, 20]));
    let settings = Settings { portion, ..Settings::new("front") };
    let mut front = Frontend::new(&cell, settings).unwrap();
    let (a, b) = (join(&mut front, "a"), join(&mut front, "b"));
    front.step(&cell, 0).unwrap();
    assert_eq!(
        (out(&front, a), out(&front, b)),
        (vec![(0, 2000), (1, 2000)], vec![(0, 2000), (1, 2000)])
    );
    place(&cell, 0, [1000, 10]).unwrap();
    let events = front.step(&cell, 1).unwrap();
    let gone = Happened::Withdrawn(OfferId(1), Withdrawn::Taken);
    assert_eq!(events[0], Event { framework: b, happened: gone });
    assert_eq!(out(&front, b), [(1, 2000), (0, 1000)], "what is left is offered anew");
    check_account(&front);
    let id = machine(1);
    cell.apply(Command::DrainMachine { id, draining: true }).unwrap();
    front.step(&cell, 2).unwrap();
    assert_eq!((out(&front, a), out(&front, b)), (vec![(0, 2000)], vec![(0, 1000)]));
    assert_eq!(front.account().held_back, Amounts::new([4000, 40]));
    check_account(&front);
    assert_eq!(front.counters().withdrawn, 3);
}

#[test]
fn an_answer_that_others_were_quicker_than_is_a_conflict() {
    let cell = cell(&[[1000, 10]]);
    let job = submit(&cell, "a", 1, [1000, 10]);
    let mut front = front(&cell);
    let framework = join(&mut front, "a");
    front.step(&cell, 0).unwrap();
    let other = place(&cell, 0, [500, 5]).unwrap();
    let launch = Launch { task: task(job, 0), machine: machine(0) };
    let offers = ids(&front, framework);
    front.accept(framework, &offers, &[launch], Refuse::Nothing).unwrap();
    let events = front.step(&cell, 1).unwrap();
    let why = NotLaunched::Refused(Reason::NoRoom(KindId::CPU));
    let Launch { task, machine } = launch;
    let refused = Happened::NotLaunched { task, machine, why };
    assert_eq!(events[0], Event { framework, happened: refused });
    assert_eq!(out(&front, framework), [(0, 500)]);
    assert_eq!(front.waiting(job, 0).count(), 1, "the task waits again");
    report(&cell, other, TaskReport::Finished);
    front.step(&cell, 2).unwrap();
    let offers = ids(&front, framework);
    front.accept(framework, &offers, &[launch], Refuse::Nothing).unwrap();
    front.step(&cell, 3).unwrap();
    assert_eq!((front.counters().conflicts, front.counters().launched), (1, 1));
}

#[test]
fn a_refusal_lasts_for_its_time_and_until_there_is_more() {
    let cell = cell(&[[1000, 10], [1000, 10]]);
    let running = place(&cell, 1, [500, 5]).unwrap();
    let mut front = front(&cell);
    let framework = join(&mut front, "a");
    front.step(&cell, 0).unwrap();
    let offers = ids(&front, framework);
    front.decline(framework, &offers[..1], Refuse::Machine { until: 10 }).unwrap();
    front.decline(framework, &offers[1..], Refuse::Amounts { until: 10 }).unwrap();
    front.step(&cell, 1).unwrap();
    assert_eq!(out(&front, framework), []);
    report(&cell, running, TaskReport::Finished);
    front.step(&cell, 2).unwrap();
    assert_eq!(out(&front, framework), [(1, 1000)], "more than was refused");
    front.step(&cell, 10).unwrap();
    assert_eq!(out(&front, framework), [(1, 1000), (0, 1000)]);
    let offers = ids(&front, framework);
    front.decline(framework, &offers, Refuse::Machine { until: Nanos::MAX }).unwrap();
    front.suppress(framework).unwrap();
    front.revive(framework).unwrap();
    front.step(&cell, 11).unwrap();
    assert_eq!(out(&front, framework).len(), 2, "who revives has refused nothing");
    check_account(&front);
}

#[test]
fn who_does_not_answer_loses_the_offer_and_others_get_it() {
    let cell = cell(&[[1000, 10]]);
    let settings = Settings { answer_within: Some(100), ..Settings::new("front") };
    let mut front = Frontend::new(&cell, settings).unwrap();
    let (silent, other) = (join(&mut front, "a"), join(&mut front, "b"));
    front.step(&cell, 0).unwrap();
    assert_eq!((out(&front, silent).len(), out(&front, other).len()), (1, 0));
    front.step(&cell, 99).unwrap();
    let events = front.step(&cell, 100).unwrap();
    let late = Happened::Withdrawn(OfferId(0), Withdrawn::Late);
    assert_eq!(events[0], Event { framework: silent, happened: late });
    assert_eq!((out(&front, silent).len(), out(&front, other).len()), (0, 1));
    assert!(front.deregister(other) && !front.deregister(other));
    front.step(&cell, 200).unwrap();
    assert_eq!(out(&front, silent).len(), 1, "its wait is over");
    assert_eq!(front.counters().late, 1);
}

#[test]
fn devices_are_in_one_offer_at_a_time() {
    let cell = cell(&[]);
    let capacity = Amounts::new([4000, 40]);
    let machine_ = Machine::new("gpus", capacity).with_devices(KindId::GPU, 2);
    cell.apply(Command::RegisterMachine(machine_)).unwrap();
    let mut group = TaskGroup::new(2, Amounts::new([1000, 1]).with(KindId::GPU, 1000));
    group.devices = Some(DeviceRequest { count: 1, milli_each: 1000 });
    let mut spec = Job::batch("train", group);
    (spec.tenant, spec.scheduler) = ("b".into(), "front".into());
    let job = submit_job(&cell, spec);
    let most = Amounts::new([2000, 20]).with(KindId::GPU, 1000);
    let settings = Settings { portion: Portion::AtMost(most), ..Settings::new("front") };
    let mut front = Frontend::new(&cell, settings).unwrap();
    let (a, b) = (join(&mut front, "a"), join(&mut front, "b"));
    front.step(&cell, 0).unwrap();
    let with_devices: Vec<bool> = front.offers().map(|offer| offer.devices.is_some()).collect();
    assert_eq!(with_devices, [true, false]);
    let launch = |index| Launch { task: task(job, index), machine: machine(0) };
    let offers = ids(&front, b);
    let refused = front.accept(b, &offers, &[launch(0)], Refuse::Nothing);
    let no_devices = AcceptError::NoDevices { task: task(job, 0), machine: machine(0) };
    assert_eq!(refused, Err(no_devices));
    let declined = ids(&front, a);
    front.decline(a, &declined, Refuse::Machine { until: 100 }).unwrap();
    front.step(&cell, 1).unwrap();
    let offers = ids(&front, b);
    front.accept(b, &offers, &[launch(0), launch(1)], Refuse::Nothing).unwrap();
    front.step(&cell, 2).unwrap();
    assert_eq!(front.counters().launched, 2);
    cell.read(|cell| cell.audit_no_overcommit()).unwrap();
}

/// An invalid answer changes nothing.
#[test]
fn a_wrong_answer_changes_nothing_and_says_what_to_do() {
    let cell = cell(&[[2000, 20], [2000, 20]]);
    let job = submit(&cell, "a", 9, [1000, 10]);
    let foreign = submit(&cell, "b", 1, [1, 1]);
    let mut picky = TaskGroup::new(1, Amounts::new([1, 1]));
    picky.rules.affinity.required = Some(vec![MachineSelector::label("rack", "elsewhere")]);
    let mut picky = Job::batch("picky", picky);
    (picky.tenant, picky.scheduler) = ("a".into(), "front".into());
    let picky = submit_job(&cell, picky);
    let mut front = front(&cell);
    let (a, b) = (join(&mut front, "a"), join(&mut front, "b"));
    front.step(&cell, 0).unwrap();
    let (mine, others) = (ids(&front, a)[0], ids(&front, b)[0]);
    let at = |job, index, slot| Launch { task: task(job, index), machine: machine(slot) };
    let too_much = AcceptError::TooMuch {
        machine: machine(0),
        kind: KindId::CPU,
        needed: 3000,
        offered: 2000,
    };
    let rejected = AcceptError::Rejected { task: task(picky, 0), reason: Reason::AffinityUnmet };
    let not_offered = AcceptError::NotOffered { task: task(job, 0), machine: machine(1) };
    let nobody = FrameworkId(7);
    let cases: [(FrameworkId, &[OfferId], &[Launch], AcceptError); 10] = [
        (nobody, &[], &[], OfferError::UnknownFramework(nobody).into()),
        (a, &[OfferId(99)], &[], OfferError::NotOut(OfferId(99)).into()),
        (a, &[mine, others], &[], OfferError::Foreign(others).into()),
        (a, &[mine, mine], &[], OfferError::Twice(mine).into()),
        (a, &[mine], &[at(foreign, 0, 0)], AcceptError::UnknownTask(task(foreign, 0))),
        (a, &[mine], &[at(job, 9, 0)], AcceptError::UnknownTask(task(job, 9))),
        (a, &[mine], &[at(job, 0, 0), at(job, 0, 0)], AcceptError::TaskTwice(task(job, 0))),
        (a, &[mine], &[at(job, 0, 0), at(job, 0, 1)], not_offered),
        (a, &[mine], &[at(job, 0, 0), at(job, 1, 0), at(job, 2, 0)], too_much),
        (a, &[mine], &[at(job, 0, 0), at(picky, 0, 0)], rejected),
    ];
    let before: Vec<Offer> = front.offers().cloned().collect();
    for (framework, offers, launches, expected) in cases {
        assert_eq!(front.accept(framework, offers, launches, Refuse::Nothing), Err(expected));
        assert!(front.offers().eq(&before) && front.session.view.open_claims() == 0, "{expected}");
        assert_eq!(front.waiting(job, 0).count(), 9, "{expected}");
        check_account(&front);
    }
    front.accept(a, &[mine], &[at(job, 0, 0)], Refuse::Nothing).unwrap();
    assert_eq!(front.decline(a, &[mine], Refuse::Nothing), Err(OfferError::NotOut(mine)));
    assert_eq!(front.counters().errors, 11);
    front.step(&cell, 1).unwrap();
    let again = ids(&front, a);
    let same = front.accept(a, &again, &[at(job, 0, 0)], Refuse::Nothing);
    assert_eq!(same, Err(AcceptError::NotWaiting(task(job, 0))));
}

#[test]
fn an_answer_that_was_lost_is_asked_for_again() {
    let shared = cell(&[[2000, 20]]);
    let job = submit(&shared, "a", 2, [1000, 10]);
    let lossy = lossy(&shared);
    let mut front = front(&shared);
    let framework = join(&mut front, "a");
    front.step(&lossy, 0).unwrap();
    let launch = |index| Launch { task: task(job, index), machine: machine(0) };
    let offers = ids(&front, framework);
    front.accept(framework, &offers, &[launch(0)], Refuse::Nothing).unwrap();
    assert_eq!(front.step(&lossy, 1), Err(HandleError::Unknown));
    check_account(&front);
    let events = front.step(&lossy, 2).unwrap();
    let launched = Happened::Launched { task: task(job, 0), machine: machine(0) };
    assert_eq!(events[0], Event { framework, happened: launched });
    assert_eq!(out(&front, framework), [(0, 1000)]);
    let running = shared.read(|cell| cell.machine(machine(0)).unwrap().tasks.len());
    assert_eq!(running, 1, "nothing was done twice");
}

#[test]
fn a_front_that_is_started_again_finds_jobs_and_shares() {
    let cell = cell(&[[2000, 20], [2000, 20]]);
    let job = submit(&cell, "a", 4, [1000, 10]);
    let mut first = front(&cell);
    let framework = join(&mut first, "a");
    first.step(&cell, 0).unwrap();
    let launch = Launch { task: task(job, 0), machine: machine(1) };
    let offers = ids(&first, framework);
    first.accept(framework, &offers, &[launch], Refuse::Nothing).unwrap();
    first.step(&cell, 1).unwrap();
    let share = used_share(&first, "a");
    drop(first);
    let mut second = front(&cell);
    let framework = join(&mut second, "a");
    second.step(&cell, 2).unwrap();
    assert_eq!(
        (used_share(&second, "a"), out(&second, framework)),
        (share, vec![(0, 2000), (1, 1000)])
    );
    assert!((share.fraction() - 0.25).abs() < 1e-9);
    assert_eq!(second.waiting(job, 0).count(), 3);
    assert_eq!(second.jobs_of(framework).map(|(id, _)| id).collect::<Vec<_>>(), [job]);
}
