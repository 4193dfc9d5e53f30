//! Application of the monitor's decisions to the cell: taints, and reports of lost tasks.
//!
//! A taint with the effect `no_execute` keeps new tasks off a machine. Running tasks that tolerate the taint stay:
//! their owners would rather wait for the machine than start the tasks elsewhere.

use super::monitor::Step;
use crate::host::Host;
use futures_util::StreamExt;
use futures_util::future::join_all;
use omega_cellstate::Cell;
use omega_client::agent::UNREACHABLE;
use omega_client::{ApiError, ErrorCode};
use omega_core::{Command, MachineId, Taint, TaintEffect, TaskId, TaskReport};
use std::time::Duration;
use tokio::time::Instant;

/// Timeout of one command. The monitor repeats a command that has failed.
pub(super) const COMMAND_MAX: Duration = Duration::from_secs(5);

/// Number of machines that are changed concurrently.
pub(super) const AT_ONCE: usize = 64;

/// The taint of a machine whose agent sends no heartbeats (unreachable).
pub(crate) fn taint() -> Taint {
    Taint { key: UNREACHABLE.into(), value: "".into(), effect: TaintEffect::NoExecute }
}

/// Applies all steps, and returns those that failed.
pub(crate) async fn apply_plan(host: Host, steps: Vec<Step>) -> Vec<Step> {
    let done = futures_util::stream::iter(steps).map(|step| {
        let host = host.clone();
        async move { apply_plan_one(&host, step).await.err().map(|error| (step, error)) }
    });
    let failed: Vec<(Step, ApiError)> =
        done.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    if let Some((step, error)) = failed.first() {
        let id = step.machine();
        let name = host.read(|cell| cell.machine(id).map(|state| state.machine.name.to_string()));
        let machine = name.unwrap_or_else(|| id.to_string());
        tracing::warn!(machine, %error, count = failed.len(), "unreachable machines could not be \
             marked yet");
    }
    failed.into_iter().map(|(step, _)| step).collect()
}

async fn apply_plan_one(host: &Host, step: Step) -> Result<(), ApiError> {
    match step {
        Step::Taint(id) => change(host, Command::AddTaint { id, taint: taint() }).await,
        Step::Return(id) => {
            change(host, Command::RemoveTaint { id, key: UNREACHABLE.into() }).await
        }
        Step::Take(id) => {
            change(host, Command::AddTaint { id, taint: taint() }).await?;
            take(host, id).await
        }
    }
}

/// Applies a command about a machine.
pub(super) async fn change(host: &Host, command: Command) -> Result<(), ApiError> {
    noted(host.apply(command, Instant::now() + COMMAND_MAX).await)
}

/// Reports the tasks of a machine as lost, except those that tolerate the taint. The taint keeps new tasks off the
/// machine.
async fn take(host: &Host, machine: MachineId) -> Result<(), ApiError> {
    let lost: Vec<Command> = host.read(|cell| {
        let all = cell.machine(machine).map_or(&[][..], |state| state.tasks);
        let taken = all.iter().copied().filter(|task| !tolerates(cell, *task));
        let lost = |task| {
            let placed_ms = cell.task_placed_ms(task).unwrap_or_default();
            Command::ReportTask { task, machine, placed_ms, report: TaskReport::Lost }
        };
        taken.map(lost).collect()
    });
    let until = Instant::now() + COMMAND_MAX;
    let reported = join_all(lost.into_iter().map(|command| host.apply(command, until))).await;
    reported.into_iter().try_for_each(noted)
}

fn tolerates(cell: &Cell, task: TaskId) -> bool {
    let group = cell.task_group(task).zip(cell.job(task.job));
    let group = group.and_then(|(group, job)| job.groups.get(group));
    group.is_some_and(|group| group.rules.tolerations.iter().any(|one| one.covers(&taint())))
}

/// Treats a rejection as success, because it means that the machine or the task no longer exists.
fn noted<T>(outcome: Result<T, ApiError>) -> Result<(), ApiError> {
    match outcome {
        Err(error) if error.is_temporary() || error.code == ErrorCode::OutcomeUnknown => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}
