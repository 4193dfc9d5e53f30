//! `omega job versions` and `omega job rollback`: lists the latest versions of a job, and returns to one of them.

use super::apply::{Difference, update};
use super::call::Caller;
use super::job::by_name;
use super::show::{self, Align, columns};
use super::{AskArgs, AskError, NameArgs, events, moment, wait};
use clap::Args;
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::{Job, Kinds};
use serde::Serialize;

/// The job, and the version to go back to.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Version to return to [default: the one before the current one].
    #[arg(long, value_name = "VERSION")]
    to: Option<u32>,
    /// Wait until all tasks are healthy; exit with 1 if one fails.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    ask: AskArgs,
}

/// A version of a job.
#[derive(Debug, Serialize)]
struct VersionShape {
    version: u32,
    /// Time at which the version began, in milliseconds since 1970; 0 for the first version.
    at_ms: u64,
    /// Number of tasks in this version.
    tasks: u64,
    /// The difference from the previous version.
    #[serde(flatten)]
    difference: Difference,
}

/// A job that was rolled back.
#[derive(Debug, Serialize)]
struct RolledShape {
    name: String,
    /// The version to which the job returns.
    to: u32,
    /// The job's new version.
    version: u32,
}

/// Number, time and description of a version.
type Version = (u32, u64, Job);

fn versions(caller: &Caller, name: &str) -> Result<Vec<Version>, AskError> {
    let request = proto::ListJobVersionsRequest { job: by_name(name) };
    let told = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).list_job_versions(request).await
    })?;
    let version = |told: proto::JobVersion| {
        let job = Job::try_from(told.job.ok_or(Malformed::Missing("job"))?)?;
        Ok((told.number, told.at_ms, job))
    };
    told.versions.into_iter().map(version).collect()
}

/// Prints the versions of a job.
pub(crate) fn list(args: &NameArgs) -> Result<(), AskError> {
    let caller = args.ask.caller()?;
    let kinds = caller.kinds()?;
    let all = versions(&caller, &args.name)?;
    let shapes: Vec<VersionShape> = shapes(&kinds, &all);
    show::print(args.ask.output, &shapes, || table(&shapes))
}

fn shapes(kinds: &Kinds, all: &[Version]) -> Vec<VersionShape> {
    let before = std::iter::once(None).chain(all.iter().map(Some));
    let shape = |((version, at_ms, job), before): (&Version, Option<&Version>)| VersionShape {
        version: *version,
        at_ms: *at_ms,
        tasks: job.task_count(),
        difference: Difference::of(kinds, before.map(|(.., job)| job), job),
    };
    all.iter().zip(before).map(shape).collect()
}

fn table(shapes: &[VersionShape]) -> String {
    let heading = [
        ("version", Align::Right),
        ("age", Align::Right),
        ("tasks", Align::Right),
        ("changed", Align::Left),
    ];
    let now = moment::unix_ms();
    let row = |shape: &VersionShape| {
        let age = match shape.at_ms {
            0 => "-".to_owned(),
            at => events::age(now, at),
        };
        let changed = match shape.at_ms {
            0 => "as submitted".to_owned(),
            _ => shape.difference.summary(),
        };
        vec![shape.version.to_string(), age, shape.tasks.to_string(), changed]
    };
    columns(&heading, &shapes.iter().map(row).collect::<Vec<_>>())
}

/// Returns to an earlier version. Its description becomes the job's next version.
pub(crate) fn rollback(args: &RollbackArgs) -> Result<(), AskError> {
    let caller = args.ask.caller()?;
    let all = versions(&caller, &args.name)?;
    let kept = || all.iter().map(|(number, ..)| number.to_string()).collect::<Vec<_>>().join(", ");
    let Some((present, ..)) = all.last() else { return Err(Malformed::Missing("versions").into()) };
    let found = match args.to {
        Some(to) => all.iter().find(|(number, ..)| *number == to),
        None => all.iter().rev().nth(1),
    };
    let Some((to, _, job)) = found else {
        let why = format!("job {} has no such version; its versions are {}", args.name, kept());
        return Err(AskError::Field { place: "--to".to_owned(), why });
    };
    let version = update(&caller, job, *present)?;
    let shape = RolledShape { name: args.name.clone(), to: *to, version };
    show::print(args.ask.output, &shape, || {
        let name = show::clean_name(&shape.name);
        format!("job {name} goes back to version {}, as version {}\n", shape.to, shape.version)
    })?;
    if args.wait { wait::until_done(&caller, &args.name) } else { Ok(()) }
}
