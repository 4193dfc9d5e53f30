//! Exclusive cores: their choice, no overcommit of a node in races, preemption for them, and
//! explanations.

use crate::cell::small::{LONG, cell, job, placed, report, rows, run, scheduler, submit, task};
use omega_cellstate::{Cell, CellHandle, SharedCell, SnapshotState, SnapshotStateError, View};
use omega_core::{
    Command, CorePlace, CoreRequest, Item, Job, JobId, KindId, Machine, NodeCores, Overcommit,
    Precedence, Reason, Rejection, Resize, TaskReport, Transaction, TransactionId, Version,
};
use omega_schedulers::explain::{Obstacle, diagnose};
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::{Profile, Scheduler, Settings};
use omega_tests::random::Dice;
use std::sync::Barrier;

fn machine(name: &str, nodes: &[u16]) -> Machine {
    let numa = NodeCores::new(nodes).unwrap();
    let cpu = u64::from(numa.total());
    Machine { numa, ..Machine::new(name, crate::cell::small::amounts(cpu)) }
}

/// A cell whose machines have these NUMA nodes.
fn cell_of(machines: &[&[u16]]) -> SharedCell {
    let made = cell(&[]);
    for (i, nodes) in machines.iter().enumerate() {
        crate::cell::small::add_machine(&made, machine(&format!("m{i}"), nodes));
    }
    made
}

/// A job whose tasks request exclusive cores.
fn pinned(name: &str, tasks: u32, cores: CoreRequest) -> Job {
    let mut job = job(name, tasks, cores.count.into());
    job.groups[0].cores = Some(cores);
    job
}

/// The cores of each task of a job, by node.
fn cores(cell: &SharedCell, job: JobId) -> Vec<Vec<u16>> {
    cell.read(|cell| {
        let of = |id| cell.task_cores(id).as_slice().to_vec();
        cell.tasks(job).map(|(id, _)| of(id)).collect()
    })
}

#[test]
fn aligned_tasks_fill_one_node_before_the_next() {
    let cell = cell_of(&[&[8, 8]]);
    let job = submit(&cell, pinned("rank", 4, CoreRequest::on_one_node(3)));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    assert_eq!(cores(&cell, job), [vec![3], vec![3], vec![0, 3], vec![0, 3]]);
    // Four cores are left, but no node has three.
    let third = submit(&cell, pinned("late", 1, CoreRequest::on_one_node(3)));
    let spread = submit(&cell, pinned("spread", 1, CoreRequest::any(3)));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    assert_eq!((placed(&cell, third), cores(&cell, spread)), (0, vec![vec![2, 1]]));
    report(&cell, task(job, 3), TaskReport::Finished);
    run(&mut scheduler, &cell, LONG);
    assert_eq!(cores(&cell, third), [[0, 3]]);
    cell.read(|cell| cell.audit_no_overcommit()).unwrap();
}

#[test]
fn overcommit_gives_shared_tasks_more_and_nobody_a_core_twice() {
    let cell = cell(&[]);
    let mut host = machine("m", &[4, 4]);
    host.overcommit = Overcommit::none().with(KindId::CPU, 200);
    crate::cell::small::add_machine(&cell, host);
    let overcommit_max = Overcommit::none().with(KindId::CPU, 200);
    let policy = omega_core::Policy { overcommit_max, ..omega_core::Policy::default() };
    cell.apply(Command::SetPolicy(policy)).unwrap();
    let alone = submit(&cell, pinned("alone", 3, CoreRequest::any(4)));
    let shared = submit(&cell, job("shared", 9, 1));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    assert_eq!((placed(&cell, alone), placed(&cell, shared)), (2, 8));
}

#[test]
fn what_contradicts_itself_is_refused() {
    let cell = cell_of(&[&[4, 4]]);
    let says = |command: Command| cell.apply(command).unwrap_err().to_string();
    let poor = Machine { capacity: crate::cell::small::amounts(7), ..machine("poor", &[4, 4]) };
    let told = says(Command::RegisterMachine(poor));
    assert_eq!(
        told,
        "machine \"poor\" has 8 cores in its NUMA nodes, but only 7 cpu in total: \
         raise cpu, or name fewer cores"
    );
    let mut job = pinned("j", 1, CoreRequest::any(2));
    job.groups[0].request.set(KindId::CPU, 1999);
    let told = says(Command::SubmitJob(job));
    assert_eq!(
        told,
        "group \"main\" requests 2 exclusive cores but less `cpu`: `cpu` must be at least 2"
    );
    let told = says(Command::SubmitJob(pinned("j", 1, CoreRequest::any(0))));
    assert_eq!(
        told,
        "group \"main\" requests 0 exclusive cores: must be at least 1, or leave \
         `cores` out"
    );
    let mut job = pinned("j", 1, CoreRequest::any(2));
    job.groups[0].demand_profiles =
        vec![omega_core::DemandProfile { kind: KindId::CPU, points: vec![2000, 1000] }];
    let told = says(Command::SubmitJob(job));
    assert_eq!(
        told,
        "group \"main\" has 2 exclusive cores, but its demand profile of `cpu` is lower: each point must be at least 2"
    );
}

#[test]
fn nodes_change_only_while_no_task_has_their_cores() {
    let cell = cell_of(&[&[4, 4]]);
    let job = submit(&cell, pinned("j", 1, CoreRequest::any(2)));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    let id = cell.read(|cell| cell.machine_by_name("m0")).unwrap();
    let update = || cell.apply(Command::UpdateMachine { id, machine: machine("m0", &[8]) });
    assert_eq!(update(), Err(Rejection::CoresInUse(id)));
    report(&cell, task(job, 0), TaskReport::Finished);
    update().unwrap();
    let counts = cell.read(Cell::core_counts);
    assert_eq!((counts.all, counts.taken), (8, 0));
    cell.read(Cell::audit).unwrap();
}

#[test]
fn a_task_that_is_resized_keeps_the_cpu_of_its_cores() {
    let cell = cell_of(&[&[4, 4]]);
    let job = submit(&cell, pinned("j", 1, CoreRequest::on_one_node(2)));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    let (scheduler, number) = cell.register("by-hand".into()).unwrap();
    let resize = |number, cores| {
        let id = TransactionId { scheduler, number };
        let mut txn = Transaction::new(id, Version(0), Vec::new());
        txn.resizes.push(Resize { task: task(job, 0), to: crate::cell::small::amounts(cores) });
        cell.commit(&txn).unwrap().conflict_of(Item::Resize(0))
    };
    assert_eq!(resize(number, 1), Some(Reason::NoCores));
    assert_eq!(resize(number + 1, 3), None);
    assert_eq!(cores(&cell, job), [[2]], "the cores stay as they are");
    let snapshot = cell.read(Cell::snapshot_state);
    assert_eq!(Cell::from_snapshot_state(snapshot.clone()).unwrap().snapshot_state(), snapshot);
}

#[test]
fn evictions_make_room_on_one_node() {
    let cell = cell_of(&[&[4, 4]]);
    let low = submit(&cell, pinned("low", 4, CoreRequest::on_one_node(2)));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    report(&cell, task(low, 3), TaskReport::Finished);
    // The second node has two cores left, so one of its tasks must be evicted, and none of the first node's.
    let mut high = pinned("high", 1, CoreRequest::on_one_node(4));
    high.precedence = Precedence(1);
    let high = submit(&cell, high);
    let profile = Profile::batch().with_post_filter(DefaultPreemption::default());
    let mut evicting = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    run(&mut evicting, &cell, LONG);
    assert_eq!(cores(&cell, high), [[0, 4]]);
    assert_eq!(placed(&cell, low), 2);
    cell.read(|cell| cell.audit_no_overcommit()).unwrap();
}

#[test]
fn a_view_knows_what_is_left_when_a_task_is_lifted() {
    let cell = cell_of(&[&[4, 4]]);
    let job = submit(&cell, pinned("j", 2, CoreRequest::on_one_node(3)));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    let (id, number) = cell.register("watcher".into()).unwrap();
    let mut view = View::new(id, number).with_placements();
    view.sync(&cell).unwrap();
    let left = |view: &View| view.cores(0).unwrap().left()[..2].to_vec();
    assert_eq!(left(&view), [1, 1]);
    let on = view.tasks_on(0)[1];
    assert_eq!(on.id, task(job, 1));
    view.lift(0, on);
    assert_eq!(left(&view), [1, 4]);
    view.put_back(0, on);
    assert_eq!(left(&view), [1, 1]);
}

#[test]
fn what_is_missing_is_told() {
    let cell = cell_of(&[&[4, 4], &[]]);
    let job = submit(&cell, pinned("wide", 1, CoreRequest::on_one_node(6)));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    assert_eq!(rows(&cell, job), [None]);
    let spec = cell.read(|cell| cell.job(job).cloned()).unwrap();
    let (id, number) = cell.register("watcher".into()).unwrap();
    let mut view = View::new(id, number);
    view.sync(&cell).unwrap();
    let group = view.compile(job, &spec, 0);
    let told = diagnose(&view, &Profile::first_fit(), group);
    let missing = told.nearest.iter().flat_map(|miss| &miss.obstacles);
    let missing: Vec<_> =
        missing.filter(|obstacle| matches!(obstacle, Obstacle::Cores { .. })).collect();
    assert!(missing.contains(&&Obstacle::Cores { missing: 2 }), "{told:?}");
}

#[test]
fn an_image_with_cores_that_cannot_be_is_no_cell() {
    let cell = cell_of(&[&[4, 4]]);
    let job = submit(&cell, pinned("j", 3, CoreRequest::on_one_node(2)));
    run(&mut scheduler(&cell, "default"), &cell, 0);
    assert_eq!(placed(&cell, job), 3);
    let snapshot = cell.read(Cell::snapshot_state);
    assert_eq!(Cell::from_snapshot_state(snapshot.clone()).unwrap().snapshot_state(), snapshot);
    type Harm = fn(&mut Vec<(u32, NodeCores)>);
    let harms: [Harm; 7] = [
        |cores| cores.clear(),
        |cores| cores.swap(0, 1),
        |cores| cores[2].0 = 3,
        |cores| cores[0].1 = NodeCores::NONE.with(0, 3),
        |cores| cores[0].1 = NodeCores::NONE.with(0, 1).with(1, 1),
        |cores| cores[0].1 = NodeCores::NONE.with(7, 2),
        |cores| cores.iter_mut().for_each(|(_, cores)| *cores = NodeCores::NONE.with(0, 2)),
    ];
    for harm in harms {
        let mut harmed: SnapshotState = snapshot.clone();
        harm(&mut harmed.jobs[0].cores);
        let cores = harmed.jobs[0].cores.clone();
        let made = Cell::from_snapshot_state(harmed).map(drop);
        assert!(matches!(made, Err(SnapshotStateError::Cores(_))), "{cores:?}: {made:?}");
    }
}

/// Four schedulers on as many threads place and end tasks that request exclusive cores, some on one node and some on
/// any.
#[test]
fn schedulers_that_race_for_cores_are_judged_one_by_one() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 40;
    let cell = cell_of(&[&[4, 4], &[8], &[2, 3, 3], &[6, 2]]);
    let start = Barrier::new(THREADS);
    let race = |thread: usize| {
        let mut dice = Dice::new(thread as u64);
        let name = format!("s{thread}");
        let mut scheduler = scheduler(&cell, &name);
        start.wait();
        let mut ran = 0;
        for round in 0..ROUNDS {
            let place = *dice.pick(&[CorePlace::OneNode, CorePlace::AnyNodes]);
            let asked = CoreRequest { count: 1 + dice.below(5) as u16, place };
            let mut job = pinned(&format!("{name}-{round}"), 1 + dice.below(3) as u32, asked);
            job.scheduler = name.as_str().into();
            let job = submit(&cell, job);
            run(&mut scheduler, &cell, round * LONG);
            for (id, state) in cell.read(|cell| cell.tasks(job).collect::<Vec<_>>()) {
                let Some(machine) = state.machine() else { continue };
                let has = cell.read(|cell| cell.task_cores(id));
                assert!(has.meet(asked), "{has:?} for {asked:?}");
                ran += 1;
                let report = TaskReport::Finished;
                cell.apply(Command::ReportTask { task: id, machine, placed_ms: 0, report })
                    .unwrap();
            }
            cell.apply(Command::KillJob { job }).unwrap();
            cell.read(|cell| cell.audit_no_overcommit()).unwrap();
        }
        ran
    };
    let ran: u64 = std::thread::scope(|scope| {
        let race = &race;
        let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || race(i))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(ran > 0);
    let counts = cell.read(Cell::core_counts);
    assert_eq!((counts.all, counts.taken), (32, 0));
}
