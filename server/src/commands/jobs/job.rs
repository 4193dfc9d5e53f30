//! `omega job`: the jobs of a cell.

use crate::commands::call::Caller;
use crate::commands::events::{self, HistoryArgs};
use crate::commands::files::job_file::{JobFile, JobsFile};
use crate::commands::files::job_flags::JobFlags;
use crate::commands::files::lines::with_line;
use crate::commands::jobs::apply::{self, ApplyArgs};
use crate::commands::jobs::explain::{self, ExplainArgs};
use crate::commands::jobs::list::{self, ListArgs};
use crate::commands::jobs::named_job::{by_name, find, has_ended, target};
use crate::commands::jobs::resize::{self, ResizeArgs};
use crate::commands::jobs::restart::{self, RestartArgs};
use crate::commands::jobs::submission;
use crate::commands::jobs::versions::{self, RollbackArgs};
use crate::commands::jobs::wait::{Awaited, WaitArgs};
use crate::commands::jobs::watch::{self, WatchArgs};
use crate::commands::shape::{ByKind, DoneShape, GroupShape, JobShape, RunShape, listed};
use crate::commands::show::{self, Align, Format, clean_name, columns, facts};
use crate::commands::{CallArgs, CommandArgs, CommandError, NameArgs, named, task, task_pages};
use crate::output;
use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::list_tasks_request::Of;
use omega_core::{Job, JobId, Kinds};
use omega_workload::file;
use omega_workload::words::plural;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Commands for jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// List jobs and the states of their tasks. Ended jobs are listed only with --ended or --all.
    #[command(
        mut_arg("output", show::with_wide),
        after_help = "Examples:\n  omega job list\n  omega job list --tenant team-a --ended"
    )]
    List(ListArgs),
    /// Show one job, and the machines of its tasks.
    #[command(
        visible_alias = "status",
        after_help = "Examples:\n  omega job get web\n  omega job get web -o toml > web.toml"
    )]
    Get(GetArgs),
    /// Submit a job, described by options or by a file.
    ///
    /// If the cell has an identical job of this name, nothing changes. If that job has ended, it is not run again. If
    /// the cell has a different job of this name, the command fails: use `omega job apply` to update a job.
    #[command(after_help = "Examples:\n  \
        omega job submit web --count 3 --cpu 0.5 --service --spread rack:1\n  \
        omega job submit hello --cpu 0.5 -- /bin/sh -c 'echo hello $OMEGA_TASK_INDEX'\n  \
        omega job submit -f web.toml")]
    Submit(Box<SubmitArgs>),
    /// Create the jobs of a file, or update existing jobs to match the file.
    ///
    /// Tasks of services are replaced step by step. In a batch job, only the number of tasks of each group can be
    /// changed.
    #[command(after_help = "Examples:\n  \
        omega job apply -f web.toml --dry-run\n  \
        omega job apply -f web.toml --wait")]
    Apply(ApplyArgs),
    /// Print the latest versions of a job, and what changed in each.
    #[command(mut_arg("name", named("job")), after_help = "Example:\n  omega job versions web")]
    Versions(NameArgs),
    /// Return a service to an earlier version.
    #[command(after_help = "Examples:\n  \
        omega job rollback web --wait\n  \
        omega job rollback web --to 3")]
    Rollback(RollbackArgs),
    /// Replace all tasks of a service step by step, by its rules of updates, without another change.
    #[command(after_help = "Example:\n  omega job restart web --wait")]
    Restart(RestartArgs),
    /// Change the number of tasks of a job's task group.
    #[command(visible_alias = "scale", after_help = "Example:\n  omega job resize web 5")]
    Resize(ResizeArgs),
    /// End all tasks of a job.
    ///
    /// Until the cell removes the ended job, its name cannot be used for another job (see `omega policy set
    /// --ttl-after-finished`).
    #[command(
        visible_alias = "stop",
        mut_arg("name", named("job")),
        after_help = "Example:\n  omega job kill web"
    )]
    Kill(NameArgs),
    /// End all tasks of a job, and remove the job, so that its name is free at once.
    #[command(mut_arg("name", named("job")), after_help = "Example:\n  omega job delete web")]
    Delete(NameArgs),
    /// Watch the tasks of a job: print the state of each task, and then every change.
    ///
    /// The command ends when all tasks have reached the state given with --until. The exit code is 1 if tasks have
    /// failed by then, or if tasks of a batch job were killed.
    #[command(
        after_help = "Examples:\n  omega job watch report\n  omega job watch web --until running"
    )]
    Watch(WatchArgs),
    /// Print the recent events of a job and its tasks, with their reasons.
    #[command(after_help = "Example:\n  omega job history web --limit 20")]
    History(HistoryArgs),
    /// Explain why a job is pending, and what would help. Nothing is changed.
    #[command(after_help = "Example:\n  omega job explain web")]
    Explain(ExplainArgs),
}

/// The job to print, and the output format.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    call: CallArgs,
    /// Output format.
    #[arg(long, short, value_name = "FORMAT", value_enum, help_heading = "Cell and output",
          default_value_t = JobFormat::Of(Format::Table))]
    output: JobFormat,
}

/// Output format of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobFormat {
    Of(Format),
    /// A file for `omega job submit` and `omega job apply`.
    Toml,
}

impl ValueEnum for JobFormat {
    fn value_variants<'a>() -> &'a [JobFormat] {
        use JobFormat::{Of, Toml};
        &[
            Of(Format::Table),
            Of(Format::Wide),
            Of(Format::Name),
            Of(Format::Json),
            Of(Format::Yaml),
            Toml,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            JobFormat::Of(format) => format.to_possible_value(),
            JobFormat::Toml => Some(PossibleValue::new("toml").help(
                "The job as a TOML file, which `omega job submit -f` and `omega job apply -f` read",
            )),
        }
    }
}

/// The job to submit, described by flags or by a file.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// Submit the job of this file (TOML or JSON; docs/cli.md describes the fields), instead of a job described by
    /// options. `-` is standard input.
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["name", "count",
          "cpu", "memory", "disk", "gpu", "amounts", "of_cell", "service", "scheduler", "tenant",
          "precedence", "run_time", "deadline", "gang", "gang_timeout", "restarts", "grace", "labels", "require", "spread",
          "anti_affinity", "cores", "one_node", "ports", "env", "user", "image", "run"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    flags: JobFlags,
    #[command(flatten)]
    common: CommandArgs,
}

/// Runs the command.
pub(crate) fn run(command: &JobCommand) -> Result<(), CommandError> {
    match command {
        JobCommand::List(args) => list::run(args),
        JobCommand::Get(args) => get(args),
        JobCommand::Submit(args) => submit(args),
        JobCommand::Apply(args) => apply::run(args),
        JobCommand::Versions(args) => versions::list(args),
        JobCommand::Rollback(args) => versions::rollback(args),
        JobCommand::Restart(args) => restart::run(args),
        JobCommand::Resize(args) => resize::run(args),
        JobCommand::Kill(args) => kill(args),
        JobCommand::Delete(args) => delete(args),
        JobCommand::Watch(args) => watch::run(args),
        JobCommand::History(args) => events::run(args),
        JobCommand::Explain(args) => explain::run(args),
    }
}

/// Maximum number of a job's machines that are printed.
const MACHINES_SHOWN: usize = 20;

/// A job, and the first of the machines on which its tasks run.
#[derive(Debug, Serialize)]
struct WhereShape {
    #[serde(flatten)]
    job: JobShape,
    machines: Vec<String>,
    machines_more: usize,
    /// Wanted numbers of tasks by group, which is the count of the current version.
    #[serde(skip)]
    wanted: BTreeMap<String, u32>,
    /// The job as a file, with all its rules; `null` if a payload is not text, and so not in the file.
    file: Option<JobFile>,
}

fn get(args: &GetArgs) -> Result<(), CommandError> {
    let caller = args.call.caller()?;
    let kinds = caller.kinds()?;
    let response = find(&caller, by_name(&args.name))?;
    let format = match args.output {
        JobFormat::Toml => return print_file(&kinds, &response),
        JobFormat::Of(format) => format,
    };
    let shape = with_machines(&caller, &kinds, response)?;
    show::print(format, &shape, || one(&kinds, &shape))
}

/// Describes a job as `omega job get` does, with its tasks.
///
/// # Errors
/// As [`Caller::call`], or if there is no such job.
pub(in crate::commands) fn detail(
    caller: &Caller,
    kinds: &Kinds,
    name: &str,
) -> Result<String, CommandError> {
    let response = find(caller, by_name(name))?;
    let text = one(kinds, &with_machines(caller, kinds, response)?);
    Ok(format!("{text}\n{}", task::table_of(caller, kinds, by_name(name).map(Of::Job))?))
}

/// Adds the machines of a job's tasks.
fn with_machines(
    caller: &Caller,
    kinds: &Kinds,
    response: proto::JobStatus,
) -> Result<WhereShape, CommandError> {
    let target = target(&response)?;
    let (file, wanted) = (JobFile::written(&target, kinds).ok(), wanted(&target));
    let job = JobShape::new(kinds, response)?;
    let tasks = task_pages::list(caller, by_name(&job.name).map(Of::Job), None, None)?;
    let machines = tasks.items.into_iter().map(|task| task.machine_name);
    let machines: BTreeSet<String> = machines.filter(|name| !name.is_empty()).collect();
    Ok(WhereShape {
        machines_more: machines.len().saturating_sub(MACHINES_SHOWN),
        machines: machines.into_iter().take(MACHINES_SHOWN).collect(),
        job,
        wanted,
        file,
    })
}

fn wanted(target: &Job) -> BTreeMap<String, u32> {
    let mut wanted = BTreeMap::new();
    for group in &target.groups {
        *wanted.entry(group.name.to_string()).or_default() += group.count;
    }
    wanted
}

/// Prints a job as the file that describes it.
fn print_file(kinds: &Kinds, response: &proto::JobStatus) -> Result<(), CommandError> {
    let job = target(response)?;
    Ok(output::print(&JobFile::written(&job, kinds)?.to_toml())?)
}

/// Progress and timeout of an incomplete gang.
fn gang_wait(held: &crate::commands::shape::GangWaitShape) -> String {
    let places = format!("{} of {} places", held.have, held.needs);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = held.until_ms.map(|until| until.saturating_sub(now.as_millis() as u64));
    left.map_or(places.clone(), |left| format!("{places}, for {} s more", left.div_ceil(1000)))
}

/// Request of each task of a group, in a line.
fn each(kinds: &Kinds, group: &GroupShape) -> String {
    let listed = |amounts: &ByKind<u64>| listed(kinds, amounts);
    let demand_profile = |(name, points): (&String, &Vec<u64>)| {
        let id = kinds.by_name(name)?;
        let [low, high] =
            [points.iter().min()?, points.iter().max()?].map(|p| kinds.display(id, *p));
        Some(format!("{name} from {low} to {high} over the day, in {} parts", points.len()))
    };
    let devices = match group.optional_devices {
        0 => String::new(),
        1 => "1 device".to_owned(),
        count => format!("{count} devices"),
    };
    let optional = [group.optional.as_ref().map(listed).unwrap_or_default(), devices];
    let optional =
        optional.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let named = [("optional", optional), ("cluster resources", listed(&group.cluster_request))];
    let named = named.into_iter().filter(|(_, list)| !list.is_empty());
    let parts = [listed(&group.request)].into_iter().filter(|part| !part.is_empty());
    let parts = parts.chain(group.demand_profiles.iter().filter_map(demand_profile));
    let parts = parts.chain(named.map(|(what, list)| format!("{what} {list}")));
    let parts = parts.chain(group.run.as_ref().map(|run| format!("runs {}", program(run))));
    let parts = parts.chain(group.per_machine.then(|| "one on each machine".to_owned()));
    parts.collect::<Vec<_>>().join("; ")
}

/// Maximum number of characters of a program that are shown.
const PROGRAM_SHOWN: usize = 60;

/// A program in one line, behind its image if it has one. Control characters are replaced, and a long line is cut.
fn program(run: &RunShape) -> String {
    let words = run.image.iter().chain([&run.command].into_iter().filter(|word| !word.is_empty()));
    let words = words.chain(&run.args);
    let line = words.map(String::as_str).collect::<Vec<_>>().join(" ");
    let cut = line.chars().count() > PROGRAM_SHOWN;
    let shown: String = line.chars().take(PROGRAM_SHOWN).collect();
    omega_core::text::shown(&shown.replace(['\n', '\t'], " ")) + if cut { "..." } else { "" }
}

/// The version of an updated job, the result of the update, and the number of tasks that it has not replaced.
fn version(job: &JobShape) -> String {
    if job.version == 0 {
        return String::new();
    }
    let result = match job.update {
        Some("failed") => "its update failed",
        Some(_) => "",
        None => "its update is under way",
    };
    let old = plural(job.outdated.into(), "task") + " of older versions";
    let parts = [(!result.is_empty(), result), (job.outdated > 0, old.as_str())];
    let parts = parts.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, part)| part);
    let parts = std::iter::once(job.version.to_string()).chain(parts.map(str::to_owned));
    parts.collect::<Vec<_>>().join(", ")
}

/// The groups, one per line. During an update, a group has tasks of several versions. Groups of older versions without
/// unfinished tasks are left out.
fn groups(kinds: &Kinds, job: &JobShape, wanted: &BTreeMap<String, u32>) -> String {
    let mut by_name: Vec<Vec<&GroupShape>> = Vec::new();
    for group in job.groups.iter().filter(|group| group.current || job.outdated > 0) {
        match by_name.iter_mut().find(|same| same[0].name == group.name) {
            Some(same) => same.push(group),
            None => by_name.push(vec![group]),
        }
    }
    by_name.iter_mut().for_each(|same| same.sort_by_key(|group| (group.current, group.version)));
    let in_change = |same: &Vec<&GroupShape>| same.len() > 1 || !same[0].current;
    let several = by_name.iter().any(in_change);
    let row = |same: &Vec<&GroupShape>| {
        let latest = same[same.len() - 1];
        let count = if latest.per_machine {
            same.iter().map(|group| group.count).sum()
        } else {
            wanted.get(&latest.name).copied().unwrap_or_default()
        };
        let mut row = vec![latest.name.clone(), count.to_string()];
        if several {
            let part = |group: &&GroupShape| format!("{} (version {})", group.count, group.version);
            row.push(same.iter().map(part).collect::<Vec<_>>().join(", "));
        }
        row.push(each(kinds, latest));
        row
    };
    let mut heading = vec![("group", Align::Left), ("count", Align::Right)];
    if several {
        heading.push(("versions", Align::Left));
    }
    heading.push(("each", Align::Left));
    columns(&heading, &by_name.iter().map(row).collect::<Vec<_>>())
}

fn one(kinds: &Kinds, shape: &WhereShape) -> String {
    let job = &shape.job;
    let tasks = job.tasks;
    let states = [
        ("pending", tasks.pending),
        ("placed", tasks.placed),
        ("running", tasks.running),
        ("finished", tasks.finished),
        ("failed", tasks.failed),
        ("killed", tasks.killed),
    ];
    let states = states.iter().filter(|(_, count)| *count > 0);
    let mut states: Vec<String> = states.map(|(state, count)| format!("{count} {state}")).collect();
    states.extend(job.scaled_to_zero.then(|| "scaled to zero".to_owned()));
    let mut machines = shape.machines.join(" ");
    if shape.machines_more > 0 {
        machines += &format!(" and {} more", shape.machines_more);
    }
    let head = facts(&[
        ("name", job.name.clone()),
        ("id", job.id.clone()),
        ("kind", job.kind.to_owned()),
        ("tenant", job.tenant.clone()),
        ("scheduler", job.scheduler.clone()),
        ("precedence", job.precedence.to_string()),
        ("version", version(job)),
        ("gang", job.gang_min.map(|min| format!("at least {min} together")).unwrap_or_default()),
        ("gang wait", job.gang_wait.as_ref().map(gang_wait).unwrap_or_default()),
        ("tasks", states.join(", ")),
        ("machines", machines),
    ]);
    let mut text = format!("{head}\n{}", groups(kinds, job, &shape.wanted));
    if tasks.pending > 0 {
        text += &format!(
            "\nto see why tasks are pending: omega job explain {}\n",
            clean_name(&job.name)
        );
    }
    text
}

/// A job that was submitted, by this call or by an earlier one.
#[derive(Debug, Serialize)]
struct SubmittedShape {
    name: String,
    id: String,
    /// Whether the job was submitted before, and all its tasks have ended.
    ended: bool,
}

fn submit(args: &SubmitArgs) -> Result<(), CommandError> {
    let file = args.file.as_deref();
    let described: Option<JobFile> = file.map(JobsFile::read_one).transpose()?;
    file::reject_file_name(args.flags.name.as_deref())?;
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let job = match (&described, file) {
        (Some(described), Some(file)) => {
            described.job(&kinds, file).map_err(|error| with_line(error, file))?
        }
        _ => args.flags.job(&kinds)?,
    };
    // The job is submitted even if it cannot be read.
    let known = find(&caller, by_name(&job.name)).ok();
    let response = submission::submit(&caller, &job)?;
    let is_known = known.is_some_and(|known| known.id == response.id);
    let (id, ended) = (JobId(response.id).to_string(), response.ended);
    let shape = SubmittedShape { name: job.name.to_string(), id, ended };
    show::print(args.common.output, &shape, || {
        let name = clean_name(&shape.name);
        if ended {
            format!(
                "job {name} was submitted before and has ended, so it is not run again: run \
                 `omega job delete {name}` first, or choose another name\n"
            )
        } else if is_known {
            format!("job {name} is unchanged\n")
        } else {
            format!("job {name} is submitted: {}\n", submission::size(&job))
        }
    })?;
    args.wait.until_done(&caller, Awaited { name: &job.name, version: None })
}

fn kill(args: &NameArgs) -> Result<(), CommandError> {
    let request = proto::KillJobRequest { job: by_name(&args.name) };
    let caller = args.common.caller()?;
    // The job is killed even if it cannot be read.
    let had_ended = find(&caller, by_name(&args.name)).is_ok_and(|job| has_ended(&job));
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).kill_job(request).await
    })?;
    let done = if had_ended { "had already ended" } else { "is killed" };
    let shape = DoneShape { name: args.name.clone(), done, version: response.version };
    show::print(args.common.output, &shape, || show::done("job", &shape))
}

fn delete(args: &NameArgs) -> Result<(), CommandError> {
    let request = proto::DeleteJobRequest { job: by_name(&args.name) };
    let response = args.common.caller()?.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).delete_job(request).await
    })?;
    let shape =
        DoneShape { name: args.name.clone(), done: "is deleted", version: response.version };
    show::print(args.common.output, &shape, || show::done("job", &shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn a_group_that_is_updated_has_one_row() {
        use omega_core::{Amounts, TaskGroup};
        let kinds = Kinds::standard();
        let group = |count, cpu, version| TaskGroup {
            version,
            ..TaskGroup::new(count, Amounts::new([cpu]))
        };
        let shown = |all: Vec<TaskGroup>, target, outdated| {
            let job = Job {
                groups: all.into_iter().map(Into::into).collect(),
                ..Job::service("web", group(3, 0, 0))
            };
            let target = Job::service("web", target);
            let wanted = wanted(&target);
            let (job, target) = (Some((&job).into()), Some((&target).into()));
            let response =
                proto::JobStatus { job, target, version: 2, outdated, ..Default::default() };
            groups(&kinds, &JobShape::new(&kinds, response).unwrap(), &wanted)
        };
        let groups_in_change = vec![group(2, 1000, 0), group(0, 500, 1), group(1, 2000, 2)];
        let table = "GROUP  COUNT  VERSIONS                      EACH\nmain       3  2 (version 0), 1 (version 2)  2 cpu\n";
        assert_eq!(shown(groups_in_change, group(3, 2000, 0), 2), table);
        // The tasks of the earlier version have failed, so they are not replaced.
        let groups_failed = vec![group(3, 1000, 0), group(3, 2000, 1)];
        let table = "GROUP  COUNT  EACH\nmain       3  2 cpu\n";
        assert_eq!(shown(groups_failed, group(3, 2000, 0), 0), table);
        // The job has returned to its first version, which is older than the second.
        let groups_after = vec![group(3, 1000, 0), group(0, 2000, 1)];
        let table = "GROUP  COUNT  EACH\nmain       3  1 cpu\n";
        assert_eq!(shown(groups_after, group(3, 1000, 0), 0), table);
    }

    #[test]
    fn a_program_of_several_lines_is_shown_in_one() {
        use omega_core::Run;
        let args = vec!["-c".into(), "import os\nx = 1\u{7}".into()];
        let run = Run { command: "python3".into(), args, ..Run::default() };
        assert_eq!(program(&RunShape::from(&run)), "python3 -c import os x = 1\u{fffd}");
    }

    /// Flags that describe a job are rejected if a file is given too.
    #[test]
    fn no_flag_that_describes_a_job_goes_with_a_file() {
        let flags = JobFlags::augment_args(Command::new("flags"));
        let submit = SubmitArgs::augment_args(Command::new("submit"));
        let file = submit.get_arguments().find(|arg| arg.get_id() == "file").unwrap();
        let conflicts = submit.get_arg_conflicts_with(file);
        for flag in flags.get_arguments() {
            assert!(conflicts.iter().any(|arg| arg.get_id() == flag.get_id()), "{}", flag.get_id());
        }
    }
}
