//! The latest versions of a job, as the cell has them.

use crate::commands::CommandError;
use crate::commands::call::Caller;
use crate::commands::jobs::named_job::by_name;
use crate::commands::shape::update_result;
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::restart;
use omega_client::rollback::{self, KnownVersion};
use omega_core::{Job, UpdateResult};

/// A version of a job.
pub(in crate::commands) struct Version {
    pub(in crate::commands) number: u32,
    /// Time at which the version began, in milliseconds since 1970; 0 for the first version.
    pub(in crate::commands) at_ms: u64,
    /// Result of the update; `None` if it has none. The first version counts as complete.
    pub(in crate::commands) result: Option<UpdateResult>,
    pub(in crate::commands) job: Job,
}

impl Version {
    /// Whether the update to the version has failed.
    pub(in crate::commands) fn has_failed(&self) -> bool {
        self.result == Some(UpdateResult::Failed)
    }
}

/// The number of the latest version before this position that has the same content. A restart changes no content.
pub(in crate::commands) fn content_of(all: &[Version], at: usize) -> Option<u32> {
    let is_same = |earlier: &&Version| restart::has_equal_content(&earlier.job, &all[at].job);
    all[..at].iter().rev().find(is_same).map(|earlier| earlier.number)
}

/// The number of the latest version before this position that may have been restored at this position: its content is
/// equal apart from counts, which a rollback keeps.
pub(in crate::commands) fn restored_from(all: &[Version], at: usize) -> Option<u32> {
    let is_same = |earlier: &&Version| restart::has_equal_programs(&earlier.job, &all[at].job);
    let same = || all[..at].iter().rev().find(is_same).map(|earlier| earlier.number);
    content_of(all, at).or_else(same)
}

/// The version to which a job returns by default.
pub(in crate::commands) fn default_version(all: &[Version]) -> Option<&Version> {
    let known = all.iter().map(|one| KnownVersion { job: &one.job, result: one.result });
    rollback::version_to_restore(&known.collect::<Vec<_>>()).map(|at| &all[at])
}

/// The latest versions of a job, oldest first.
pub(in crate::commands) fn all(caller: &Caller, name: &str) -> Result<Vec<Version>, CommandError> {
    let request = proto::ListJobVersionsRequest { job: by_name(name) };
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).list_job_versions(request).await
    })?;
    let version = |response: proto::JobVersion| {
        let first = (response.number == 0).then_some(UpdateResult::Complete);
        let result = update_result(response.result()).or(first);
        let job = Job::try_from(response.job.ok_or(Malformed::Missing("job"))?)?;
        Ok(Version { number: response.number, at_ms: response.at_ms, result, job })
    };
    response.versions.into_iter().map(version).collect()
}
