//! Updates of jobs, implemented naively: every version is kept, and the tasks of a group are counted again.

use super::validate;
use super::{Reference, ReferenceJob, ReferenceTask};
use omega_cellstate::JobVersion;
use omega_core::limits::{TASKS_PER_JOB_MAX, TRANSACTION_ITEMS_MAX, VERSIONS_PER_JOB};
use omega_core::{
    Job, JobId, JobKind, Outcome, Rejection, RollStep, SharedGroup, TaskGroup, TaskId, TaskState,
    Text, UpdateResult,
};
use std::collections::BTreeSet;
use std::sync::Arc;

impl ReferenceJob {
    /// Number of the job's version.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.versions.last().map_or(0, |version| version.number)
    }

    /// Description to which the job's tasks are being updated.
    #[must_use]
    pub fn target(&self) -> &Arc<Job> {
        self.versions.last().map_or(&self.spec, |version| &version.spec)
    }

    /// Position of the group whose content equals that of a group of the target.
    pub(super) fn target_group(&self, name: &Text) -> Option<usize> {
        let wanted = plain(self.target().groups.iter().find(|group| group.name == *name)?);
        self.spec.groups.iter().position(|group| plain(group) == wanted)
    }

    fn begin_versions(&mut self) {
        if self.versions.is_empty() {
            let (spec, result) = (self.spec.clone(), Some(UpdateResult::Complete));
            self.versions.push(JobVersion { number: 0, at_ms: 0, first_task: 0, result, spec });
        }
    }

    fn alive_in(&self, group: usize) -> bool {
        self.tasks.iter().any(|task| task.group == group && !task.state.ended())
    }
}

/// Returns a group without its count and version.
fn plain(group: &TaskGroup) -> TaskGroup {
    TaskGroup { count: 0, version: 0, ..group.clone() }
}

fn may_become(job: &Job, spec: &Job) -> bool {
    let fixed = |job: &Job| {
        let Job { name, tenant, scheduler, precedence, preemption, .. } = job.clone();
        (name, tenant, scheduler, precedence, preemption)
    };
    let is_service = |job: &Job| job.kind == JobKind::Service && job.gang_min.is_none();
    is_service(job) && is_service(spec) && fixed(job) == fixed(spec)
}

impl Reference {
    pub(super) fn update_job(
        &mut self,
        id: JobId,
        version: Option<u32>,
        spec: Job,
    ) -> Result<Outcome, Rejection> {
        validate::submitted_job(&spec, &self.kinds)?;
        let now_ms = self.now_ms;
        let job = self.known_job(id, version)?;
        if !may_become(&job.spec, &spec) || job.killed {
            return Err(validate::bad_job());
        }
        let has_ended = job.alive() == 0;
        if **job.target() == spec && !has_ended {
            return Ok(Outcome::Done(self.version));
        }
        let number = job.version() + 1;
        let mut groups = job.spec.groups.clone();
        for wanted in &spec.groups {
            if groups.iter().any(|group| plain(group) == plain(wanted)) {
                continue;
            }
            let mut new = wanted.clone();
            (new.count, new.version) = (0, number);
            let is_free = |(at, group): &(usize, &SharedGroup)| {
                group.version + (VERSIONS_PER_JOB as u32) <= number
                    && !job.alive_in(*at)
                    && spec.groups.iter().all(|wanted| plain(group) != plain(wanted))
            };
            match groups.iter().enumerate().find(is_free).map(|(at, _)| at) {
                Some(at) => groups[at] = new,
                None => groups.push(new),
            }
        }
        let mut composed = Job { groups, ..spec.clone() };
        validate::composed_job(&composed, &self.kinds)?;
        let mut starts = Vec::new();
        if has_ended {
            let new: u64 = spec.task_count();
            validate::at_most(job.tasks.len() + new as usize, TASKS_PER_JOB_MAX as usize)?;
            self.admit(
                &spec.tenant,
                spec.groups.iter().map(|group| (&**group, u64::from(group.count))),
            )?;
            for (at, group) in composed.groups.iter_mut().enumerate() {
                let wanted = spec.groups.iter().find(|wanted| plain(group) == plain(wanted));
                let count = wanted.map_or(0, |wanted| wanted.count);
                group.count += count;
                starts.extend((0..count).map(|_| ReferenceTask::pending(at)));
            }
            self.over.retain(|(known, _)| *known != id);
        }
        let job = self.known_job_mut(id)?;
        job.begin_versions();
        let (at_ms, first_task) = (now_ms, job.tasks.len() as u32);
        let spec = Arc::new(spec);
        job.versions.push(JobVersion { number, at_ms, first_task, result: None, spec });
        job.spec = Arc::new(composed);
        job.scaled_to_zero = false;
        job.tasks.extend(starts);
        Ok(self.done())
    }

    pub(super) fn roll_job(&mut self, id: JobId, step: &RollStep) -> Result<Outcome, Rejection> {
        let job = self.living_job(id, Some(step.version))?;
        if job.spec.gang_min.is_some() || job.spec.kind == JobKind::Batch {
            return Err(validate::bad_job());
        }
        validate::at_most(step.adds.len(), job.spec.groups.len())?;
        validate::at_most(step.stops.len(), TRANSACTION_ITEMS_MAX)?;
        let mut adds = Vec::new();
        for add in step.adds.iter().filter(|add| add.count > 0) {
            let unknown = || Rejection::UnknownGroup { job: id, group: add.group.clone() };
            adds.push((job.target_group(&add.group).ok_or_else(unknown)?, add.count));
        }
        let mut stops = BTreeSet::new();
        for index in &step.stops {
            let task = TaskId { job: id, index: *index };
            let known = job.tasks.get(*index as usize).ok_or(Rejection::UnknownTask(task))?;
            if !known.state.ended() {
                stops.insert(*index as usize);
            }
        }
        let more: u64 = adds.iter().map(|(_, count)| u64::from(*count)).sum();
        validate::at_most(job.tasks.len() + more as usize, TASKS_PER_JOB_MAX as usize)?;
        if job.alive() + more as usize == stops.len() {
            return Err(validate::bad_job());
        }
        let groups = &job.spec.groups;
        let added = adds.iter().map(|(at, count)| (&*groups[*at], u64::from(*count)));
        let removed = stops.iter().map(|index| &*groups[job.tasks[*index].group]);
        self.admit_exchange(&job.spec.tenant, added.collect(), removed.collect())?;
        if more == 0 && stops.is_empty() {
            return Ok(Outcome::Done(self.version));
        }
        let job = self.known_job_mut(id)?;
        job.begin_versions();
        let spec = Arc::make_mut(&mut job.spec);
        for (at, count) in adds {
            spec.groups[at].count += count;
            job.tasks.extend((0..count).map(|_| ReferenceTask::pending(at)));
        }
        let mut left = BTreeSet::new();
        for index in stops {
            spec.groups[job.tasks[index].group].count -= 1;
            left.extend(job.tasks[index].leave(TaskState::Killed));
        }
        self.raise(&left);
        Ok(self.done())
    }

    pub(super) fn end_update(
        &mut self,
        id: JobId,
        version: u32,
        result: UpdateResult,
    ) -> Result<Outcome, Rejection> {
        let job = self.known_job(id, Some(version))?;
        if job.versions.last().is_none_or(|latest| latest.result.is_some()) {
            return Ok(Outcome::Done(self.version));
        }
        let versions = &mut self.known_job_mut(id)?.versions;
        versions.last_mut().into_iter().for_each(|latest| latest.result = Some(result));
        Ok(self.done())
    }

    /// Returns a job that has not ended. If a version is given, the job must have that version.
    fn living_job(&self, id: JobId, version: Option<u32>) -> Result<&ReferenceJob, Rejection> {
        match self.jobs.get(&id) {
            Some(job) if job.alive() > 0 => self.known_job(id, version),
            _ => Err(Rejection::UnknownJob(id)),
        }
    }

    /// Returns a job, which may have ended. If a version is given, the job must have that version.
    fn known_job(&self, id: JobId, version: Option<u32>) -> Result<&ReferenceJob, Rejection> {
        let job = self.jobs.get(&id).ok_or(Rejection::UnknownJob(id))?;
        match version {
            Some(given) if given != job.version() => {
                let (name, is) = (job.spec.name.clone(), job.version());
                Err(Rejection::OtherVersion { job: name, is, given })
            }
            _ => Ok(job),
        }
    }

    fn known_job_mut(&mut self, id: JobId) -> Result<&mut ReferenceJob, Rejection> {
        self.jobs.get_mut(&id).ok_or(Rejection::UnknownJob(id))
    }
}
