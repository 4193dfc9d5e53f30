//! The latest versions of a job, as the cell has them.

use crate::ask::AskError;
use crate::ask::call::Caller;
use crate::ask::jobs::named_job::by_name;
use crate::ask::shape::update_result;
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::Job;

/// A version of a job.
pub(in crate::ask) struct Version {
    pub(in crate::ask) number: u32,
    /// Time at which the version began, in milliseconds since 1970; 0 for the first version.
    pub(in crate::ask) at_ms: u64,
    /// Result of the update: `complete` or `failed`.
    pub(in crate::ask) result: Option<&'static str>,
    pub(in crate::ask) job: Job,
}

impl Version {
    /// Whether the update to the version has failed.
    pub(in crate::ask) fn has_failed(&self) -> bool {
        self.result == Some("failed")
    }
}

/// The number of the latest version before this position that has the same content.
pub(in crate::ask) fn content_of(all: &[Version], at: usize) -> Option<u32> {
    all[..at].iter().rev().find(|earlier| earlier.job == all[at].job).map(|earlier| earlier.number)
}

/// The latest versions of a job, oldest first.
pub(in crate::ask) fn all(caller: &Caller, name: &str) -> Result<Vec<Version>, AskError> {
    let request = proto::ListJobVersionsRequest { job: by_name(name) };
    let told = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).list_job_versions(request).await
    })?;
    let version = |told: proto::JobVersion| {
        let result = update_result(told.result());
        let job = Job::try_from(told.job.ok_or(Malformed::Missing("job"))?)?;
        Ok(Version { number: told.number, at_ms: told.at_ms, result, job })
    };
    told.versions.into_iter().map(version).collect()
}
