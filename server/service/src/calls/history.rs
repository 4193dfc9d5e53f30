//! Events of jobs, tasks and machines for callers, from the lists of recent events in the cell.
//!
//! A caller sees the events of jobs that it may see. The reason for which a program was not started is shown only to
//! callers who may see the program.

use crate::access::identity::Caller;
use crate::calls::names;
use crate::calls::refs;
use crate::calls::responses;
use crate::service::{Room, page_size};
use omega_cellstate::{Cell, Event, EventKind};
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{EndReason, JobId, RunEnd, SchedulerId, TaskId, TaskState, UpdateResult};

/// Lists events.
///
/// # Errors
/// If the job, the task or the machine does not exist.
pub(crate) fn list(
    cell: &Cell,
    request: proto::ListEventsRequest,
    caller: &Caller,
) -> Result<proto::ListEventsResponse, ApiError> {
    use proto::list_events_request::Of;
    let limit = page_size(request.limit);
    match (request.of, request.index) {
        (Some(Of::Job(job)), None) => {
            let id = refs::job(cell, Some(job), caller)?;
            Ok(response(cell, cell.job_events(id), caller, limit))
        }
        (Some(Of::Job(job)), Some(index)) => {
            let task = TaskId { job: refs::job(cell, Some(job), caller)?, index };
            names::known_task(cell, task)?;
            Ok(response(cell, cell.task_events(task), caller, limit))
        }
        (Some(Of::Machine(machine)), _) => {
            let id = refs::machine(cell, Some(machine))?;
            Ok(response(cell, cell.machine_events(id), caller, limit))
        }
        (None, _) => {
            let say = "neither a job nor a machine is given: name the one whose events to list";
            Err(ApiError::new(ErrorCode::Malformed, say))
        }
    }
}

fn response<'c>(
    cell: &'c Cell,
    events: impl Iterator<Item = &'c Event>,
    caller: &Caller,
    limit: usize,
) -> proto::ListEventsResponse {
    let mut events = events.filter(|event| event.job.is_none_or(|job| caller.sees_id(cell, job)));
    let mut room = Room::of_page(limit as u32);
    let mut told = Vec::new();
    while !room.is_full() {
        let Some(event) = events.next() else { break };
        told.push(room.take(message(cell, event, caller)));
    }
    let more = events.next().is_some();
    proto::ListEventsResponse { events: told, version: cell.version().0, more }
}

/// An event as a message.
pub(crate) fn message(cell: &Cell, event: &Event, caller: &Caller) -> proto::Event {
    let name = |id| names::job(cell, id);
    let scheduler =
        |id: SchedulerId| cell.scheduler_name(id).map_or(id.to_string(), |name| name.to_string());
    let mut told = proto::Event {
        at_ms: event.at_ms,
        kind: kind(&event.kind).to_owned(),
        job: event.job.map(name).unwrap_or_default(),
        index: event.index,
        machine: event.machine.map(|id| names::machine(cell, id)).unwrap_or_default(),
        end: event.end.as_deref().map(|end| shown(cell, end, event.job, caller)),
        ..proto::Event::default()
    };
    match &event.kind {
        EventKind::NewVersion { number } => told.text = format!("{number}"),
        EventKind::UpdateEnded { version, .. } => told.text = format!("{version}"),
        EventKind::Submitted { tasks } => told.text = format!("{tasks}"),
        EventKind::Resized { group, from, to } => {
            let job = event.job.and_then(|job| cell.job(job));
            let group = job.and_then(|job| job.groups.get(usize::from(*group)));
            let group = group.map(|group| group.name.to_string()).unwrap_or_default();
            told.text = format!("{group} from {from} to {to}");
        }
        EventKind::Placed { scheduler: id } | EventKind::Released { scheduler: id } => {
            told.scheduler = scheduler(*id);
        }
        EventKind::Evicted { scheduler: id, by } => {
            told.scheduler = scheduler(*id);
            let seen = by.filter(|job| caller.sees_id(cell, *job));
            told.by_job = seen.map(name).unwrap_or_default();
        }
        EventKind::Tainted(text) | EventKind::Untainted(text) => told.text = text.to_string(),
        EventKind::Removed(name) => told.machine = name.to_string(),
        _ => {}
    }
    told
}

/// The name of a kind of events; docs/history.md lists them.
fn kind(kind: &EventKind) -> &'static str {
    use omega_client::agent::UNREACHABLE;
    match kind {
        EventKind::Submitted { .. } => "submitted",
        EventKind::Resized { .. } => "resized",
        EventKind::NewVersion { .. } => "new_version",
        EventKind::UpdateEnded { result: UpdateResult::Complete, .. } => "update_complete",
        EventKind::UpdateEnded { result: UpdateResult::Failed, .. } => "update_failed",
        EventKind::Killed => "killed",
        EventKind::Ended => "ended",
        EventKind::Placed { .. } => "placed",
        EventKind::Adopted => "adopted",
        EventKind::Started => "started",
        EventKind::Restarted => "restarted",
        EventKind::Finished => "finished",
        EventKind::Requeued => "requeued",
        EventKind::Failed => "failed",
        EventKind::Lost => "lost",
        EventKind::Moved => "moved",
        EventKind::Released { .. } => "released",
        EventKind::Evicted { .. } => "evicted",
        EventKind::GangTimedOut => "gang_timed_out",
        EventKind::Registered => "registered",
        EventKind::Updated => "updated",
        EventKind::Tainted(key) if &**key == UNREACHABLE => "unreachable",
        EventKind::Untainted(key) if &**key == UNREACHABLE => "reachable",
        EventKind::Tainted(_) => "tainted",
        EventKind::Untainted(_) => "untainted",
        EventKind::Drained => "drained",
        EventKind::Resumed => "resumed",
        EventKind::Removed(_) => "removed",
        _ => "unknown",
    }
}

/// The end of a run, without details of the program that the caller may not see.
fn shown(cell: &Cell, end: &RunEnd, job: Option<JobId>, caller: &Caller) -> proto::RunEnd {
    let mut told = proto::RunEnd::from(end);
    let job = job.and_then(|job| cell.job(job));
    if job.is_none_or(|job| !caller.sees_programs(job)) {
        told.message.clear();
    }
    told
}

/// A task in a list, with names, restarts, and the last end of its program.
pub(crate) fn task(
    cell: &Cell,
    (id, state): (TaskId, TaskState),
    notes: &TaskNotes,
    caller: &Caller,
) -> proto::TaskStatus {
    let note = notes.0.get(&id);
    let end = note.and_then(|note| note.end.as_ref());
    proto::TaskStatus {
        job_name: cell.job(id.job).map(|job| job.name.to_string()).unwrap_or_default(),
        restarts: cell.task_failures(id) + note.map_or(0, |note| note.restarts),
        placed_ms: cell.task_placed_ms(id).unwrap_or_default(),
        last_end: end.map(|end| shown(cell, end, Some(id.job), caller)),
        ..responses::task(cell, id, state)
    }
}

/// Details of tasks, collected from events.
#[derive(Debug, Default)]
pub(crate) struct TaskNotes(std::collections::HashMap<TaskId, TaskNote>);

#[derive(Debug, Default)]
struct TaskNote {
    /// Number of restarts of the task's program on its machines, including those after the loss of its supervisor.
    restarts: u32,
    /// Last end of the task's program.
    end: Option<RunEnd>,
}

/// Whether the event is a restart of the task's program that the cell does not count as a failure.
fn is_restart(event: &Event) -> bool {
    let is_killed = |end: &RunEnd| end.reason == EndReason::SupervisorLost;
    match event.kind {
        EventKind::Restarted => true,
        EventKind::Lost => event.end.as_deref().is_some_and(is_killed),
        _ => false,
    }
}

impl TaskNotes {
    /// Collects the details from events, which must be given with the newest first.
    pub(crate) fn of<'c>(events: impl Iterator<Item = &'c Event>) -> TaskNotes {
        let mut notes = TaskNotes::default();
        for event in events {
            let Some((job, index)) = event.job.zip(event.index) else { continue };
            if event.end.is_none() {
                continue;
            }
            let note = notes.0.entry(TaskId { job, index }).or_default();
            note.restarts += u32::from(is_restart(event));
            if note.end.is_none() {
                note.end = event.end.as_deref().cloned();
            }
        }
        notes
    }
}
