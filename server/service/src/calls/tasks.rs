//! Calls about tasks: reports of agents, and queries.

use crate::access::audit::about;
use crate::access::grants::{self, caller};
use crate::access::roles::denied;
use crate::agents::{Agents, LogSource, reports};
use crate::calls::history::{self, TaskNotes};
use crate::calls::names;
use crate::calls::refs;
use crate::host::Host;
use crate::service::{Answered, Room, deadline, page_start, page_token};
use futures_util::future::join_all;
use omega_client::proto::task_service_server::TaskService;
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::{MachineId, TaskId, TaskState};
use tonic::{Request, Response};

/// Maximum number of reports in one call.
const REPORTS_MAX: usize = 1000;

/// Maximum bytes of a log that one call reads.
const LOG_BYTES_MAX: u32 = 256 << 10;

/// The task service.
#[derive(Clone, Debug)]
pub struct Tasks {
    host: Host,
    agents: Agents,
}

impl Tasks {
    /// Creates the service of a cell, with the agents that have the logs.
    #[must_use]
    pub fn new(host: Host, agents: Agents) -> Tasks {
        Tasks { host, agents }
    }
}

#[tonic::async_trait]
impl TaskService for Tasks {
    async fn report_tasks(
        &self,
        request: Request<proto::ReportTasksRequest>,
    ) -> Answered<proto::ReportTasksResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| {
            request.machine.map_or_else(String::new, |id| MachineId::from(id).to_string())
        });
        let request = request.into_inner();
        let missing =
            |what: &str| ApiError::new(ErrorCode::Malformed, format!("{what} is missing"));
        let machine = request.machine.ok_or_else(|| missing("machine"))?.into();
        grants::may_report(&caller, &self.host, machine, until).await?;
        if request.reports.len() > REPORTS_MAX {
            let say = format!(
                "{} reports are too many: at most {REPORTS_MAX} are allowed in a call",
                request.reports.len()
            );
            return Err(ApiError::new(ErrorCode::TooMany, say).into());
        }
        let mut commands = Vec::with_capacity(request.reports.len());
        for one in request.reports {
            let report = convert::task_report(one.report).map_err(ApiError::from)?;
            let task = one.task.ok_or_else(|| missing("task"))?.into();
            let end = one.end.as_ref().and_then(convert::run_end);
            commands.push(reports::command((task, machine), report, end));
        }
        let reported = commands.into_iter().map(|command| self.host.apply(command, until));
        let mut refused = Vec::new();
        for outcome in join_all(reported).await {
            match outcome {
                Ok(_) => refused.push(String::new()),
                Err(error) if error.is_temporary() || error.code == ErrorCode::OutcomeUnknown => {
                    return Err(error.into());
                }
                Err(error) => refused.push(error.code.name().to_owned()),
            }
        }
        Ok(Response::new(proto::ReportTasksResponse { refused }))
    }

    async fn read_task_log(
        &self,
        request: Request<proto::ReadTaskLogRequest>,
    ) -> Answered<proto::ReadTaskLogResponse> {
        let caller = caller(&request)?;
        about(&request, |request| {
            use proto::job_ref::Job as Given;
            match request.job.as_ref().and_then(|job| job.job.as_ref()) {
                Some(Given::Name(name)) => format!("{name}/{}", request.index),
                _ => request.index.to_string(),
            }
        });
        self.host.refresh(deadline(&request)).await?;
        let request = request.into_inner();
        let (read, state, machines) = self.host.read(|cell| {
            let id = refs::job(cell, request.job, &caller)?;
            let Some(job) = cell.job(id).filter(|job| caller.sees_programs(job)) else {
                let say = "only operators and roles of the job's tenant may read its logs";
                return Err(denied(format!("{caller}: {say}")));
            };
            let task = TaskId { job: id, index: request.index };
            let state = names::known_task(cell, task)?;
            let mut machines: Vec<MachineId> = state
                .machine()
                .into_iter()
                .chain(cell.task_events(task).filter_map(|event| event.machine))
                .collect();
            machines.dedup();
            let read = proto::ReadLog {
                read: 0,
                task: Some(task.into()),
                stream: request.stream,
                from: request.from,
                tail_lines: request.tail_lines,
                bytes_max: LOG_BYTES_MAX,
                tenant: job.tenant.to_string(),
                job_name: job.name.to_string(),
            };
            Ok((read, state, machines))
        })?;
        let machine = machines.first().copied();
        let last = machine.into_iter().collect();
        let from = LogSource { machines: last, operators: machines.is_empty() };
        let asked = self.agents.read_log(from, read.clone()).await;
        let (part, machine) = match asked {
            // The task may have left its last machine before it wrote anything there. Any of its machines answers.
            Err(error)
                if error.code != ErrorCode::Limit
                    && state.machine().is_none()
                    && !machines.is_empty() =>
            {
                let source = LogSource { machines, operators: true };
                (self.agents.read_log(source, read).await?, None)
            }
            asked => (asked?, machine),
        };
        let running = !state.ended();
        let proto::LogPart { from, data, end, .. } = part;
        let machine = machine.map(Into::into);
        Ok(Response::new(proto::ReadTaskLogResponse { from, data, end, running, machine }))
    }

    async fn list_tasks(
        &self,
        request: Request<proto::ListTasksRequest>,
    ) -> Answered<proto::ListTasksResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let request = request.into_inner();
        let start = page_start(&request.page_token)?;
        let mut room = Room::of_page(request.page_size);
        let answer = self.host.read(|cell| {
            use proto::list_tasks_request::Of;
            let mut machine = None;
            let rest: Box<dyn Iterator<Item = (TaskId, TaskState)>> = match request.of {
                None => {
                    let say = "neither a job nor a machine is given: name the one whose tasks to \
                         list";
                    return Err(ApiError::new(ErrorCode::Malformed, say));
                }
                Some(Of::Job(job)) => {
                    let id = refs::job(cell, Some(job), &caller)?;
                    match request.index {
                        None => {
                            let first = u32::try_from(start).unwrap_or(u32::MAX);
                            Box::new(cell.tasks_from(id, first))
                        }
                        Some(index) => {
                            let task = TaskId { job: id, index };
                            let only = (task, names::known_task(cell, task)?);
                            Box::new(std::iter::once(only).skip(start as usize))
                        }
                    }
                }
                Some(Of::Machine(of)) => {
                    let id = refs::machine(cell, Some(of))?;
                    machine = Some(id);
                    let mut tasks = cell.machine(id).map_or(Vec::new(), |m| m.tasks.to_vec());
                    tasks.retain(|task| caller.sees_id(cell, task.job));
                    tasks.sort_unstable();
                    let tasks = tasks.into_iter().filter_map(|id| Some((id, cell.task(id)?)));
                    Box::new(tasks.skip(start as usize))
                }
            };
            let mut rest = rest.peekable();
            let notes = match (rest.peek(), machine) {
                (_, Some(machine)) => TaskNotes::of(cell.machine_events(machine)),
                (Some((first, _)), None) => TaskNotes::of(cell.job_events(first.job)),
                (None, None) => TaskNotes::default(),
            };
            let (mut tasks, mut next_page_token) = (Vec::new(), String::new());
            for task in rest {
                if room.is_full() {
                    next_page_token = page_token(start + tasks.len() as u64);
                    break;
                }
                tasks.push(room.take(history::task(cell, task, &notes, &caller)));
            }
            let version = cell.version().0;
            Ok(proto::ListTasksResponse { tasks, next_page_token, version })
        })?;
        Ok(Response::new(answer))
    }
}
