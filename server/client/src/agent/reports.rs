//! Encoding of reports to the cell.

use super::records::Reported;
use super::{LogPart, RunId};
use crate::proto::{self, AgentReport};
use omega_core::{MachineId, TaskUse};

pub(super) fn task_use(machine: MachineId, used: &TaskUse) -> proto::TaskUse {
    let TaskUse { task, cpu_us, memory_byte_seconds } = *used;
    let (task, machine) = (Some(task.into()), Some(machine.into()));
    proto::TaskUse { task, machine, cpu_us, memory_byte_seconds }
}

pub(super) fn log_part(read: u64, part: Option<LogPart>) -> proto::LogPart {
    let found = part.is_some();
    let LogPart { from, bytes, end } = part.unwrap_or_default();
    proto::LogPart { read, found, from, data: bytes, end }
}

pub(super) fn attach(ids: &[MachineId]) -> AgentReport {
    AgentReport {
        attach_slots: ids.iter().map(|id| id.slot).collect(),
        attach_incarnations: incarnations(ids),
        ..AgentReport::default()
    }
}

/// The column of incarnations, which is empty if all are 0.
pub(super) fn incarnations(ids: &[MachineId]) -> Vec<u32> {
    if ids.iter().all(|id| id.incarnation == 0) {
        Vec::new()
    } else {
        ids.iter().map(|id| id.incarnation).collect()
    }
}

pub(super) fn write(reports: &[Reported], message: &mut AgentReport) {
    let has_ends = reports.iter().any(|reported| reported.end.is_some());
    for Reported { run, report, end } in reports {
        let RunId { task, machine, placed_ms } = run;
        message.task_placed_ms.push(*placed_ms);
        message.task_jobs.push(task.job.0);
        message.task_indices.push(task.index);
        message.task_slots.push(machine.slot);
        message.task_incarnations.push(machine.incarnation);
        message.task_reports.push(proto::TaskReport::from(*report).into());
        if has_ends {
            message.task_ends.push(end.as_ref().map(Into::into).unwrap_or_default());
        }
    }
}
