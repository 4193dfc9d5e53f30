//! Events of jobs, tasks and machines for callers, from the lists of recent events in the cell.
//!
//! A caller sees the events of jobs that it may see. The reason for which a program was not started is shown only to
//! callers who may see the program.

use crate::access::identity::Caller;
use crate::calls::names;
use crate::calls::refs;
use crate::calls::responses;
use crate::host::Host;
use crate::service::{Room, page_size};
use omega_cellstate::{Cell, Event, EventKind, EventsOf};
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{
    EndReason, JobId, MachineId, RunEnd, SchedulerId, TaskId, TaskState, UpdateResult, Version,
};
use std::ops::ControlFlow;

/// Maximum number of events that are read per lock of the cell.
pub(crate) const EVENTS_AT_ONCE: usize = 2048;

/// Lists events.
///
/// # Errors
/// If the job, the task or the machine does not exist.
pub(crate) async fn list(
    host: &Host,
    request: proto::ListEventsRequest,
    caller: &Caller,
) -> Result<proto::ListEventsResponse, ApiError> {
    let mut room = Room::of_page(page_size(request.limit) as u32);
    let (of, index) = host.read(|cell| events_of(cell, request, caller))?;
    let mut response = proto::ListEventsResponse::default();
    let add = |cell: &Cell, event: &Event| {
        let is_listed = (index.is_none() || event.index == index)
            && event.job.is_none_or(|job| caller.may_see_job(cell, job));
        if is_listed && room.is_full() {
            response.more = true;
            return ControlFlow::Break(());
        }
        if is_listed {
            response.events.push(room.take(message(cell, event, caller)));
        }
        ControlFlow::Continue(())
    };
    response.version = each_event(host, of, add).await.0;
    Ok(response)
}

/// The job or machine whose events are requested, and the index of the task.
fn events_of(
    cell: &Cell,
    request: proto::ListEventsRequest,
    caller: &Caller,
) -> Result<(EventsOf, Option<u32>), ApiError> {
    use proto::list_events_request::Of;
    match request.of {
        Some(Of::Job(job)) => {
            let job = refs::job(cell, Some(job), caller)?;
            if let Some(index) = request.index {
                names::known_task(cell, TaskId { job, index })?;
            }
            Ok((EventsOf::Job(job), request.index))
        }
        Some(Of::Machine(machine)) => {
            Ok((EventsOf::Machine(refs::machine(cell, Some(machine))?), None))
        }
        None => {
            let message = "neither a job nor a machine is given: name the one whose events to list";
            Err(ApiError::new(ErrorCode::Malformed, message))
        }
    }
}

/// Calls `look` with events, the newest first, until it breaks off. The lock of the cell is released after some events,
/// even if few of them are of use. Returns the version of the cell at the last event.
pub(crate) async fn each_event(
    host: &Host,
    of: EventsOf,
    mut look: impl FnMut(&Cell, &Event) -> ControlFlow<()> + Send,
) -> Version {
    let mut position = host.read(|cell| cell.events(of).position());
    loop {
        let (version, is_over) = host.read(|cell| {
            let mut events = cell.events_from(position);
            let mut some = events.by_ref().take(EVENTS_AT_ONCE);
            let broken = some.try_for_each(|event| look(cell, event)).is_break();
            let is_over = broken || events.position() == position;
            position = events.position();
            (cell.version(), is_over)
        });
        if is_over {
            return version;
        }
        tokio::task::yield_now().await;
    }
}

/// The machine of a task, then those of its events, the newest first.
pub(crate) async fn machines_of(host: &Host, task: TaskId, state: TaskState) -> Vec<MachineId> {
    let mut machines: Vec<MachineId> = state.machine().into_iter().collect();
    let add = |_: &Cell, event: &Event| {
        let machine = event.machine.filter(|_| event.index == Some(task.index));
        machines.extend(machine.filter(|machine| machines.last() != Some(machine)));
        ControlFlow::Continue(())
    };
    each_event(host, EventsOf::Job(task.job), add).await;
    machines
}

/// An event as a message.
pub(crate) fn message(cell: &Cell, event: &Event, caller: &Caller) -> proto::Event {
    let name = |id| names::past_job(cell, id);
    let scheduler =
        |id: SchedulerId| cell.scheduler_name(id).map_or(id.to_string(), |name| name.to_string());
    let mut reported = proto::Event {
        at_ms: event.at_ms,
        kind: kind(&event.kind).to_owned(),
        job: event.job.map(name).unwrap_or_default(),
        index: event.index,
        machine: event.machine.map(|id| names::past_machine(cell, id)).unwrap_or_default(),
        end: event.end.as_deref().map(|end| shown(cell, end, event.job, caller)),
        ..proto::Event::default()
    };
    match &event.kind {
        EventKind::NewVersion { number } => reported.text = format!("{number}"),
        EventKind::UpdateEnded { version, .. } => reported.text = format!("{version}"),
        EventKind::Submitted { tasks } => reported.text = format!("{tasks}"),
        EventKind::Resized { group, from, to } => {
            let job = event.job.and_then(|job| cell.job(job));
            let group = job.and_then(|job| job.groups.get(usize::from(*group)));
            let group = group.map(|group| group.name.to_string()).unwrap_or_default();
            reported.text = format!("{group} from {from} to {to}");
        }
        EventKind::Placed { scheduler: id } | EventKind::Released { scheduler: id } => {
            reported.scheduler = scheduler(*id);
        }
        EventKind::Evicted { scheduler: id, by } => {
            reported.scheduler = scheduler(*id);
            let seen = by.filter(|job| caller.may_see_job(cell, *job));
            reported.by_job = seen.map(name).unwrap_or_default();
        }
        EventKind::Tainted(text) | EventKind::Untainted(text) => reported.text = text.to_string(),
        EventKind::Removed(name) => reported.machine = name.to_string(),
        _ => {}
    }
    reported
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
    let mut reported = proto::RunEnd::from(end);
    let job = job.and_then(|job| cell.job(job));
    if job.is_none_or(|job| !caller.may_see_programs(job)) {
        reported.message.clear();
    }
    reported
}

/// A task in a list, with names, restarts, and the last end of its program.
pub(crate) fn task(
    cell: &Cell,
    (id, state): (TaskId, TaskState),
    details: &TaskDetails,
    caller: &Caller,
) -> proto::TaskStatus {
    let note = details.0.get(&id);
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
pub(crate) struct TaskDetails(std::collections::HashMap<TaskId, TaskDetail>);

#[derive(Debug, Default)]
struct TaskDetail {
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

impl TaskDetails {
    /// Collects the details of these tasks from events of a job or a machine.
    pub(crate) async fn collect(host: &Host, of: EventsOf, tasks: &[TaskId]) -> TaskDetails {
        let mut details = TaskDetails::default();
        if tasks.is_empty() {
            return details;
        }
        details.0.extend(tasks.iter().map(|task| (*task, TaskDetail::default())));
        let add = |_: &Cell, event: &Event| {
            details.add(event);
            ControlFlow::Continue(())
        };
        each_event(host, of, add).await;
        details
    }

    /// Adds an event. The newest must be added first.
    fn add(&mut self, event: &Event) {
        let (Some(job), Some(index), Some(end)) = (event.job, event.index, &event.end) else {
            return;
        };
        let Some(detail) = self.0.get_mut(&TaskId { job, index }) else { return };
        detail.restarts += u32::from(is_restart(event));
        if detail.end.is_none() {
            detail.end = Some(RunEnd::clone(end));
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
