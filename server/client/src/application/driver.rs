//! The two asynchronous tasks that communicate with the cell: one makes the core's calls, and one reads the stream.
//! Each switches to the next replica if the present one does not answer.

use super::core::{Call, Reply, Request};
use super::prefix;
use super::state::{IsFinal, State};
use crate::connect::{Connections, MESSAGE_BYTES_MAX};
use crate::proto::job_service_client::JobServiceClient;
use crate::proto::task_service_client::TaskServiceClient;
use crate::proto::{self, job_ref, list_tasks_request};
use crate::{ApiError, ErrorCode};
use omega_core::Version;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;

/// Delay before the next replica is tried: a tenth of an election.
const PAUSE: Duration = Duration::from_millis(50);

/// Pause before a rejected stream is opened again. The certificate may have been replaced meanwhile.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);

/// Time limit of a call: the server's default deadline, and some time for the network.
const CALL_MAX: Duration = Duration::from_secs(6);

/// The task that makes calls.
pub(super) struct Calls {
    pub(super) state: Arc<State>,
    pub(super) connections: Connections,
}

impl Calls {
    /// Makes calls until the runtime ends.
    pub(super) async fn run(self) {
        loop {
            let planned = self.state.planned.notified();
            let (calls, deadline_ms) = self.state.calls();
            for call in calls {
                tokio::spawn(make(self.state.clone(), self.connections.clone(), call));
            }
            let wait = deadline_ms.map(|due| due.saturating_sub(self.state.now_ms()));
            let wait = Duration::from_millis(wait.unwrap_or(0));
            tokio::select! {
                () = planned => {}
                () = tokio::time::sleep(wait), if deadline_ms.is_some() => {}
            }
        }
    }
}

async fn make(state: Arc<State>, connections: Connections, call: Call) {
    let connection = connections.current();
    let response = perform(connection.channel.clone(), &call.request);
    let reply = tokio::time::timeout(CALL_MAX, response).await;
    let late = |_| Err(ApiError::new(ErrorCode::Late, "the cell did not answer in time"));
    let reply = reply.unwrap_or_else(late);
    if reply.as_ref().is_err_and(is_of_replica) {
        connections.leave(&connection);
    }
    state.handle_reply(&call, reply);
}

/// Whether an error concerns only one replica, so that another replica may succeed.
fn is_of_replica(error: &ApiError) -> bool {
    use ErrorCode::{Late, NoLeader, OutcomeUnknown, Stopped, Unreachable};
    matches!(error.code, Late | NoLeader | OutcomeUnknown | Stopped | Unreachable)
}

async fn perform(channel: Channel, call: &Request) -> Result<Reply, ApiError> {
    let by_id = |id: u64| proto::JobRef { job: Some(job_ref::Job::Id(id)) };
    match call {
        Request::Submit(job) => {
            let request = proto::SubmitJobRequest { job: Some((&**job).into()) };
            let reply = JobServiceClient::new(channel).submit_job(request).await?;
            Ok(Reply::Submitted(reply.into_inner().id))
        }
        Request::Kill(id) => {
            let request = proto::KillJobRequest { job: Some(by_id(*id)) };
            JobServiceClient::new(channel).kill_job(request).await?;
            Ok(Reply::Killed)
        }
        Request::LookUp(id) => {
            let of = Some(list_tasks_request::Of::Job(by_id(*id)));
            let request = proto::ListTasksRequest { of, ..Default::default() };
            let reply = TaskServiceClient::new(channel).list_tasks(request).await?.into_inner();
            let missing = || ApiError::new(ErrorCode::Internal, "a container has no task");
            let task = reply.tasks.into_iter().next().ok_or_else(missing)?;
            Ok(Reply::Status(Version(reply.version), Box::new(task)))
        }
    }
}

/// The task that reads the stream.
pub(super) struct Watch {
    pub(super) state: Arc<State>,
    pub(super) connections: Connections,
}

impl Watch {
    /// Reads the stream until the runtime ends.
    pub(super) async fn run(self) {
        let prefix = prefix(&self.state.name());
        loop {
            let connection = self.connections.current();
            let mut pause = PAUSE;
            if let Err(error) = self.stream(connection.channel.clone(), &prefix).await {
                let again = error.is_temporary() || is_of_replica(&error);
                if !again {
                    pause = REFUSED_PAUSE;
                }
                self.state.fail(error, if again { IsFinal::No } else { IsFinal::Yes });
            }
            self.connections.leave(&connection);
            tokio::time::sleep(pause).await;
        }
    }

    /// Forwards the messages of one stream, until it breaks.
    async fn stream(&self, channel: Channel, prefix: &str) -> Result<(), ApiError> {
        let mut client =
            JobServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let request = proto::WatchJobsRequest { name_prefix: prefix.to_owned() };
        self.state.open();
        let opened = tokio::time::timeout(CALL_MAX, client.watch_jobs(request)).await;
        let late = |_| {
            Err(tonic::Status::deadline_exceeded(
                "the cell did not open the stream of jobs in time",
            ))
        };
        let mut stream = opened.unwrap_or_else(late)?.into_inner();
        loop {
            self.state.room().await;
            match stream.message().await? {
                Some(update) => self.state.handle_update(update),
                None => return Ok(()),
            }
        }
    }
}
