//! Cells for measurements. Their machines have the sizes of a real cell's machines, and are partly allocated.

use crate::measure::SEED;
use omega_cellstate::{Cell, CellHandle, Interest, SharedCell, View};
use omega_core::{
    Amounts, Claim, Command, Job, JobId, KindId, Kinds, Labels, Machine, MachineId, Outcome,
    SchedulerId, SequenceNumber, TaskGroup, TaskId, Transaction, TransactionId,
};
use omega_workload::synth::{SynthOptions, synthesize};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;

/// Capacity of each machine in the fourth resource kind, in thousandths, so that a check compares four kinds.
const GPU_MILLI: u64 = 8000;

/// Requests of the tasks that fill the cell: thousandths of a core, and GiB of memory.
const FILLERS: [(u64, u64); 4] = [(500, 1), (1000, 4), (2000, 4), (4000, 16)];

/// Number of tasks of a job that fills the cell.
const FILLER_TASKS: u32 = 1000;

/// Request of a task placed in a measurement. It is small, so that a cell has room for many such tasks between 60 and
/// 70 % use.
pub(crate) fn small_request() -> Amounts {
    Amounts::new([100, 256 << 20, 1 << 30])
}

/// A cell, and the schedulers that commit to it.
pub(crate) struct Made {
    pub(crate) cell: Cell,
    pub(crate) machines: usize,
    filler: SchedulerId,
    /// Number of the next transaction of the scheduler that fills the cell.
    next: u64,
}

impl Made {
    /// Returns a copy for a measurement. A task was placed on every machine and ended again, so that every list has
    /// room to grow, as in a cell that has been in use.
    pub(crate) fn copy(&self) -> Cell {
        let mut cell = self.cell.clone();
        let rows: Vec<u32> = (0..self.machines as u32).collect();
        for (rows, part) in rows.chunks(FILLER_TASKS as usize).zip(0..) {
            let group = TaskGroup::new(rows.len() as u32, Amounts::new([1]));
            let name = format!("warm-{part}");
            let job = Job { scheduler: "filler".into(), ..Job::batch(name, group) };
            let job = submit(&mut cell, job);
            let txn = claims_on(&cell, (self.filler, self.next + part), job, rows);
            cell.commit(&txn).expect("a warming transaction is checked");
            cell.apply(Command::KillJob { job }).expect("a known job is killed");
        }
        cell
    }
}

/// Machines with the sizes of a published cell's machines, and with labels for zone, rack and platform.
pub(crate) fn machines(count: usize) -> Vec<Machine> {
    let options =
        SynthOptions { machines: count as u32, seed: SEED, span_hours: 1, utilisation_percent: 1 };
    let mut machines = synthesize(&options).machines;
    machines.iter_mut().for_each(|machine| machine.capacity.set(KindId::GPU, GPU_MILLI));
    machines
}

/// A cell with these machines and no tasks.
pub(crate) fn empty(machines: Vec<Machine>) -> Made {
    empty_of(Kinds::standard(), machines)
}

/// Creates an empty cell with other kinds than the standard ones.
pub(crate) fn empty_of(kinds: Kinds, machines: Vec<Machine>) -> Made {
    let mut cell = Cell::new(kinds);
    let count = machines.len();
    for machine in machines {
        cell.apply(Command::RegisterMachine(machine)).expect("a made-up machine is registered");
    }
    let name = "filler".into();
    let filler = match cell.apply(Command::RegisterScheduler { name }) {
        Ok(Outcome::Scheduler { id, .. }) => id,
        other => unreachable!("the first scheduler registers: {other:?}"),
    };
    Made { cell, machines: count, filler, next: 0 }
}

/// A cell in which each machine has 55 to 65 % of its scarcest kind allocated.
pub(crate) fn in_use(count: usize) -> Made {
    filled(machines(count), |_| 550..650)
}

/// Creates a cell in which a random share of machine `i`, from the range `milli(i)` in thousandths, is allocated.
pub(crate) fn filled(
    machines: Vec<Machine>,
    milli: impl Fn(usize) -> std::ops::Range<u64>,
) -> Made {
    let request = |cpu, memory| Amounts::new([cpu, memory, 1 << 30]);
    fill(empty(machines.clone()), machines, milli, request)
}

/// Fills an empty cell with tasks on these machines. `request` returns the request of a task.
pub(crate) fn fill(
    mut made: Made,
    machines: Vec<Machine>,
    milli: impl Fn(usize) -> std::ops::Range<u64>,
    request: impl Fn(u64, u64) -> Amounts,
) -> Made {
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut wanted: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (slot, machine) in machines.iter().enumerate() {
        let share = rng.random_range(milli(slot));
        let of = |kind| machine.capacity.get(kind) * share / 1000;
        let (mut cpu, mut memory) = (of(KindId::CPU), of(KindId::MEMORY) >> 30);
        loop {
            let kind = rng.random_range(0..FILLERS.len());
            if FILLERS[kind].0 > cpu || FILLERS[kind].1 > memory {
                break;
            }
            cpu -= FILLERS[kind].0;
            memory -= FILLERS[kind].1;
            wanted.entry(kind).or_default().push(slot as u32);
        }
    }
    let mut number = 0;
    for (kind, slots) in wanted {
        let (cpu, gib) = FILLERS[kind];
        for slots in slots.chunks(FILLER_TASKS as usize) {
            let group = TaskGroup::new(slots.len() as u32, request(cpu, gib << 30));
            let mut job = Job::batch(format!("filler-{number}"), group);
            job.scheduler = "filler".into();
            // Estimates range from a minute to an hour. Only schedulers that plan ahead use them.
            job.runtime_estimate_ms = Some(60_000 * (1 + number % 60));
            let id = submit(&mut made.cell, job);
            let txn = claims_on(&made.cell, (made.filler, number), id, slots);
            let commit = made.cell.commit(&txn).expect("a filler's transaction is checked");
            assert!(commit.is_complete(), "fillers fit: {:?}", commit.conflicts.first());
            number += 1;
        }
    }
    made.next = number;
    made
}

/// A transaction that places the first tasks of a job on these rows.
fn claims_on(
    cell: &Cell,
    (scheduler, number): (SchedulerId, u64),
    job: JobId,
    slots: &[u32],
) -> Transaction {
    let claim = |(slot, index): (&u32, u32)| {
        Claim::new(TaskId { job, index }, MachineId::first(*slot), SequenceNumber(0))
    };
    let claims = slots.iter().zip(0..).map(claim).collect();
    Transaction::new(TransactionId { scheduler, number }, cell.version(), claims)
}

/// Submits a job.
pub(crate) fn submit(cell: &mut Cell, job: Job) -> JobId {
    match cell.apply(Command::SubmitJob(job)) {
        Ok(Outcome::Job(id)) => id,
        other => unreachable!("a made-up job is submitted: {other:?}"),
    }
}

/// Jobs of small tasks, with `each` tasks per job, numbered in their names from `first`.
pub(crate) fn small_jobs(first: usize, tasks: usize, each: usize) -> impl Iterator<Item = Job> {
    (0..tasks / each).map(move |i| {
        let group = TaskGroup::new(each as u32, small_request());
        Job::batch(format!("small-{}", first + i), group)
    })
}

/// Shares the cell, and returns it with a synced view that gets no jobs.
pub(crate) fn viewed(made: &Made) -> (SharedCell, View) {
    let cell = SharedCell::new(made.copy());
    let (id, number) = cell.register("viewer".into()).expect("a viewer registers");
    let mut view = View::new(id, number).with_interest(Interest::Machines);
    view.sync(&cell).expect("a cell in this process answers");
    (cell, view)
}

/// Adds a label to the chosen machines.
pub(crate) fn label(machines: &mut [Machine], key: &str, chosen: impl Fn(usize) -> bool) {
    for (_, machine) in machines.iter_mut().enumerate().filter(|(slot, _)| chosen(*slot)) {
        let old = machine.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        let pairs: Vec<_> = old.chain([(key.into(), "yes".into())]).collect();
        machine.labels = Labels::new(pairs);
    }
}

/// A cell whose jobs have `each` tasks, placed round-robin on all machines.
pub(super) fn full(machine_count: usize, tasks: usize, each: usize) -> Cell {
    let mut cell = empty(machines(machine_count)).cell;
    // The request is so small that the smallest machine has room for a hundred tasks.
    let group = TaskGroup::new(each as u32, Amounts::new([10, 16 << 20]));
    for number in 0..tasks / each {
        let job = submit(&mut cell, Job::batch(format!("job-{number}"), group.clone()));
        for index in 0..each {
            let machine = MachineId::first(((number * each + index) % machine_count) as u32);
            let task = TaskId { job, index: index as u32 };
            cell.apply(Command::AdoptTask { task, machine }).expect("a small task fits");
        }
    }
    cell
}
