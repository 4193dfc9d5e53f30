//! A transaction in a file: claims, releases, evictions and resizes, by the names of jobs and machines.
//!
//! Reading depends on the file alone. `../txn.rs` asks the cell for the ids of the names.

use crate::commands::files::amount::Amount;
use crate::commands::files::machine_file::NumberOrText;
use omega_core::{ConflictCheck, DeviceSet, Granularity, Take};
use omega_workload::file::{FileError, shown};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A transaction.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct TransactionFile {
    /// Whether the other items are applied if one item is rejected.
    #[serde(default)]
    pub(in crate::commands) granularity: GranularityFile,
    /// Conflict check of the claims.
    #[serde(default)]
    pub(in crate::commands) check: CheckFile,
    /// Version of the cell on which the decision is based; 0 if there is none.
    #[serde(default)]
    pub(in crate::commands) base: u64,
    /// Placed tasks to remove from their machines: `job/index`.
    #[serde(default)]
    pub(in crate::commands) releases: Vec<String>,
    /// Tasks of lower precedence to evict for the claims: `job/index`.
    #[serde(default)]
    pub(in crate::commands) evictions: Vec<String>,
    /// Tasks to place, in order.
    #[serde(default)]
    pub(in crate::commands) claim: Vec<ClaimFile>,
    /// Resizes of placed tasks, in order, before the claims.
    #[serde(default)]
    pub(in crate::commands) resize: Vec<ResizeFile>,
}

/// A resize.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct ResizeFile {
    /// The task: `job/index`.
    pub(in crate::commands) task: String,
    /// New allocation by resource kind; kinds that are not named get 0.
    #[schemars(with = "BTreeMap<String, NumberOrText>")]
    pub(in crate::commands) to: BTreeMap<String, Amount>,
}

/// A claim.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct ClaimFile {
    /// The task: `job/index`.
    pub(in crate::commands) task: String,
    /// The name of the machine.
    pub(in crate::commands) machine: String,
    /// Sequence number of the machine at the decision, for `check = "sequence"`.
    pub(in crate::commands) seen: Option<u64>,
    /// Numbers of the devices to use, from 0. If it is empty, the cell chooses.
    #[serde(default)]
    pub(in crate::commands) devices: Vec<u8>,
    /// Whether the claim includes the task's optional resources.
    #[serde(default)]
    pub(in crate::commands) optional: bool,
}

/// Whether the other items of a transaction are applied if one item is rejected.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum GranularityFile {
    /// The other items are applied.
    #[default]
    Incremental,
    /// No item is applied.
    AllOrNothing,
}

/// Conflict check of claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum CheckFile {
    /// Rejects a claim that does not fit.
    #[default]
    Fit,
    /// Also rejects a claim whose machine has changed since `seen`.
    Sequence,
}

impl From<GranularityFile> for Granularity {
    fn from(granularity: GranularityFile) -> Granularity {
        match granularity {
            GranularityFile::Incremental => Granularity::Incremental,
            GranularityFile::AllOrNothing => Granularity::AllOrNothing,
        }
    }
}

impl From<CheckFile> for ConflictCheck {
    fn from(check: CheckFile) -> ConflictCheck {
        match check {
            CheckFile::Fit => ConflictCheck::ResourceFit,
            CheckFile::Sequence => ConflictCheck::SequenceNumber,
        }
    }
}

/// A task, given by its job's name and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) struct TaskName<'t> {
    /// Name of the job, or if no job has this name, the id of the job, as printed by `omega task list`.
    pub(in crate::commands) job: &'t str,
    /// Index of the task in its job.
    pub(in crate::commands) index: u32,
}

/// Parses a task, as JOB/INDEX. The names of jobs from other clients may contain slashes.
pub(in crate::commands) fn task_name(text: &str) -> Option<TaskName<'_>> {
    let (job, index) = text.rsplit_once('/')?;
    let index = index.parse().ok()?;
    (!job.is_empty()).then_some(TaskName { job, index })
}

/// A parsed claim.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct ClaimName<'t> {
    pub(in crate::commands) task: TaskName<'t>,
    pub(in crate::commands) machine: &'t str,
    pub(in crate::commands) seen: u64,
    pub(in crate::commands) devices: DeviceSet,
    pub(in crate::commands) take: Take,
}

/// A parsed resize.
#[derive(Clone, Debug)]
pub(in crate::commands) struct ResizeName<'t> {
    pub(in crate::commands) task: TaskName<'t>,
    pub(in crate::commands) to: &'t BTreeMap<String, Amount>,
    /// Place of the resize in the file, for errors.
    pub(in crate::commands) place: String,
}

impl TransactionFile {
    /// The tasks in a list of releases or evictions.
    ///
    /// # Errors
    /// If an entry is not of the form `job/index`.
    pub(in crate::commands) fn tasks<'t>(
        (field, names): (&str, &'t [String]),
        file: &Path,
    ) -> Result<Vec<TaskName<'t>>, FileError> {
        let one =
            |(index, text): (usize, &'t String)| named(file, text, || format!("{field}[{index}]"));
        names.iter().enumerate().map(one).collect()
    }

    /// The resizes.
    ///
    /// # Errors
    /// If the task of a resize is not of the form `job/index`.
    pub(in crate::commands) fn resizes(
        &self,
        file: &Path,
    ) -> Result<Vec<ResizeName<'_>>, FileError> {
        let mut resizes = Vec::with_capacity(self.resize.len());
        for (index, resize) in self.resize.iter().enumerate() {
            let task = named(file, &resize.task, || format!("resize[{index}].task"))?;
            let place = format!("{}: resize[{index}]", shown(file));
            resizes.push(ResizeName { task, to: &resize.to, place });
        }
        Ok(resizes)
    }

    /// The claims.
    ///
    /// # Errors
    /// If a claim is invalid, or lacks a field that the check needs.
    pub(in crate::commands) fn claims(&self, file: &Path) -> Result<Vec<ClaimName<'_>>, FileError> {
        let all = self.claim.iter().enumerate();
        all.map(|(index, claim)| claim.named(index, self.check, file)).collect()
    }
}

impl ClaimFile {
    fn named(
        &self,
        index: usize,
        check: CheckFile,
        file: &Path,
    ) -> Result<ClaimName<'_>, FileError> {
        let at = |field: &str| format!("claim[{index}].{field}");
        let task = named(file, &self.task, || at("task"))?;
        let seen = match (self.seen, check) {
            (Some(seen), _) => seen,
            (None, CheckFile::Fit) => 0,
            (None, CheckFile::Sequence) => {
                let why = "is missing, but the check by sequence number needs it: give the field \
                     `sequence` that `omega machine get NAME -o json` prints";
                return Err(value(file, at("seen"), why.to_owned()));
            }
        };
        let mut devices = DeviceSet(0);
        for device in &self.devices {
            match 1_u32.checked_shl(u32::from(*device)) {
                Some(bit) => devices.0 |= bit,
                None => {
                    return Err(value(file, at("devices"), format!("{device} must be 0 to 31")));
                }
            }
        }
        let take = if self.optional { Take::WithOptional } else { Take::Request };
        Ok(ClaimName { task, machine: &self.machine, seen, devices, take })
    }
}

fn named<'t>(
    file: &Path,
    text: &'t str,
    at: impl Fn() -> String,
) -> Result<TaskName<'t>, FileError> {
    let why = || {
        format!(
            "{text:?} must be the name of a job and the number of a task, such as \
         web/0"
        )
    };
    task_name(text).ok_or_else(|| value(file, at(), why()))
}

fn value(file: &Path, field: String, why: String) -> FileError {
    FileError::Value { file: file.to_owned(), field, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_job_and_a_number() {
        let task = |job, index| Some(TaskName { job, index });
        assert_eq!(task_name("web/3"), task("web", 3));
        assert_eq!(task_name("team/web/0"), task("team/web", 0));
        for no in ["web", "web/", "/1", "web/-1", "web/x", "web/4294967296", ""] {
            assert_eq!(task_name(no), None, "{no}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let output = |text: &str| {
            let file: TransactionFile = toml::from_str(text).unwrap();
            file.claims(Path::new("t.toml")).unwrap_err().to_string()
        };
        let claim = "[[claim]]\ntask = \"a/0\"\nmachine = \"m\"\n";
        let missing = output(&format!("check = \"sequence\"\n{claim}"));
        assert!(missing.starts_with("t.toml: claim[0].seen: is missing"), "{missing}");
        let devices = output(&format!("{claim}devices = [0, 32]"));
        assert_eq!(devices, "t.toml: claim[0].devices: 32 must be 0 to 31");
        let task = output("[[claim]]\ntask = \"a\"\nmachine = \"m\"\n");
        assert!(task.starts_with("t.toml: claim[0].task: \"a\" must be"), "{task}");
    }
}
