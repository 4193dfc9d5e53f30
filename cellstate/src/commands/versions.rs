//! Versions of a job: updates of its description, and the steps that bring its tasks to the newest version.
//!
//! ```text
//!   versions   0: web × 3, image 1      1: web × 3, image 2          as submitted; the last one is the target
//!   groups     [web of 0: 2 tasks]      [web of 1: 1 task]           as tasks run; deltas and agents see these
//! ```
//!
//! An update changes no task. It adds each changed group to the job's list of groups, without tasks, so that a task's
//! group determines its version. A controller then moves the job to its target in steps ([`Cell::roll_job`]). The
//! controller alone decides which steps to take, and when. Only the update of an ended service adds tasks itself: all
//! those of the target, because there are none to replace.
//!
//! Invariant: for each group of the target, the job's list has exactly one group with equal content.

use crate::cell::{Cell, Change};
use crate::commands::bounds::{at_most, check_new_levels};
use crate::commands::validate::{self, GroupCounts};
use crate::history::{Event, EventKind};
use crate::index::machine_index::{JobGroup, Trackers};
use crate::state::job_record::{GroupRecord, JobRecord, JobVersion, TASK_BYTES, TaskRecord};
use omega_core::limits::{TASKS_PER_JOB_MAX, TRANSACTION_ITEMS_MAX, VERSIONS_PER_JOB};
use omega_core::{
    Job, JobId, JobKind, Outcome, Rejection, RollStep, SharedGroup, TaskGroup, TaskId, Text,
    UpdateResult,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Queries about versions.
impl Cell {
    /// The number of a job's newest version; 0 if it was never updated.
    #[must_use]
    pub fn job_version(&self, id: JobId) -> Option<u32> {
        self.jobs.get(id).map(JobRecord::version)
    }

    /// The description of a job's newest version, to which its tasks will be moved. [`Cell::job`] returns the groups to
    /// which the tasks belong now.
    #[must_use]
    pub fn job_target(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(id).map(JobRecord::target)
    }

    /// Whether a job is a service without tasks that may get tasks again (see
    /// [`Command::ScaleGroup`](omega_core::Command::ScaleGroup)).
    #[must_use]
    pub fn is_scaled_to_zero(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| job.scaled_to_zero)
    }

    /// Whether a job has ended because it was killed. Other ended services run again after an update.
    #[must_use]
    pub fn job_was_killed(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| job.killed)
    }

    /// The latest versions of a job, oldest first; empty if it was never updated.
    #[must_use]
    pub fn job_versions(&self, id: JobId) -> &[JobVersion] {
        self.jobs.get(id).map_or(&[], |job| &job.versions)
    }

    /// Finds the group with this name in the job's newest version, and returns its position among the job's present
    /// groups.
    #[must_use]
    pub fn target_group(&self, id: JobId, name: &str) -> Option<usize> {
        self.jobs.get(id)?.target_group(name)
    }
}

impl JobRecord {
    /// Whether the job is a service that remains without tasks, and its newest version has none.
    pub fn may_be_scaled_to_zero(&self) -> bool {
        let is_service = self.spec.kind == JobKind::Service && self.spec.gang_min.is_none();
        is_service && !self.killed && self.target().task_count() == 0
    }

    fn version(&self) -> u32 {
        self.versions.last().map_or(0, |version| version.number)
    }

    /// The description of the newest version.
    pub fn target(&self) -> &Arc<Job> {
        self.versions.last().map_or(&self.spec, |version| &version.spec)
    }

    /// Finds the group with this name in the newest version, and returns its position among the job's present groups.
    pub fn target_group(&self, name: &str) -> Option<usize> {
        let wanted = self.target().groups.iter().find(|group| *group.name == *name)?;
        self.spec.groups.iter().position(|group| is_same(group, wanted))
    }

    /// Sets the count of a group in the newest version.
    pub fn set_target_count(&mut self, name: &Text, count: u32) {
        let Some(version) = self.versions.last_mut() else { return };
        let groups = &mut Arc::make_mut(&mut version.spec).groups;
        groups.iter_mut().filter(|group| group.name == *name).for_each(|group| group.count = count);
    }

    /// Records the present description as the first version, because the groups will differ from it.
    fn begin_versions(&mut self) {
        if self.versions.is_empty() {
            let (spec, result) = (self.spec.clone(), Some(UpdateResult::Complete));
            self.versions.push(JobVersion { number: 0, at_ms: 0, first_task: 0, result, spec });
        }
    }

    /// Whether restored versions could result from commands.
    pub fn versions_are_right(&self, now_ms: u64) -> bool {
        let Some(latest) = self.versions.last() else {
            return self.spec.groups.iter().all(|group| group.version == 0);
        };
        let ascends = |pair: &[JobVersion]| {
            let [one, next] = pair else { return true };
            one.number < next.number && one.at_ms <= next.at_ms && one.first_task <= next.first_task
        };
        let is_known = |group: &SharedGroup| self.target_group(&group.name).is_some();
        self.versions.len() <= VERSIONS_PER_JOB
            && self.resized
            && self.versions.windows(2).all(ascends)
            && latest.at_ms <= now_ms
            && latest.first_task as usize <= self.tasks.len()
            && self.versions.iter().all(|version| may_become(&self.spec, &version.spec).is_ok())
            && latest.spec.groups.iter().all(is_known)
            && self.spec.groups.iter().all(|group| group.version <= latest.number)
    }
}

/// Whether a group equals a group of the target, apart from count and version.
fn is_same(group: &TaskGroup, wanted: &TaskGroup) -> bool {
    let TaskGroup { count, version, .. } = *group;
    group.name == wanted.name && *group == TaskGroup { count, version, ..wanted.clone() }
}

fn refused(spec: &Job, why: &str) -> Rejection {
    let name = &spec.name;
    Rejection::BadJob(format!("job {name:?} {why}: delete the job, and submit it again").into())
}

/// Checks that a job may be updated to this description.
fn may_become(job: &Job, spec: &Job) -> Result<(), Rejection> {
    let bad = |why: &str| Err(refused(spec, why));
    if job.kind != spec.kind {
        return bad("cannot change its kind");
    }
    if job.kind == JobKind::Batch {
        return bad("is a batch job, which cannot be updated");
    }
    if job.gang_min.is_some() || spec.gang_min.is_some() {
        return bad("is a gang, which cannot be updated");
    }
    let fixed = [
        ("name", job.name == spec.name),
        ("tenant", job.tenant == spec.tenant),
        ("scheduler", job.scheduler == spec.scheduler),
        ("precedence", job.precedence == spec.precedence),
        ("preemption", job.preemption == spec.preemption),
    ];
    match fixed.iter().find(|(_, is_equal)| !is_equal) {
        Some((field, _)) => bad(&format!("cannot change its {field}")),
        None => Ok(()),
    }
}

/// Commands about versions.
impl Cell {
    pub(crate) fn update_job(
        &mut self,
        id: JobId,
        version: Option<u32>,
        spec: Job,
    ) -> Result<Outcome, Rejection> {
        validate::job(&spec, GroupCounts::AsSubmitted, &self.kinds)?;
        let Some(job) = self.jobs.get(id) else { return Err(Rejection::UnknownJob(id)) };
        check_version(job, version)?;
        may_become(&job.spec, &spec)?;
        if job.killed {
            return Err(refused(&spec, "was killed"));
        }
        let has_ended = job.alive == 0;
        if **job.target() == spec && !has_ended {
            return Ok(Outcome::Done(self.version));
        }
        let (owner, number) = (job.owner, job.version() + 1);
        let (composed, made) = self.composed(job, &spec, number)?;
        let starts = if has_ended { starts(&composed, &spec) } else { Vec::new() };
        check_new_levels(&composed, &self.machine_index)?;
        self.admit_starts(job, &composed, &starts)?;
        let begun = self.begin();
        self.note(|| Event::of_job(id, EventKind::NewVersion { number }));
        self.count_ports_for(&composed);
        self.jobs.unlist_attributes(id);
        if let Some(job) = self.jobs.get_mut(id) {
            job.begin_versions();
            let (at_ms, first_task) = (self.now_ms, job.tasks.len() as u32);
            let spec = Arc::new(spec);
            job.versions.push(JobVersion { number, at_ms, first_task, result: None, spec });
            let over = job.versions.len().saturating_sub(VERSIONS_PER_JOB);
            job.versions.drain(..over);
            job.resized = true;
            job.spec = Arc::new(composed);
            let bytes = &mut self.tenants.list[job.tenant as usize].bytes;
            *bytes -= u64::from(job.bytes);
            job.bytes = job.count_bytes();
            *bytes += u64::from(job.bytes);
        }
        if has_ended {
            self.revive(id, &starts);
        } else {
            self.jobs.list_attributes(id);
            made.into_iter().for_each(|index| self.compile_group(id, index));
        }
        self.log.push(Change::Job(id, owner));
        Ok(Outcome::Done(begun))
    }

    /// Returns the job after an update, and the positions of its new groups. If the groups of the kept versions exceed
    /// a bound together, those without unfinished tasks are replaced as well.
    fn composed(
        &self,
        job: &JobRecord,
        spec: &Job,
        number: u32,
    ) -> Result<(Job, Vec<usize>), Rejection> {
        let check = |job: &Job| validate::job(job, GroupCounts::Resized, &self.kinds);
        let kept = (number + 1).saturating_sub(VERSIONS_PER_JOB as u32);
        let composed = compose(job, spec, number, kept);
        if check(&composed.0).is_ok() {
            return Ok(composed);
        }
        let composed = compose(job, spec, number, number);
        check(&composed.0)?;
        Ok(composed)
    }

    /// Makes a job without unfinished tasks run again with these new tasks.
    fn revive(&mut self, id: JobId, starts: &[(usize, u32)]) {
        let is_listed = self.jobs.get(id).is_some_and(|job| !job.scaled_to_zero);
        if is_listed {
            if let Some(capture) = &mut self.capture {
                capture.before_deletion(&self.ended);
            }
            self.ended.revive(id);
        }
        self.compile_again(id);
        self.add_tasks(id, starts);
        starts.iter().for_each(|(index, _)| self.recompile(id, *index));
    }

    /// Compiles the groups of a job, which were released when its last task ended.
    pub(super) fn compile_again(&mut self, id: JobId) {
        let Some(spec) = self.jobs.get(id).map(|job| job.spec.clone()) else { return };
        self.count_ports_for(&spec);
        let kinds = self.kinds.count();
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.scaled_to_zero = false;
        let mut made = Vec::new();
        for index in 0..spec.groups.len() {
            let group = JobGroup { id, job: &spec, index };
            let (need, new) = self.machine_index.compile_shared(group, kinds, Trackers::Make);
            job.groups.push(GroupRecord { need });
            made.extend(new);
        }
        self.jobs.list_attributes(id);
        self.adopt_trackers(&made);
    }

    /// Checks the limits for the tasks with which an ended job is to run again.
    fn admit_starts(
        &self,
        job: &JobRecord,
        composed: &Job,
        starts: &[(usize, u32)],
    ) -> Result<(), Rejection> {
        let more: u64 = starts.iter().map(|(_, count)| u64::from(*count)).sum();
        check_total(job, more)?;
        let added = starts.iter().flat_map(|(index, count)| {
            composed.groups[*index].requests().map(move |amounts| (amounts, *count))
        });
        self.tenants.admit(&self.kinds, job.tenant, added)
    }

    /// Compiles a group that was just added at this position.
    fn compile_group(&mut self, id: JobId, index: usize) {
        let kinds = self.kinds.count();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let spec = job.spec.clone();
        let group = JobGroup { id, job: &spec, index };
        let (need, made) = self.machine_index.compile_shared(group, kinds, Trackers::Make);
        let record = GroupRecord { need };
        let before = match job.groups.get_mut(index) {
            Some(group) => vec![std::mem::replace(group, record)],
            None => {
                job.groups.push(record);
                Vec::new()
            }
        };
        self.adopt_trackers(&made);
        for group in before {
            let gone = self.machine_index.release(&group.need, Trackers::Make);
            self.forget_trackers(&gone);
        }
    }

    pub(crate) fn roll_job(&mut self, id: JobId, step: &RollStep) -> Result<Outcome, Rejection> {
        let Some(job) = self.jobs.get(id).filter(|job| job.alive > 0) else {
            return Err(Rejection::UnknownJob(id));
        };
        check_version(job, Some(step.version))?;
        if job.spec.gang_min.is_some() || job.spec.kind == JobKind::Batch {
            let why = format!(
                "job {:?} cannot be updated: must be a service and not a gang",
                job.spec.name
            );
            return Err(Rejection::BadJob(why.into()));
        }
        at_most("groups that grow", step.adds.len(), job.spec.groups.len())?;
        at_most("tasks to end", step.stops.len(), TRANSACTION_ITEMS_MAX)?;
        let adds = growths(id, job, step)?;
        let stops = living(id, job, step)?;
        let more: u64 = adds.iter().map(|(_, count)| u64::from(*count)).sum();
        check_total(job, more)?;
        if u64::from(job.alive) + more == stops.len() as u64 {
            let why =
                format!("job {:?} would lose all its tasks: kill the job instead", job.spec.name);
            return Err(Rejection::BadJob(why.into()));
        }
        self.admit_step(job, &adds, &stops)?;
        if more == 0 && stops.is_empty() {
            return Ok(Outcome::Done(self.version));
        }
        let (owner, version) = (job.owner, self.begin());
        self.add_tasks(id, &adds);
        self.stop_tasks(id, &stops);
        let changed: BTreeSet<usize> = self.changed_groups(id, &adds, &stops);
        changed.into_iter().for_each(|index| self.recompile(id, index));
        self.log.push(Change::Job(id, owner));
        Ok(Outcome::Done(version))
    }

    pub(crate) fn end_update(
        &mut self,
        id: JobId,
        version: u32,
        result: UpdateResult,
    ) -> Result<Outcome, Rejection> {
        let Some(job) = self.jobs.get(id) else { return Err(Rejection::UnknownJob(id)) };
        check_version(job, Some(version))?;
        if job.versions.last().is_none_or(|latest| latest.result.is_some()) {
            return Ok(Outcome::Done(self.version));
        }
        let (owner, begun) = (job.owner, self.begin());
        if let Some(latest) = self.jobs.get_mut(id).and_then(|job| job.versions.last_mut()) {
            latest.result = Some(result);
        }
        self.note(|| Event::of_job(id, EventKind::UpdateEnded { version, result }));
        self.log.push(Change::Job(id, owner));
        Ok(Outcome::Done(begun))
    }

    /// Checks the request limits for a step of an update: the tasks that it adds, minus the tasks that it ends.
    fn admit_step(
        &self,
        job: &JobRecord,
        adds: &[(usize, u32)],
        stops: &[u32],
    ) -> Result<(), Rejection> {
        let groups = &job.spec.groups;
        let added = adds.iter().flat_map(|(index, count)| {
            groups[*index].requests().map(move |amounts| (amounts, *count))
        });
        let removed = stops.iter().flat_map(|index| {
            let group = &groups[usize::from(job.tasks[*index as usize].group)];
            group.requests().map(|amounts| (amounts, 1))
        });
        self.tenants.admit_exchange(&self.kinds, job.tenant, added, removed)
    }

    /// Keeps the description as version 0 if the job was never updated, and counts its bytes.
    fn begin_versions(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.versions.is_empty()) else { return };
        job.begin_versions();
        let bytes = &mut self.tenants.list[job.tenant as usize].bytes;
        *bytes -= u64::from(job.bytes);
        job.bytes = job.count_bytes();
        *bytes += u64::from(job.bytes);
    }

    /// Adds tasks. This is no event, because the update is one, and a user has not resized the group.
    fn add_tasks(&mut self, id: JobId, adds: &[(usize, u32)]) {
        self.begin_versions(id);
        for (index, count) in adds.iter().copied() {
            let Some(job) = self.jobs.get_mut(id) else { return };
            self.tenants.ask(job.tenant, &job.groups[index].need, i64::from(count));
            let added = TASK_BYTES * u64::from(count);
            self.tenants.list[job.tenant as usize].bytes += added;
            job.tasks.extend((0..count).map(|_| TaskRecord::pending(index)));
            job.alive += count;
            job.tally.add_pending(index, count);
            job.resized = true;
            Arc::make_mut(&mut job.spec).groups[index].count += count;
        }
    }

    fn stop_tasks(&mut self, id: JobId, stops: &[u32]) {
        self.begin_versions(id);
        if let Some(job) = self.jobs.get_mut(id) {
            job.resized = true;
            for index in stops {
                let group = usize::from(job.tasks[*index as usize].group);
                Arc::make_mut(&mut job.spec).groups[group].count -= 1;
            }
        }
        self.note_killed(id, stops);
        self.kill_tasks(id, stops.iter().copied());
    }

    fn changed_groups(&self, id: JobId, adds: &[(usize, u32)], stops: &[u32]) -> BTreeSet<usize> {
        let stopped = stops.iter().filter_map(|index| {
            let (_, task) = self.jobs.task(TaskId { job: id, index: *index })?;
            Some(usize::from(task.group))
        });
        adds.iter().map(|(index, _)| *index).chain(stopped).collect()
    }
}

fn check_version(job: &JobRecord, given: Option<u32>) -> Result<(), Rejection> {
    let is = job.version();
    match given {
        Some(given) if given != is => {
            Err(Rejection::OtherVersion { job: job.spec.name.clone(), is, given })
        }
        _ => Ok(()),
    }
}

/// Checks the number of a job's tasks, including ended ones, after tasks are added.
fn check_total(job: &JobRecord, more: u64) -> Result<(), Rejection> {
    let (given, max) = (job.tasks.len() as u64 + more, u64::from(TASKS_PER_JOB_MAX));
    if given > max {
        return Err(Rejection::TooMany { what: "tasks of a job".into(), given, max });
    }
    Ok(())
}

/// The tasks with which an ended job runs again: for each group of the update that has tasks, its position and count.
fn starts(composed: &Job, spec: &Job) -> Vec<(usize, u32)> {
    let groups = composed.groups.iter().enumerate();
    let starts = groups.filter_map(|(index, group)| {
        let wanted = spec.groups.iter().find(|wanted| is_same(group, wanted))?;
        (wanted.count > 0).then_some((index, wanted.count))
    });
    starts.collect()
}

/// Returns the job after an update, and the positions of its new groups. To keep the list of groups short, a new group
/// replaces a group of a version before `kept`, if that group has no unfinished tasks and is not part of the update. If
/// no version is kept, the rules of the other such groups about tasks are removed, because nothing needs them.
fn compose(job: &JobRecord, spec: &Job, number: u32, kept: u32) -> (Job, Vec<usize>) {
    let mut groups = job.spec.groups.clone();
    let mut made = Vec::new();
    let mut is_free: Vec<bool> = groups.iter().map(|group| group.version < kept).collect();
    for task in job.tasks.iter().filter(|task| !task.state.ended()) {
        is_free[usize::from(task.group)] = false;
    }
    for (at, group) in groups.iter().enumerate() {
        is_free[at] &= !spec.groups.iter().any(|wanted| is_same(group, wanted));
    }
    for wanted in &spec.groups {
        if groups.iter().any(|group| is_same(group, wanted)) {
            continue;
        }
        let mut new = wanted.clone();
        (new.count, new.version) = (0, number);
        match is_free.iter().position(|free| *free) {
            Some(at) => {
                is_free[at] = false;
                groups[at] = new;
                made.push(at);
            }
            None => {
                made.push(groups.len());
                groups.push(new);
            }
        }
    }
    if kept == number {
        for at in (0..is_free.len()).filter(|at| is_free[*at]) {
            groups[at].rules.tasks.clear();
            made.push(at);
        }
    }
    (Job { groups, ..spec.clone() }, made)
}

/// The groups to which a step adds tasks, by position, each with the number of tasks.
fn growths(id: JobId, job: &JobRecord, step: &RollStep) -> Result<Vec<(usize, u32)>, Rejection> {
    let position = |name: &Text| {
        let group = job.target_group(name);
        group.ok_or_else(|| Rejection::UnknownGroup { job: id, group: name.clone() })
    };
    let adds = step.adds.iter().filter(|add| add.count > 0);
    adds.map(|add| Ok((position(&add.group)?, add.count))).collect()
}

/// The unfinished tasks among the tasks that a step ends, each once.
fn living(id: JobId, job: &JobRecord, step: &RollStep) -> Result<Vec<u32>, Rejection> {
    let mut stops = BTreeSet::new();
    for index in &step.stops {
        let task = job.tasks.get(*index as usize);
        let task = task.ok_or(Rejection::UnknownTask(TaskId { job: id, index: *index }))?;
        if !task.state.ended() {
            stops.insert(*index);
        }
    }
    Ok(stops.into_iter().collect())
}

#[cfg(test)]
#[path = "versions_tests.rs"]
mod tests;
