//! `omega job apply`: creates the jobs of a file, or changes existing jobs as the file describes them.

mod difference;

pub(in crate::commands) use difference::Difference;

use crate::commands::call::Caller;
use crate::commands::files::job_file::JobsFile;
use crate::commands::files::lines::with_line;
use crate::commands::jobs::named_job::{by_id, by_name, find, has_ended, target, unreplaced};
use crate::commands::jobs::resize::failures;
use crate::commands::jobs::submission;
use crate::commands::jobs::wait::{Awaited, WaitArgs};
use crate::commands::show::{self, clean_name};
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use difference::GroupChange;
use omega_cellstate::Cell;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{ErrorCode, proto, restart};
use omega_core::{Command, Job, JobKind, Kinds, Outcome, Rejection};
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
    common: CommandArgs,
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
    /// Number of tasks in words.
    #[serde(skip)]
    size: String,
    /// Remark on tasks that have failed for good and are not replaced; empty if there are none.
    #[serde(skip)]
    failures: String,
}

/// Whether a change is made, or only checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Checked,
    Made,
}

/// A job of the cell.
struct ExistingJob {
    id: u64,
    target: Job,
    version: u32,
    has_ended: bool,
    /// Number of tasks that have failed for good and are not replaced.
    failed: u32,
}

impl ExistingJob {
    /// Whether a service has ended that is to be described by `job`.
    fn is_ended_service(&self, job: &Job) -> bool {
        self.has_ended && [self.target.kind, job.kind] == [JobKind::Service; 2]
    }
}

/// Runs the command.
pub(crate) fn run(args: &ApplyArgs) -> Result<(), CommandError> {
    let file: JobsFile = JobsFile::read(&args.file)?;
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let jobs = file.jobs(&kinds, &args.file).map_err(|error| with_line(error, &args.file))?;
    let apply = |job: &Job, extent| {
        apply(&caller, &kinds, job, extent).map_err(|error| error.of_job(&job.name, jobs.len()))
    };
    if jobs.len() > 1 && !args.dry_run {
        // No job is changed if another one of the file would be refused.
        jobs.iter().try_for_each(|job| apply(job, Extent::Checked).map(drop))?;
    }
    let extent = if args.dry_run { Extent::Checked } else { Extent::Made };
    let mut shapes = Vec::new();
    let applied = jobs.iter().try_for_each(|job| {
        shapes.push(apply(job, extent)?);
        Ok::<_, CommandError>(())
    });
    // If a job is refused nevertheless, the user sees which ones were changed.
    if applied.is_ok() || !shapes.is_empty() {
        show::print(args.common.output, &shapes, || shapes.iter().map(lines).collect())?;
    }
    applied?;
    let awaited = shapes
        .iter()
        .map(|shape: &AppliedShape| Awaited { name: &shape.name, version: Some(shape.version) });
    args.wait.until_all_done(&caller, awaited)
}

fn apply(
    caller: &Caller,
    kinds: &Kinds,
    job: &Job,
    extent: Extent,
) -> Result<AppliedShape, CommandError> {
    let dry_run = extent == Extent::Checked;
    let existing = existing_job(caller, &job.name)?;
    let updated = existing.as_ref().map(|old| restart::updated(job.clone(), &old.target));
    let job = updated.as_ref().unwrap_or(job);
    let restarts = existing.as_ref().is_some_and(|existing| existing.is_ended_service(job));
    if dry_run || restarts {
        let target = existing.as_ref().map(|existing| &existing.target);
        // A cell would not accept a new job without tasks, such as the target of a service at zero.
        check(kinds, target.filter(|target| !restarts && target.task_count() > 0), job)?;
    }
    let difference = Difference::of(kinds, existing.as_ref().map(|existing| &existing.target), job);
    let failed = existing.as_ref().map_or(0, |existing| existing.failed);
    let failures = if failed > 0 { failures(job, failed) } else { String::new() };
    let shape = |action, version, difference| {
        let (name, size) = (job.name.to_string(), submission::size(job));
        let failures = failures.clone();
        Ok(AppliedShape { name, action, dry_run, version, difference, size, failures })
    };
    let Some(existing) = existing else {
        if !dry_run {
            submit(caller, job)?;
        }
        return shape("created", 0, difference);
    };
    if restarts {
        let version =
            if dry_run { existing.version + 1 } else { start_again(caller, job, &existing)? };
        return shape("restarted", version, difference);
    }
    if existing.target == *job {
        return shape("unchanged", existing.version, difference);
    }
    if existing.has_ended {
        return Err(CommandError::JobEnded { name: job.name.to_string() });
    }
    if job.kind == JobKind::Batch && existing.target.kind == JobKind::Batch {
        if !difference.is_size_alone() {
            return Err(CommandError::BatchChange { name: job.name.to_string() });
        }
        if !dry_run {
            difference.sizes().try_for_each(|change| resize(caller, job, change))?;
        }
        return shape("resized", existing.version, difference);
    }
    let version =
        if dry_run { existing.version + 1 } else { update(caller, job, existing.version)? };
    shape("updated", version, difference)
}

/// Checks that a cell accepts a job, or the change of a job to it. Quotas and names are not checked.
fn check(kinds: &Kinds, existing: Option<&Job>, job: &Job) -> Result<(), CommandError> {
    let is_service = existing.is_some_and(|existing| existing.kind == JobKind::Service)
        || job.kind == JobKind::Service;
    let refused = |why: &Rejection| CommandError::Refused(why.into());
    let mut cell = Cell::new(kinds.clone());
    let mut submitted = |job: &Job| cell.apply(Command::SubmitJob(job.clone()));
    match existing.map(&mut submitted) {
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
fn existing_job(caller: &Caller, name: &str) -> Result<Option<ExistingJob>, CommandError> {
    let response = match find(caller, by_name(name)) {
        Err(CommandError::Refused(error)) if error.code == ErrorCode::UnknownJob => {
            return Ok(None);
        }
        response => response?,
    };
    let (has_ended, failed) = (has_ended(&response), unreplaced(&response));
    let (id, target, version) = (response.id, target(&response)?, response.version);
    Ok(Some(ExistingJob { id, target, version, has_ended, failed }))
}

/// Starts an ended service again, and returns its version. The service keeps its versions, unless it was killed, or the
/// cell cannot update it to the description.
fn start_again(caller: &Caller, job: &Job, existing: &ExistingJob) -> Result<u32, CommandError> {
    match update(caller, job, existing.version) {
        Err(CommandError::Refused(error)) if error.code == ErrorCode::BadJob => {
            delete(caller, existing.id)?;
            submit(caller, job).map(|()| 0)
        }
        version => version,
    }
}

fn submit(caller: &Caller, job: &Job) -> Result<(), CommandError> {
    let response = submission::submit(caller, job)?;
    if response.ended { Err(CommandError::JobEnded { name: job.name.to_string() }) } else { Ok(()) }
}

fn delete(caller: &Caller, id: u64) -> Result<(), CommandError> {
    let request = proto::DeleteJobRequest { job: by_id(id) };
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).delete_job(request).await
    });
    response.map(drop)
}

fn resize(caller: &Caller, job: &Job, change: &GroupChange) -> Result<(), CommandError> {
    let (group, count) = (change.group.clone(), change.to);
    let request = proto::ResizeGroupRequest { job: by_name(&job.name), group, count };
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).resize_group(request).await
    });
    response.map(drop)
}

/// Updates a job, which must still have this version. Returns its next version.
pub(in crate::commands) fn update(
    caller: &Caller,
    job: &Job,
    version: u32,
) -> Result<u32, CommandError> {
    let request = proto::UpdateJobRequest { job: Some(job.into()), version: Some(version) };
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).update_job(request).await
    });
    match response {
        Ok(response) => Ok(response.version),
        // If the call was repeated, its first attempt may have made this version.
        Err(CommandError::Refused(error)) if error.code == ErrorCode::OtherVersion => {
            match existing_job(caller, &job.name)? {
                Some(now) if now.target == *job => Ok(now.version),
                _ => Err(CommandError::Refused(error)),
            }
        }
        Err(error) => Err(error),
    }
}

fn lines(shape: &AppliedShape) -> String {
    let name = clean_name(&shape.name);
    let is = if shape.dry_run { "would be" } else { "is" };
    let size = &shape.size;
    let mut text = match shape.action {
        "created" => format!("job {name} {is} created: {size}\n"),
        "updated" => format!("job {name} {is} updated to version {}\n", shape.version),
        "resized" => format!("job {name} {is} resized\n"),
        "restarted" => {
            format!("job {name} had ended, and {is} started again: {size}\n")
        }
        _ if !shape.failures.is_empty() => {
            format!("job {name} is unchanged; {}\n", shape.failures)
        }
        _ => format!("job {name} is unchanged\n"),
    };
    if matches!(shape.action, "updated" | "resized") {
        text += &shape.difference.lines();
    }
    text
}
