//! Snapshot states: a restored cell behaves like the original, a capture is the state at its beginning, and an invalid
//! one is rejected with a specific error.
//!
//! `OMEGA_SEEDS=100000 cargo test -p omega-tests snapshot_states` searches longer; `OMEGA_SEED=7` runs a single
//! history.

use crate::cell::histories::seeds;
use omega_cellstate::{
    Cell, CellHandle, Delta, Interest, JobSnapshot, MachineStatus, SharedCell, SnapshotState,
    SnapshotStateError, View,
};
use omega_core::limits::AMOUNT_MAX;
use omega_core::{
    Amounts, Claim, Command, Conflict, DeviceSet, HolderId, Item, Job, JobId, KindId, Kinds,
    Machine, MachineId, Outcome, Policy, Reason, Rejection, SchedulerId, SequenceNumber, TaskGroup,
    TaskId, TaskReport, TaskState, Transaction, TransactionId, Version,
};
use omega_tests::history;
use omega_tests::random::Dice;

/// Number of commands in a history; some are before the snapshot, the others after it.
const LENGTH: usize = 90;

fn restored(snapshot: &SnapshotState, seed: u64) -> Cell {
    Cell::from_snapshot_state(snapshot.clone())
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

#[test]
fn a_restored_cell_goes_on_as_if_it_had_never_been_saved() {
    for seed in seeds(500) {
        let (kinds, commands) = history::commands(seed, LENGTH);
        let mut dice = Dice::new(seed ^ 0x1A6E);
        let cut = dice.below(LENGTH);
        let mut cell = Cell::new(kinds);
        commands[..cut].iter().for_each(|command| drop(cell.apply(command.clone())));
        let snapshot = cell.snapshot_state();
        assert_eq!(snapshot.state_hash(), cell.state_hash(), "seed {seed}: hash of the state");
        let mut again = restored(&snapshot, seed);
        assert_eq!(again.snapshot_state(), snapshot, "seed {seed}: state of the restored cell");
        for (number, command) in commands.iter().enumerate().skip(cut) {
            let outcomes = (cell.apply(command.clone()), again.apply(command.clone()));
            assert_eq!(outcomes.0, outcomes.1, "seed {seed}, cut {cut}, {number}: {command:?}");
            let hashes = (cell.state_hash(), again.state_hash());
            assert_eq!(hashes.0, hashes.1, "seed {seed}, cut {cut}, {number}: {command:?}");
            again.audit().unwrap_or_else(|error| panic!("seed {seed}, cut {cut}: {error}"));
            if dice.chance(5) {
                // The restored cell is captured and restored once more.
                again = restored(&again.snapshot_state(), seed);
            }
        }
        assert_eq!(
            cell.snapshot_state(),
            again.snapshot_state(),
            "seed {seed}, cut {cut}: the states after it"
        );
    }
}

#[test]
fn a_capture_is_the_state_when_it_began() {
    for seed in seeds(600) {
        let (kinds, commands) = history::commands(seed, LENGTH);
        let mut dice = Dice::new(seed ^ 0xCA97);
        let mut cell = Cell::new(kinds);
        let mut wanted = None;
        for command in commands {
            if wanted.is_none() && dice.chance(30) {
                cell.begin_capture();
                wanted = Some(cell.snapshot_state());
            }
            drop(cell.apply(command));
            if let Some(snapshot) = &wanted
                && dice.chance(20)
                && let Some(captured) = cell.capture_more(1)
            {
                assert_eq!(captured.into_snapshot_state(), *snapshot, "seed {seed}");
                wanted = None;
            }
        }
    }
}

/// A cell with one machine that accepts every task, and a scheduler.
pub(crate) fn small_cell() -> Cell {
    let mut cell = Cell::new(Kinds::standard());
    cell.apply(Command::RegisterScheduler { name: "s".into() }).unwrap();
    cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([1 << 40])))).unwrap();
    cell
}

/// A random command about a machine other than the first.
fn about_a_machine(dice: &mut Dice, number: u64, cell: &Cell) -> Command {
    let row = 1 + dice.below(MACHINES) as u32;
    let new = Machine::new(format!("late-{number}"), Amounts::new([number]));
    let Some(old) = cell.machines().find(|machine| machine.id.slot == row) else {
        return Command::RegisterMachine(new);
    };
    match dice.below(5) {
        0 => Command::RemoveMachine { id: old.id },
        1 => Command::RegisterMachine(new),
        2 => Command::DrainMachine { id: old.id, draining: dice.chance(50) },
        3 => Command::ReportLoad { id: old.id, load: Amounts::new([number]) },
        _ => {
            let capacity = Amounts::new([number]);
            let machine = Machine { capacity, ..Machine::clone(old.machine) };
            Command::UpdateMachine { id: old.id, machine }
        }
    }
}

/// A random command about one of the first jobs.
fn about_a_job(dice: &mut Dice, number: u64, cell: &Cell) -> Command {
    let job = JobId(dice.below(JOBS) as u64);
    let task = TaskId { job, index: 0 };
    match dice.below(8) {
        0 => Command::KillJob { job },
        1 => Command::ResizeGroup { job, group: "main".into(), count: dice.below(4) as u32 },
        2 => Command::Expire { now_ms: KEEP_MS + number / 4 },
        3 => Command::SubmitJob(Job::batch(
            format!("late-{number}"),
            TaskGroup::new(1, Amounts::zero()),
        )),
        4 => Command::ReportTask {
            task,
            machine: MachineId::first(0),
            placed_ms: 0,
            report: *dice.pick(&[TaskReport::Started, TaskReport::Failed, TaskReport::Finished]),
        },
        5 if dice.chance(10) => Command::DeleteJob { job },
        _ => Command::Commit(Transaction::new(
            TransactionId { scheduler: SchedulerId(0), number },
            cell.version(),
            vec![Claim::new(task, MachineId::first(0), SequenceNumber(0))],
        )),
    }
}

/// Number of jobs, which are enough for several pieces of a capture.
const JOBS: usize = 3000;
const MACHINES: usize = 1500;

/// Time for which ended jobs are kept. From the first steps on, the cell's time advances slowly beyond it, so that each
/// step removes only a few jobs.
const KEEP_MS: u64 = 10_000;

/// The capture has many pieces; some are copied in order, and some before they change.
#[test]
fn a_capture_in_many_pieces_is_the_state_when_it_began() {
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let mut cell = small_cell();
        for number in 0..JOBS {
            let group = TaskGroup::new(1 + dice.below(3) as u32, Amounts::new([1]));
            cell.apply(Command::SubmitJob(Job::batch(format!("job-{number}"), group))).unwrap();
        }
        for number in 0..MACHINES {
            let machine = Machine::new(format!("n-{number}"), Amounts::new([1]));
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        let mut number = 0;
        let mut step = |cell: &mut Cell, dice: &mut Dice| {
            number += 1;
            let command = if dice.chance(30) {
                about_a_machine(dice, number, cell)
            } else {
                about_a_job(dice, number, cell)
            };
            drop(cell.apply(command));
        };
        let policy = Policy { ttl_after_finished_ms: KEEP_MS, ..Policy::default() };
        cell.apply(Command::SetPolicy(policy)).unwrap();
        for job in (0..2 * JOBS as u64 / 3).map(JobId) {
            // More jobs have ended than there are in a piece.
            cell.apply(Command::KillJob { job }).unwrap();
            if job.0 % 10 == 0 {
                cell.apply(Command::Expire { now_ms: job.0 }).unwrap();
            }
        }
        (0..500).for_each(|_| step(&mut cell, &mut dice));
        for _ in 0..3 {
            cell.begin_capture();
            let wanted = cell.snapshot_state();
            let captured = loop {
                (0..dice.below(100)).for_each(|_| step(&mut cell, &mut dice));
                let pieces = 1 + dice.below(3);
                if let Some(captured) = cell.capture_more(pieces) {
                    break captured;
                }
            };
            assert_eq!(captured.into_snapshot_state(), wanted, "seed {seed}");
            assert!(cell.capture_more(1).is_none(), "seed {seed}: no capture goes on");
        }
        // A running capture is not part of the state.
        cell.begin_capture();
        let hash = restored(&cell.snapshot_state(), seed).state_hash();
        assert_eq!(hash, cell.state_hash(), "seed {seed}");
    }
}

#[test]
fn a_view_of_another_lineage_starts_anew() {
    for seed in seeds(200) {
        let (kinds, commands) = history::commands(seed, LENGTH);
        let cell = SharedCell::new(Cell::new(kinds));
        cell.apply_all(commands);
        let (id, number) = cell.register("viewer".into()).unwrap();
        let mut view = View::new(id, number).with_interest(Interest::AllJobs);
        view.sync(&cell).unwrap();
        let version = view.version();
        let again = SharedCell::new(restored(&cell.read(Cell::snapshot_state), seed));
        assert_eq!(again.read(Cell::version), version, "seed {seed}");
        view.sync(&again).unwrap();
        assert!(view.delta().full, "seed {seed}: the saved cell's view, at the same version");
        view.sync(&again).unwrap();
        assert!(!view.delta().full, "seed {seed}: the restored cell's own view");
        again.apply(Command::RegisterScheduler { name: "late".into() }).unwrap();
        view.sync(&again).unwrap();
        assert!(!view.delta().full, "seed {seed}: the restored cell's own view goes on");
        cell.apply(Command::RegisterScheduler { name: "late".into() }).unwrap();
        view.sync(&cell).unwrap();
        assert!(view.delta().full, "seed {seed}: and back");
        // Two cells restored from one image number their trackers equally, so a view may be synced from one cell, then
        // from the other.
        let references =
            [(); 2].map(|()| SharedCell::new(restored(&cell.read(Cell::snapshot_state), seed)));
        let mut delta = Delta::default();
        references[0].sync(Version(0), &Interest::AllJobs, &mut delta).unwrap();
        references[1].sync(delta.to, &Interest::AllJobs, &mut delta).unwrap();
        assert!(!delta.full, "seed {seed}: cells of one image");
    }
}

/// A cell with some objects of every kind.
pub(crate) fn rich_snapshot_state() -> SnapshotState {
    let mut cell = Cell::new(Kinds::standard());
    let mut apply = |command: Command| cell.apply(command).unwrap();
    apply(Command::SetPolicy(Policy { ttl_after_finished_ms: 100, ..Policy::default() }));
    for name in ["s", "t"] {
        apply(Command::RegisterScheduler { name: name.into() });
    }
    let machine = |name: &str| {
        Machine::new(name, Amounts::new([8000, 8 << 30, 0, 4000])).with_devices(KindId::GPU, 4)
    };
    for name in ["a", "b", "c"] {
        apply(Command::RegisterMachine(machine(name)));
    }
    apply(Command::RemoveMachine { id: MachineId::first(1) });
    apply(Command::ReportLoad { id: MachineId::first(2), load: Amounts::new([7]) });
    apply(Command::SetQuota { tenant: "red".into(), limit: Some(Amounts::new([9000])) });
    let group = |count, milli_each| TaskGroup {
        devices: Some(omega_core::DeviceRequest { count: 1, milli_each }),
        ..TaskGroup::new(count, Amounts::new([100]))
    };
    for (name, group) in [("x", group(3, 400)), ("y", group(1, 1000)), ("z", group(2, 100))] {
        apply(Command::SubmitJob(Job::batch(name, group)));
    }
    let claim = |job: u64, index| {
        Claim::new(TaskId { job: JobId(job), index }, MachineId::first(0), SequenceNumber(0))
    };
    for number in [0, 3] {
        let id = TransactionId { scheduler: SchedulerId(0), number };
        let claims = vec![claim(0, number as u32), claim(1, 0), claim(9, 0)];
        apply(Command::Commit(Transaction::new(id, Version(0), claims)));
    }
    apply(Command::ResizeGroup { job: JobId(2), group: "main".into(), count: 4 });
    apply(Command::KillJob { job: JobId(1) });
    apply(Command::Expire { now_ms: 5 });
    let hold = |holder, name: &str| Command::GrantLease {
        name: name.into(),
        holder: HolderId(holder),
        lease_ms: 10_000,
    };
    apply(hold(1 << 60, "s"));
    apply(Command::RevokeLeases { holder: HolderId(1 << 60) });
    apply(hold(1 << 50, "s"));
    cell.snapshot_state()
}

/// A kind of damage: its name, a function that damages a snapshot state, and a check that the error is the expected
/// one.
type Harm = (&'static str, fn(&mut SnapshotState), fn(&SnapshotStateError) -> bool);

macro_rules! harm {
    ($snapshot:ident, $harm:expr => $($error:tt)+) => {
        (stringify!($harm), |$snapshot| _ = $harm, |error| matches!(error, SnapshotStateError::$($error)+))
    };
}

fn set<T>(place: &mut T, value: T) -> T {
    std::mem::replace(place, value)
}

fn spec(job: &mut JobSnapshot) -> &mut Job {
    std::sync::Arc::make_mut(&mut job.spec)
}

fn machine_of(snapshot: &mut SnapshotState, row: usize) -> &mut Machine {
    std::sync::Arc::make_mut(snapshot.machines[row].machine.as_mut().unwrap())
}

/// Damages of everything except jobs and tasks.
fn harms_of_rows() -> Vec<Harm> {
    vec![
        harm!(i, set(&mut i.version, Version(u64::MAX)) => Version(_)),
        harm!(i, set(&mut i.next_job, JobId(u64::MAX)) => TooMany { .. }),
        harm!(i, set(&mut i.next_job, JobId(1)) => JobOrder(JobId(1))),
        harm!(i, i.jobs.swap(0, 1) => JobOrder(_)),
        harm!(i, set(&mut i.machines[0].status, MachineStatus::Absent) => Row(0)),
        harm!(i, set(&mut i.machines[1].status, MachineStatus::Draining) => Row(1)),
        harm!(i, set(&mut i.machines[0].sequence, SequenceNumber(1 << 40)) => Row(0)),
        harm!(i, set(&mut i.machines[1].incarnation, u32::MAX) => Row(1)),
        harm!(i, set(&mut i.machines[0].incarnation, 1) => NoMachine(..)),
        harm!(i, set(&mut machine_of(i, 2).name, "a".into()) => Twice { what: "machine", .. }),
        harm!(i, set(&mut machine_of(i, 2).name, "".into()) => Refused(_)),
        harm!(i, set(&mut machine_of(i, 0).devices, 200) => Refused(_)),
        harm!(i, set(&mut machine_of(i, 0).devices, 0) => Devices(_)),
        harm!(i, machine_of(i, 0).capacity.set(KindId(0), u64::MAX) => Refused(_)),
        harm!(i, i.vacant.clear() => Vacant),
        harm!(i, i.vacant.push(1) => Vacant),
        harm!(i, i.vacant.push(0) => Vacant),
        harm!(i, i.vacant.push(77) => Vacant),
        harm!(i, i.loads.push((2, i.loads[0].1.clone())) => Load(2)),
        harm!(i, set(&mut i.loads[0].0, 1) => Load(1)),
        harm!(i, set(&mut i.loads[0].0, 7) => Load(7)),
        harm!(i, set(&mut i.loads[0].1.used, Amounts::new([u64::MAX])) => Refused(_)),
        harm!(i, set(&mut i.loads[0].1.claimed, Amounts::new([u64::MAX])) => Refused(_)),
        harm!(i, set(&mut i.loads[0].1.at_ms, u64::MAX) => Load(_)),
        harm!(i, i.tenants.push(i.tenants[0].clone()) => Twice { what: "tenant", .. }),
        harm!(i, i.tenants.resize(70_000, i.tenants[0].clone()) => TooMany { .. }),
        harm!(i, set(&mut i.tenants[0].limit, Some(Amounts::new([u64::MAX]))) => Refused(_)),
        harm!(i, i.tenants.clear() => NoTenant(_)),
        harm!(i, set(&mut i.schedulers[1].name, "s".into()) => Twice { what: "scheduler", .. }),
        harm!(i, set(&mut i.schedulers[1].name, "\n".into()) => Refused(_)),
        harm!(i, i.schedulers.resize(5000, i.schedulers[0].clone()) => TooMany { .. }),
        harm!(i, set(&mut i.schedulers[0].lease.as_mut().unwrap().lease_ms, 0) => Lease(_)),
        harm!(i, set(&mut i.schedulers[0].floor, 0) => Lease(_)),
        harm!(i, i.schedulers[0].reply_cache.reverse() => CachedReply(_)),
        harm!(i, set(&mut i.schedulers[0].reply_cache[0].number, 3) => CachedReply(_)),
        harm!(i, set(&mut i.schedulers[0].reply_cache[1].number, u64::MAX) => CachedReply(_)),
        harm!(i, set(&mut i.schedulers[0].reply_cache[0].version, u64::MAX) => CachedReply(_)),
        harm!(i, set(&mut i.schedulers[0].reply_cache[0].conflicts, {
            let conflict = Conflict { item: Item::Claim(1), reason: Reason::NoDevices };
            [conflict, conflict].into()
        }) => CachedReply(_)),
    ]
}

/// Damages of jobs.
fn harms_of_jobs() -> Vec<Harm> {
    vec![
        harm!(i, set(&mut spec(&mut i.jobs[1]).name, "x".into()) => Twice { what: "job", .. }),
        harm!(i, set(&mut spec(&mut i.jobs[1]).scheduler, "".into()) => Refused(_)),
        harm!(i, set(&mut spec(&mut i.jobs[1]).tenant, "none".into()) => NoTenant(_)),
        harm!(i, spec(&mut i.jobs[0]).groups.clear() => Refused(_)),
        harm!(i, set(&mut spec(&mut i.jobs[0]).groups[0].count, 2) => Tasks(_)),
        harm!(i, set(&mut spec(&mut i.jobs[0]).groups[0].count, u32::MAX) => Refused(_)),
        harm!(i, set(&mut spec(&mut i.jobs[2]).groups[0].count, 3) => Tasks(_)),
        harm!(i, set(&mut spec(&mut i.jobs[2]).groups[0].count, 5) => Tasks(_)),
        harm!(i, set(&mut i.jobs[0].tasks[0].group, 1) => Tasks(_)),
        harm!(i, set(&mut i.jobs[2].tasks[0].group, 9) => Tasks(_)),
        harm!(i, i.jobs[0].tasks.pop() => Tasks(_)),
        harm!(i, i.jobs[0].tasks.clear() => Tasks(_)),
    ]
}

/// Damages of tasks.
fn harms_of_tasks() -> Vec<Harm> {
    vec![
        harm!(i, set(&mut i.jobs[0].tasks[0].state, TaskState::Placed(MachineId::first(1)))
            => NoMachine(..)),
        harm!(i, set(&mut i.jobs[0].tasks[0].state, TaskState::Placed(MachineId::first(99)))
            => NoMachine(..)),
        harm!(i, set(&mut i.jobs[0].tasks[0].state, TaskState::Pending) => Devices(_)),
        harm!(i, set(&mut i.jobs[0].tasks[0].devices, DeviceSet(0)) => Devices(_)),
        harm!(i, set(&mut i.jobs[0].tasks[0].devices, DeviceSet(0b11)) => Devices(_)),
        harm!(i, set(&mut i.jobs[0].tasks[0].devices, DeviceSet(1 << 31)) => Devices(_)),
        harm!(i, i.jobs[0].tasks.iter_mut().for_each(|task| {
            (task.state, task.devices) = (TaskState::Placed(MachineId::first(0)), DeviceSet(1));
        }) => Devices(_)),
        harm!(i, i.jobs[0].tasks.iter_mut().for_each(|task| {
            (task.state, task.devices) = (TaskState::Killed, DeviceSet(0));
        }) => Ended(JobId(0))),
        harm!(i, i.ended.clear() => Ended(JobId(1))),
        harm!(i, i.ended.push(i.ended[0]) => Ended(_)),
        harm!(i, i.ended.push((JobId(0), None)) => Ended(_)),
        harm!(i, i.ended.push((JobId(77), None)) => Ended(_)),
        harm!(i, set(&mut i.ended[0].1, Some(6)) => Ended(_)),
    ]
}

#[test]
fn an_image_that_no_cell_has_is_refused_by_name() {
    let good = rich_snapshot_state();
    let cell = Cell::from_snapshot_state(good.clone()).unwrap();
    cell.audit().unwrap();
    assert_eq!(cell.snapshot_state(), good);
    for (what, harm, expected) in
        [harms_of_rows(), harms_of_jobs(), harms_of_tasks()].into_iter().flatten()
    {
        let mut snapshot = good.clone();
        harm(&mut snapshot);
        match Cell::from_snapshot_state(snapshot) {
            Ok(_) => panic!("{what}: no error"),
            Err(error) => assert!(expected(&error), "{what}: {error:?}"),
        }
    }
}

/// A damaged image is rejected, or results in a cell that passes the audit.
#[test]
fn a_mixed_up_image_is_refused_or_sound() {
    let mut taken = 0;
    for seed in seeds(1500) {
        let (kinds, commands) = history::commands(seed, LENGTH);
        let mut cell = Cell::new(kinds);
        commands.into_iter().for_each(|command| drop(cell.apply(command)));
        let mut snapshot = cell.snapshot_state();
        let mut dice = Dice::new(seed ^ 0xBAD);
        for _ in 0..1 + dice.below(3) {
            mix_up(&mut snapshot, &mut dice);
        }
        if let Ok(mut cell) = Cell::from_snapshot_state(snapshot) {
            taken += 1;
            cell.audit().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let (_, more) = history::commands(seed + 1, LENGTH);
            more.into_iter().for_each(|command| drop(cell.apply(command)));
            cell.audit().unwrap_or_else(|error| panic!("seed {seed}: later: {error}"));
        }
    }
    assert!(taken > 10 || seeds(1500).count() < 1500, "some changes make another sound cell");
}

fn mix_up(snapshot: &mut SnapshotState, dice: &mut Dice) {
    let machine = MachineId { slot: dice.below(9) as u32, incarnation: dice.below(3) as u32 };
    if let Some(row) = snapshot.machines.get_mut(machine.row()) {
        match dice.below(6) {
            0 => row.incarnation = machine.incarnation,
            1 => row.status = MachineStatus::Draining,
            2 => row.machine = None,
            _ => {}
        }
    }
    let jobs = snapshot.jobs.len().max(1);
    let Some(job) = snapshot.jobs.get_mut(dice.below(jobs)) else { return };
    let tasks = job.tasks.len();
    match dice.below(10) {
        0 => job.resized ^= true,
        1 => job.id = JobId(dice.below(20) as u64),
        2 => spec(job).groups[0].count = dice.below(4) as u32,
        3 => spec(job).groups[0].request = Amounts::new([dice.below(9) as u64]),
        4 => spec(job).groups[0].rules.ports.truncate(dice.below(2)),
        5 => spec(job).groups[0].rules.tasks.reverse(),
        6 => spec(job).tenant = "blue".into(),
        7 => snapshot.ended.push((job.id, None)),
        8 => job.tasks[dice.below(tasks)].devices = DeviceSet(dice.below(4) as u32),
        _ => {
            let states = [TaskState::Placed(machine), TaskState::Pending, TaskState::Killed];
            job.tasks[dice.below(tasks)].state = *dice.pick(&states);
        }
    }
}

/// The ids of jobs may be far apart; a gap between them costs almost nothing.
#[test]
fn a_cell_that_has_seen_many_jobs_is_restored() {
    let mut cell = small_cell();
    let submit = |cell: &mut Cell, name: &str| {
        let job = Job::batch(name, TaskGroup::new(1, Amounts::new([1])));
        match cell.apply(Command::SubmitJob(job)) {
            Ok(Outcome::Job(id)) => id,
            other => panic!("{other:?}"),
        }
    };
    submit(&mut cell, "old");
    let mut snapshot = cell.snapshot_state();
    snapshot.next_job = JobId(1_000_000_000_000);
    let mut cell = Cell::from_snapshot_state(snapshot).unwrap();
    let id = submit(&mut cell, "new");
    assert_eq!(id, JobId(1_000_000_000_000));
    let again = Cell::from_snapshot_state(cell.snapshot_state()).unwrap();
    assert_eq!(again.state_hash(), cell.state_hash());
    assert_eq!(again.job_by_name("new"), Some(id));
    // The old job can be found, changed, captured and removed like any other.
    let mut again = again;
    again.begin_capture();
    let wanted = again.snapshot_state();
    for cell in [&mut cell, &mut again] {
        cell.apply(Command::KillJob { job: JobId(0) }).unwrap();
        cell.apply(Command::Expire { now_ms: 1 }).unwrap();
        assert_eq!(cell.job_by_name("old"), None);
    }
    let captured = again.capture_more(usize::MAX).unwrap();
    assert_eq!(captured.into_snapshot_state(), wanted);
    assert_eq!(again.snapshot_state(), cell.snapshot_state());
    again.audit().unwrap();
}

/// Tasks may be adopted beyond a machine's capacity, but not until the sum of their amounts exceeds 64 bits.
#[test]
fn a_cell_with_the_largest_adopted_amounts_is_restored() {
    let mut cell = Cell::new(Kinds::standard());
    let machine = Machine::new("m", Amounts::new([AMOUNT_MAX, 1]));
    let Outcome::Machine(machine) = cell.apply(Command::RegisterMachine(machine)).unwrap() else {
        panic!("it is registered")
    };
    let group = TaskGroup::new(10_000, Amounts::new([AMOUNT_MAX]));
    cell.apply(Command::SubmitJob(Job::batch("large", group))).unwrap();
    let mut adopt =
        |index| cell.apply(Command::AdoptTask { task: TaskId { job: JobId(0), index }, machine });
    let adopted = (0..10_000).take_while(|index| adopt(*index).is_ok()).count() as u32;
    assert_eq!(adopted, 4097);
    assert!(matches!(adopt(adopted), Err(Rejection::TooMany { .. })));
    cell.audit().unwrap();
    assert_eq!(restored(&cell.snapshot_state(), 0).state_hash(), cell.state_hash());
}
