//! Jobs of the cell that a command names.

use super::AskError;
use super::call::Caller;
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::Job;

/// The API's reference to a job by its name.
pub(super) fn by_name(name: &str) -> Option<proto::JobRef> {
    Some(proto::JobRef { job: Some(proto::job_ref::Job::Name(name.to_owned())) })
}

/// Finds a job by name.
pub(super) fn find(
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
pub(super) fn target(told: &proto::JobStatus) -> Result<Job, AskError> {
    let job = told.target.clone().or_else(|| told.job.clone());
    Ok(Job::try_from(job.ok_or(Malformed::Missing("job"))?)?)
}
