//! Conversion of the cell's messages about a container's job to the types of the application.

use super::types::{Change, ContainerState, Ended};
use crate::proto::{self, TaskPhase};
use omega_core::Text;

/// State of a container's task in the cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TaskState {
    Live(ContainerState),
    Ended(Ended),
}

/// The job name of a container. From the second use of the container's name on, the job name ends with a number.
pub(super) fn job_name(application: &Text, name: &Text, attempt: u32) -> String {
    let number = if attempt == 1 { String::new() } else { format!("#{attempt}") };
    format!("{application}.{name}{number}")
}

/// Returns the container to which a job of this name belongs, and the number of uses of the container's name up to this
/// job. `None` if the job belongs to no container of the application.
pub(super) fn container(application: &Text, job: &Text) -> Option<(Text, u32)> {
    let rest = job.strip_prefix(&**application)?.strip_prefix('.')?;
    match rest.split_once('#') {
        None => Some((rest.into(), 1)),
        Some((name, number)) => Some((name.into(), number.parse().ok().filter(|n| *n > 1)?)),
    }
}

/// Converts a task's status to the state of its container; `None` if the status contains no phase.
pub(super) fn task_state(task: &proto::TaskStatus) -> Option<TaskState> {
    let machine = || Text::from(task.machine_name.as_str());
    Some(match task.phase() {
        TaskPhase::Unspecified => return None,
        TaskPhase::Pending => TaskState::Live(ContainerState::Waiting),
        TaskPhase::Placed => TaskState::Live(ContainerState::Placed(machine())),
        TaskPhase::Running => TaskState::Live(ContainerState::Running(machine())),
        TaskPhase::Finished => TaskState::Ended(Ended::Finished),
        TaskPhase::Failed => TaskState::Ended(Ended::Failed),
        TaskPhase::Killed => TaskState::Ended(Ended::Killed),
    })
}

/// The machine of a container in this state, if it has one.
pub(super) fn machine(state: &ContainerState) -> Option<Text> {
    match state {
        ContainerState::Placed(machine) | ContainerState::Running(machine) => Some(machine.clone()),
        ContainerState::Waiting | ContainerState::Ended(_) => None,
    }
}

/// Returns the changes from one state of a container to another. A container that was running and is now only placed
/// was displaced in between.
pub(super) fn changes(before: &ContainerState, state: ContainerState) -> Vec<Change> {
    let (had, has) = (machine(before), machine(&state));
    let ran = matches!(before, ContainerState::Running(_));
    let is_anew = ran && matches!(state, ContainerState::Placed(_));
    let lost = had.filter(|had| is_anew || Some(had) != has.as_ref()).map(Change::Displaced);
    let new = match state {
        ContainerState::Placed(machine) => Some(Change::Placed(machine)),
        ContainerState::Running(machine) => Some(Change::Running(machine)),
        ContainerState::Waiting | ContainerState::Ended(_) => None,
    };
    lost.into_iter().chain(new).collect()
}
