//! The latest versions of a job, as the cell has them.

use crate::commands::CommandError;
use crate::commands::call::Caller;
use crate::commands::jobs::named_job::by_name;
use crate::commands::shape::update_result;
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::restart;
use omega_core::Job;

/// A version of a job.
pub(in crate::commands) struct Version {
    pub(in crate::commands) number: u32,
    /// Time at which the version began, in milliseconds since 1970; 0 for the first version.
    pub(in crate::commands) at_ms: u64,
    /// Result of the update: `complete` or `failed`.
    pub(in crate::commands) result: Option<&'static str>,
    pub(in crate::commands) job: Job,
}

impl Version {
    /// Whether the update to the version has failed.
    pub(in crate::commands) fn has_failed(&self) -> bool {
        self.result == Some("failed")
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

/// Whether the last of these versions only restarts tasks of programs to which an update was complete.
fn restarts_complete(versions: &[Version]) -> bool {
    let [earlier @ .., last] = versions else { return false };
    let is_restart = |before: &Version| restart::is_restart(&last.job, &before.job);
    let is_complete = |one: &Version| {
        one.result == Some("complete") && restart::has_equal_programs(&one.job, &last.job)
    };
    earlier.last().is_some_and(is_restart) && earlier.iter().any(is_complete)
}

/// The version to which a job returns by default: the latest one whose content differs from that of the current one,
/// and of those whose update failed. Counts of groups and restarts are no content: they are not undone.
pub(in crate::commands) fn default_version(all: &[Version]) -> Option<&Version> {
    let (present, earlier) = all.split_last()?;
    let is_same = |one: &Job, other: &Job| restart::has_equal_programs(one, other);
    let has_failed = |job: &Job| {
        (0..all.len()).any(|at| {
            all[at].has_failed() && is_same(&all[at].job, job) && !restarts_complete(&all[..=at])
        })
    };
    let is_other = |job: &Job| !is_same(job, &present.job);
    let is_usable = |one: &Version| is_other(&one.job) && !has_failed(&one.job);
    earlier.iter().rev().find(|one| !one.has_failed() && is_usable(one))
}

/// The latest versions of a job, oldest first.
pub(in crate::commands) fn all(caller: &Caller, name: &str) -> Result<Vec<Version>, CommandError> {
    let request = proto::ListJobVersionsRequest { job: by_name(name) };
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).list_job_versions(request).await
    })?;
    let version = |response: proto::JobVersion| {
        let result = update_result(response.result());
        let job = Job::try_from(response.job.ok_or(Malformed::Missing("job"))?)?;
        Ok(Version { number: response.number, at_ms: response.at_ms, result, job })
    };
    response.versions.into_iter().map(version).collect()
}
