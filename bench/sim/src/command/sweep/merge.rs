//! Merging the shards of a sweep: `--merge DIR...`.
//!
//! Nothing is run. Each point must be in exactly one of the folders, all of which must belong to this sweep and to one
//! version of the simulator. Then the results equal those of a sweep in one process, byte for byte.

use super::file::Point;
use super::kept::{Done, Folder};
use crate::command::SimError;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Number of points that a message lists.
const NAMED_MAX: usize = 5;

/// Collects all points from the folders of the shards, in order.
pub(super) fn collect(
    dirs: &[PathBuf],
    text: &str,
    points: &[Point],
) -> Result<Vec<Done>, SimError> {
    let mut found: Vec<Option<(Done, usize)>> = points.iter().map(|_| None).collect();
    for (at, dir) in dirs.iter().enumerate() {
        let folder = Folder::of(dir, text)?;
        for (number, point) in points.iter().enumerate() {
            let Some(done) = folder.kept(number, point) else { continue };
            if let Some((_, other)) = &found[number] {
                return Err(double(number, &dirs[*other], dir));
            }
            found[number] = Some((done, at));
        }
    }
    let missing: Vec<usize> = (0..points.len()).filter(|number| found[*number].is_none()).collect();
    if !missing.is_empty() {
        return Err(gap(&missing, points.len()));
    }
    let done: Vec<Done> = found.into_iter().flatten().map(|(done, _)| done).collect();
    same_version(&done)?;
    Ok(done)
}

fn double(number: usize, one: &std::path::Path, other: &std::path::Path) -> SimError {
    SimError::Lacks(format!(
        "--merge: point {number} is in both {} and {}: give each folder once, and run each point \
         in one shard",
        one.display(),
        other.display()
    ))
}

fn gap(missing: &[usize], all: usize) -> SimError {
    let mut message = format!("--merge: {} of {all} points are missing: ", missing.len());
    let named: Vec<String> =
        missing.iter().take(NAMED_MAX).map(|number| number.to_string()).collect();
    message += &named.join(", ");
    if missing.len() > NAMED_MAX {
        message += ", ...";
    }
    // Writing to a string does not fail.
    let _ = write!(
        message,
        "; run their shards again (with N shards, point P belongs to shard P \
         mod N)"
    );
    SimError::Lacks(message)
}

/// Rejects results of different versions of the simulator, because their differences may be due to the versions.
fn same_version(done: &[Done]) -> Result<(), SimError> {
    let Some(first) = done.first() else { return Ok(()) };
    match done.iter().position(|it| it.report.version != first.report.version) {
        None => Ok(()),
        Some(number) => Err(SimError::Lacks(format!(
            "--merge: point 0 was run by omega-sim {}, and point {number} by omega-sim {}: run \
             all shards with one version",
            first.report.version, done[number].report.version
        ))),
    }
}
