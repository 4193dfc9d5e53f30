//! Jobs of the cell that a command names.

use crate::commands::CommandError;
use crate::commands::call::Caller;
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::Job;

/// The API's reference to a job by its name.
pub(in crate::commands) fn by_name(name: &str) -> Option<proto::JobRef> {
    Some(proto::JobRef { job: Some(proto::job_ref::Job::Name(name.to_owned())) })
}

pub(in crate::commands) fn by_id(id: u64) -> Option<proto::JobRef> {
    Some(proto::JobRef { job: Some(proto::job_ref::Job::Id(id)) })
}

/// Finds a job by name.
pub(in crate::commands) fn find(
    caller: &Caller,
    job: Option<proto::JobRef>,
) -> Result<proto::JobStatus, CommandError> {
    let response = caller.call(&proto::GetJobRequest { job }, |channel, request| async move {
        JobServiceClient::new(channel).get_job(request).await
    })?;
    Ok(response.job.ok_or(Malformed::Missing("job"))?)
}

/// The description that the job's tasks follow, or will follow once an update has ended.
///
/// # Errors
/// If the message has no description.
pub(in crate::commands) fn target(status: &proto::JobStatus) -> Result<Job, CommandError> {
    let job = status.target.clone().or_else(|| status.job.clone());
    Ok(Job::try_from(job.ok_or(Malformed::Missing("job"))?)?)
}

/// Whether a job has tasks that have not ended.
pub(super) fn lives(job: &proto::JobStatus) -> bool {
    living(job) > 0
}

/// Whether a job has ended. A service that is scaled to zero has not, although it has no tasks.
pub(super) fn has_ended(job: &proto::JobStatus) -> bool {
    !lives(job) && !job.scaled_to_zero
}

fn living(job: &proto::JobStatus) -> u32 {
    job.pending + job.placed + job.running
}

/// Number of tasks that a service lacks because tasks of it have failed for good. Tasks of groups that have changed
/// since were replaced.
pub(super) fn unreplaced(status: &proto::JobStatus) -> u32 {
    let job = status.target.as_ref().or(status.job.as_ref());
    let service = job.filter(|job| job.kind == i32::from(proto::JobKind::Service));
    let wanted: u32 = service.map_or(0, |job| job.groups.iter().map(|group| group.count).sum());
    wanted.saturating_sub(living(status)).min(status.failed)
}
