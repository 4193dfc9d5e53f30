//! `omega job restart`: replaces all tasks of a service by its rules of updates.
//!
//! A restart is an update that changes no content ([`omega_client::restart`]).

use crate::commands::call::Caller;
use crate::commands::files::moment;
use crate::commands::jobs::apply::update;
use crate::commands::jobs::named_job::{by_name, find, lives, target};
use crate::commands::jobs::submission;
use crate::commands::jobs::wait::{Awaited, WaitArgs};
use crate::commands::show::{self, clean_name};
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use omega_client::{proto, restart};
use omega_core::{Job, JobKind};
use serde::Serialize;

/// The service to restart.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// Name of the service.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    common: CommandArgs,
}

/// A service whose tasks are being replaced.
#[derive(Debug, Serialize)]
struct RestartedShape {
    name: String,
    /// The job's version from now on.
    version: u32,
    /// Number of tasks in words.
    #[serde(skip)]
    size: String,
}

/// Runs the command.
pub(super) fn run(args: &RestartArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let (job, version) = restarted(&caller, &args.name)?;
    let shape = RestartedShape { name: args.name.clone(), version, size: submission::size(&job) };
    show::print(args.common.output, &shape, || {
        let RestartedShape { name, version, size } = &shape;
        format!("job {} restarts as version {version}: {size}\n", clean_name(name))
    })?;
    args.wait.until_done(&caller, Awaited { name: &args.name, version: Some(version) })
}

/// Begins the restart of a job. Returns its description and its new version.
fn restarted(caller: &Caller, name: &str) -> Result<(Job, u32), CommandError> {
    let status = find(caller, by_name(name))?;
    let present = target(&status)?;
    if let Some(why) = refusal(&present, &status) {
        return Err(CommandError::NotDone { name: name.to_owned(), why });
    }
    let job = restart::restarted(&present, moment::unix_ms());
    let version = update(caller, &job, status.version)?;
    Ok((job, version))
}

/// The reason for which a job cannot be restarted, and the remedy; `None` if it can.
fn refusal(job: &Job, status: &proto::JobStatus) -> Option<String> {
    let name = clean_name(&job.name);
    let again = format!("delete it with `omega job delete {name}`, and submit it again");
    if job.kind == JobKind::Batch {
        return Some(format!("only services are restarted: to run a batch job again, {again}"));
    }
    if job.gang_min.is_some() {
        return Some(format!("a gang is not replaced task by task: to restart it, {again}"));
    }
    if status.scaled_to_zero {
        return Some(format!("it has no tasks: start some with `omega job resize {name} COUNT`"));
    }
    (!lives(status)).then(|| {
        format!(
            "it has ended: start it again with `omega job apply`, whose file is printed by `omega \
             job get {name} -o toml`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    #[test]
    fn only_running_services_are_restarted() {
        let group = TaskGroup::new(2, Amounts::new([1]));
        let service = Job::service("web", group.clone());
        let of = |job: &Job, running| {
            refusal(job, &proto::JobStatus { running, ..Default::default() }).unwrap_or_default()
        };
        assert_eq!(of(&service, 2), "");
        assert!(of(&service, 0).contains("it has ended"));
        let scaled_to_zero = proto::JobStatus { scaled_to_zero: true, ..Default::default() };
        assert!(refusal(&service, &scaled_to_zero).unwrap().contains("omega job resize web"));
        assert!(of(&Job { gang_min: Some(2), ..service }, 2).contains("gang"));
        assert!(of(&Job::batch("web", group), 2).contains("`omega job delete web`"));
    }
}
