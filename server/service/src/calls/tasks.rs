//! Calls about tasks: reports of agents, and queries.

use crate::access::audited::about;
use crate::access::grants::{self, caller};
use crate::access::roles::denied;
use crate::agents::{Agents, LogSource, reports};
use crate::calls::history;
use crate::calls::names;
use crate::calls::refs;
use crate::calls::tasks_page;
use crate::host::Host;
use crate::service::{RpcResult, deadline};
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

impl Tasks {
    /// Reads a part of a task's log. Returns it with the machine of the log, which is `None` if any of the task's machines
    /// may have sent it.
    async fn read_log(
        &self,
        read: proto::ReadLog,
        task: TaskId,
        state: TaskState,
    ) -> Result<(proto::LogPart, Option<MachineId>), ApiError> {
        let machines = history::machines_of(&self.host, task, state).await;
        let machine = machines.first().copied();
        let last = machine.into_iter().collect();
        let from = LogSource { machines: last, operators: machines.is_empty() };
        let error = match self.agents.read_log(from, read.clone()).await {
            Ok(Some(part)) => return Ok((part, machine)),
            Err(error) if error.code != ErrorCode::UnknownTask => return Err(error),
            none => none.err(),
        };
        // The task may have left its last machine before it wrote anything there. Any of its machines answers.
        if state.machine().is_none() && !machines.is_empty() {
            let source = LogSource { machines, operators: true };
            match self.agents.read_log(source, read).await {
                Ok(Some(part)) => return Ok((part, None)),
                Err(error) if error.code != ErrorCode::UnknownTask => return Err(error),
                _ => {}
            }
        }
        let name = machine.map(|id| self.host.read(|cell| names::machine(cell, id)));
        Err(no_log(state, name, error))
    }
}

/// The reason for which a task's log cannot be read. `error` is that of its last machine; `None` if the agent of the
/// machine has replied that it does not have the log.
fn no_log(state: TaskState, machine: Option<String>, error: Option<ApiError>) -> ApiError {
    let message = match (machine, error) {
        (None, _) if state == TaskState::Pending => "the task has not started".to_owned(),
        (None, Some(error)) => error.message,
        (None, None) => "no connected agent has a log of the task".to_owned(),
        (Some(name), Some(error)) => format!("{}: it was last on machine {name}", error.message),
        (Some(name), None) => match state {
            TaskState::Placed(_) => format!("the task has not started on machine {name}"),
            TaskState::Running(_) => format!("machine {name} has no log of the task"),
            _ => format!("machine {name} no longer has the log of the task"),
        },
    };
    ApiError::new(ErrorCode::UnknownTask, message)
}

#[tonic::async_trait]
impl TaskService for Tasks {
    async fn report_tasks(
        &self,
        request: Request<proto::ReportTasksRequest>,
    ) -> RpcResult<proto::ReportTasksResponse> {
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
            let message = format!(
                "{} reports are too many: at most {REPORTS_MAX} are allowed in a call",
                request.reports.len()
            );
            return Err(ApiError::new(ErrorCode::TooMany, message).into());
        }
        let mut commands = Vec::with_capacity(request.reports.len());
        for one in request.reports {
            let report = convert::task_report(one.report).map_err(ApiError::from)?;
            let task = one.task.ok_or_else(|| missing("task"))?.into();
            let end = one.end.as_ref().and_then(convert::run_end);
            commands.push(reports::command((task, machine), 0, report, end));
        }
        self.agents.await_rate(&caller, commands.len(), until).await?;
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
    ) -> RpcResult<proto::ReadTaskLogResponse> {
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
        let (read, task, state) = self.host.read(|cell| {
            let id = refs::job(cell, request.job, &caller)?;
            let Some(job) = cell.job(id).filter(|job| caller.may_see_programs(job)) else {
                let message = "only operators and roles of the job's tenant may read its logs";
                return Err(denied(format!("{caller}: {message}")));
            };
            let task = TaskId { job: id, index: request.index };
            let state = names::known_task(cell, task)?;
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
            Ok((read, task, state))
        })?;
        let (part, machine) = self.read_log(read, task, state).await?;
        let running = !state.ended();
        let proto::LogPart { from, data, end, .. } = part;
        let machine = machine.map(Into::into);
        Ok(Response::new(proto::ReadTaskLogResponse { from, data, end, running, machine }))
    }

    async fn list_tasks(
        &self,
        request: Request<proto::ListTasksRequest>,
    ) -> RpcResult<proto::ListTasksResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let request = request.into_inner();
        let answer = tasks_page::page(&self.host, &caller, request).await?;
        Ok(Response::new(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_a_missing_log_is_named() {
        let away = || Some(ApiError::new(ErrorCode::UnknownTask, "its agent is away"));
        let machine = MachineId { slot: 0, incarnation: 0 };
        let box_one = || Some("box".to_owned());
        let cases = [
            (TaskState::Pending, None, away(), "the task has not started"),
            (TaskState::Pending, None, None, "the task has not started"),
            (
                TaskState::Placed(machine),
                box_one(),
                None,
                "the task has not started on machine box",
            ),
            (TaskState::Finished, box_one(), None, "machine box no longer has the log of the task"),
            (
                TaskState::Finished,
                box_one(),
                away(),
                "its agent is away: it was last on machine box",
            ),
            (TaskState::Finished, None, None, "no connected agent has a log of the task"),
        ];
        for (state, machine, error, expected) in cases {
            let error = no_log(state, machine, error);
            assert_eq!((error.code, &*error.message), (ErrorCode::UnknownTask, expected));
        }
    }
}
