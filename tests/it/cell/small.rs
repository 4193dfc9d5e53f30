//! Small cells and schedulers, for tests of the loop.

use omega_cellstate::{Cell, CellHandle, SharedCell, View};
use omega_core::{
    Amounts, Command, Job, JobId, KindId, Kinds, Machine, MachineId, Outcome, TaskGroup, TaskId,
    TaskReport, TaskState,
};
use omega_schedulers::{Nanos, Profile, Scheduler, Search, Settings, Step, Unobserved};

/// Longer than any backoff of a queue.
pub(crate) const LONG: Nanos = 10_000_000_000;

/// A cell with machines `m0`, `m1`, ... of these numbers of cores.
pub(crate) fn cell(cores: &[u64]) -> SharedCell {
    cell_that_remembers(1000, cores)
}

/// A cell whose change log has room for this many changes.
pub(crate) fn cell_that_remembers(changes: usize, cores: &[u64]) -> SharedCell {
    let cell = SharedCell::new(Cell::with_change_limit(Kinds::standard(), changes));
    for (i, cores) in cores.iter().enumerate() {
        add_machine(&cell, Machine::new(format!("m{i}"), amounts(*cores)));
    }
    cell
}

/// Amounts of this many cores, and 64 GiB of memory.
pub(crate) fn amounts(cores: u64) -> Amounts {
    Amounts::new([cores * 1000, 64 << 30])
}

pub(crate) fn add_machine(cell: &SharedCell, machine: Machine) -> MachineId {
    match cell.apply(Command::RegisterMachine(machine)).unwrap() {
        Outcome::Machine(id) => id,
        other => panic!("no machine: {other:?}"),
    }
}

/// A job for the scheduler `default`, with this many tasks of this many cores.
pub(crate) fn job(name: &str, tasks: u32, cores: u64) -> Job {
    Job::batch(name, TaskGroup::new(tasks, Amounts::new([cores * 1000])))
}

pub(crate) fn submit(cell: &SharedCell, job: Job) -> JobId {
    match cell.apply(Command::SubmitJob(job)).unwrap() {
        Outcome::Job(id) => id,
        other => panic!("no job: {other:?}"),
    }
}

/// A scheduler that uses the first feasible machine, for the jobs that name it.
pub(crate) fn scheduler(cell: &impl CellHandle, name: &str) -> Scheduler {
    let settings = Settings::new(name).with_search(Search::Full);
    Scheduler::new(cell, Profile::first_fit(), settings).unwrap()
}

pub(crate) fn step(scheduler: &mut Scheduler, cell: &impl CellHandle, now: Nanos) -> Step {
    scheduler.step(cell, now, &mut Unobserved).unwrap()
}

/// Steps until there is no work at this time. Returns the number of placed tasks.
pub(crate) fn run(scheduler: &mut Scheduler, cell: &impl CellHandle, now: Nanos) -> usize {
    let mut placed = 0;
    for _ in 0..1000 {
        let step = step(scheduler, cell, now);
        placed += step.placed;
        if step.idle {
            return placed;
        }
    }
    panic!("there is no end to it");
}

/// The row of each task of a job.
pub(crate) fn rows(cell: &SharedCell, job: JobId) -> Vec<Option<u32>> {
    cell.read(|cell| cell.tasks(job).map(|(_, state)| state.machine().map(|m| m.slot)).collect())
}

pub(crate) fn placed(cell: &SharedCell, job: JobId) -> usize {
    rows(cell, job).into_iter().flatten().count()
}

pub(crate) fn report(cell: &SharedCell, task: TaskId, report: TaskReport) {
    let state: TaskState = cell.read(|cell| cell.task(task)).unwrap();
    let machine = state.machine().expect("what is reported on runs");
    cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report }).unwrap();
}

pub(crate) fn task(job: JobId, index: u32) -> TaskId {
    TaskId { job, index }
}

/// Checks that the cell passes the audit, the scheduler has no open claims, and both agree on the pending tasks.
pub(crate) fn assert_settled(scheduler: &mut Scheduler, cell: &SharedCell, now: Nanos) {
    run(scheduler, cell, now);
    cell.read(Cell::audit).expect("the cell is right");
    let view = scheduler.view();
    let mut fresh = View::new(view.scheduler(), 0);
    fresh.sync(cell).unwrap();
    for row in 0..fresh.rows() {
        for kind in (0..fresh.kinds().count() as u8).map(KindId) {
            assert_eq!(view.free(row, kind), fresh.free(row, kind), "row {row} {kind:?}");
        }
        assert_eq!(view.devices(row), fresh.devices(row), "row {row}");
        assert_eq!(view.cores(row), fresh.cores(row), "row {row}");
    }
    let settings = scheduler.settings();
    let pending =
        |id| cell.read(|cell| cell.tasks(id).filter(|t| t.1 == TaskState::Pending).count());
    let jobs: Vec<_> = cell.read(|cell| cell.jobs().map(|(id, job)| (id, job.clone())).collect());
    let own = jobs.iter().filter(|(_, job)| job.scheduler == settings.takes);
    let own = own.map(|(id, _)| *id).filter(|id| settings.share.includes(*id));
    let waiting: Vec<_> = own.map(|id| (id, pending(id))).filter(|job| job.1 > 0).collect();
    assert_eq!(scheduler.queue().waiting(), waiting);
    assert_eq!(scheduler.queue().pending_tasks(), waiting.iter().map(|job| job.1).sum::<usize>());
}
