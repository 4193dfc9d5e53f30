//! Submission of a job.

use crate::commands::CommandError;
use crate::commands::call::Caller;
use crate::commands::show::clean_name;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::{SubmitJobRequest, SubmitJobResponse};
use omega_core::{Job, Kinds, TaskGroup};
use omega_workload::words::plural;
use std::io::{self, IsTerminal, Write};

/// Bytes of memory with which hardly any program can start.
const LITTLE_MEMORY: u64 = 64 << 10;

/// Submits a job. A user at a terminal is told if the job has tasks that request nothing, or hardly any memory, because
/// this is seldom intended.
pub(super) fn submit(caller: &Caller, job: &Job) -> Result<SubmitJobResponse, CommandError> {
    let request = SubmitJobRequest { job: Some(job.into()) };
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).submit_job(request).await
    })?;
    let mut errors = io::stderr();
    if !response.ended
        && errors.is_terminal()
        && let Some(remark) = remark(job, &caller.kinds()?)
    {
        // If standard error cannot be written, the job is submitted nevertheless.
        drop(writeln!(errors, "omega: job {} has {remark}", clean_name(&job.name)));
    }
    Ok(response)
}

/// The number of a job's tasks in words.
pub(super) fn size(job: &Job) -> String {
    let counted = job.groups.iter().filter(|group| !group.per_machine);
    let count: u64 = counted.map(|group| u64::from(group.count)).sum();
    let each = "one task on each suitable machine";
    match (job.groups.iter().any(|group| group.per_machine), count) {
        (false, _) => plural(count, "task"),
        (true, 0) => each.to_owned(),
        (true, _) => format!("{}, and {each}", plural(count, "task")),
    }
}

/// A probable mistake in the requests of a job.
fn remark(job: &Job, kinds: &Kinds) -> Option<String> {
    if job.groups.iter().any(|group| is_free(group)) {
        return Some(
            "tasks without requests, so a machine may get any number of them: use --cpu and \
             --memory, or `request` in a file"
                .to_owned(),
        );
    }
    let memory = kinds.by_name("memory")?;
    let requests = job.groups.iter().map(|group| group.request.get(memory));
    let little = requests.filter(|bytes| (1..LITTLE_MEMORY).contains(bytes)).min()?;
    let shown = kinds.display(memory, little);
    Some(format!("tasks that request {shown} of memory: give a unit, such as {little}MiB"))
}

/// Whether only rules limit the number of the group's tasks on a machine.
fn is_free(group: &TaskGroup) -> bool {
    let is_zero = group.request.is_zero() && group.cluster_request.is_zero();
    is_zero && group.devices.is_none() && group.cores.is_none() && !group.per_machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, CoreRequest, KindId};

    #[test]
    fn requests_that_are_probably_wrong_are_told() {
        let job = |memory| {
            let request = Amounts::new([500]).with(KindId::MEMORY, memory);
            Job::batch("web", TaskGroup::new(1, request))
        };
        let remark = |memory| remark(&job(memory), &Kinds::standard()).unwrap_or_default();
        assert_eq!(remark(64), "tasks that request 64 B of memory: give a unit, such as 64MiB");
        assert_eq!((remark(0), remark(64 << 20)), (String::new(), String::new()));
    }

    #[test]
    fn the_size_of_a_job_is_in_words() {
        let group = |per_machine| TaskGroup { per_machine, ..TaskGroup::new(2, Amounts::zero()) };
        let of = |groups: &[bool]| {
            let groups = groups.iter().map(|each| group(*each).into()).collect();
            size(&Job { groups, ..Job::batch("web", group(false)) })
        };
        assert_eq!(of(&[false, false]), "4 tasks");
        assert_eq!(of(&[true]), "one task on each suitable machine");
        assert_eq!(of(&[false, true]), "2 tasks, and one task on each suitable machine");
    }

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
