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
    pub(crate) commands: Vec<Reported>,
    pub(crate) logs: Vec<proto::LogPart>,
}

/// The command for one of an agent's reports.
#[derive(Debug)]
pub(crate) struct Reported {
    command: Command,
    /// Placement time of the run that the report is about; 0 if unknown, or if the report is about no run.
    placed_ms: u64,
}

impl From<Command> for Reported {
    fn from(command: Command) -> Reported {
        Reported { command, placed_ms: 0 }
    }
}

impl Reported {
    /// Whether the report is about an earlier run than the present one, which is on the same machine. The stop of the
    /// earlier run, which confirms its end, was sent before the start of the present one.
    fn is_outdated(&self, cell: &Cell) -> bool {
        let (Command::ReportTask { task, machine, .. } | Command::ReportEnd { task, machine, .. }) =
            &self.command
        else {
            return false;
        };
        let is_here = cell.task(*task).and_then(TaskState::machine) == Some(*machine);
        let now = cell.task_placed_ms(*task).unwrap_or_default();
        is_here && self.placed_ms != 0 && now != 0 && self.placed_ms != now
    }
}

impl Report {
    /// All machines in the message. A machine may occur several times.
    pub(super) fn machines(&self) -> impl Iterator<Item = MachineId> + '_ {
        let commanded = self.commands.iter().filter_map(|reported| match &reported.command {
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
        let mut commands =
            Vec::<Reported>::with_capacity(message.loads.len() + message.task_jobs.len());
        for load in message.loads {
            let missing = || ApiError::new(ErrorCode::Malformed, "loads: machine is missing");
            let id = load.machine.ok_or_else(missing)?.into();
            commands.push(Command::ReportLoad { id, load: convert::amounts(load.used) }.into());
        }
        commands.extend(uses(message.uses)?.map(Reported::from));
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
        for (row, machine) in reporters.into_iter().enumerate() {
            let task =
                proto::TaskId { job: message.task_jobs[row], index: message.task_indices[row] };
            let report = convert::task_report(reports[row])?;
            let end = message.task_ends.get(row).and_then(convert::run_end);
            let command = command((task.into(), machine), report, end);
            let placed_ms = placed_ms.get(row).copied().unwrap_or_default();
            commands.push(Reported { command, placed_ms });
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

/// Returns the command for a report. The command includes the end of the run if the agent has reported one.
pub(crate) fn command(
    (task, machine): (TaskId, MachineId),
    report: TaskReport,
    end: Option<RunEnd>,
) -> Command {
    match end {
        Some(end) => Command::ReportEnd { task, machine, report, end },
        None => Command::ReportTask { task, machine, report },
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
pub(crate) async fn apply(
    host: &Host,
    mut commands: Vec<Reported>,
) -> Result<Vec<Confirmed>, ApiError> {
    let until = Instant::now() + COMMANDS_MAX;
    let before = host.read(|cell| {
        commands.retain(|reported| !reported.is_outdated(cell));
        cell.version()
    });
    let commands: Vec<Command> = commands.into_iter().map(|reported| reported.command).collect();
    let ends: Vec<Option<(TaskId, MachineId)>> = commands.iter().map(end).collect();
    let applied = commands.into_iter().map(|command| host.apply(command, until));
    let mut confirmed = Vec::new();
    for (outcome, end) in join_all(applied).await.into_iter().zip(ends) {
        let version = match outcome {
            Ok(Outcome::Done(version)) => version,
            Err(error) if error.is_temporary() || error.code == ErrorCode::OutcomeUnknown => {
                return Err(error);
            }
            // The cell rejected the report, because the task had left the machine. The version of that change is not
            // known here.
            Ok(_) | Err(_) => before,
        };
        confirmed.extend(end.map(|(task, machine)| Confirmed { task, machine, version }));
    }
    Ok(confirmed)
}

/// The task whose end a command reports.
fn end(command: &Command) -> Option<(TaskId, MachineId)> {
    let (Command::ReportTask { task, machine, report }
    | Command::ReportEnd { task, machine, report, .. }) = command
    else {
        return None;
    };
    let is_over = !matches!(report, TaskReport::Started | TaskReport::Restarted);
    is_over.then_some((*task, *machine))
}
