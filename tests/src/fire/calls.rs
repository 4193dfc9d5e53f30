//! Calls to one replica. Each is sent once, and returns what is known about the outcome.

use crate::cluster::checker::Fate;
use omega_client::connect::MESSAGE_BYTES_MAX;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_client::proto::{self, list_tasks_request, machine_ref};
use omega_client::{ApiError, ErrorCode};
use omega_core::{
    Commit, Job, JobId, Machine, MachineId, Outcome, Rejection, SchedulerId, TaskId, Transaction,
    Version,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// Timeout of clients, which is longer than an election.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connections to the replicas of a cell. Clones share them.
#[derive(Clone, Debug)]
pub struct Replicas {
    runtime: Arc<Runtime>,
    channels: Vec<Channel>,
}

/// A page of the tasks of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TasksSeen {
    /// Version of the cell to which the page belongs.
    pub version: Version,
    /// The tasks, in ascending order.
    pub tasks: Vec<TaskId>,
}

fn job_by_id(id: JobId) -> Option<proto::JobRef> {
    Some(proto::JobRef { job: Some(proto::job_ref::Job::Id(id.0)) })
}

impl Replicas {
    /// Opens separate connections to these addresses.
    ///
    /// # Panics
    /// If an address is invalid.
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, addresses: &[SocketAddr]) -> Replicas {
        let _entered = runtime.enter();
        let connect = |address: &SocketAddr| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let endpoint = endpoint.expect("an address makes an endpoint");
            endpoint.connect_timeout(PATIENCE).timeout(PATIENCE).tcp_nodelay(true).connect_lazy()
        };
        let channels = addresses.iter().map(connect).collect();
        Replicas { runtime: runtime.clone(), channels }
    }

    /// Number of replicas.
    #[must_use]
    pub fn count(&self) -> usize {
        self.channels.len()
    }

    fn channel(&self, at: usize) -> Channel {
        self.channels[at % self.channels.len()].clone()
    }

    /// Sends a transaction. It is marked as a retry if it was sent before.
    ///
    /// # Errors
    /// If the reply is one that a transaction cannot get.
    pub fn commit(&self, at: usize, txn: &Transaction, retry: bool) -> Result<Fate, String> {
        let mut client = SchedulingServiceClient::new(self.channel(at));
        let mut request = proto::CommitRequest::from(txn);
        request.retry = retry;
        let answer = self.runtime.block_on(client.commit(request));
        fate(answer.map(tonic::Response::into_inner), txn)
    }

    /// Sends a transaction to two replicas at the same time, marked as a retry.
    ///
    /// # Errors
    /// As [`Replicas::commit`], or if the two replies contradict each other.
    pub fn commit_twice(&self, at: usize, txn: &Transaction) -> Result<Fate, String> {
        let mut first = SchedulingServiceClient::new(self.channel(at));
        let mut second = SchedulingServiceClient::new(self.channel(at + 1));
        let mut request = proto::CommitRequest::from(txn);
        request.retry = true;
        let both = async { tokio::join!(first.commit(request.clone()), second.commit(request)) };
        let (first, second) = self.runtime.block_on(both);
        let first = fate(first.map(tonic::Response::into_inner), txn)?;
        let second = fate(second.map(tonic::Response::into_inner), txn)?;
        match (first, second) {
            (Fate::Answered(one), Fate::Answered(other)) if one != other => {
                Err(format!("{:?} was answered twice: {one:?} and {other:?}", txn.id))
            }
            (Fate::Answered(one), _) | (_, Fate::Answered(one)) => Ok(Fate::Answered(one)),
            (Fate::NotDone, Fate::NotDone) => Ok(Fate::NotDone),
            _ => Ok(Fate::Unknown),
        }
    }

    /// Registers a scheduler.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn register(&self, at: usize, name: &str) -> Result<(SchedulerId, u64), ApiError> {
        let mut client = SchedulingServiceClient::new(self.channel(at));
        let request = proto::RegisterRequest { name: name.to_owned(), ..Default::default() };
        let told = self.runtime.block_on(client.register(request))?.into_inner();
        Ok((SchedulerId(told.scheduler), told.next_transaction))
    }

    /// Registers a machine.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn add_machine(&self, at: usize, machine: &Machine) -> Result<MachineId, ApiError> {
        let mut client = MachineServiceClient::new(self.channel(at));
        let request = proto::RegisterMachineRequest { machine: Some(machine.into()) };
        let told = self.runtime.block_on(client.register_machine(request))?.into_inner();
        Ok(told.id.map(MachineId::from).unwrap_or_default())
    }

    /// Drains a machine, or resumes placing tasks on it.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn drain(&self, at: usize, id: MachineId, resume: bool) -> Result<Version, ApiError> {
        let mut client = MachineServiceClient::new(self.channel(at));
        let request =
            proto::DrainMachineRequest { machine: Some(by_id(id)), resume, leave_by_ms: 0 };
        let told = self.runtime.block_on(client.drain_machine(request))?.into_inner();
        Ok(Version(told.version))
    }

    /// Submits a job.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn submit(&self, at: usize, job: &Job) -> Result<JobId, ApiError> {
        let mut client = JobServiceClient::new(self.channel(at));
        let request = proto::SubmitJobRequest { job: Some(job.into()) };
        let told = self.runtime.block_on(client.submit_job(request))?.into_inner();
        Ok(JobId(told.id))
    }

    /// A job and the states of its tasks.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn job(&self, at: usize, id: JobId) -> Result<proto::JobStatus, ApiError> {
        let mut client = JobServiceClient::new(self.channel(at));
        let request = proto::GetJobRequest { job: job_by_id(id) };
        let told = self.runtime.block_on(client.get_job(request))?.into_inner();
        Ok(told.job.unwrap_or_default())
    }

    /// Kills a job.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn kill_job(&self, at: usize, id: JobId) -> Result<(), ApiError> {
        let mut client = JobServiceClient::new(self.channel(at));
        let request = proto::KillJobRequest { job: job_by_id(id) };
        self.runtime.block_on(client.kill_job(request)).map(drop).map_err(Into::into)
    }

    /// Describes the cell.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn describe(&self, at: usize) -> Result<proto::DescribeCellResponse, ApiError> {
        let mut client = CellServiceClient::new(self.channel(at));
        Ok(self.runtime.block_on(client.describe_cell(proto::DescribeCellRequest {}))?.into_inner())
    }

    /// Asks the leader to transfer the leadership to another replica.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn hand_over(&self, at: usize, to: usize) -> Result<(), ApiError> {
        let mut client = CellServiceClient::new(self.channel(at));
        let request = proto::TransferLeaderRequest { to: to as u64 };
        Ok(self.runtime.block_on(client.transfer_leader(request)).map(drop)?)
    }

    /// Returns the tasks that run on a machine.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn tasks(&self, at: usize, machine: MachineId) -> Result<TasksSeen, ApiError> {
        let mut client =
            TaskServiceClient::new(self.channel(at)).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let of = Some(list_tasks_request::Of::Machine(by_id(machine)));
        let request = proto::ListTasksRequest { of, ..Default::default() };
        let told = self.runtime.block_on(client.list_tasks(request))?.into_inner();
        let tasks = told.tasks.iter().filter_map(|task| task.task).map(TaskId::from).collect();
        Ok(TasksSeen { version: Version(told.version), tasks })
    }
}

fn by_id(id: MachineId) -> proto::MachineRef {
    proto::MachineRef { machine: Some(machine_ref::Machine::Id(id.into())) }
}

/// Outcome of a transaction, from its reply.
fn fate(
    answer: Result<proto::CommitResponse, tonic::Status>,
    txn: &Transaction,
) -> Result<Fate, String> {
    let error = match answer {
        Ok(commit) => {
            let commit = Commit::try_from(commit).map_err(|error| error.to_string())?;
            return Ok(Fate::Answered(Ok(Outcome::Commit(commit))));
        }
        Err(status) => ApiError::from(status),
    };
    if let Some(refused) = error.transaction_error(txn) {
        return Ok(Fate::Answered(Err(Rejection::Transaction(refused))));
    }
    match error.code {
        _ if error.is_temporary() => Ok(Fate::NotDone),
        ErrorCode::OutcomeUnknown | ErrorCode::Late => Ok(Fate::Unknown),
        // This is the error of the library `hyper` if a connection breaks during a call.
        ErrorCode::Internal if error.message.contains("h2 protocol") => Ok(Fate::Unknown),
        _ => Err(format!("{:?} was answered with {error:?}", txn.id)),
    }
}
