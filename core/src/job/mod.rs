//! A job: groups of identical tasks, and the states of tasks.

pub mod demand_profile;
pub mod group;
pub mod run;
pub mod run_end;
pub(crate) mod shared_group;
pub(crate) mod task_use;
pub(crate) mod update;
use crate::ids::{MachineId, Precedence};
use crate::job::group::TaskGroup;
use crate::job::shared_group::{Groups, read_groups};
use crate::job::update::UpdateRules;
use crate::text::Text;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// Type of a job: service or batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// A job without a planned end.
    Service,
    /// A job that runs to its end.
    Batch,
}

/// Whether the tasks of a job may preempt tasks of other jobs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Preemption {
    /// The tasks may preempt tasks of lower precedence.
    #[default]
    LowerPrecedence,
    /// The tasks preempt no other tasks. Their precedence only orders the queue and protects them from preemption.
    /// (Kubernetes' `preemptionPolicy: Never`.)
    Never,
}

/// A job: a request to run tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Name of the job, unique among the jobs of which the cell has a record.
    pub name: Text,
    /// Tenant that owns the job, and whose quota its tasks use.
    pub tenant: Text,
    /// Name of the scheduler that places the job. A scheduler places only jobs with its name.
    pub scheduler: Text,
    /// Precedence of the tasks. It decides which other tasks they may preempt.
    pub precedence: Precedence,
    /// Whether the tasks may preempt others. Only schedulers respect this; the cell checks precedence alone.
    pub preemption: Preemption,
    /// Whether the job is a service or a batch job.
    pub kind: JobKind,
    /// Groups of identical tasks.
    #[serde(deserialize_with = "read_groups")]
    pub groups: Groups,
    /// If the job is a gang: the minimum number of its tasks, over all groups, that are placed together.
    ///
    /// If fewer tasks than this are unfinished, the minimum is the number of unfinished tasks. So the last tasks of a
    /// gang can be placed again.
    pub gang_min: Option<u32>,
    /// Gang timeout, in milliseconds of [`Command::Expire`](crate::Command::Expire). Without it, one transaction must
    /// place the gang.
    ///
    /// With a timeout, several transactions may place the gang. Until the gang is complete, its placed tasks keep their
    /// machines but do not run. After the timeout, the cell takes all of them off their machines.
    pub gang_timeout_ms: Option<u32>,
    /// Expected run time of a task in milliseconds, if known.
    pub runtime_estimate_ms: Option<u64>,
    /// Deadline: time at which the job should have ended, in milliseconds of
    /// [`Command::Expire`](crate::Command::Expire). An order plugin may sort the queue by deadline. The cell neither
    /// rejects nor ends a job because of its deadline.
    pub deadline_ms: Option<u64>,
    /// Rules for updates of a service; `None` means the default rules.
    pub update: Option<UpdateRules>,
}

impl Job {
    /// A batch job of one group for the scheduler `default`, with precedence 0.
    pub fn batch(name: impl Into<Text>, group: TaskGroup) -> Job {
        Job {
            name: name.into(),
            tenant: "default".into(),
            scheduler: "default".into(),
            precedence: Precedence(0),
            preemption: Preemption::default(),
            kind: JobKind::Batch,
            groups: Groups::from([group.into()]),
            gang_min: None,
            gang_timeout_ms: None,
            runtime_estimate_ms: None,
            deadline_ms: None,
            update: None,
        }
    }

    /// Number of tasks in all groups together.
    #[must_use]
    pub fn task_count(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count)).sum()
    }

    /// Whether two descriptions are equal apart from the counts of their groups.
    #[must_use]
    pub fn equals_but_counts(&self, other: &Job) -> bool {
        self.with_counts_of(other) == *other
    }

    /// Returns the description with the counts of another one, if both have groups of the same names. Otherwise, one of
    /// them has divided its tasks anew, so the counts stay, as they do if the other description has no tasks. A group
    /// with one task on each machine has no count.
    #[must_use]
    pub fn with_counts_of(&self, other: &Job) -> Job {
        let mut job = self.clone();
        let named = |name: &Text| other.groups.iter().find(|group| group.name == *name);
        let has_all = self.groups.iter().all(|group| named(&group.name).is_some());
        if !has_all || self.groups.len() != other.groups.len() || other.task_count() == 0 {
            return job;
        }
        for group in &mut job.groups {
            let Some(known) = named(&group.name) else { continue };
            if group.count != known.count && !group.per_machine && !known.per_machine {
                group.count = known.count;
            }
        }
        job
    }

    /// Whether the job is a gang that one transaction must place.
    #[must_use]
    pub fn is_placed_at_once(&self) -> bool {
        self.gang_min.is_some() && self.gang_timeout_ms.is_none()
    }
}

// Snapshots contain the hash of the cell's state. Fields that were added later are hashed only if they are set, so that
// the hashes in older snapshots stay valid.

impl Hash for Job {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Job { name, tenant, scheduler, precedence, preemption, kind, .. } = self;
        let Job {
            groups, gang_min, runtime_estimate_ms, gang_timeout_ms, deadline_ms, update, ..
        } = self;
        (name, tenant, scheduler, precedence, preemption, kind).hash(state);
        (groups, gang_min, runtime_estimate_ms).hash(state);
        if let Some(hold) = gang_timeout_ms {
            ("gang hold", hold).hash(state);
        }
        if let Some(due) = deadline_ms {
            ("due", due).hash(state);
        }
        if let Some(update) = update {
            ("update", update).hash(state);
        }
    }
}

/// State of a task.
///
/// ```text
///            commit          started          finished, failed
/// Pending ──────────▶ Placed ───────▶ Running ───────────────▶ Finished | Failed
///    ▲  ▲               │                │
///    │  └── evicted, released, lost, failed with restarts left
///    └── killed (from any state before the end) ──▶ Killed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// The task waits for a machine.
    Pending,
    /// A commit placed the task on this machine.
    Placed(MachineId),
    /// The task's machine reported that the task runs.
    Running(MachineId),
    /// The task has finished.
    Finished,
    /// The task failed and has no restarts left.
    Failed,
    /// The task's job was killed, or its group shrank.
    Killed,
}

impl TaskState {
    /// The machine that the task is placed on, if any.
    #[must_use]
    pub fn machine(self) -> Option<MachineId> {
        match self {
            TaskState::Placed(machine) | TaskState::Running(machine) => Some(machine),
            TaskState::Pending | TaskState::Finished | TaskState::Failed | TaskState::Killed => {
                None
            }
        }
    }

    /// Whether the state is final.
    #[must_use]
    pub fn ended(self) -> bool {
        matches!(self, TaskState::Finished | TaskState::Failed | TaskState::Killed)
    }
}
