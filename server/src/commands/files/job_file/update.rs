//! The rules of rolling updates in a job file.

use crate::commands::files::time_file::TimeFile;
use omega_core::{OnFailure, UpdateRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules of a rolling update.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateFile {
    /// Maximum number of tasks of a group that may be missing during its update.
    #[serde(default)]
    max_unavailable: u32,
    /// Maximum number of tasks beyond the group's count during its update. The default is 0 if `max_unavailable` is
    /// given, and 1 otherwise.
    max_surge: Option<u32>,
    /// Time for which a new task runs before it counts as healthy: `10s`, at most `1h`.
    #[schemars(with = "Option<String>")]
    min_healthy_time: Option<TimeFile>,
    /// Reaction to a new task that fails.
    #[serde(default)]
    on_failure: OnFailureFile,
}

/// Reaction to a new task that fails during an update.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OnFailureFile {
    /// The update stops: tasks of both versions run until an operator changes the job again.
    #[default]
    Stop,
    /// The job goes back to its previous version.
    Rollback,
}

impl From<UpdateFile> for UpdateRules {
    fn from(file: UpdateFile) -> UpdateRules {
        let UpdateFile { max_unavailable, max_surge, min_healthy_time, on_failure } = file;
        UpdateRules {
            max_unavailable,
            max_surge: max_surge.unwrap_or(u32::from(max_unavailable == 0)),
            min_healthy_ms: min_healthy_time.map_or(0, TimeFile::millis),
            on_failure: match on_failure {
                OnFailureFile::Stop => OnFailure::Stop,
                OnFailureFile::Rollback => OnFailure::Rollback,
            },
        }
    }
}

impl From<UpdateRules> for UpdateFile {
    fn from(rules: UpdateRules) -> UpdateFile {
        let healthy = rules.min_healthy_ms;
        UpdateFile {
            max_unavailable: rules.max_unavailable,
            max_surge: Some(rules.max_surge),
            min_healthy_time: (healthy > 0).then(|| TimeFile::from_millis(healthy.into())),
            on_failure: match rules.on_failure {
                OnFailure::Stop => OnFailureFile::Stop,
                OnFailure::Rollback => OnFailureFile::Rollback,
            },
        }
    }
}
