//! Fixtures for the tests of both frontends: cells, a competing scheduler, and a cell whose answer to a commit gets
//! lost.

use omega_cellstate::{Cell, CellHandle, CommitHook, HandleError, SharedCell, View};
use omega_core::{
    Amounts, Command, Job, JobId, Kinds, Labels, Machine, MachineId, Outcome, TaskGroup, TaskId,
    TaskReport, TaskState, Transaction,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns a cell with machines `m0`, `m1`, ... that have these amounts of CPU and memory, two machines in each rack.
pub(crate) fn cell(machines: &[[u64; 2]]) -> SharedCell {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for (i, amounts) in machines.iter().enumerate() {
        let mut machine = Machine::new(format!("m{i}"), Amounts::new(*amounts));
        machine.labels = Labels::new([("rack", format!("r{}", i / 2))]);
        cell.apply(Command::RegisterMachine(machine)).unwrap();
    }
    cell
}

/// Submits a job with one group `main` to the scheduler `front`.
pub(crate) fn submit(cell: &SharedCell, tenant: &str, tasks: u32, request: [u64; 2]) -> JobId {
    let group = TaskGroup::new(tasks, Amounts::new(request));
    let name = format!("{tenant}-{}", cell.read(Cell::next_job).0);
    let mut job = Job::batch(name, group);
    (job.tenant, job.scheduler) = (tenant.into(), "front".into());
    submit_job(cell, job)
}

pub(crate) fn submit_job(cell: &SharedCell, job: Job) -> JobId {
    match cell.apply(Command::SubmitJob(job)) {
        Ok(Outcome::Job(id)) => id,
        other => panic!("a job is submitted: {other:?}"),
    }
}

pub(crate) fn task(job: JobId, index: u32) -> TaskId {
    TaskId { job, index }
}

pub(crate) fn machine(slot: u32) -> MachineId {
    MachineId::first(slot)
}

/// Places a task of this size on a machine on behalf of another scheduler. Returns the task; `None` if it does not fit.
pub(crate) fn place(cell: &SharedCell, slot: u32, request: [u64; 2]) -> Option<TaskId> {
    let mut job = Job::batch(
        format!("other-{}", cell.read(Cell::next_job).0),
        TaskGroup::new(1, Amounts::new(request)),
    );
    job.scheduler = "other".into();
    let id = submit_job(cell, job.clone());
    let (me, number) = cell.register("other".into()).unwrap();
    let mut view = View::new(me, number);
    view.sync(cell).unwrap();
    let group = view.compile(id, &std::sync::Arc::new(job), 0);
    view.claim(task(id, 0), view.machine_id(slot as usize), group).ok()?;
    let txn = view.take_transaction();
    cell.commit(&txn).unwrap().is_complete().then_some(task(id, 0))
}

/// Reports the outcome of a task on behalf of its machine.
pub(crate) fn report(cell: &SharedCell, task: TaskId, report: TaskReport) {
    let machine = cell.read(|cell| cell.task(task)).and_then(TaskState::machine);
    let machine = machine.expect("the task has a machine");
    cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report }).unwrap();
}

/// A cell whose answer to the next commit gets lost.
pub(crate) fn lossy(cell: &SharedCell) -> impl CellHandle + '_ {
    let loses = AtomicBool::new(true);
    CommitHook::new(cell, move |cell: &SharedCell, txns: &[&Transaction]| {
        let answers = cell.commit_all(txns);
        let lost = loses.swap(false, Ordering::Relaxed);
        if lost { txns.iter().map(|_| Err(HandleError::Unknown)).collect() } else { answers }
    })
}

/// A cell in which another scheduler commits just before the next commit.
pub(crate) fn rival(cell: &SharedCell, slot: u32, request: [u64; 2]) -> impl CellHandle + '_ {
    let waits = AtomicBool::new(true);
    CommitHook::new(cell, move |cell: &SharedCell, txns: &[&Transaction]| {
        if waits.swap(false, Ordering::Relaxed) {
            place(cell, slot, request).expect("there is room");
        }
        cell.commit_all(txns)
    })
}
