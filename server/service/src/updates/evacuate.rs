//! The end of an evacuation: at its deadline, tasks that still run on the machine are stopped and placed elsewhere.
//!
//! Before the deadline, services move by the rules of their updates (`plan.rs`), and batch tasks may end. Tasks of a
//! group with one task on each machine stay, because they belong to the machine.

use super::plan::drain_by;
use crate::host::Host;
use futures_util::future::join_all;
use omega_cellstate::Cell;
use omega_core::{Command, EndReason, MachineId, RunEnd, TaskId, TaskReport};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Timeout of one command. If a command fails, the next step decides anew.
pub(super) const COMMAND_MAX: Duration = Duration::from_secs(5);

/// Maximum number of tasks that are moved in one step.
const AT_ONCE: usize = 500;

/// Moves tasks off the machines whose deadline has passed, by reporting the tasks lost.
pub(super) async fn step(host: &Host, machines: &BTreeSet<MachineId>, now_ms: u64) {
    let late = host.read(|cell| late(cell, machines, now_ms));
    let until = Instant::now() + COMMAND_MAX;
    let moved = late.into_iter().map(|command| host.apply(command, until));
    // If a task has ended or moved meanwhile, the report is rejected. Other failed reports are repeated in the next
    // step.
    join_all(moved).await;
}

/// Reports that move the tasks that should have left their machines.
fn late(cell: &Cell, machines: &BTreeSet<MachineId>, now_ms: u64) -> Vec<Command> {
    let moved = |task, machine| {
        let placed_ms = cell.task_placed_ms(task).unwrap_or_default();
        let end = RunEnd { reason: EndReason::Stopped, restarts: 0 };
        Command::ReportEnd { task, machine, placed_ms, report: TaskReport::Lost, end }
    };
    let mut late = Vec::new();
    for state in machines.iter().filter_map(|id| cell.machine(*id)) {
        if state.tasks.is_empty() || drain_by(state.machine).is_none_or(|by| now_ms < by) {
            continue;
        }
        let leaving = state.tasks.iter().filter(|task| !stays(cell, **task));
        late.extend(leaving.map(|task| moved(*task, state.id)).take(AT_ONCE - late.len()));
    }
    late
}

/// Whether a task belongs to a group with one task on each machine.
fn stays(cell: &Cell, task: TaskId) -> bool {
    let group = cell.task_group(task).zip(cell.job(task.job));
    let group = group.and_then(|(group, job)| job.groups.get(group));
    group.is_some_and(|group| group.per_machine)
}
