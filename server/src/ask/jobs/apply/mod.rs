//! `omega job apply`: creates the jobs of a file, or changes existing jobs as the file describes them.

mod difference;

pub(in crate::ask) use difference::Difference;

use crate::ask::call::Caller;
use crate::ask::files::job_file::JobsFile;
use crate::ask::files::lines::with_line;
use crate::ask::jobs::named_job::{by_id, by_name, find, target};
use crate::ask::jobs::submission;
use crate::ask::jobs::wait::{Awaited, WaitArgs};
use crate::ask::show::{self, clean_name};
use crate::ask::{AskArgs, AskError};
use clap::Args;
use difference::GroupChange;
use omega_cellstate::Cell;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{ErrorCode, proto};
use omega_core::{Command, Job, JobKind, Kinds, Outcome, Rejection};
use omega_workload::words::plural;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments: the file, and whether to apply it, to print the changes only, or also to wait.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// File with one job, or with several: tables `[[job]]` in TOML, or an array `job` in JSON. docs/cli.md describes
    /// the fields. `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
    /// Print which tasks would be replaced, resized and kept, and change nothing.
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    ask: AskArgs,
}

/// The change of a job, made or only planned.
#[derive(Debug, Serialize)]
struct AppliedShape {
    name: String,
    /// `created`, `updated`, `resized`, `restarted` or `unchanged`.
    action: &'static str,
    /// Whether this was only a dry run.
    dry_run: bool,
    /// Version of the job after the change.
    version: u32,
    #[serde(flatten)]
    difference: Difference,
}

/// A job of the cell.
struct Known {
    id: u64,
    target: Job,
    version: u32,
    has_ended: bool,
}

impl Known {
    /// Whether a service has ended that is to be described by `job`.
    fn is_ended_service(&self, job: &Job) -> bool {
        self.has_ended && [self.target.kind, job.kind] == [JobKind::Service; 2]
    }
}

/// Runs the command.
pub(crate) fn run(args: &ApplyArgs) -> Result<(), AskError> {
    let file: JobsFile = JobsFile::read(&args.file)?;
    let caller = args.ask.caller()?;
    let kinds = caller.kinds()?;
    let jobs = file.jobs(&kinds, &args.file).map_err(|error| with_line(error, &args.file))?;
    let mut shapes = Vec::new();
    for job in &jobs {
        let applied = apply(&caller, &kinds, job, args);
        shapes.push(applied.map_err(|error| error.of_job(&job.name, jobs.len()))?);
    }
    show::print(args.ask.output, &shapes, || shapes.iter().map(lines).collect())?;
    shapes.iter().try_for_each(|shape| {
        let job = Awaited { name: &shape.name, version: Some(shape.version) };
        args.wait.until_done(&caller, job)
    })
}

fn apply(
    caller: &Caller,
    kinds: &Kinds,
    job: &Job,
    args: &ApplyArgs,
) -> Result<AppliedShape, AskError> {
    let known = known(caller, &job.name)?;
    let restarts = known.as_ref().is_some_and(|known| known.is_ended_service(job));
    if args.dry_run || restarts {
        let target = known.as_ref().map(|known| &known.target);
        check(kinds, target.filter(|_| !restarts), job)?;
    }
    let difference = Difference::of(kinds, known.as_ref().map(|known| &known.target), job);
    let shape = |action, version, difference| {
        let (name, dry_run) = (job.name.to_string(), args.dry_run);
        Ok(AppliedShape { name, action, dry_run, version, difference })
    };
    let Some(known) = known else {
        if !args.dry_run {
            submit(caller, job)?;
        }
        return shape("created", 0, difference);
    };
    if restarts {
        if !args.dry_run {
            delete(caller, known.id)?;
            submit(caller, job)?;
        }
        return shape("restarted", 0, difference);
    }
    if known.target == *job {
        return shape("unchanged", known.version, difference);
    }
    if known.has_ended {
        return Err(AskError::JobEnded { name: job.name.to_string() });
    }
    if job.kind == JobKind::Batch && known.target.kind == JobKind::Batch {
        if !difference.is_size_alone() {
            return Err(AskError::BatchChange { name: job.name.to_string() });
        }
        if !args.dry_run {
            difference.sizes().try_for_each(|change| resize(caller, job, change))?;
        }
        return shape("resized", known.version, difference);
    }
    let version =
        if args.dry_run { known.version + 1 } else { update(caller, job, known.version)? };
    shape("updated", version, difference)
}

/// Checks that a cell accepts a job, or the change of a job to it. Quotas and names are not checked.
fn check(kinds: &Kinds, known: Option<&Job>, job: &Job) -> Result<(), AskError> {
    let is_service =
        known.is_some_and(|known| known.kind == JobKind::Service) || job.kind == JobKind::Service;
    let refused = |why: &Rejection| AskError::Refused(why.into());
    let mut cell = Cell::new(kinds.clone());
    let mut submitted = |job: &Job| cell.apply(Command::SubmitJob(job.clone()));
    match known.map(&mut submitted) {
        // A batch job is only resized.
        Some(Ok(Outcome::Job(id))) if is_service => {
            let update = Command::UpdateJob { job: id, version: Some(0), spec: job.clone() };
            cell.apply(update).map_err(|why| refused(&why))?;
        }
        Some(_) => {}
        None => _ = submitted(job).map_err(|why| refused(&why))?,
    }
    Ok(())
}

/// The job with this name; `None` if the cell has none.
fn known(caller: &Caller, name: &str) -> Result<Option<Known>, AskError> {
    let told = match find(caller, by_name(name)) {
        Err(AskError::Refused(error)) if error.code == ErrorCode::UnknownJob => return Ok(None),
        told => told?,
    };
    let has_ended = told.pending + told.placed + told.running == 0;
    let (id, target, version) = (told.id, target(&told)?, told.version);
    Ok(Some(Known { id, target, version, has_ended }))
}

fn submit(caller: &Caller, job: &Job) -> Result<(), AskError> {
    let told = submission::submit(caller, job)?;
    if told.ended { Err(AskError::JobEnded { name: job.name.to_string() }) } else { Ok(()) }
}

fn delete(caller: &Caller, id: u64) -> Result<(), AskError> {
    let request = proto::DeleteJobRequest { job: by_id(id) };
    let told = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).delete_job(request).await
    });
    told.map(drop)
}

fn resize(caller: &Caller, job: &Job, change: &GroupChange) -> Result<(), AskError> {
    let (group, count) = (change.group.clone(), change.to);
    let request = proto::ResizeGroupRequest { job: by_name(&job.name), group, count };
    let told = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).resize_group(request).await
    });
    told.map(drop)
}

/// Updates a job, which must still have this version. Returns its next version.
pub(in crate::ask) fn update(caller: &Caller, job: &Job, version: u32) -> Result<u32, AskError> {
    let request = proto::UpdateJobRequest { job: Some(job.into()), version: Some(version) };
    let told = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).update_job(request).await
    });
    match told {
        Ok(told) => Ok(told.version),
        // If the call was repeated, its first attempt may have made this version.
        Err(AskError::Refused(error)) if error.code == ErrorCode::OtherVersion => {
            match known(caller, &job.name)? {
                Some(now) if now.target == *job => Ok(now.version),
                _ => Err(AskError::Refused(error)),
            }
        }
        Err(error) => Err(error),
    }
}

fn lines(shape: &AppliedShape) -> String {
    let name = clean_name(&shape.name);
    let is = if shape.dry_run { "would be" } else { "is" };
    let tasks: u32 = shape.difference.groups.iter().map(|group| group.to).sum();
    let mut text = match shape.action {
        "created" => format!("job {name} {is} created: {}\n", plural(tasks.into(), "task")),
        "updated" => format!("job {name} {is} updated to version {}\n", shape.version),
        "resized" => format!("job {name} {is} resized\n"),
        "restarted" => {
            format!(
                "job {name} had ended, and {is} started again: {}\n",
                plural(tasks.into(), "task")
            )
        }
        _ => format!("job {name} is unchanged\n"),
    };
    if matches!(shape.action, "updated" | "resized") {
        text += &shape.difference.lines();
    }
    text
}
