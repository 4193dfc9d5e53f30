//! A job as stored in the cell, with its groups and tasks, and its copy in a snapshot.

use crate::index::need::Need;
use crate::policy::ports::TaskPorts;
use crate::state::allocation_overrides::{AllocationOverrides, Values};
use crate::state::cores::TaskCores;
use crate::state::machines::Part;
use crate::state::task_counts::{JobTotals, StateCounts, TaskTally};
use omega_core::{
    Amounts, DeviceSet, Job, JobId, MachineId, NodeCores, TaskId, TaskState, UpdateResult,
    bytes_at_most,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// A job of the cell.
#[derive(Clone, Debug)]
pub struct JobRecord {
    /// Description of the job, with all groups to which its tasks belong. After an update, these include groups of
    /// older versions.
    pub spec: Arc<Job>,
    /// The latest versions of the job, oldest first; empty if it was never updated.
    pub versions: Vec<JobVersion>,
    /// The cell's time at which the job was submitted.
    pub submitted_ms: u64,
    /// The number that stands for the name of the job's scheduler. Deltas select jobs by it.
    pub owner: OwnerId,
    pub tenant: u32,
    /// Number of bytes of the description and its versions.
    pub bytes: u32,
    /// The groups of the job. The usual single group is stored inline, so that a claim reads the whole job from one
    /// place.
    pub groups: SmallVec<[GroupRecord; 1]>,
    pub tasks: SmallVec<[TaskRecord; 1]>,
    /// Whether a group was ever resized. If so, tasks are not numbered group by group.
    pub resized: bool,
    /// Whether the job has ended because it was killed.
    pub killed: bool,
    /// Whether the job is a service without tasks that may get tasks again. Such a job is not in the list of ended jobs.
    pub scaled_to_zero: bool,
    /// The number of placed tasks.
    pub placed: u32,
    /// The number of unfinished tasks.
    pub alive: u32,
    /// Further numbers of tasks. Like `placed` and `alive`, they are neither hashed nor saved.
    pub tally: TaskTally,
    /// State of the job's waiting gang; `None` if the job has no waiting gang.
    pub gang_wait: Option<GangWait>,
    /// Allocations that differ from the group's request.
    pub overrides: AllocationOverrides,
    /// Exclusive cores of the job's tasks.
    pub cores: TaskCores,
    /// Ports that the cell chose for the job's tasks.
    pub ports: TaskPorts,
}

/// Treatment of a service of which a resize leaves no tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutTasks {
    /// It has ended.
    Ends,
    /// It is scaled to zero, and a later resize can give it tasks again.
    Stays,
}

/// The number that the cell gave to a scheduler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(pub u32);

/// A group of a job.
#[derive(Clone, Debug)]
pub struct GroupRecord {
    pub need: Arc<Need>,
}

/// Memory of a task as stored in the cell. An ended task takes it until its job is removed.
pub const TASK_BYTES: u64 = size_of::<TaskRecord>() as u64;

/// A task as stored in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskRecord {
    /// State of the task.
    pub state: TaskState,
    /// Devices of the task while it is placed.
    pub devices: DeviceSet,
    /// Position of the task's group in the job.
    pub group: u16,
    /// Number of failures of the task.
    pub failures: u16,
    /// The cell's time at which the task was placed; 0 while it is not placed.
    pub placed_ms: u64,
}

/// A run of a task on a machine, as the machine reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskRun {
    pub(crate) task: TaskId,
    pub(crate) machine: MachineId,
    /// The time at which the run was placed; 0 if unknown.
    pub(crate) placed_ms: u64,
}

impl TaskRecord {
    pub(crate) fn pending(group: usize) -> TaskRecord {
        TaskRecord {
            state: TaskState::Pending,
            devices: DeviceSet::default(),
            group: group as u16,
            failures: 0,
            placed_ms: 0,
        }
    }
}

/// Counts tasks for [`JobRecord::tally`].
pub fn tally(tasks: &[TaskRecord]) -> TaskTally {
    TaskTally::of(tasks.iter().map(|task| (usize::from(task.group), task.state, task.failures)))
}

impl JobRecord {
    /// Number of bytes of the job and its tasks, as counted in [`Tenant::bytes`](super::tenants::Tenant).
    pub fn kept_bytes(&self) -> u64 {
        u64::from(self.bytes) + TASK_BYTES * self.tasks.len() as u64
    }

    /// Counts the bytes of the description and of the kept versions.
    pub fn count_bytes(&self) -> u32 {
        let versions = self.versions.iter().map(|version| bytes_at_most(&*version.spec));
        (bytes_at_most(&*self.spec) + versions.sum::<usize>()) as u32
    }

    /// The numbers of tasks by state.
    pub fn state_counts(&self) -> StateCounts {
        let tasks = self.tasks.len() as u32;
        self.tally.states(JobTotals { tasks, alive: self.alive, placed: self.placed })
    }

    /// The needs of a task.
    pub fn need(&self, task: &TaskRecord) -> &Need {
        &self.groups[usize::from(task.group)].need
    }

    /// The allocation of a placed task, with its demand profiles and cores.
    #[inline]
    pub fn part(&self, index: u32) -> Part<'_> {
        let task = &self.tasks[index as usize];
        let need = self.need(task);
        let own = self.overrides.get(index);
        let request = own.unwrap_or(&need.request);
        // A resized task has constant amounts all day.
        let demand_profiles = need.demand_profiles.as_deref().filter(|_| own.is_none());
        let cores = self.cores.get(index);
        Part {
            request,
            demand_profiles,
            devices: need.devices_of_placed(),
            chosen: task.devices,
            cores,
        }
    }

    /// Records the allocation of a task that is placed or is just being placed.
    pub fn set_allocation(&mut self, index: u32, values: Values) {
        if values == self.need(&self.tasks[index as usize]).request {
            _ = self.overrides.take(index)
        } else {
            self.overrides.put(index, values)
        }
    }

    /// Whether the entries satisfy the invariants of [`AllocationOverrides`] and of the exclusive cores.
    pub fn overrides_are_right(&self) -> bool {
        let placed = |index: u32| {
            let task = self.tasks.get(index as usize);
            task.is_some_and(|task| task.state.machine().is_some())
        };
        if !self.cores.iter().all(|(index, _)| placed(index)) {
            return false;
        }
        self.overrides.values().all(|(index, values)| {
            self.tasks.get(index as usize).is_some_and(|task| {
                task.state.machine().is_some() && *values != self.need(task).request
            })
        })
    }
}

/// A version of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobVersion {
    /// Number of the version; 0 for the job as submitted.
    pub number: u32,
    /// The cell's time at which the version began; 0 for the job as submitted.
    pub at_ms: u64,
    /// Number of the job's tasks when the version began, including ended ones. Tasks that were added since have this
    /// index or a higher one.
    pub first_task: u32,
    /// Result of the update to the version; `None` if the update has no result yet, or was replaced by another.
    pub result: Option<UpdateResult>,
    /// Description of the job. Its groups have the counts that this version asks for.
    pub spec: Arc<Job>,
}

/// The state of a waiting gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GangWait {
    /// The time of the first `Expire` after the gang began to wait; `None` before that.
    pub since_ms: Option<u64>,
    /// Whether the gang's present timeout is its second one.
    pub spared: bool,
}

/// A job and its tasks in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSnapshot {
    /// Id of the job.
    pub id: JobId,
    /// Description of the job.
    pub spec: Arc<Job>,
    /// The latest versions of the job, oldest first; empty if it was never updated.
    pub versions: Vec<JobVersion>,
    /// The cell's time at which the job was submitted. Like [`TaskRecord::placed_ms`], it is not hashed.
    pub submitted_ms: u64,
    /// Whether a group was ever resized. If so, tasks are not numbered group by group.
    pub resized: bool,
    /// Whether the job has ended because it was killed.
    pub killed: bool,
    /// State of the job's waiting gang; `None` if the job has no waiting gang.
    pub gang_wait: Option<GangWait>,
    /// Allocations that differ from the group's request, ascending by task index.
    pub overrides: Vec<(u32, Amounts)>,
    /// Exclusive cores, ascending by task index.
    pub cores: Vec<(u32, NodeCores)>,
    /// Ports that the cell chose, ascending by task index.
    pub ports: Vec<(u32, Vec<u16>)>,
    /// Tasks of the job, by index.
    pub tasks: SmallVec<[TaskRecord; 1]>,
}

impl JobSnapshot {
    pub(crate) fn of(id: JobId, job: &JobRecord) -> JobSnapshot {
        let tasks = SmallVec::from_slice(&job.tasks);
        let JobRecord {
            spec,
            versions,
            submitted_ms,
            resized,
            killed,
            gang_wait,
            overrides,
            cores,
            ports,
            ..
        } = job;
        let (spec, versions) = (spec.clone(), versions.clone());
        let (overrides, cores) = (overrides.iter().collect(), cores.iter().collect());
        let ports = ports.iter().map(|(index, ports)| (index, ports.to_vec())).collect();
        JobSnapshot {
            id,
            spec,
            versions,
            submitted_ms: *submitted_ms,
            resized: *resized,
            killed: *killed,
            gang_wait: *gang_wait,
            overrides,
            cores,
            ports,
            tasks,
        }
    }
}
