//! Names of tasks and machines in answers and errors: `web/0` instead of `j4/0`.

use omega_cellstate::Cell;
use omega_client::{ApiError, ErrorCode};
use omega_core::{JobId, MachineId, Rejection, TaskId, TaskState};

/// The name of a job, or its id if the cell has forgotten the job.
pub(crate) fn job(cell: &Cell, id: JobId) -> String {
    cell.job(id).map_or_else(|| id.to_string(), |job| job.name.to_string())
}

/// The name of a job in an event, even if the job was deleted meanwhile.
pub(crate) fn past_job(cell: &Cell, id: JobId) -> String {
    let former = cell.departed_job(id).filter(|_| cell.job(id).is_none());
    former.map_or_else(|| job(cell, id), ToString::to_string)
}

/// The name of a machine in an event, even if the machine was removed meanwhile.
pub(crate) fn past_machine(cell: &Cell, id: MachineId) -> String {
    let former = cell.departed_machine(id).filter(|_| cell.machine(id).is_none());
    former.map_or_else(|| machine(cell, id), ToString::to_string)
}

/// The name of a task: the name of its job, and its index.
pub(crate) fn task(cell: &Cell, id: TaskId) -> String {
    format!("{}/{}", job(cell, id.job), id.index)
}

/// The name of a machine, or its id if the machine was removed.
pub(crate) fn machine(cell: &Cell, id: MachineId) -> String {
    cell.machine(id).map_or_else(|| id.to_string(), |state| state.machine.name.to_string())
}

/// The state of a task.
///
/// # Errors
/// If its job has no such task.
pub(crate) fn known_task(cell: &Cell, id: TaskId) -> Result<TaskState, ApiError> {
    let unknown =
        || ApiError::new(ErrorCode::UnknownTask, format!("there is no task {}", task(cell, id)));
    cell.task(id).ok_or_else(unknown)
}

/// The error of a rejection, with names instead of ids.
pub(crate) fn rejection(cell: &Cell, rejection: &Rejection) -> ApiError {
    let error = ApiError::from(rejection);
    let output = match rejection {
        Rejection::UnknownTask(id) => format!("there is no task {}", task(cell, *id)),
        Rejection::TaskNotPending(id) => {
            format!("task {} is not pending: only pending tasks can be adopted", task(cell, *id))
        }
        Rejection::TaskNotThere(id, at) => {
            format!("task {} is not on machine {}", task(cell, *id), machine(cell, *at))
        }
        Rejection::NoDevicesLeft(id, at) => {
            let (task, machine) = (task(cell, *id), machine(cell, *at));
            format!(
                "task {task} cannot be adopted, because machine {machine} has too few free devices \
                 for it: correct the devices in the machine's description first"
            )
        }
        Rejection::NoCoresLeft(id, at) => {
            let (task, machine) = (task(cell, *id), machine(cell, *at));
            format!(
                "task {task} cannot be adopted, because it needs more exclusive cores than machine \
                 {machine} has free: correct `numa` in the machine's description first"
            )
        }
        Rejection::NoPortsLeft(id, at) => {
            let (task, machine) = (task(cell, *id), machine(cell, *at));
            format!(
                "task {task} cannot be adopted, because the port range of machine {machine} has too \
                 few free ports for it: correct the range in the machine's description first"
            )
        }
        Rejection::DevicesInUse(id) => {
            format!(
                "tasks use devices of machine {}, so its devices cannot change: drain it first",
                machine(cell, *id)
            )
        }
        Rejection::CoresInUse(id) => {
            format!(
                "tasks use exclusive cores of machine {}, so its `numa` cannot change: drain it \
                 first",
                machine(cell, *id)
            )
        }
        Rejection::UnknownGroup { job: id, group } => {
            let groups = cell.job(*id).into_iter().flat_map(|job| &job.groups);
            let mut groups: Vec<&str> = groups.map(|group| &*group.name).collect();
            groups.sort_unstable();
            groups.dedup();
            let groups = groups.join(", ");
            format!("job {} has no group {group:?}; its groups are: {groups}", job(cell, *id))
        }
        _ => return error,
    };
    ApiError { message: output, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Command, Job, Kinds, Machine, TaskGroup};

    #[test]
    fn events_have_the_names_of_removed_machines_and_deleted_jobs() {
        let mut cell = Cell::new(Kinds::standard());
        cell.keep_history(1 << 20);
        let group = TaskGroup::new(1, Amounts::new([1]));
        cell.apply(Command::SubmitJob(Job::batch("web", group))).unwrap();
        cell.apply(Command::RegisterMachine(Machine::new("box", Amounts::new([8])))).unwrap();
        let (gone, at) = (JobId(0), MachineId::first(0));
        let names = |cell: &Cell| (past_job(cell, gone), past_machine(cell, at));
        let expected = ("web".to_owned(), "box".to_owned());
        assert_eq!(names(&cell), expected);
        cell.apply(Command::DeleteJob { job: gone }).unwrap();
        cell.apply(Command::RemoveMachine { id: at }).unwrap();
        assert_eq!(names(&cell), expected);
        assert_eq!((job(&cell, gone), machine(&cell, at)), ("j0".to_owned(), at.to_string()));
    }

    #[test]
    fn errors_have_names_as_long_as_they_are_known() {
        let mut cell = Cell::new(Kinds::standard());
        let group = TaskGroup::new(1, Amounts::new([1]));
        cell.apply(Command::SubmitJob(Job::batch("web", group))).unwrap();
        cell.apply(Command::RegisterMachine(Machine::new("box", Amounts::new([8])))).unwrap();
        let at = MachineId::first(0);
        let output = |job, index| {
            let task = TaskId { job: JobId(job), index };
            rejection(&cell, &Rejection::TaskNotThere(task, at)).message
        };
        assert_eq!(output(0, 0), "task web/0 is not on machine box");
        assert_eq!(output(7, 1), "task j7/1 is not on machine box");
        let gone = Rejection::CoresInUse(MachineId::first(3));
        assert_eq!(rejection(&cell, &gone).code, ErrorCode::CoresInUse);
        assert!(rejection(&cell, &gone).message.contains("machine m3"));
        let missing = known_task(&cell, TaskId { job: JobId(0), index: 5 }).unwrap_err();
        assert_eq!(missing.message, "there is no task web/5");
    }
}
