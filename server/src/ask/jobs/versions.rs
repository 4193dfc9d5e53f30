//! `omega job versions` and `omega job rollback`: lists the latest versions of a job, and returns to one of them.

use crate::ask::files::moment;
use crate::ask::jobs::apply::{Difference, update};
use crate::ask::jobs::version_list::{Version, all, content_of};
use crate::ask::jobs::wait::{Awaited, WaitArgs};
use crate::ask::show::{self, Align, columns};
use crate::ask::{AskArgs, AskError, NameArgs, events};
use clap::Args;
use omega_client::convert::Malformed;
use omega_core::{Job, Kinds};
use serde::Serialize;

/// The job to roll back, and the version to return to.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Name of the service.
    #[arg(value_name = "NAME")]
    name: String,
    /// Version to return to, as `omega job versions` prints it [default: the latest version whose content differs from
    /// that of the current version and of versions whose update failed].
    #[arg(long, value_name = "VERSION")]
    to: Option<u32>,
    #[command(flatten)]
    wait: WaitArgs,
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
    /// Number of the latest earlier version with the same content, if any.
    content_of: Option<u32>,
    /// Result of the update: `complete` or `failed`; `null` if it has none yet, was replaced by another, or the version
    /// is the first.
    result: Option<&'static str>,
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
    /// The job's version from now on.
    version: u32,
    /// Whether the job had this content already, so that there is no new version.
    unchanged: bool,
}

/// Prints the versions of a job.
pub(crate) fn list(args: &NameArgs) -> Result<(), AskError> {
    let caller = args.ask.caller()?;
    let kinds = caller.kinds()?;
    let all = all(&caller, &args.name)?;
    let shapes: Vec<VersionShape> = shapes(&kinds, &all);
    show::print(args.ask.output, &shapes, || table(&shapes))
}

fn shapes(kinds: &Kinds, all: &[Version]) -> Vec<VersionShape> {
    let shape = |(at, version): (usize, &Version)| {
        let before = at.checked_sub(1).map(|before| &all[before].job);
        VersionShape {
            version: version.number,
            at_ms: version.at_ms,
            tasks: version.job.task_count(),
            content_of: content_of(all, at),
            result: version.result,
            difference: Difference::of(kinds, before, &version.job),
        }
    };
    all.iter().enumerate().map(shape).collect()
}

fn table(shapes: &[VersionShape]) -> String {
    let heading = [
        ("version", Align::Right),
        ("age", Align::Right),
        ("tasks", Align::Right),
        ("state", Align::Left),
        ("changed", Align::Left),
    ];
    let now = moment::unix_ms();
    let current = shapes.last().map(|shape| shape.version);
    let row = |shape: &VersionShape| {
        let age = match shape.at_ms {
            0 => "-".to_owned(),
            at => events::age(now, at),
        };
        let changed = match (shape.at_ms, shape.content_of) {
            (0, _) => "as submitted".to_owned(),
            (_, None) => shape.difference.summary(),
            (_, Some(of)) => format!("content of version {of}: {}", shape.difference.summary()),
        };
        let is_current = Some(shape.version) == current;
        let state = match (shape.result, is_current) {
            (Some("failed"), _) => "failed",
            (None, true) if shape.at_ms > 0 => "under way",
            (_, true) => "current",
            (None, false) if shape.at_ms > 0 => "replaced",
            (_, false) => "-",
        };
        vec![shape.version.to_string(), age, shape.tasks.to_string(), state.to_owned(), changed]
    };
    columns(&heading, &shapes.iter().map(row).collect::<Vec<_>>())
}

/// The version to which a job returns by default: the latest one whose content differs from that of the current one,
/// and of those whose update failed.
fn default_version(all: &[Version]) -> Option<&Version> {
    let (present, earlier) = all.split_last()?;
    let has_failed = |job: &Job| all.iter().any(|one| one.has_failed() && one.job == *job);
    earlier.iter().rev().find(|one| one.job != present.job && !has_failed(&one.job))
}

/// Returns to an earlier version. Its description becomes the job's next version.
pub(crate) fn rollback(args: &RollbackArgs) -> Result<(), AskError> {
    let caller = args.ask.caller()?;
    let all = all(&caller, &args.name)?;
    let kept = || all.iter().map(|one| one.number.to_string()).collect::<Vec<_>>().join(", ");
    let Some(present) = all.last() else { return Err(Malformed::Missing("versions").into()) };
    let (found, lacks) = match args.to {
        Some(to) => (all.iter().find(|one| one.number == to), "such version"),
        None => (
            default_version(&all),
            "other version whose update did not fail, to return to by default",
        ),
    };
    let Some(found) = found else {
        let why = format!(
            "job {} has no {lacks}: choose one of its versions, which are {}",
            args.name,
            kept()
        );
        return Err(AskError::Field { place: "--to".to_owned(), why });
    };
    let unchanged = found.job == present.job;
    let version =
        if unchanged { present.number } else { update(&caller, &found.job, present.number)? };
    let shape = RolledShape { name: args.name.clone(), to: found.number, version, unchanged };
    show::print(args.ask.output, &shape, || rolled(&shape))?;
    args.wait.until_done(&caller, Awaited { name: &args.name, version: Some(version) })
}

/// The line about a rollback.
fn rolled(shape: &RolledShape) -> String {
    let RolledShape { to, version, unchanged, .. } = shape;
    let name = show::clean_name(&shape.name);
    if *unchanged {
        format!("job {name} is unchanged: version {version} has the content of version {to}\n")
    } else {
        format!("job {name} goes back to version {to}, as version {version}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, JobKind, TaskGroup};

    /// Versions with these contents. Each content is the number of cores of the version's tasks. Updates to more than
    /// eight cores have failed.
    fn versions(contents: &[u64]) -> Vec<Version> {
        let job = |cores: &u64| {
            let group = TaskGroup::new(2, Amounts::new([*cores]));
            Job { kind: JobKind::Service, ..Job::batch("web", group) }
        };
        let version = |(number, cores): (u32, &u64)| {
            let result = Some(if *cores > 8 { "failed" } else { "complete" });
            Version { number, at_ms: 1, result, job: job(cores) }
        };
        (0..).zip(contents).map(version).collect()
    }

    #[test]
    fn the_default_version_is_the_latest_other_one_that_did_not_fail() {
        let cases: [(&[u64], Option<u32>); 8] = [
            (&[1], None),
            (&[1, 2], Some(0)),
            (&[1, 2, 3], Some(1)),
            (&[1, 2, 1], Some(1)),
            (&[1, 2, 1, 3], Some(2)),
            // The update to nine cores failed.
            (&[1, 9], Some(0)),
            (&[1, 9, 1], None),
            (&[0, 1, 9, 1], Some(0)),
        ];
        for (contents, expected) in cases {
            let all = versions(contents);
            let found = default_version(&all).map(|found| found.number);
            assert_eq!(found, expected, "{contents:?}");
        }
    }

    #[test]
    fn the_table_names_equal_and_failed_versions() {
        let table = table(&shapes(&Kinds::standard(), &versions(&[1, 9, 1])));
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[2].contains("failed"), "{table}");
        assert!(
            lines[3].contains("current") && lines[3].contains("content of version 0: "),
            "{table}"
        );
    }
}
