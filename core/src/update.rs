//! Updates of jobs: how a running service is moved from one version to the next.

use crate::ids::TaskId;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// The rules of a rolling update. The cell stores them; a controller follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpdateRules {
    /// Number of tasks of a group that may be missing while it is updated.
    pub max_unavailable: u32,
    /// Number of tasks that a group may have beyond its count while it is updated.
    pub max_surge: u32,
    /// Time for which a new task must run before it counts as healthy, in milliseconds.
    pub min_healthy_ms: u32,
    /// Reaction to a task of the new version that fails.
    pub on_failure: OnFailure,
}

impl Default for UpdateRules {
    /// One more task at a time, none missing.
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
    /// The update stops: tasks of both versions run until someone decides.
    #[default]
    Stop,
    /// The job is updated to its version before.
    Rollback,
}

/// A step of an update: tasks that a job gets and loses at once. It never ends a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollStep {
    /// Version of the job for which the step was decided; the job has another one: rejected.
    pub version: u32,
    /// Further tasks for groups of the job's version.
    pub adds: Vec<GroupGrowth>,
    /// Tasks to end, by index; those that have ended already are ignored.
    pub stops: Vec<u32>,
}

/// Further tasks of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupGrowth {
    /// Name of the group.
    pub group: Text,
    /// Number of further tasks.
    pub count: u32,
}

impl RollStep {
    /// A step for a version that changes nothing.
    #[must_use]
    pub fn of(version: u32) -> RollStep {
        RollStep { version, ..RollStep::default() }
    }

    /// Adds the end of a task.
    #[must_use]
    pub fn with_stop(mut self, task: TaskId) -> RollStep {
        self.stops.push(task.index);
        self
    }

    /// Adds further tasks of a group.
    #[must_use]
    pub fn with_tasks(mut self, group: impl Into<Text>, count: u32) -> RollStep {
        self.adds.push(GroupGrowth { group: group.into(), count });
        self
    }
}
