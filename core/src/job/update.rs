//! Updates of jobs: how a running service changes from one version to the next.

use crate::ids::TaskId;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// The rules of a rolling update. The cell stores them; a controller follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpdateRules {
    /// Maximum number of tasks by which a group may be below its count during an update.
    pub max_unavailable: u32,
    /// Maximum number of tasks by which a group may exceed its count during an update.
    pub max_surge: u32,
    /// Time for which a new task must run before it is considered healthy, in milliseconds.
    pub min_healthy_ms: u32,
    /// Reaction to the failure of a task of the new version.
    pub on_failure: OnFailure,
}

impl Default for UpdateRules {
    /// Rules for one additional task at a time, and no missing task.
    fn default() -> UpdateRules {
        UpdateRules {
            max_unavailable: 0,
            max_surge: 1,
            min_healthy_ms: 0,
            on_failure: OnFailure::default(),
        }
    }
}

/// Reaction to a failure during an update.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The update stops. Tasks of both versions run until an operator decides.
    #[default]
    Stop,
    /// The job is updated to its previous version.
    Rollback,
}

/// Result of the update to a version of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateResult {
    /// All tasks of the job were of the version, and healthy.
    Complete,
    /// A task of the version failed before the update was complete.
    Failed,
}

/// A step of an update: tasks that a job gains and loses at once. A step never ends a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollStep {
    /// Version of the job for which the step was decided. If the job has another version, the step is rejected.
    pub version: u32,
    /// Tasks to add to groups of the job's newest version.
    pub adds: Vec<GroupGrowth>,
    /// Indexes of the tasks to end. Indexes of tasks that have already ended are ignored.
    pub stops: Vec<u32>,
}

/// Tasks to add to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupGrowth {
    /// Name of the group.
    pub group: Text,
    /// Number of tasks to add.
    pub count: u32,
}

impl RollStep {
    /// An empty step for this version of the job.
    #[must_use]
    pub fn of(version: u32) -> RollStep {
        RollStep { version, ..RollStep::default() }
    }

    /// Returns the step with one more task to end.
    #[must_use]
    pub fn with_stop(mut self, task: TaskId) -> RollStep {
        self.stops.push(task.index);
        self
    }

    /// Returns the step with more tasks to add to a group.
    #[must_use]
    pub fn with_tasks(mut self, group: impl Into<Text>, count: u32) -> RollStep {
        self.adds.push(GroupGrowth { group: group.into(), count });
        self
    }
}
