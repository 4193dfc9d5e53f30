//! `omega job resize`: changes the number of tasks of a task group.

use crate::commands::jobs::named_job::{by_name, find, has_ended, target, unreplaced};
use crate::commands::shape::DoneShape;
use crate::commands::show::{self, clean_name};
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{ErrorCode, proto};
use omega_core::Job;
use omega_workload::words::plural;

/// The task group to resize, and its new number of tasks.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    name: String,
    /// New number of tasks of the group. A service without tasks remains; any other job without tasks ends.
    #[arg(value_name = "COUNT")]
    count: u32,
    /// Task group to resize [default: the only group of the job, or else the group `main`].
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    #[command(flatten)]
    common: CommandArgs,
}

/// Runs the command.
pub(super) fn run(args: &ResizeArgs) -> Result<(), CommandError> {
    let (job, group) = (by_name(&args.name), args.group.clone().unwrap_or_default());
    let request = proto::ResizeGroupRequest { job, group, count: args.count };
    let caller = args.common.caller()?;
    // The group is resized even if the job cannot be read.
    let before = find(&caller, by_name(&args.name)).ok();
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).resize_group(request).await
    })?;
    let after = (args.count == 0).then(|| find(&caller, by_name(&args.name)));
    let has_ended = match &after {
        Some(Ok(job)) => has_ended(job),
        // The cell has forgotten the job already.
        Some(Err(CommandError::Refused(why))) => why.code == ErrorCode::UnknownJob,
        Some(Err(_)) | None => false,
    };
    let count_before = before.as_ref().and_then(|job| count(&target(job).ok()?, &args.group));
    let (done, line) = match (before, count_before) {
        _ if has_ended => (ENDED, None),
        (Some(job), Some(before)) if before == args.count => {
            let failed = unreplaced(&job);
            let line = target(&job).ok().map(|job| unchanged(&job, before, failed));
            ("has this many tasks already", line)
        }
        (_, Some(before)) => {
            let to = plural(args.count.into(), "task");
            let remains = matches!(&after, Some(Ok(job)) if job.scaled_to_zero);
            let note = if remains { ": the service remains, and can be resized again" } else { "" };
            ("is resized", Some(format!("is resized from {before} to {to}{note}")))
        }
        (_, None) => ("is resized", None),
    };
    let shape = DoneShape { name: args.name.clone(), done, version: response.version };
    show::print(args.common.output, &shape, || match &line {
        Some(line) => format!("job {} {line}\n", clean_name(&args.name)),
        None => show::done("job", &shape),
    })
}

/// Text for a job that has no tasks.
const ENDED: &str = "has no task left, and so has ended";

/// Number of tasks of a job's group; of the only group, or else of the group `main`, if none is named.
fn count(job: &Job, group: &Option<String>) -> Option<u32> {
    let named = match (&*job.groups, group) {
        ([only], None) => Some(only),
        (all, _) => {
            let name = group.as_deref().unwrap_or("main");
            all.iter().find(|group| *group.name == *name)
        }
    };
    named.map(|group| group.count)
}

/// Text for a group that has `count` tasks already, of a job of which tasks have failed.
fn unchanged(job: &Job, count: u32, failed: u32) -> String {
    let has = format!("already has {}", plural(count.into(), "task"));
    if failed == 0 { has } else { format!("{has}; {}", failures(job, failed)) }
}

/// Remark on tasks of a service that have failed and are not replaced.
pub(super) fn failures(job: &Job, failed: u32) -> String {
    let (has, them) = if failed == 1 { ("has", "it") } else { ("have", "them") };
    let name = clean_name(&job.name);
    let remedy = match job.gang_min {
        Some(_) => format!("to run the gang again, use omega job delete {name}, and submit it"),
        None => format!("to replace {them}, use omega job restart {name}"),
    };
    format!("{} {has} failed for good: {remedy}", plural(failed.into(), "task"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    #[test]
    fn a_resize_without_effect_names_the_failed_tasks() {
        let group = |name: &str, count| TaskGroup {
            name: name.into(),
            ..TaskGroup::new(count, Amounts::new([1]))
        };
        let mut job = Job::service("deg", group("web", 3));
        assert_eq!(count(&job, &None), Some(3));
        job.groups = vec![group("web", 3).into(), group("main", 2).into()].into();
        assert_eq!(
            [None, Some("web".to_owned())].map(|name| count(&job, &name)),
            [Some(2), Some(3)]
        );
        let status = |running, failed| proto::JobStatus {
            job: Some((&job).into()),
            running,
            failed,
            ..Default::default()
        };
        // The first has replaced its failed tasks by an update.
        let statuses = [status(5, 2), status(4, 1), status(4, 0), status(2, 7)];
        assert_eq!(statuses.map(|status| unreplaced(&status)), [0, 1, 0, 3]);
        let mut job = Job::service("web", group("web", 3));
        assert_eq!(unchanged(&job, 3, 0), "already has 3 tasks");
        let text = unchanged(&job, 3, 1);
        assert!(text.starts_with("already has 3 tasks; 1 task has failed for good: to"), "{text}");
        assert!(text.ends_with("omega job restart web"), "{text}");
        job.gang_min = Some(2);
        assert!(failures(&job, 1).contains("omega job delete web"), "a gang is not restarted");
    }
}
