//! `omega job explain`: explains why a job of a served cell is pending.
//!
//! The cell computes the explanation like a scheduler with the given profile. Nothing is written, and no scheduler is
//! registered.

use crate::commands::call::Caller;
use crate::commands::jobs::named_job::{by_name, find, target};
use crate::commands::{CommandArgs, CommandError, show};
use crate::explainer::from_message;
use clap::{Args, Parser};
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::{Job, Precedence};
use omega_run::report::waiting::{WaitingJob, render_job};
use omega_workload::command_line::argument_error;
use omega_workload::profiles;
use omega_workload::words::plural;
use std::path::{Path, PathBuf};

/// The job.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    name: String,
    /// File with the profile of the job's scheduler, if that scheduler was started with `omega scheduler --profile`
    /// [default: the built-in profiles].
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    /// Explain only this task group [default: all].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    group: String,
    #[command(flatten)]
    common: CommandArgs,
}

/// Options for calling a served cell, read from the environment, for commands that have no flags for them.
#[derive(Debug, Parser)]
struct Environment {
    #[command(flatten)]
    common: CommandArgs,
}

/// Explains why a job of a served cell is pending.
pub(crate) fn served(
    cell: &str,
    job: &str,
    profile: Option<&Path>,
) -> Result<WaitingJob, CommandError> {
    let environment = Environment::try_parse_from(["omega", "--cell", cell]);
    let wrong = |error: clap::Error| CommandError::Environment(argument_error("omega", &error));
    let common = environment.map_err(wrong)?.common;
    explanation(&ExplainArgs {
        name: job.to_owned(),
        profile: profile.map(Path::to_owned),
        group: String::new(),
        common,
    })
}

/// Runs the command.
pub(super) fn run(args: &ExplainArgs) -> Result<(), CommandError> {
    let waiting_job = explanation(args)?;
    let status = find(&args.common.caller()?, by_name(&args.name))?;
    let job = target(&status)?;
    show::print(args.common.output, &waiting_job, || match waiting_job.waiting {
        0 => progress(&args.name, &status),
        _ => text(&waiting_job, &job, args.profile.is_none()) + &failures(&args.name, &status),
    })
}

/// The states of the tasks of a job without pending tasks.
fn progress(name: &str, status: &proto::JobStatus) -> String {
    let states = [
        (status.placed, "placed"),
        (status.running, "running"),
        (status.finished, "finished"),
        (status.failed, "failed"),
        (status.killed, "killed"),
    ];
    let states = states.iter().filter(|(count, _)| *count > 0);
    let states: Vec<String> = states.map(|(count, state)| format!("{count} {state}")).collect();
    let name = show::clean_name(name);
    let why = match (status.failed, status.failures) {
        (0, _) | (_, 1..) => String::new(),
        _ => format!("; `omega job history {name}` has the reasons of failures"),
    };
    if states.is_empty() {
        format!("{name} does not wait: it has no tasks\n")
    } else {
        let waits = format!("{name} does not wait: its tasks are {}{why}\n", states.join(", "));
        waits + &failures(&name, status)
    }
}

/// Remark on failures after which tasks were placed again.
fn failures(name: &str, status: &proto::JobStatus) -> String {
    if status.failures == 0 {
        return String::new();
    }
    let failed = plural(status.failures.into(), "failure");
    let name = show::clean_name(name);
    format!(
        "tasks were placed again after {failed}, each at once: `omega job history {name}` has the \
         reasons\n"
    )
}

/// The explanation as text, with notes about the conditions that it does not consider.
fn text(waiting_job: &WaitingJob, job: &Job, is_built_in: bool) -> String {
    let mut text = render_job(waiting_job);
    let has_room = waiting_job.gang.is_none_or(|gang| gang.lack() == 0);
    let is_feasible =
        waiting_job.groups.iter().any(|group| group.waiting > 0 && group.feasible > 0);
    if is_built_in && has_room && is_feasible {
        text.push_str(
            "the filters of the scheduler's profile were not considered: give --profile FILE.toml \
             if the scheduler has a profile\n",
        );
    }
    if is_built_in && !(has_room && is_feasible) && job.precedence > Precedence::default() {
        text.push_str(
            "tasks of lower precedence are evicted only if the scheduler's profile has a plugin for \
             preemption\n",
        );
    }
    text
}

fn explanation(args: &ExplainArgs) -> Result<WaitingJob, CommandError> {
    let profile = match &args.profile {
        Some(file) => profile(file)?,
        None => String::new(),
    };
    let (job, group) = (by_name(&args.name), args.group.clone());
    let request = proto::ExplainJobRequest { job, group, profile };
    explained(&args.common.caller()?, &request)
}

/// Requests the explanation of a pending job.
pub(in crate::commands) fn explained(
    caller: &Caller,
    request: &proto::ExplainJobRequest,
) -> Result<WaitingJob, CommandError> {
    let waiting_job = caller.call(request, |channel, request| async move {
        JobServiceClient::new(channel).explain_job(request).await
    })?;
    Ok(from_message(waiting_job))
}

/// The text of a profile file. Errors that do not depend on the cell are reported here, with the file's name and the
/// place in the file.
fn profile(file: &Path) -> Result<String, CommandError> {
    let (text, _) = profiles::read(file)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_after_which_tasks_were_placed_again_are_told() {
        let status = |running, failed, failures| proto::JobStatus {
            running,
            failed,
            failures,
            ..Default::default()
        };
        assert_eq!(
            progress("web", &status(2, 0, 0)),
            "web does not wait: its tasks are 2 running\n"
        );
        assert_eq!(
            progress("web", &status(1, 1, 0)),
            "web does not wait: its tasks are 1 running, 1 failed; `omega job history web` has the \
             reasons of failures\n"
        );
        assert_eq!(
            progress("web", &status(1, 1, 3)),
            "web does not wait: its tasks are 1 running, 1 failed\ntasks were placed again after 3 \
             failures, each at once: `omega job history web` has the reasons\n"
        );
    }
}
