//! Placed tasks by machine, for schedulers that preempt.
//!
//! A view that keeps placements receives the jobs of all schedulers. Between two syncs a scheduler can *lift* a placed
//! task: remove it from its machine in this view only, to test which tasks would fit without it.
//!
//! Invariant: every lifted task is put back before the next sync, and before a claim that does not need the task's
//! room. [`View::lifted`] is the number of lifted tasks.

use crate::delta::{AllocatedTask, Delta, TaskDelta};
use crate::fit::Grant;
use crate::state::allocation_overrides::{Values, amounts_of, values_of};
use crate::state::machines::Part;
use crate::state::map::FastMap;
use crate::view::counted::Counted;
use crate::view::counting::GroupOnRow;
use crate::view::tenants::TenantClaim;
use crate::view::{GroupRef, View};
use foldhash::fast::FixedState;
use omega_core::{Amounts, DeviceSet, Job, JobId, MachineId, NodeCores, Precedence, TaskId};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A placed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedTask {
    /// Id of the task.
    pub id: TaskId,
    /// Position of the task's group in the job.
    pub group: u16,
    /// Precedence of the task.
    pub precedence: Precedence,
    /// Devices of the task.
    pub devices: DeviceSet,
    /// The cell's time at which the task was placed.
    pub placed_ms: u64,
}

impl PlacedTask {
    /// Whether the task is more important than another one.
    #[must_use]
    pub fn is_before(&self, other: &PlacedTask) -> bool {
        (Reverse(self.precedence), self.id) < (Reverse(other.precedence), other.id)
    }
}

#[derive(Debug)]
struct PlacedJob {
    spec: Arc<Job>,
    /// Number of the job's placed tasks.
    placed: usize,
}

/// Number of amounts that are stored per task, for a cell with this number of kinds.
fn stride(kinds: usize) -> usize {
    kinds.next_power_of_two().max(4)
}

/// The tasks on one machine.
#[derive(Debug, Default)]
struct Row {
    /// Tasks by importance: higher precedence first, and with equal precedence the older task first.
    tasks: Vec<PlacedTask>,
    /// Allocations, in the order of `tasks`. Each has the amounts of all kinds, padded with zeroes to the stride.
    requests: Vec<i64>,
}

impl Row {
    fn insert(&mut self, task: PlacedTask, request: &[u64], stride: usize) {
        let at = self.tasks.partition_point(|other| other.is_before(&task));
        self.tasks.insert(at, task);
        let amounts = (0..stride).map(|kind| request.get(kind).map_or(0, |amount| *amount as i64));
        self.requests.splice(at * stride..at * stride, amounts);
    }

    fn remove(&mut self, gone: impl Fn(&PlacedTask) -> bool, stride: usize) {
        while let Some(at) = self.tasks.iter().position(&gone) {
            self.tasks.remove(at);
            self.requests.drain(at * stride..(at + 1) * stride);
        }
    }
}

/// The placed tasks. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Placements {
    jobs: FastMap<JobId, PlacedJob>,
    places: FastMap<TaskId, MachineId>,
    stride: usize,
    rows: Vec<Row>,
    /// The number of placed tasks of each precedence.
    precedences: BTreeMap<Precedence, usize>,
    /// Counts of task sets.
    counted: Counted,
    lifted: usize,
    /// Allocations that differ from the group's request.
    overrides: FastMap<TaskId, Values>,
    /// Exclusive cores of tasks.
    cores: FastMap<TaskId, NodeCores>,
    /// Jobs whose groups were compiled only to lift their tasks.
    compiled: HashSet<JobId, FixedState>,
}

/// A placed task with its allocation.
pub(super) struct PlacedAllocation {
    pub(super) task: PlacedTask,
    /// The allocated amounts; `None` if they equal the group's request.
    pub(super) allocation: Option<Values>,
}

impl Placements {
    /// Counts of task sets.
    pub(super) fn counted(&self) -> &Counted {
        &self.counted
    }

    pub(super) fn counted_mut(&mut self) -> &mut Counted {
        &mut self.counted
    }

    /// Keeps the compiled groups of a job, even if they were compiled only to lift tasks.
    pub(super) fn keep_compiled(&mut self, job: JobId) {
        self.compiled.remove(&job);
    }

    /// Applies a delta.
    pub(super) fn apply(&mut self, delta: &Delta, kinds: usize) {
        if delta.full {
            let counted = std::mem::take(&mut self.counted);
            *self = Placements { counted, ..Placements::default() };
        }
        self.counted.apply(delta);
        let stride = stride(kinds);
        self.stride = stride;
        self.rows.resize_with(delta.rows, Row::default);
        let (ended, known): (Vec<_>, Vec<_>) =
            delta.jobs.iter().partition(|change| change.job.is_none());
        for change in known {
            let Some(spec) = change.job.clone() else { continue };
            let placed = self.jobs.get(&change.id).map_or(0, |job| job.placed);
            self.jobs.insert(change.id, PlacedJob { spec, placed });
        }
        delta.tasks_with_allocations().for_each(|task| self.set_task(task, kinds));
        let strays: Vec<JobId> =
            ended.into_iter().filter(|job| self.end(job.id)).map(|j| j.id).collect();
        if !strays.is_empty() {
            self.places.retain(|task, _| !strays.contains(&task.job));
            self.overrides.retain(|task, _| !strays.contains(&task.job));
            self.cores.retain(|task, _| !strays.contains(&task.job));
            let stray = |task: &PlacedTask| strays.contains(&task.id.job);
            self.rows.iter_mut().for_each(|row| row.remove(stray, stride));
        }
    }

    /// Removes a job. Returns whether tasks of the job were still recorded.
    ///
    /// Tasks are still recorded if the job ended and was forgotten between two syncs: the delta then does not list
    /// them.
    fn end(&mut self, id: JobId) -> bool {
        let Some(job) = self.jobs.remove(&id).filter(|job| job.placed > 0) else { return false };
        self.leave(job.spec.precedence, job.placed);
        true
    }

    /// Lowers the number of placed tasks of a precedence by `tasks`.
    fn leave(&mut self, precedence: Precedence, tasks: usize) {
        if let Some(count) = self.precedences.get_mut(&precedence) {
            *count -= tasks;
            if *count == 0 {
                self.precedences.remove(&precedence);
            }
        }
    }

    /// For each task whose allocation differs from its group's request, the row of its machine. A row may occur more
    /// than once.
    pub(super) fn rows_with_overrides(&self) -> impl Iterator<Item = usize> + '_ {
        self.overrides.keys().filter_map(|task| Some(self.places.get(task)?.row()))
    }

    fn set_task(&mut self, placed: AllocatedTask<'_>, kinds: usize) {
        let AllocatedTask { task, allocation, cores } = placed;
        let Some(job) = self.jobs.get_mut(&task.id.job) else { return };
        if let Some(machine) = self.places.remove(&task.id) {
            self.rows[machine.row()].remove(|placed| placed.id == task.id, self.stride);
            job.placed -= 1;
            let precedence = job.spec.precedence;
            self.leave(precedence, 1);
            if !self.overrides.is_empty() {
                self.overrides.remove(&task.id);
            }
            if !self.cores.is_empty() {
                self.cores.remove(&task.id);
            }
        }
        let Some(job) = self.jobs.get_mut(&task.id.job) else { return };
        let Some(machine) = task.state.machine() else { return };
        let TaskDelta { id, group, devices, placed_ms, .. } = *task;
        let precedence = job.spec.precedence;
        job.placed += 1;
        *self.precedences.entry(precedence).or_default() += 1;
        self.places.insert(id, machine);
        let request = allocation.unwrap_or(&job.spec.groups[usize::from(group)].request).as_slice();
        if let Some(allocation) = allocation {
            self.overrides.insert(id, values_of(allocation, kinds));
        }
        if !cores.is_empty() {
            self.cores.insert(id, cores);
        }
        let placed = PlacedTask { id, group, precedence, devices, placed_ms };
        self.rows[machine.row()].insert(placed, request, self.stride);
    }
}

impl View {
    /// Makes the view keep placements, for which it receives the jobs of all schedulers.
    #[must_use]
    pub fn with_placements(mut self) -> View {
        self.session.set_interest(crate::delta::Interest::AllJobs);
        self.indexes.keep_placements();
        self
    }

    /// The tasks on the machine in a row by importance: higher precedence first, and with equal precedence the older
    /// task first. Empty if the view does not keep placements.
    #[must_use]
    pub fn tasks_on(&self, row: usize) -> &[PlacedTask] {
        let placements = self.indexes.placements();
        placements.and_then(|placements| placements.rows.get(row)).map_or(&[], |row| &row.tasks)
    }

    /// The number of amounts per task in [`View::requests_on`]: the number of kinds, rounded up to 4, 8 or 16. So the
    /// amounts of a task can be added as whole vectors.
    #[must_use]
    pub fn request_stride(&self) -> usize {
        stride(self.kinds.count())
    }

    /// The allocations of the tasks on the machine in a row, in the order of [`View::tasks_on`]. Each allocation has
    /// the amounts of all kinds, padded with zeroes (see [`View::request_stride`]).
    #[must_use]
    pub fn requests_on(&self, row: usize) -> &[i64] {
        let placements = self.indexes.placements();
        placements.and_then(|placements| placements.rows.get(row)).map_or(&[], |row| &row.requests)
    }

    /// Whether a placed task's allocation differs from its group's request. If so, a move to another machine reduces
    /// the allocation to the request.
    #[must_use]
    pub fn has_allocation_override(&self, task: TaskId) -> bool {
        self.indexes.placements().is_some_and(|placements| placements.overrides.contains_key(&task))
    }

    /// The allocation of a placed task; `None` if the view does not keep placements.
    #[must_use]
    pub fn allocation_of(&self, task: &PlacedTask) -> Option<Amounts> {
        let placements = self.indexes.placements()?;
        match placements.overrides.get(&task.id) {
            Some(values) => Some(amounts_of(values)),
            None => {
                let job = placements.jobs.get(&task.id.job)?;
                Some(job.spec.groups.get(usize::from(task.group))?.request.clone())
            }
        }
    }

    /// The exclusive cores of a placed task; none if the view does not keep placements.
    #[must_use]
    pub fn cores_of(&self, task: TaskId) -> NodeCores {
        match self.indexes.placements() {
            Some(placements) if !placements.cores.is_empty() => {
                placements.cores.get(&task).copied().unwrap_or_default()
            }
            _ => NodeCores::NONE,
        }
    }

    /// The job of a placed task.
    #[must_use]
    pub fn job_of(&self, task: TaskId) -> Option<&Arc<Job>> {
        self.placed_job(task.job)
    }

    /// The job with this id, if some of its tasks are placed.
    pub(super) fn placed_job(&self, id: JobId) -> Option<&Arc<Job>> {
        Some(&self.indexes.placements()?.jobs.get(&id)?.spec)
    }

    /// All jobs with placed tasks.
    pub(super) fn placed_jobs(&self) -> impl Iterator<Item = (JobId, &Arc<Job>)> {
        let jobs = self.indexes.placements().into_iter().flat_map(|placements| &placements.jobs);
        jobs.filter(|(_, job)| job.placed > 0).map(|(id, job)| (*id, &job.spec))
    }

    /// The lowest precedence of all placed tasks; `None` if there are none, or if the view does not keep placements. A
    /// task whose precedence is not above this value cannot preempt any task.
    #[must_use]
    pub fn lowest_precedence(&self) -> Option<Precedence> {
        let lowest = self.indexes.placements()?.precedences.first_key_value();
        lowest.map(|(precedence, _)| *precedence)
    }

    /// The number of lifted tasks.
    #[must_use]
    pub fn lifted(&self) -> usize {
        self.indexes.placements().map_or(0, |placements| placements.lifted)
    }

    /// Takes a task off the machine in a row, in this view only.
    pub fn lift(&mut self, row: usize, task: PlacedTask) {
        self.note_lifted(1);
        self.count_placed(row, task, 1);
    }

    /// Puts back a task that [`View::lift`] took off.
    pub fn put_back(&mut self, row: usize, task: PlacedTask) {
        self.note_lifted(-1);
        self.count_placed(row, task, -1);
    }

    pub(super) fn note_lifted(&mut self, more: isize) {
        if let Some(placements) = self.indexes.placements_mut() {
            placements.lifted = placements.lifted.strict_add_signed(more);
        }
    }

    /// Takes a placed task off a row if `sign` is 1, or puts it back if it is -1.
    pub(super) fn count_placed(&mut self, row: usize, task: PlacedTask, sign: i64) {
        let allocation = self.allocation_override(task.id).cloned();
        self.count_allocation(row, PlacedAllocation { task, allocation }, sign);
    }

    /// The allocation of a placed task, if it differs from its group's request.
    pub(super) fn allocation_override(&self, task: TaskId) -> Option<&Values> {
        match self.indexes.placements() {
            Some(placements) if !placements.overrides.is_empty() => placements.overrides.get(&task),
            _ => None,
        }
    }

    /// Removes a placed task from a row if `sign` is 1, or puts it back if it is -1. If `placed.allocation` is set, it
    /// replaces the group's request.
    pub(super) fn count_allocation(&mut self, row: usize, placed: PlacedAllocation, sign: i64) {
        let PlacedAllocation { task, allocation } = placed;
        let Some(job) = self.job_of(task.id).cloned() else { return };
        if let Some(departures) = self.indexes.departures_mut() {
            departures.set_lifted(task.id, sign > 0);
        }
        let group = &job.groups[usize::from(task.group)];

        let cores = self.cores_of(task.id);
        let is_flat = group.demand_profiles.is_empty() || allocation.is_some();
        let has_none = task.devices.is_empty() && cores.is_empty();
        let is_uncounted = !self.policies.count_tasks_of(&job, group);
        if self.machine_index.rules.is_empty() && has_none && is_flat && is_uncounted {
            // No rule or policy counts the task, so only amounts and the job's own count change.
            self.indexes.count_of_job(task.id.job, row, sign);
            let request: SmallVec<[i64; 8]> = match &allocation {
                Some(allocation) => SmallVec::from_slice(allocation),
                None => group.request.as_slice().iter().map(|amount| *amount as i64).collect(),
            };
            self.rows.count(row, Part::of_amounts(&request), sign);
            if self.tenants.limited() {
                let of_cell = Some(&group.cluster_request);
                let claim = TenantClaim { request: &request, of_cell };
                self.tenants.count(self.tenants.find(&job.tenant), claim, -sign);
            }
            return;
        }
        let group = self.compile_placed(task, &job);
        let grant = Grant { devices: task.devices, cores };
        self.count_group(GroupOnRow { row, group, grant, allocation: allocation.as_deref() }, sign);
    }

    /// Compiles the group of a placed task. A group that is compiled only for this purpose is dropped when its job
    /// changes.
    fn compile_placed(&mut self, task: PlacedTask, job: &Arc<Job>) -> GroupRef {
        let job_id = task.id.job;
        let placements = self.indexes.placements();
        let for_this_alone = !self.groups.has_job(job_id)
            || placements.is_some_and(|placements| placements.compiled.contains(&job_id));
        let group = self.compile(job_id, job, usize::from(task.group));
        if for_this_alone && let Some(placements) = self.indexes.placements_mut() {
            placements.compiled.insert(job_id);
        }
        group
    }

    /// Whether removing a lifted task breaks the runtime affinity of another task in the domains of the row's machine.
    /// The cell would then reject the release or eviction of the lifted task (see
    /// [`TaskRule::RuntimeAffinity`](omega_core::TaskRule::RuntimeAffinity)).
    pub fn breaks_runtime_affinity(&mut self, row: usize, task: PlacedTask) -> bool {
        if !self.any_runtime_affinity() {
            return false;
        }
        let Some(job) = self.job_of(task.id).cloned() else { return false };
        let group = self.compile_placed(task, &job);
        let Some(rules) = &self.need(group).rules else { return false };
        self.machine_index
            .rules
            .unmet_without(rules, row, &self.machine_index.sets)
            .next()
            .is_some()
    }

    /// Drops the groups that were compiled only to lift tasks. Drops them for all jobs that a delta changes, or for all
    /// jobs if the delta is full.
    pub(super) fn forget_lifted(&mut self, delta: &Delta) {
        let Some(placements) = self.indexes.placements_mut() else { return };
        let compiled = &mut placements.compiled;
        let forgotten: Vec<JobId> = if delta.full {
            compiled.drain().collect()
        } else {
            delta.jobs.iter().filter_map(|job| compiled.take(&job.id)).collect()
        };
        forgotten.into_iter().for_each(|job| self.forget_job(job));
    }

    /// Counts an expected task of a group in a row if `sign` is -1, or removes it again if it is 1. There is no check
    /// whether the task fits.
    pub fn assume(&mut self, row: usize, group: GroupRef, sign: i64) {
        self.count_group(
            GroupOnRow { row, group, grant: Grant::default(), allocation: None },
            sign,
        );
    }
}
