//! Submission of a job.

use crate::ask::AskError;
use crate::ask::call::Caller;
use crate::ask::show::clean_name;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::{SubmitJobRequest, SubmitJobResponse};
use omega_core::{Job, TaskGroup};
use std::io::{self, IsTerminal, Write};

/// Submits a job. A user at a terminal is told if the job has tasks that request nothing, because this is seldom
/// intended.
pub(super) fn submit(caller: &Caller, job: &Job) -> Result<SubmitJobResponse, AskError> {
    let request = SubmitJobRequest { job: Some(job.into()) };
    let told = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).submit_job(request).await
    })?;
    let mut errors = io::stderr();
    if !told.ended && errors.is_terminal() && job.groups.iter().any(|group| is_free(group)) {
        let name = clean_name(&job.name);
        // If standard error cannot be written, the job is submitted nevertheless.
        drop(writeln!(
            errors,
            "omega: job {name} has tasks without requests, so a machine may get any number of them: \
             use --cpu and --memory, or `request` in a file"
        ));
    }
    Ok(told)
}

/// Whether only rules limit the number of the group's tasks on a machine.
fn is_free(group: &TaskGroup) -> bool {
    let is_zero = group.request.is_zero() && group.cluster_request.is_zero();
    is_zero && group.devices.is_none() && group.cores.is_none() && !group.per_machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, CoreRequest};

    #[test]
    fn tasks_are_free_if_they_request_nothing() {
        let free = TaskGroup::new(3, Amounts::zero());
        assert!(is_free(&free));
        let one = Amounts::new([1]);
        assert!(!is_free(&TaskGroup::new(3, one.clone())));
        assert!(!is_free(&TaskGroup { cluster_request: one, ..free.clone() }));
        assert!(!is_free(&TaskGroup { per_machine: true, ..free.clone() }));
        let cores = Some(CoreRequest::any(1));
        assert!(!is_free(&TaskGroup { cores, ..free }));
    }
}
