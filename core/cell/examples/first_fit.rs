//! A scheduler in 40 lines, which places every pending task on the first machine that fits.
//!
//! `cargo run -p omega-cell --example first_fit`

use omega_cell::state::Interest;
use omega_cell::types::TaskState;
use omega_cell::{Amounts, Cell, CellHandle, Command, Job, Kinds, Machine, SharedCell};
use omega_cell::{TaskGroup, TaskId, View};
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for name in ["a", "b", "c"] {
        cell.apply(Command::RegisterMachine(Machine::new(name, Amounts::new([4000, 16 << 30]))))?;
    }
    let group = TaskGroup::new(5, Amounts::new([1500, 1 << 30]));
    cell.apply(Command::SubmitJob(Job::batch("web", group)))?;

    let (id, next) = cell.register("first-fit".into())?;
    let mut view = View::new(id, next).with_interest(Interest::AllJobs);
    view.sync(&cell)?;
    let mut pending = BTreeMap::new();
    for job in &view.delta().jobs {
        let Some(spec) = &job.job else { continue };
        let groups =
            (0..).zip(&spec.groups).flat_map(|(g, group)| (0..group.count).map(move |_| g));
        let task = |(index, group)| (TaskId { job: job.id, index }, (spec.clone(), group));
        pending.extend((0..).zip(groups).map(task));
    }
    for task in view.delta().tasks.iter().filter(|task| task.state != TaskState::Pending) {
        pending.remove(&task.id);
    }
    for (task, (job, group)) in &pending {
        let group = view.compile(task.job, job, *group);
        if let Some(row) = (0..view.rows()).find(|row| view.check_fit(*row, group).is_ok()) {
            view.claim(*task, view.machine_id(row), group)?;
        }
    }
    let transaction = view.take_transaction();
    let commit = cell.commit(&transaction)?;
    view.settle(&transaction, &commit);
    println!("{} of {} tasks have a machine", transaction.claims.len(), pending.len());
    assert!(commit.is_complete() && transaction.claims.len() == 5);
    Ok(())
}
