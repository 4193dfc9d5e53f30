//! Maximum number of tasks on one machine, of a tenant and of all tenants. Schedulers spread the tasks, and wait until a task ends; two
//! racing schedulers do not exceed the maximum; and if it is set later, existing tasks are counted.

use crate::cell::small::{
    LONG, cell, job, placed, report, rows, run, scheduler, step, submit, task,
};
use omega_cellstate::{Cell, CellHandle, SharedCell, View};
use omega_core::limits::TASKS_PER_MACHINE_MAX;
use omega_core::{
    Amounts, Command, Job, JobId, Reason, Rejection, TaskReport, TenantConfig, Transaction,
};
use omega_schedulers::explain::describe_obstacle;

/// Sets the maximum number of tasks that the tenant `red` may have on a machine.
fn set_max(cell: &SharedCell, tasks_per_machine_max: Option<u32>) {
    let tenant_config = TenantConfig { tasks_per_machine_max, ..TenantConfig::default() };
    cell.apply(Command::SetTenant { tenant: "red".into(), tenant_config }).unwrap();
}

/// A job of the tenant `red` whose tasks request nothing, so that only the number of tasks matters.
fn red(name: &str, tasks: u32) -> Job {
    let mut job = Job { tenant: "red".into(), ..job(name, tasks, 1) };
    job.groups[0].request = Amounts::zero();
    job
}

/// The number of tasks of a job on each of two machines.
fn spread(cell: &SharedCell, job: JobId) -> [usize; 2] {
    [0, 1].map(|row| rows(cell, job).into_iter().flatten().filter(|at| *at == row).count())
}

#[test]
fn as_many_are_placed_on_each_machine_as_may_be_and_the_others_wait_for_one() {
    let cell = cell(&[8, 8]);
    set_max(&cell, Some(2));
    let first = submit(&cell, red("first", 3));
    let second = submit(&cell, red("second", 3));
    let other = submit(&cell, job("other", 9, 1));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    assert_eq!(placed(&cell, first) + placed(&cell, second), 4, "two on each machine");
    assert_eq!(placed(&cell, other), 9, "other tenants are not counted");
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, first) + placed(&cell, second), 4);
    let diagnosis = scheduler.diagnose(second, 0).unwrap();
    assert!(diagnosis.removed.contains(&("tasks_per_machine", 2)), "{:?}", diagnosis.removed);
    let kinds = cell.read(|cell| cell.kinds().clone());
    let obstacle = describe_obstacle(&diagnosis.nearest[0].obstacles[0], &kinds);
    assert_eq!(obstacle, "maximum number of tasks on the machine");

    report(&cell, task(first, 0), TaskReport::Finished);
    run(&mut scheduler, &cell, 2 * LONG + 1);
    assert_eq!((placed(&cell, first), placed(&cell, second)), (2, 2), "it is woken at once");
    cell.read(Cell::audit).unwrap();
}

#[test]
fn a_maximum_that_is_set_later_counts_what_is_there() {
    let cell = cell(&[8, 8]);
    let before = submit(&cell, red("before", 3));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    let on = spread(&cell, before);
    assert_eq!(on.iter().sum::<usize>(), 3);
    set_max(&cell, Some(3));
    let after = submit(&cell, red("after", 9));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(spread(&cell, after), on.map(|there| 3 - there));
    cell.read(Cell::audit).unwrap();
    // A new view counts tasks as the existing one does.
    let mut late = View::new(scheduler.view().scheduler(), 0);
    late.sync(&cell).unwrap();
    let spec = cell.read(|cell| cell.job(after).unwrap().clone());
    let group = late.compile(after, &spec, 0);
    assert_eq!(late.check_fit(0, group), Err(Reason::TasksPerMachine));
    set_max(&cell, Some(4));
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(spread(&cell, after), on.map(|there| 4 - there));
    set_max(&cell, None);
    run(&mut scheduler, &cell, 4 * LONG);
    assert_eq!(placed(&cell, after), 9);
    // A snapshot has the maximum, and a restored cell counts the tasks again.
    set_max(&cell, Some(5));
    let restored = cell.read(|cell| Cell::from_snapshot_state(cell.snapshot_state())).unwrap();
    restored.audit().unwrap();
    assert_eq!(restored.state_hash(), cell.read(Cell::state_hash));
}

#[test]
fn two_schedulers_that_race_place_no_more() {
    let cell = cell(&[8]);
    set_max(&cell, Some(1));
    let claims: Vec<Transaction> = ["a", "b"]
        .map(|name| {
            let id = submit(&cell, red(name, 1));
            let (scheduler, number) = cell.register(name.into()).unwrap();
            let mut view = View::new(scheduler, number);
            view.sync(&cell).unwrap();
            let spec = cell.read(|cell| cell.job(id).unwrap().clone());
            let group = view.compile(id, &spec, 0);
            view.claim(task(id, 0), view.machine_id(0), group).unwrap();
            let again = view.claim(task(id, 0), view.machine_id(0), group);
            assert_eq!(again, Err(Reason::TasksPerMachine), "its own claim counts at once");
            view.take_transaction()
        })
        .into();
    assert!(cell.commit(&claims[0]).unwrap().is_complete());
    let conflict = cell.commit(&claims[1]).unwrap().conflict_of_claim(0);
    assert_eq!(conflict, Some(Reason::TasksPerMachine));
    cell.read(Cell::audit).unwrap();
}

#[test]
fn no_task_at_all_is_no_maximum() {
    let cell = cell(&[8]);
    let tenant_config = TenantConfig { tasks_per_machine_max: Some(0), ..TenantConfig::default() };
    let refused = cell.apply(Command::SetTenant { tenant: "red".into(), tenant_config });
    let Err(Rejection::BadTenant(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("must be at least 1"), "{why}");
}

#[test]
fn tasks_that_request_nothing_do_not_all_go_to_one_machine() {
    let cell = cell(&[8, 8]);
    let max = TASKS_PER_MACHINE_MAX as u32;
    let many = submit(&cell, red("many", 2 * max + 3));
    let mut scheduler = scheduler(&cell, "default");
    while !step(&mut scheduler, &cell, LONG).idle {}
    assert_eq!(spread(&cell, many), [TASKS_PER_MACHINE_MAX; 2]);
    let diagnosis = scheduler.diagnose(many, 0).unwrap();
    let kinds = cell.read(|cell| cell.kinds().clone());
    let obstacle = describe_obstacle(&diagnosis.nearest[0].obstacles[0], &kinds);
    assert_eq!(obstacle, "maximum number of tasks on the machine");
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, many), 2 * TASKS_PER_MACHINE_MAX);

    // The end of a task makes room for one more, and a new view agrees with the old one.
    let claim = |machine: u32, number: u64| {
        let mut late = View::new(scheduler.view().scheduler(), number);
        late.sync(&cell).unwrap();
        let spec = cell.read(|cell| cell.job(many).unwrap().clone());
        let group = late.compile(many, &spec, 0);
        late.check_fit(machine as usize, group).err()
    };
    assert_eq!([claim(0, 0), claim(1, 0)], [Some(Reason::TasksPerMachine); 2]);
    report(&cell, task(many, 0), TaskReport::Finished);
    let freed = rows(&cell, many).iter().flatten().filter(|row| **row == 0).count() as u32 == max;
    assert_eq!(claim(u32::from(freed), 0), None);
    run(&mut scheduler, &cell, 2 * LONG + 1);
    assert_eq!(spread(&cell, many), [TASKS_PER_MACHINE_MAX; 2], "it is woken at once");
    cell.read(Cell::audit).unwrap();

    // A draining machine is draining, full or not, and a restored cell refuses the same claims.
    let restored = cell.read(|cell| Cell::from_snapshot_state(cell.snapshot_state())).unwrap();
    assert_eq!(restored.state_hash(), cell.read(Cell::state_hash));
    let restored = SharedCell::new(restored);
    let (scheduler, number) = restored.register("late".into()).unwrap();
    let mut view = View::new(scheduler, number);
    view.sync(&restored).unwrap();
    let spec = restored.read(|cell| cell.job(many).unwrap().clone());
    let group = view.compile(many, &spec, 0);
    assert_eq!(view.check_fit(0, group), Err(Reason::TasksPerMachine));
    let id = view.machine_id(0);
    restored.apply(Command::DrainMachine { id, draining: true }).unwrap();
    view.sync(&restored).unwrap();
    assert_eq!(view.check_fit(0, group), Err(Reason::MachineDraining));
    restored.apply(Command::DrainMachine { id, draining: false }).unwrap();
    report(&restored, task(many, 1), TaskReport::Finished);
    report(&restored, task(many, max), TaskReport::Finished);
    view.sync(&restored).unwrap();
    assert!((0..2).any(|row| view.check_fit(row, group).is_ok()), "a restored cell logs room, too");
}

#[test]
fn a_cell_refuses_a_claim_on_a_machine_with_the_maximum_of_tasks() {
    let cell = cell(&[8]);
    let max = TASKS_PER_MACHINE_MAX as u32;
    let many = submit(&cell, red("many", max + 1));
    let (scheduler, number) = cell.register("racing".into()).unwrap();
    let mut view = View::new(scheduler, number);
    view.sync(&cell).unwrap();
    let spec = cell.read(|cell| cell.job(many).unwrap().clone());
    let group = view.compile(many, &spec, 0);
    let mut conflicts = Vec::new();
    for first in (0..=max).step_by(1000) {
        for index in (first..first + 1000).take_while(|i| *i <= max) {
            view.claim(task(many, index), view.machine_id(0), group).unwrap();
        }
        // The view is not synced, like that of a scheduler whose syncs are slow.
        conflicts.extend(cell.commit(&view.take_transaction()).unwrap().conflicts);
    }
    let reasons: Vec<Reason> = conflicts.iter().map(|conflict| conflict.reason).collect();
    assert_eq!(reasons, [Reason::TasksPerMachine]);
    let (task, machine) = (task(many, max), view.machine_id(0));
    let adopted = cell.apply(Command::AdoptTask { task, machine });
    assert!(matches!(adopted, Err(Rejection::TooMany { .. })), "{adopted:?}");
}
