//! A task, in the answers about a job and about a machine.

use crate::calls::names;
use omega_cellstate::Cell;
use omega_core::{TaskId, TaskState};
use serde::Serialize;

/// A task with its machine.
#[derive(Serialize)]
pub(super) struct TaskShape {
    task: String,
    job: String,
    group: String,
    state: &'static str,
    machine: Option<String>,
}

/// A task; `None` if its job is unknown.
pub(super) fn task(cell: &Cell, id: TaskId) -> Option<TaskShape> {
    let job = cell.job(id.job)?;
    let (state, machine) = match cell.task(id)? {
        TaskState::Pending => ("pending", None),
        TaskState::Placed(machine) => ("placed", Some(machine)),
        TaskState::Running(machine) => ("running", Some(machine)),
        TaskState::Finished => ("finished", None),
        TaskState::Failed => ("failed", None),
        TaskState::Killed => ("killed", None),
    };
    let machine = machine.and_then(|id| cell.machine(id));
    let group = cell.task_group(id).and_then(|group| job.groups.get(group));
    Some(TaskShape {
        task: names::task(cell, id),
        job: job.name.to_string(),
        group: group.map(|group| group.name.to_string()).unwrap_or_default(),
        state,
        machine: machine.map(|state| state.machine.name.to_string()),
    })
}
