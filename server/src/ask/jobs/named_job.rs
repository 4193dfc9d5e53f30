//! Jobs of the cell that a command names.

use crate::ask::AskError;
use crate::ask::call::Caller;
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::Job;

/// The API's reference to a job by its name.
pub(in crate::ask) fn by_name(name: &str) -> Option<proto::JobRef> {
    Some(proto::JobRef { job: Some(proto::job_ref::Job::Name(name.to_owned())) })
}

pub(in crate::ask) fn by_id(id: u64) -> Option<proto::JobRef> {
    Some(proto::JobRef { job: Some(proto::job_ref::Job::Id(id)) })
}

/// Finds a job by name.
pub(in crate::ask) fn find(
    caller: &Caller,
    job: Option<proto::JobRef>,
) -> Result<proto::JobStatus, AskError> {
    let told = caller.call(&proto::GetJobRequest { job }, |channel, request| async move {
        JobServiceClient::new(channel).get_job(request).await
    })?;
    Ok(told.job.ok_or(Malformed::Missing("job"))?)
}

/// The description that the job's tasks follow, or will follow once an update has ended.
///
/// # Errors
/// If the message has no description.
pub(in crate::ask) fn target(told: &proto::JobStatus) -> Result<Job, AskError> {
    let job = told.target.clone().or_else(|| told.job.clone());
    Ok(Job::try_from(job.ok_or(Malformed::Missing("job"))?)?)
}
