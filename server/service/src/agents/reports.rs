//! Decoding of an agent's reports into commands.

use super::hub::Confirmed;
use crate::host::Host;
use futures_util::future::join_all;
use omega_cellstate::Cell;
use omega_client::agent::Condition;
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::{Command, MachineId, Outcome, RunEnd, TaskId, TaskReport, TaskState, TaskUse};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of values in one list of a message.
const COLUMN_MAX: usize = 4096;

/// Timeout of the commands from one message. After this time the stream ends, and the agent reports again.
const COMMANDS_MAX: Duration = Duration::from_secs(5);

/// A message of an agent.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) attach: Vec<MachineId>,
    pub(crate) alive: Vec<MachineId>,
    pub(crate) conditions: Vec<(MachineId, Condition)>,
    pub(crate) commands: Vec<Command>,
    pub(crate) logs: Vec<proto::LogPart>,
}

impl Report {
    /// All machines in the message. A machine may occur several times.
    pub(super) fn machines(&self) -> impl Iterator<Item = MachineId> + '_ {
        let commanded = self.commands.iter().filter_map(|command| match command {
            Command::ReportLoad { id, .. } => Some(*id),
            Command::ReportTask { machine, .. }
            | Command::ReportEnd { machine, .. }
            | Command::ReportUse { machine, .. } => Some(*machine),
            _ => None,
        });
        let conditions = self.conditions.iter().map(|(id, _)| id);
        self.attach.iter().chain(&self.alive).chain(conditions).copied().chain(commanded)
    }
}

impl TryFrom<proto::AgentReport> for Report {
    type Error = ApiError;

    fn try_from(message: proto::AgentReport) -> Result<Report, ApiError> {
        let attach = machines("attach", message.attach_slots, message.attach_incarnations)?;
        let alive = machines("alive", message.alive_slots, message.alive_incarnations)?;
        let conditions = conditions(message.conditions)?;
        bounded("loads", message.loads.len())?;
        let mut commands = Vec::with_capacity(message.loads.len());
        for load in message.loads {
            let missing = || ApiError::new(ErrorCode::Malformed, "loads: machine is missing");
            let id = load.machine.ok_or_else(missing)?.into();
            commands.push(Command::ReportLoad { id, load: convert::amounts(load.used) });
        }
        commands.extend(uses(message.uses)?);
        let reporters = machines("task", message.task_slots, message.task_incarnations)?;
        let reports = message.task_reports;
        let rows = reporters.len();
        let lengths = [message.task_jobs.len(), message.task_indices.len(), reports.len()];
        if lengths.iter().any(|length| *length != rows) {
            return Err(ApiError::new(
                ErrorCode::Malformed,
                "the columns of tasks differ in length",
            ));
        }
        let has_ends = !message.task_ends.is_empty();
        if has_ends && message.task_ends.len() != rows {
            let why = format!("task_ends: {} values for {rows} reports", message.task_ends.len());
            return Err(ApiError::new(ErrorCode::Malformed, why));
        }
        let placed_ms = message.task_placed_ms;
        if !placed_ms.is_empty() && placed_ms.len() != rows {
            let why = format!("task_placed_ms: {} values for {rows} reports", placed_ms.len());
            return Err(ApiError::new(ErrorCode::Malformed, why));
        }
        // Space is reserved only now, because the message's lengths are unchecked before.
        commands.reserve(rows);
        for (row, machine) in reporters.into_iter().enumerate() {
            let task =
                proto::TaskId { job: message.task_jobs[row], index: message.task_indices[row] };
            let report = convert::task_report(reports[row])?;
            let end = message.task_ends.get(row).and_then(convert::run_end);
            let placed_ms = placed_ms.get(row).copied().unwrap_or_default();
            commands.push(command((task.into(), machine), placed_ms, report, end));
        }
        bounded("logs", message.logs.len())?;
        Ok(Report { attach, alive, conditions, commands, logs: message.logs })
    }
}

fn conditions(
    message: Vec<proto::MachineCondition>,
) -> Result<Vec<(MachineId, Condition)>, ApiError> {
    bounded("conditions", message.len())?;
    let missing = || ApiError::new(ErrorCode::Malformed, "conditions: machine is missing");
    let condition = |message: proto::MachineCondition| {
        let machine = MachineId::from(message.machine.ok_or_else(missing)?);
        Ok::<_, ApiError>((machine, Condition { is_disk_full: message.disk_full }))
    };
    message.into_iter().map(condition).collect()
}

/// Returns the commands for reports of use: one for each machine.
fn uses(message: Vec<proto::TaskUse>) -> Result<impl Iterator<Item = Command>, ApiError> {
    bounded("uses", message.len())?;
    let missing =
        |what: &str| ApiError::new(ErrorCode::Malformed, format!("uses: {what} is missing"));
    let mut machines: BTreeMap<MachineId, Vec<TaskUse>> = BTreeMap::new();
    for proto::TaskUse { task, machine, cpu_us, memory_byte_seconds } in message {
        let task = task.ok_or_else(|| missing("task"))?.into();
        let machine = machine.ok_or_else(|| missing("machine"))?.into();
        let used = TaskUse { task, cpu_us, memory_byte_seconds };
        machines.entry(machine).or_default().push(used);
    }
    Ok(machines.into_iter().map(|(machine, used)| Command::ReportUse { machine, used }))
}

/// Returns the command for a report. The command includes the end of the run if the agent has reported one. `placed_ms`
/// is the placement time of the run; 0 if unknown.
pub(crate) fn command(
    (task, machine): (TaskId, MachineId),
    placed_ms: u64,
    report: TaskReport,
    end: Option<RunEnd>,
) -> Command {
    match end {
        Some(end) => Command::ReportEnd { task, machine, placed_ms, report, end },
        None => Command::ReportTask { task, machine, placed_ms, report },
    }
}

fn bounded(what: &str, given: usize) -> Result<(), ApiError> {
    let message = || format!("{what}: {given} values, at most {COLUMN_MAX} in one message");
    match given {
        0..=COLUMN_MAX => Ok(()),
        _ => Err(ApiError::new(ErrorCode::TooMany, message())),
    }
}

fn machines(
    what: &str,
    slots: Vec<u32>,
    incarnations: Vec<u32>,
) -> Result<Vec<MachineId>, ApiError> {
    bounded(what, slots.len())?;
    if !incarnations.is_empty() && incarnations.len() != slots.len() {
        let message = format!("{what}: {} slots, {} incarnations", slots.len(), incarnations.len());
        return Err(ApiError::new(ErrorCode::Malformed, message));
    }
    let incarnations = incarnations.into_iter().chain(std::iter::repeat(0));
    let id = |(slot, incarnation)| MachineId { slot, incarnation };
    Ok(slots.into_iter().zip(incarnations).map(id).collect())
}

/// Applies reports in order, and returns the recorded ends of tasks.
///
/// # Errors
/// If it is unknown whether all reports were applied. The stream must then end.
pub(crate) async fn apply(host: &Host, commands: Vec<Command>) -> Result<Vec<Confirmed>, ApiError> {
    let until = Instant::now() + COMMANDS_MAX;
    let before = host.read(Cell::version);
    let ends: Vec<Option<(TaskId, MachineId)>> = commands.iter().map(end).collect();
    let applied = commands.into_iter().map(|command| host.apply(command, until));
    let mut confirmed = Vec::new();
    for (outcome, end) in join_all(applied).await.into_iter().zip(ends) {
        let version = match outcome {
            Ok(Outcome::Done(version)) => version,
            Err(error) if error.is_temporary() || error.code == ErrorCode::OutcomeUnknown => {
                return Err(error);
            }
            // The report is about an earlier run than the present one on the same machine. The stop of the earlier run,
            // which confirms its end, was sent before the start of the present one.
            Ok(_) | Err(_) if end.is_some_and(|(task, machine)| is_there(host, task, machine)) => {
                continue;
            }
            // The cell rejected the report, because the task had left the machine. The version of that change is not
            // known here.
            Ok(_) | Err(_) => before,
        };
        confirmed.extend(end.map(|(task, machine)| Confirmed { task, machine, version }));
    }
    Ok(confirmed)
}

fn is_there(host: &Host, task: TaskId, machine: MachineId) -> bool {
    host.read(|cell| cell.task(task).and_then(TaskState::machine)) == Some(machine)
}

/// The task whose end a command reports.
fn end(command: &Command) -> Option<(TaskId, MachineId)> {
    let (Command::ReportTask { task, machine, report, .. }
    | Command::ReportEnd { task, machine, report, .. }) = command
    else {
        return None;
    };
    let is_over = !matches!(report, TaskReport::Started | TaskReport::Restarted);
    is_over.then_some((*task, *machine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::SharedCell;
    use omega_core::{Amounts, EndReason, Job, JobId, Kinds, Machine, TaskGroup};

    const TASK: TaskId = TaskId { job: JobId(0), index: 0 };

    /// Otherwise the next run would count as ended, while it runs.
    #[tokio::test]
    async fn a_late_end_of_a_run_does_not_end_the_next_run_on_the_machine() {
        let mut cell = Cell::new(Kinds::standard());
        let machine = MachineId::first(0);
        let adopt = Command::AdoptTask { task: TASK, machine };
        let end = RunEnd { reason: EndReason::ExitCode(1), restarts: 0 };
        let ended =
            |placed_ms| command((TASK, machine), placed_ms, TaskReport::Lost, Some(end.clone()));
        let commands = [
            Command::RegisterMachine(Machine::new("m", Amounts::new([1000]))),
            Command::SubmitJob(Job::batch("j", TaskGroup::new(1, Amounts::new([1])))),
            Command::Expire { now_ms: 7 },
            adopt.clone(),
            ended(7),
            Command::Expire { now_ms: 8 },
            adopt,
        ];
        commands.into_iter().for_each(|command| _ = cell.apply(command).unwrap());
        let host = Host::memory(SharedCell::new(cell));
        let state = || host.read(|cell| cell.task(TASK)).unwrap();
        let started = |placed_ms| command((TASK, machine), placed_ms, TaskReport::Started, None);
        let confirmed = apply(&host, vec![ended(7), started(7)]).await.unwrap();
        assert_eq!((confirmed.len(), state()), (0, TaskState::Placed(machine)));
        apply(&host, vec![started(8), started(8)]).await.unwrap();
        assert_eq!(state(), TaskState::Running(machine));
        // An agent reports again until an end is confirmed.
        let confirmed = apply(&host, vec![ended(8), ended(8)]).await.unwrap();
        assert_eq!((confirmed.len(), state()), (2, TaskState::Pending));
    }
}
