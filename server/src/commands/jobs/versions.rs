//! `omega job versions` and `omega job rollback`: lists the latest versions of a job, and returns to one of them.

use crate::commands::files::moment;
use crate::commands::jobs::apply::{Difference, update};
use crate::commands::jobs::version_list::{
    Version, all, content_of, default_version, restored_from,
};
use crate::commands::jobs::wait::{Awaited, WaitArgs};
use crate::commands::shape::update_result_name;
use crate::commands::show::{self, Align, columns};
use crate::commands::{CommandArgs, CommandError, NameArgs, events};
use clap::Args;
use omega_client::convert::Malformed;
use omega_client::restart;
use omega_core::{Job, JobKind, Kinds, UpdateResult};
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
    common: CommandArgs,
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
    /// The difference from the previous version; empty for the oldest version that is kept.
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
    #[serde(flatten)]
    difference: Difference,
}

/// Prints the versions of a job.
pub(crate) fn list(args: &NameArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let all = all(&caller, &args.name)?;
    let shapes: Vec<VersionShape> = shapes(&kinds, &all);
    show::print(args.common.output, &shapes, || table(&shapes))
}

fn shapes(kinds: &Kinds, all: &[Version]) -> Vec<VersionShape> {
    let shape = |(at, version): (usize, &Version)| {
        let before = at.checked_sub(1).map(|before| &all[before].job);
        let difference = match before {
            // The description before the oldest version that is kept is not known.
            None if version.at_ms > 0 => Difference::default(),
            before => Difference::of(kinds, before, &version.job),
        };
        VersionShape {
            version: version.number,
            at_ms: version.at_ms,
            tasks: version.job.task_count(),
            content_of: content_of(all, at),
            // No update made the first version.
            result: version.result.filter(|_| version.number > 0).map(update_result_name),
            difference,
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
    let [oldest, current] =
        [shapes.first(), shapes.last()].map(|shape| shape.map(|shape| shape.version));
    let row = |shape: &VersionShape| {
        let age = match shape.at_ms {
            0 => "-".to_owned(),
            at => events::age(now, at),
        };
        let changed = match (shape.at_ms, shape.content_of) {
            (0, _) => "as submitted".to_owned(),
            _ if Some(shape.version) == oldest => "the oldest version kept".to_owned(),
            (_, None) => shape.difference.summary(),
            (_, Some(of)) if shape.difference.is_restart() => {
                format!("restarted with the content of version {of}")
            }
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

/// Returns to an earlier version. Its description becomes the job's next version.
pub(crate) fn rollback(args: &RollbackArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let all = all(&caller, &args.name)?;
    let kept = || all.iter().map(|one| one.number.to_string()).collect::<Vec<_>>().join(", ");
    let Some(present) = all.last() else { return Err(Malformed::Missing("versions").into()) };
    if present.job.kind == JobKind::Batch {
        let why =
            "a batch job has no versions: `omega job delete` it, and submit the corrected job";
        return Err(CommandError::NotDone { name: args.name.clone(), why: why.to_owned() });
    }
    let (found, lacks) = match args.to {
        Some(to) => (all.iter().find(|one| one.number == to), "such version"),
        None => (default_version(&all), "earlier version that worked"),
    };
    let Some(found) = found else {
        if let Some(why) = already_there(&all).filter(|_| args.to.is_none()) {
            return Err(CommandError::NotDone { name: args.name.clone(), why });
        }
        let why = format!(
            "job {} has no {lacks}: choose one of its versions, which are {}",
            args.name,
            kept()
        );
        return Err(CommandError::Field { place: "--to".to_owned(), why });
    };
    let job = restored(&found.job, present);
    let unchanged = job == present.job;
    let version = if unchanged { present.number } else { update(&caller, &job, present.number)? };
    let difference = Difference::of(&caller.kinds()?, Some(&present.job), &job);
    let (name, to) = (args.name.clone(), found.number);
    let shape = RolledShape { name, to, version, unchanged, difference };
    show::print(args.common.output, &shape, || rolled(&shape))?;
    args.wait.until_done(&caller, Awaited { name: &args.name, version: Some(version) })
}

/// The reason why there is no version to return to, and the remedy, if an earlier version has the present content.
fn already_there(all: &[Version]) -> Option<String> {
    let (at, present) = (all.len().checked_sub(1)?, all.last()?);
    let earlier = restored_from(all, at)?;
    let name = show::clean_name(&present.job.name);
    Some(format!(
        "it already has the content of version {earlier}, and no other version worked: to replace \
         its tasks, run `omega job restart {name}`"
    ))
}

/// The description after a rollback: that of the earlier version, with the present counts. If a user chooses a version
/// that differs only in its counts, it gets these. Unchanged groups are not restarted. If the programs are equal, a
/// restart that is not complete is taken back.
fn restored(earlier: &Job, present: &Version) -> Job {
    let is_complete = present.result == Some(UpdateResult::Complete);
    let present = &present.job;
    if !restart::has_equal_programs(earlier, present) {
        restart::without_restart(&earlier.with_counts_of(present), present)
    } else if is_complete {
        restart::without_restart(earlier, present)
    } else {
        earlier.clone()
    }
}

/// The lines about a rollback.
fn rolled(shape: &RolledShape) -> String {
    let RolledShape { to, version, unchanged, .. } = shape;
    let name = show::clean_name(&shape.name);
    if *unchanged {
        format!("job {name} is unchanged: version {version} has the content of version {to}\n")
    } else {
        let changes = shape.difference.lines();
        format!("job {name} goes back to version {to}, as version {version}\n{changes}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    /// Versions with these contents. Each content is the number of cores of the version's tasks. Updates to more than
    /// eight cores have failed.
    fn versions(contents: &[u64]) -> Vec<Version> {
        let job = |cores: &u64| {
            let group = TaskGroup::new(2, Amounts::new([*cores]));
            Job { kind: JobKind::Service, ..Job::batch("web", group) }
        };
        let version = |(number, cores): (u32, &u64)| {
            let result =
                Some(if *cores > 8 { UpdateResult::Failed } else { UpdateResult::Complete });
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
    fn a_job_that_was_rolled_back_is_restarted() {
        let mut all = versions(&[1, 9, 1]);
        all[2].job.groups[0].count = 7;
        all[2].result = Some(UpdateResult::Failed);
        assert!(default_version(&all).is_none());
        let why = already_there(&all).unwrap_or_default();
        assert!(why.contains("content of version 0") && why.contains("restart web"), "{why}");
        assert_eq!(already_there(&versions(&[1, 9])), None);
    }

    #[test]
    fn scaling_is_not_undone_by_default() {
        let mut all = versions(&[1, 2, 2]);
        all[2].job.groups[0].count = 6;
        let found = default_version(&all).expect("there is another one");
        assert_eq!(found.number, 0, "version 1 differs only in its count");
        let job = restored(&found.job, &all[2]);
        assert_eq!((job.groups[0].count, &job.groups[0].request), (6, &Amounts::new([1])));
        assert_eq!(restored(&all[1].job, &all[2]), all[1].job, "it was chosen for its count");
        all[2].job.groups[0].name = "other".into();
        assert_eq!(restored(&all[0].job, &all[2]), all[0].job);
    }

    #[test]
    fn restarts_are_no_content() {
        let mut all = versions(&[1, 2, 2, 3, 3]);
        all[2].job = restart::restarted(&all[1].job, 5);
        all[4].job = restart::restarted(&all[3].job, 7);
        let found = default_version(&all).expect("there is another one");
        assert_eq!(found.number, 2);
        assert_eq!(restored(&all[3].job, &all[4]), all[4].job, "nothing would change");
        assert_eq!(restored(&found.job, &all[4]), all[2].job);
        let shapes = shapes(&Kinds::standard(), &all);
        let table = table(&shapes);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[5].ends_with("restarted with the content of version 3"), "{table}");
        assert_eq!(shapes[4].difference.lines(), "  group main: 2 tasks, all restarted\n");
        all[4].result = Some(UpdateResult::Failed);
        assert_eq!(default_version(&all).map(|found| found.number), Some(2));
        assert_eq!(restored(&all[3].job, &all[4]), all[3].job, "the earlier tasks stay");
    }

    #[test]
    fn the_table_names_equal_and_failed_versions() {
        let shapes = shapes(&Kinds::standard(), &versions(&[1, 9, 1]));
        let oldest = serde_json::to_value(&shapes[0]).expect("it is JSON");
        assert_eq!(oldest["groups"], serde_json::json!([]));
        let table = table(&shapes);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].ends_with("the oldest version kept"), "{table}");
        assert!(lines[2].contains("failed"), "{table}");
        assert!(
            lines[3].contains("current") && lines[3].contains("content of version 0: "),
            "{table}"
        );
    }
}
