//! Ports that the cell chooses. A machine never has a port twice, even if schedulers race; the ports of a task are
//! freed when the task leaves its machine; and snapshots and rejected gangs change no port. Requested ports are counted
//! only once a job asks for ports that the cell chooses.

use crate::cell::small::{LONG, cell, job, placed, report, run, scheduler, submit, task};
use omega_cellstate::{Cell, CellHandle, PortColumns, SharedCell, View};
use omega_core::{
    Claim, Command, ConflictCheck, Granularity, Job, JobId, Machine, Port, PortRange, Reason,
    Rejection, TaskReport, Text, Transaction,
};
use omega_schedulers::explain::describe_obstacle;
use std::collections::BTreeSet;

/// Sets the port range of the machine in a row.
fn set_range(cell: &SharedCell, row: usize, first: u16, last: u16) {
    let (id, machine) = cell.read(|cell| {
        let state = cell.machines().nth(row).unwrap();
        (state.id, Machine { ports: PortRange { first, last }, ..(**state.machine).clone() })
    });
    cell.apply(Command::UpdateMachine { id, machine }).unwrap();
}

/// A job whose tasks need ports with these names.
fn with_any(name: &str, tasks: u32, ports: &[&str]) -> Job {
    let mut job = job(name, tasks, 1);
    job.groups[0].any_ports = ports.iter().map(|name| Text::from(*name)).collect();
    job
}

fn with_fixed(name: &str, number: u16) -> Job {
    let mut job = job(name, 1, 1);
    job.groups[0].rules.ports.push(Port::tcp(number));
    job
}

/// The ports of all tasks of a job.
fn ports(cell: &SharedCell, job: JobId) -> Vec<u16> {
    cell.read(|cell| cell.tasks(job).flat_map(|(id, _)| cell.task_ports(id).to_vec()).collect())
}

#[test]
fn each_task_gets_its_own_ports_and_the_others_wait_for_them() {
    let cell = cell(&[100]);
    set_range(&cell, 0, 9000, 9004);
    let metrics = submit(&cell, with_fixed("metrics", 9001));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    let web = submit(&cell, with_any("web", 3, &["http", "admin"]));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((placed(&cell, metrics), placed(&cell, web)), (1, 2), "four ports are left");
    let given: BTreeSet<u16> = ports(&cell, web).into_iter().collect();
    assert_eq!(given, BTreeSet::from([9000, 9002, 9003, 9004]));
    let diagnosis = scheduler.diagnose(web, 0).unwrap();
    assert!(diagnosis.removed.contains(&("task_rules", 1)), "{:?}", diagnosis.removed);
    let kinds = cell.read(|cell| cell.kinds().clone());
    let obstacle = describe_obstacle(&diagnosis.nearest[0].obstacles[0], &kinds);
    assert_eq!(obstacle, "too few free ports in the machine's range");

    // A task that requests a port of the range does not get one that the cell has already assigned.
    let taken = submit(&cell, with_fixed("taken", 9003));
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!(placed(&cell, taken), 0);
    let obstacles = &scheduler.diagnose(taken, 0).unwrap().nearest[0].obstacles;
    assert_eq!(describe_obstacle(&obstacles[0], &kinds), "port taken");

    cell.read(Cell::audit).unwrap();
    report(&cell, task(web, 0), TaskReport::Finished);
    report(&cell, task(metrics, 0), TaskReport::Finished);
    run(&mut scheduler, &cell, 4 * LONG);
    let on_machine = cell.read(|cell| {
        let tasks = cell.machines().next().unwrap().tasks.to_vec();
        tasks.into_iter().flat_map(|id| cell.task_ports(id).to_vec()).collect::<Vec<_>>()
    });
    let distinct: BTreeSet<u16> = on_machine.iter().copied().collect();
    assert_eq!((distinct.len(), placed(&cell, web)), (on_machine.len(), 2), "it was woken");
    cell.read(Cell::audit).unwrap();
}

#[test]
fn a_fixed_port_outside_of_the_range_is_no_obstacle() {
    let cell = cell(&[100]);
    set_range(&cell, 0, 9000, 9000);
    let (web, fixed) =
        (submit(&cell, with_any("web", 1, &["http"])), submit(&cell, with_fixed("fixed", 80)));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    assert_eq!((ports(&cell, web), placed(&cell, fixed)), (vec![9000], 1));
    set_range(&cell, 0, 0, 0);
    let more = submit(&cell, with_any("more", 1, &["http"]));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((placed(&cell, more), ports(&cell, web)), (0, vec![9000]), "the task keeps its own");
    cell.read(Cell::audit).unwrap();
}

#[test]
fn two_schedulers_that_race_get_different_ports() {
    let cell = cell(&[100]);
    set_range(&cell, 0, 9000, 9001);
    let claims: Vec<Transaction> = ["a", "b", "c"]
        .map(|name| {
            let id = submit(&cell, with_any(name, 3, &["http"]));
            let (scheduler, number) = cell.register(name.into()).unwrap();
            let mut view = View::new(scheduler, number);
            view.sync(&cell).unwrap();
            let spec = cell.read(|cell| cell.job(id).unwrap().clone());
            let group = view.compile(id, &spec, 0);
            view.claim(task(id, 0), view.machine_id(0), group).unwrap();
            view.claim(task(id, 1), view.machine_id(0), group).unwrap();
            let third = view.claim(task(id, 2), view.machine_id(0), group);
            assert_eq!(third, Err(Reason::NoPorts), "its own claims count at once");
            view.drop_claims(1);
            view.take_transaction()
        })
        .into();
    assert!(cell.commit(&claims[0]).unwrap().is_complete());
    assert!(cell.commit(&claims[1]).unwrap().is_complete());
    let conflict = cell.commit(&claims[2]).unwrap().conflict_of_claim(0);
    assert_eq!(conflict, Some(Reason::NoPorts));
    let given = [JobId(0), JobId(1)].map(|id| ports(&cell, id));
    assert_ne!(given[0], given[1]);
    cell.read(Cell::audit).unwrap();
}

#[test]
fn requested_ports_are_counted_once_a_job_asks_for_chosen_ones() {
    let cell = cell(&[100, 100]);
    set_range(&cell, 0, 9000, 9001);
    let [placed, open] =
        [("a", 9000), ("b", 9001)].map(|(name, number)| submit(&cell, with_fixed(name, number)));
    let (id, number) = cell.register("a".into()).unwrap();
    let mut view = View::new(id, number);
    let claim = |view: &mut View, job, index| {
        view.sync(&cell).unwrap();
        let spec = cell.read(|cell| cell.job(job).unwrap().clone());
        let group = view.compile(job, &spec, 0);
        view.claim(task(job, index), view.machine_id(0), group)
    };
    claim(&mut view, placed, 0).unwrap();
    assert!(cell.commit(&view.take_transaction()).unwrap().is_complete());
    claim(&mut view, open, 0).unwrap();
    assert_eq!(view.delta().policies.ports, PortColumns::default(), "none was chosen yet");

    let web = submit(&cell, with_any("web", 1, &["http"]));
    assert_eq!(claim(&mut view, web, 0), Err(Reason::NoPorts), "both ports are requested");
    let ports = &view.delta().policies.ports;
    assert!(ports.counted);
    let [(0, taken)] = &ports.taken[..] else { panic!("{ports:?}") };
    assert_eq!(taken.fixed, [9000], "the ports of tasks that were placed before");
    view.drop_claims(1);
    claim(&mut view, web, 0).unwrap();
    assert!(cell.commit(&view.take_transaction()).unwrap().is_complete());
    assert_eq!(self::ports(&cell, web), [9001]);
    cell.read(Cell::audit).unwrap();
}

#[test]
fn a_rejected_transaction_and_a_snapshot_change_no_port() {
    let cell = cell(&[100]);
    set_range(&cell, 0, 9000, 9009);
    let web = submit(&cell, with_any("web", 3, &["http", "admin"]));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    let before = ports(&cell, web);
    assert_eq!(before.len(), 6);
    let hash = cell.read(Cell::state_hash);
    let restored = cell.read(|cell| Cell::from_snapshot_state(cell.snapshot_state())).unwrap();
    restored.audit().unwrap();
    assert_eq!((restored.state_hash(), restored.task_ports(task(web, 1))), (hash, &before[2..4]));

    // The release of a task is undone, because a claim of the transaction conflicts.
    let other = submit(&cell, with_fixed("other", before[0]));
    let (id, number) = cell.register("mover".into()).unwrap();
    let mut view = View::new(id, number);
    view.sync(&cell).unwrap();
    let mut txn = view.take_transaction();
    txn.releases = vec![task(web, 1)];
    txn.claims = vec![Claim::new(task(other, 0), view.machine_id(0), Default::default())];
    (txn.granularity, txn.check) = (Granularity::AllOrNothing, ConflictCheck::ResourceFit);
    let commit = cell.commit(&txn).unwrap();
    assert_eq!(commit.conflict_of_claim(0), Some(Reason::PortTaken));
    assert_eq!(ports(&cell, web), before);
    cell.read(Cell::audit).unwrap();
}

#[test]
fn wrong_names_and_ranges_are_refused() {
    let cell = cell(&[8]);
    for (names, why) in [
        (&["web", "WEB"][..], "has the same name twice"),
        (&["a b"], "must consist of letters, digits"),
        (&[""], "name"),
    ] {
        let refused = cell.apply(Command::SubmitJob(with_any("web", 1, names))).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    for (first, last) in [(0, 1), (9, 8)] {
        let machine =
            Machine { ports: PortRange { first, last }, ..Machine::new("m", Default::default()) };
        let refused = cell.apply(Command::RegisterMachine(machine));
        let Err(Rejection::BadMachine(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("give the first and the last"), "{why}");
    }
}
