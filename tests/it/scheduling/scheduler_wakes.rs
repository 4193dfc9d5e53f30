//! Wake-ups of unschedulable jobs: each is retried as soon as it can be placed.

use crate::cell::small::{
    LONG, add_machine, amounts, assert_settled, cell, job, placed, report, rows, run, scheduler,
    submit, task,
};
use omega_core::{
    Amounts, Command, DeviceRequest, Granularity, Job, JobId, KindId, LabelSelector, Labels,
    Machine, MachineId, Near, Precedence, Requirement, TaskGroup, TaskReport, TaskRule,
    TaskSelector, Tenants, TopologyLevel,
};
use omega_schedulers::{
    MachineFilter, MachineRef, PerMachine, Profile, Scheduler, Settings, Tasks,
};

/// Lets a job fail twice, so that it waits only for events. It must be placed after the event that `cause` makes.
fn wakes(
    scheduler: &mut Scheduler,
    cell: &omega_cellstate::SharedCell,
    id: JobId,
    news: impl Fn(),
) {
    let before = placed(cell, id);
    run(scheduler, cell, 0);
    run(scheduler, cell, LONG);
    run(scheduler, cell, 2 * LONG);
    assert_eq!(placed(cell, id), before, "it cannot be placed yet");
    news();
    run(scheduler, cell, 3 * LONG);
    run(scheduler, cell, 4 * LONG);
    assert!(placed(cell, id) > before, "nothing told it of the news");
    assert_settled(scheduler, cell, 5 * LONG);
}

fn labelled(value: &str) -> TaskSelector {
    let requirements = vec![Requirement::equals("app", value)];
    TaskSelector::Labels { tenants: Tenants::Any, labels: LabelSelector { requirements } }
}

#[test]
fn room_that_comes_free() {
    let cell = cell(&[1]);
    let first = submit(&cell, job("first", 1, 1));
    let second = submit(&cell, job("second", 1, 1));
    let mut scheduler = scheduler(&cell, "default");
    wakes(&mut scheduler, &cell, second, || report(&cell, task(first, 0), TaskReport::Finished));
}

#[test]
fn a_machine_that_resumes() {
    let cell = cell(&[1]);
    let id = submit(&cell, job("first", 1, 1));
    let machine = cell.read(|cell| cell.machine_by_name("m0")).unwrap();
    let drain = |draining| cell.apply(Command::DrainMachine { id: machine, draining }).unwrap();
    drain(true);
    let mut scheduler = scheduler(&cell, "default");
    wakes(&mut scheduler, &cell, id, || drop(drain(false)));
}

#[test]
fn a_port_of_a_task_that_claims_nothing() {
    let cell = cell(&[4]);
    let with_port = |name: &str| {
        let mut group = TaskGroup::new(1, Amounts::zero());
        group.rules.ports.push(omega_core::Port::tcp(80));
        submit(&cell, Job::batch(name, group))
    };
    let (first, second) = (with_port("first"), with_port("second"));
    let mut scheduler = scheduler(&cell, "default");
    wakes(&mut scheduler, &cell, second, || report(&cell, task(first, 0), TaskReport::Finished));
}

#[test]
fn a_task_that_it_wants_to_be_with() {
    let cell = cell(&[4]);
    let mut near = job("near", 1, 1);
    let level = TopologyLevel::Machine;
    near.groups[0]
        .rules
        .tasks
        .push(TaskRule::Affinity(vec![Near { tasks: labelled("db"), level }]));
    let near = submit(&cell, near);
    let mut scheduler = scheduler(&cell, "default");
    wakes(&mut scheduler, &cell, near, || {
        let mut db = job("db", 1, 1);
        db.groups[0].labels = Labels::new([("app", "db")]);
        submit(&cell, db);
    });
}

#[test]
fn devices_of_a_task_that_claims_nothing_else() {
    let cell = cell(&[4]);
    let mut machine = Machine::new("devices", amounts(4));
    machine.devices = 1;
    add_machine(&cell, machine);
    let with_device = |name: &str| {
        let mut group = TaskGroup::new(1, Amounts::zero());
        group.devices = Some(DeviceRequest { count: 1, milli_each: 600 });
        submit(&cell, Job::batch(name, group))
    };
    let (first, second) = (with_device("first"), with_device("second"));
    let mut scheduler = scheduler(&cell, "default");
    wakes(&mut scheduler, &cell, second, || report(&cell, task(first, 0), TaskReport::Finished));
}

#[test]
fn another_group_that_grows() {
    let cell = cell(&[4]);
    let mut two = job("two", 1, 1);
    let mut wide = TaskGroup::new(1, Amounts::new([9000]));
    wide.name = "wide".into();
    two.groups.push(wide.into());
    let id = submit(&cell, two);
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    wakes(&mut scheduler, &cell, id, || {
        let command = Command::ResizeGroup { job: id, group: "main".into(), count: 2 };
        cell.apply(command).unwrap();
    });
}

/// Claims of a job over its quota use room in the view until they are rejected.
#[test]
fn room_that_only_seemed_taken() {
    let cell = cell(&[2]);
    let limit = Some(Amounts::new([500]));
    cell.apply(Command::SetQuota { tenant: "poor".into(), limit }).unwrap();
    let mut poor = job("poor", 2, 1);
    poor.tenant = "poor".into();
    poor.precedence = Precedence(1);
    submit(&cell, poor);
    let other = submit(&cell, job("other", 2, 1));
    let mut scheduler = scheduler(&cell, "default");
    // The job over its quota is always the first in the queue, and waits at most a second.
    for i in 0..40 {
        run(&mut scheduler, &cell, i * 300_000_000);
    }
    assert_eq!(placed(&cell, other), 2);
    assert_settled(&mut scheduler, &cell, 2 * LONG);
}

#[test]
fn a_job_that_is_refused_for_another_one() {
    let cell = cell(&[9]);
    cell.apply(Command::SetQuota { tenant: "poor".into(), limit: Some(Amounts::zero()) }).unwrap();
    let mut poor = job("poor", 2, 1);
    poor.tenant = "poor".into();
    submit(&cell, poor);
    let other = submit(&cell, job("other", 2, 1));
    let granularity = Granularity::AllOrNothing;
    let settings = Settings { granularity, ..Settings::new("default") };
    let mut scheduler = Scheduler::new(&cell, Profile::batch(), settings).unwrap();
    for i in 0..40 {
        run(&mut scheduler, &cell, i * 1_000_000_000);
    }
    assert_eq!(placed(&cell, other), 2);
    assert_settled(&mut scheduler, &cell, 100 * LONG);
}

/// Filter that accepts machines which have reported less than one core of load.
struct Calm;

impl MachineFilter for Calm {
    fn name(&self) -> &'static str {
        "calm"
    }

    fn allows(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        machine.load(KindId::CPU).is_none_or(|load| load < 1000)
    }
}

#[test]
fn a_load_that_a_filter_looks_at() {
    let cell = cell(&[4]);
    let id = submit(&cell, job("job", 1, 1));
    let machine = MachineId { slot: 0, incarnation: 0 };
    let machine = cell.read(|cell| cell.machine(machine).unwrap().id);
    let load = |cpu| {
        let load = Amounts::new([cpu]);
        cell.apply(Command::ReportLoad { id: machine, load }).unwrap();
    };
    load(2000);
    let profile = Profile::first_fit().with_filter(PerMachine(Calm));
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    wakes(&mut scheduler, &cell, id, || load(10));
    assert_eq!(rows(&cell, id), [Some(0)]);
}

/// Observer that counts turns.
#[derive(Default)]
struct Turns(usize);

impl omega_schedulers::Observer for Turns {
    fn deciding(&mut self) {
        self.0 += 1;
    }
}

fn turns(scheduler: &mut Scheduler, cell: &omega_cellstate::SharedCell, now: u64) -> usize {
    let mut turns = Turns::default();
    while !scheduler.step(cell, now, &mut turns).unwrap().idle {}
    turns.0
}

#[test]
fn a_job_over_its_quota_has_no_turn_until_its_tenant_claims_less_or_may_claim_more() {
    for gang_min in [None, Some(2)] {
        let cell = cell(&[100]);
        let limit = |cores| {
            let limit = Some(amounts(cores));
            cell.apply(Command::SetQuota { tenant: "default".into(), limit }).unwrap();
        };
        limit(4);
        let first = submit(&cell, job("first", 3, 1));
        let free = Job { tenant: "other".into(), ..job("free", 2, 1) };
        let free = submit(&cell, free);
        let mut scheduler = scheduler(&cell, "default");
        run(&mut scheduler, &cell, 0);
        let second = submit(&cell, Job { gang_min, ..job("second", 2, 1) });
        run(&mut scheduler, &cell, 0);
        run(&mut scheduler, &cell, LONG);
        let before = if gang_min.is_some() { 0 } else { 1 };
        assert_eq!((placed(&cell, first), placed(&cell, second)), (3, before));
        // The job is woken neither by time nor by the resources that a task of another tenant frees, because its own
        // quota is exhausted.
        report(&cell, task(free, 0), TaskReport::Finished);
        assert_eq!((2..20).map(|now| turns(&mut scheduler, &cell, now * LONG)).sum::<usize>(), 0);
        report(&cell, task(first, 0), TaskReport::Finished);
        assert_eq!(turns(&mut scheduler, &cell, 20 * LONG), 1);
        assert_eq!(placed(&cell, second), 2);
        let third = submit(&cell, job("third", 1, 1));
        assert_eq!(turns(&mut scheduler, &cell, 21 * LONG), 1);
        assert_eq!(turns(&mut scheduler, &cell, 22 * LONG), 0);
        limit(5);
        assert_eq!(turns(&mut scheduler, &cell, 23 * LONG), 1);
        assert_eq!(placed(&cell, third), 1);
        assert_settled(&mut scheduler, &cell, 24 * LONG);
    }
}
