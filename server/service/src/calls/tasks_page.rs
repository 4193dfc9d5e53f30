//! A page of tasks. The events of its job or machine are read some at a time, so that other calls are not delayed, and
//! only details of the tasks on the page are kept.

use crate::access::identity::Caller;
use crate::calls::history::{self, TaskDetails};
use crate::calls::names;
use crate::calls::refs;
use crate::host::Host;
use crate::service::{Room, page_size, page_start, page_token};
use omega_cellstate::{Cell, EventsOf};
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{MachineId, TaskId};

/// Number of times that details are collected for a page whose tasks change. The last page may lack some details.
const TRIES: u32 = 3;

/// Tasks that may be on a page, and the position of the first one in the list.
struct Candidates {
    /// The tasks of the page, and one more if there is one.
    tasks: Vec<TaskId>,
    start: u64,
    of: EventsOf,
}

/// The page that a caller requests.
///
/// # Errors
/// If the job, the task or the machine does not exist, or if the request's token is not a page token.
pub(crate) async fn page(
    host: &Host,
    caller: &Caller,
    request: proto::ListTasksRequest,
) -> Result<proto::ListTasksResponse, ApiError> {
    let start = page_start(&request.page_token)?;
    let size = request.page_size;
    let mut tries_left = TRIES;
    loop {
        let listed = host.read(|cell| candidates(cell, caller, &request, start))?;
        let count = listed.tasks.len().min(page_size(size));
        let details = TaskDetails::collect(host, listed.of, &listed.tasks[..count]).await;
        tries_left -= 1;
        // The page is that of one version. If other tasks are on it meanwhile, their details are missing.
        let page = host.read(|cell| {
            let now = candidates(cell, caller, &request, start)?;
            let mut on_page = now.tasks.iter().take(page_size(size));
            let has_details = |task: &TaskId| listed.tasks[..count].binary_search(task).is_ok();
            let is_final = tries_left == 0 || on_page.all(has_details);
            let room = Room::of_page(size);
            Ok::<_, ApiError>(is_final.then(|| response(cell, caller, &now, &details, room)))
        })?;
        if let Some(page) = page {
            return Ok(page);
        }
    }
}

fn candidates(
    cell: &Cell,
    caller: &Caller,
    request: &proto::ListTasksRequest,
    start: u64,
) -> Result<Candidates, ApiError> {
    use proto::list_tasks_request::Of;
    let at_most = page_size(request.page_size) + 1;
    let (of, tasks) = match request.of.clone() {
        None => {
            let message = "neither a job nor a machine is given: name the one whose tasks to list";
            return Err(ApiError::new(ErrorCode::Malformed, message));
        }
        Some(Of::Job(job)) => {
            let id = refs::job(cell, Some(job), caller)?;
            let tasks = match request.index {
                None => {
                    let first = u32::try_from(start).unwrap_or(u32::MAX);
                    cell.tasks_from(id, first).take(at_most).map(|(task, _)| task).collect()
                }
                Some(index) => {
                    let task = TaskId { job: id, index };
                    names::known_task(cell, task)?;
                    if start == 0 { vec![task] } else { Vec::new() }
                }
            };
            (EventsOf::Job(id), tasks)
        }
        Some(Of::Machine(machine)) => {
            let id = refs::machine(cell, Some(machine))?;
            (EventsOf::Machine(id), on_machine(cell, caller, id, start, at_most))
        }
    };
    Ok(Candidates { tasks, start, of })
}

fn on_machine(
    cell: &Cell,
    caller: &Caller,
    id: MachineId,
    start: u64,
    at_most: usize,
) -> Vec<TaskId> {
    let mut tasks = cell.machine(id).map_or(Vec::new(), |machine| machine.tasks.to_vec());
    tasks.retain(|task| caller.may_see_job(cell, task.job));
    tasks.sort_unstable();
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    tasks.into_iter().skip(start).take(at_most).collect()
}

fn response(
    cell: &Cell,
    caller: &Caller,
    candidates: &Candidates,
    details: &TaskDetails,
    mut room: Room,
) -> proto::ListTasksResponse {
    let mut response = proto::ListTasksResponse { version: cell.version().0, ..Default::default() };
    for (position, task) in (candidates.start..).zip(&candidates.tasks) {
        if room.is_full() {
            response.next_page_token = page_token(position);
            break;
        }
        let Some(state) = cell.task(*task) else { continue };
        let status = history::task(cell, (*task, state), details, caller);
        response.tasks.push(room.take(status));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::SharedCell;
    use omega_core::{
        Amounts, Command, EndReason, Job, JobId, Kinds, Machine, RunEnd, TaskGroup, TaskReport,
    };
    use std::pin::pin;

    /// A cell with a job whose last task was restarted many times before its first task.
    fn restarted(times: usize) -> Host {
        let mut cell = Cell::new(Kinds::standard());
        cell.keep_history(16 << 20);
        let cell = SharedCell::new(cell);
        let machine = Machine::new("m", Amounts::new([1000, 1 << 30]));
        cell.apply(Command::RegisterMachine(machine)).unwrap();
        let group = TaskGroup::new(3, Amounts::new([1]));
        cell.apply(Command::SubmitJob(Job::batch("j", group))).unwrap();
        let machine = MachineId::first(0);
        let report = |index, report| {
            let task = TaskId { job: JobId(0), index };
            let end = RunEnd { reason: EndReason::SupervisorLost, restarts: 0 };
            cell.apply(Command::ReportEnd { task, machine, placed_ms: 0, report, end }).unwrap();
        };
        for index in [0, 2] {
            let task = TaskId { job: JobId(0), index };
            cell.apply(Command::AdoptTask { task, machine }).unwrap();
        }
        report(0, TaskReport::Restarted);
        (0..times).for_each(|_| report(2, TaskReport::Restarted));
        Host::memory(cell)
    }

    fn request(index: Option<u32>) -> proto::ListTasksRequest {
        let job = proto::JobRef { job: Some(proto::job_ref::Job::Name("j".to_owned())) };
        let of = Some(proto::list_tasks_request::Of::Job(job));
        proto::ListTasksRequest { of, index, page_size: 2, ..Default::default() }
    }

    #[tokio::test]
    async fn details_are_those_of_the_tasks_on_the_page() {
        let (host, caller) = (restarted(3), Caller::local());
        let restarts = |response: &proto::ListTasksResponse| {
            response.tasks.iter().map(|task| task.restarts).collect::<Vec<_>>()
        };
        let first = page(&host, &caller, request(None)).await.unwrap();
        assert_eq!(restarts(&first), [1, 0]);
        let rest = proto::ListTasksRequest { page_token: first.next_page_token, ..request(None) };
        let rest = page(&host, &caller, rest).await.unwrap();
        assert_eq!((restarts(&rest), &*rest.next_page_token), (vec![3], ""));
        let one = page(&host, &caller, request(Some(2))).await.unwrap();
        assert_eq!((restarts(&one), &*one.next_page_token), (vec![3], ""));
        let of = EventsOf::Job(JobId(0));
        let details = TaskDetails::collect(&host, of, &[TaskId { job: JobId(0), index: 0 }]).await;
        assert_eq!(details.count(), 1, "nothing is collected for other tasks");
    }

    #[tokio::test]
    async fn other_calls_go_on_while_many_events_are_read() {
        let (host, caller) = (restarted(3 * history::EVENTS_AT_ONCE), Caller::local());
        let mut listed = pin!(page(&host, &caller, request(Some(0))));
        assert!(futures_util::poll!(listed.as_mut()).is_pending(), "the lock is released");
        let tasks = listed.await.unwrap().tasks;
        assert_eq!((tasks.len(), tasks[0].restarts), (1, 1));
    }
}
