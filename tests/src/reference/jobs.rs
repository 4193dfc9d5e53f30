//! Commands about jobs and tasks.

use super::{Reference, ReferenceJob, ReferenceTask, validate};
use omega_core::limits::{REMOVED_JOBS_MAX, REMOVED_TASKS, TASKS_PER_JOB_MAX};
use omega_core::{
    DeviceSet, Job, JobId, JobKind, MachineId, NodeCores, Outcome, Rejection, TaskId, TaskReport,
    TaskState, Text,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Treatment of a service of which a resize leaves no tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WithoutTasks {
    Ends,
    Stays,
}

impl ReferenceTask {
    pub(super) fn pending(group: usize) -> ReferenceTask {
        let (state, devices) = (TaskState::Pending, DeviceSet::default());
        let cores = NodeCores::NONE;
        let ports = Vec::new();
        ReferenceTask {
            state,
            devices,
            cores,
            ports,
            group,
            failures: 0,
            placed_ms: 0,
            allocation: None,
        }
    }

    /// Sets a state without a machine. Returns the row of the machine on which the task was.
    pub(super) fn leave(&mut self, state: TaskState) -> Option<usize> {
        let row = self.state.machine().map(MachineId::row);
        self.state = state;
        self.devices = DeviceSet::default();
        self.cores = NodeCores::NONE;
        self.ports.clear();
        self.placed_ms = 0;
        self.allocation = None;
        row
    }
}

impl ReferenceJob {
    /// Number of the job's tasks with a machine.
    #[must_use]
    pub fn placed(&self) -> usize {
        self.tasks.iter().filter(|task| task.state.machine().is_some()).count()
    }

    /// Number of the job's tasks that have not ended.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.tasks.iter().filter(|task| !task.state.ended()).count()
    }
}

impl Reference {
    pub(super) fn submit_job(&mut self, job: Job) -> Result<Outcome, Rejection> {
        validate::submitted_job(&job, &self.kinds)?;
        if self.jobs.values().any(|known| known.spec.name == job.name) {
            return Err(Rejection::NameTaken(job.name));
        }
        self.check_tenants([&job.tenant])?;
        let asks = job.groups.iter().map(|group| (&**group, u64::from(group.count)));
        self.admit(&job.tenant, asks)?;
        let id = JobId(self.next_job);
        self.next_job += 1;
        self.tenants.insert(job.tenant.clone());
        let mut tasks = Vec::new();
        for (group, spec) in job.groups.iter().enumerate() {
            tasks.extend((0..spec.count).map(|_| ReferenceTask::pending(group)));
        }
        self.jobs.insert(
            id,
            ReferenceJob {
                spec: Arc::new(job),
                versions: Vec::new(),
                submitted_ms: self.now_ms,
                killed: false,
                scaled_to_zero: false,
                tasks,
                gang_wait: None,
            },
        );
        self.done();
        Ok(Outcome::Job(id))
    }

    pub(super) fn resize_group(
        &mut self,
        id: JobId,
        name: &Text,
        count: u32,
        without_tasks: WithoutTasks,
    ) -> Result<Outcome, Rejection> {
        let stays = without_tasks == WithoutTasks::Stays;
        let is_resizable = |job: &&ReferenceJob| job.alive() > 0 || stays && job.scaled_to_zero;
        let job = self.jobs.get(&id).filter(is_resizable);
        let job = job.ok_or(Rejection::UnknownJob(id))?;
        let old = job.target().groups.iter().find(|group| group.name == *name);
        let Some((group, old)) = job.target_group(name).zip(old.map(|group| group.count)) else {
            return Err(Rejection::UnknownGroup { job: id, group: name.clone() });
        };
        let has = job.spec.groups[group].count;
        let given = job.tasks.len() as u64 + u64::from(count.saturating_sub(old));
        let now = has + count.saturating_sub(old) - old.saturating_sub(count).min(has);
        let wanted = job.spec.task_count() + u64::from(now) - u64::from(has);
        let max = u64::from(TASKS_PER_JOB_MAX);
        if given.max(wanted) > max {
            return Err(Rejection::TooMany { what: "tasks of a job".into(), given, max });
        }
        if count == old {
            return Ok(Outcome::Done(self.version));
        }
        let asks = &*job.spec.groups[group];
        self.admit(&job.spec.tenant, [(asks, u64::from(count.saturating_sub(old)))])?;
        let job = self.jobs.get_mut(&id).ok_or(Rejection::UnknownJob(id))?;
        Arc::make_mut(&mut job.spec).groups[group].count = now;
        if let Some(version) = job.versions.last_mut() {
            let groups = &mut Arc::make_mut(&mut version.spec).groups;
            groups.iter_mut().filter(|group| group.name == *name).for_each(|g| g.count = count);
        }
        job.tasks.extend((old..count).map(|_| ReferenceTask::pending(group)));
        let mut left = BTreeSet::new();
        for _ in 0..old.saturating_sub(count).min(has) {
            let tasks = job.tasks.iter().enumerate();
            let alive = tasks.filter(|(_, task)| task.group == group && !task.state.ended());
            let runs = |task: &ReferenceTask| matches!(task.state, TaskState::Running(_));
            let is_pending = |task: &ReferenceTask| task.state == TaskState::Pending;
            let last = alive.max_by_key(|(index, task)| (is_pending(task), !runs(task), *index));
            let Some((victim, _)) = last else { break };
            left.extend(job.tasks[victim].leave(TaskState::Killed));
        }
        if job.target().task_count() == 0 {
            let alive = job.tasks.iter_mut().filter(|task| !task.state.ended());
            left.extend(alive.filter_map(|task| task.leave(TaskState::Killed)));
        }
        let is_service = job.spec.kind == JobKind::Service && job.spec.gang_min.is_none();
        let is_empty = job.alive() == 0 && job.target().task_count() == 0;
        job.scaled_to_zero = stays && is_service && is_empty;
        if job.scaled_to_zero {
            let groups = &mut Arc::make_mut(&mut job.spec).groups;
            groups.iter_mut().for_each(|group| group.count = 0);
        }
        self.raise(&left);
        self.note_if_over(id);
        Ok(self.done())
    }

    pub(super) fn kill_job(&mut self, id: JobId) -> Result<Outcome, Rejection> {
        let job = self.jobs.get_mut(&id).ok_or(Rejection::UnknownJob(id))?;
        if job.alive() == 0 && !job.scaled_to_zero {
            return Ok(Outcome::Done(self.version));
        }
        job.killed = true;
        job.scaled_to_zero = false;
        let alive = job.tasks.iter_mut().filter(|task| !task.state.ended());
        let left = alive.filter_map(|task| task.leave(TaskState::Killed)).collect();
        self.raise(&left);
        self.note_if_over(id);
        Ok(self.done())
    }

    pub(super) fn delete_job(&mut self, id: JobId) -> Result<Outcome, Rejection> {
        let before = self.version;
        self.kill_job(id)?;
        self.jobs.remove(&id);
        self.over.retain(|(known, _)| *known != id);
        Ok(if self.version == before { self.done() } else { Outcome::Done(self.version) })
    }

    pub(super) fn report_task(
        &mut self,
        (id, machine): (TaskId, MachineId),
        placed_ms: u64,
        report: TaskReport,
    ) -> Result<Outcome, Rejection> {
        let Some((job, task)) = self.task(id) else { return Err(Rejection::UnknownTask(id)) };
        if task.state.machine() != Some(machine) {
            return Err(Rejection::TaskNotThere(id, machine));
        }
        if placed_ms > 0 && task.placed_ms > 0 && task.placed_ms != placed_ms {
            return Err(Rejection::TaskNotThere(id, machine));
        }
        let restarts = u64::from(job.spec.groups[task.group].restarts);
        let state = match report {
            TaskReport::Started if task.state == TaskState::Running(machine) => {
                return Ok(Outcome::Done(self.version));
            }
            TaskReport::Restarted => return Ok(Outcome::Done(self.version)),
            TaskReport::Started => TaskState::Running(machine),
            TaskReport::Finished => TaskState::Finished,
            TaskReport::Failed if task.failures >= restarts => TaskState::Failed,
            TaskReport::Failed | TaskReport::Lost => TaskState::Pending,
        };
        let job = self.jobs.get_mut(&id.job).ok_or(Rejection::UnknownTask(id))?;
        let task = &mut job.tasks[id.index as usize];
        task.failures += u64::from(report == TaskReport::Failed);
        if report == TaskReport::Started {
            task.state = state;
        } else {
            task.leave(state);
            self.raise(&BTreeSet::from([machine.row()]));
        }
        self.note_if_over(id.job);
        Ok(self.done())
    }

    pub(super) fn adopt_task(
        &mut self,
        id: TaskId,
        machine: MachineId,
    ) -> Result<Outcome, Rejection> {
        let Some((job, task)) = self.task(id) else { return Err(Rejection::UnknownTask(id)) };
        if task.state != TaskState::Pending {
            return Err(Rejection::TaskNotPending(id));
        }
        if self.host(machine).is_none() {
            return Err(Rejection::UnknownMachine(machine));
        }
        let asked = job.spec.groups[task.group].devices;
        let devices = self.choose_devices(asked, machine.row(), DeviceSet::default());
        let devices = devices.map_err(|_| Rejection::NoDevicesLeft(id, machine))?;
        let cores = self.choose_cores(job.spec.groups[task.group].cores, machine.row());
        let cores = cores.map_err(|_| Rejection::NoCoresLeft(id, machine))?;
        let ports = self.choose_ports(id, machine.row());
        let ports = ports.map_err(|_| Rejection::NoPortsLeft(id, machine))?;
        let job = self.jobs.get_mut(&id.job).ok_or(Rejection::UnknownTask(id))?;
        let task = &mut job.tasks[id.index as usize];
        (task.state, task.devices) = (TaskState::Placed(machine), devices);
        (task.cores, task.ports) = (cores, ports);
        task.placed_ms = self.now_ms;
        self.raise(&BTreeSet::from([machine.row()]));
        Ok(self.done())
    }

    /// Records, only once, that all tasks of a job have ended.
    fn note_if_over(&mut self, id: JobId) {
        let over = self.jobs.get(&id).is_some_and(|job| job.alive() == 0 && !job.scaled_to_zero);
        if over && self.over.iter().all(|(known, _)| *known != id) {
            self.over.push((id, None));
        }
    }

    pub(super) fn expire(&mut self, now_ms: u64) -> Outcome {
        let later = self.now_ms.max(now_ms);
        let other_peaks = self.peaks_at(self.now_ms) != self.peaks_at(later);
        self.now_ms = later;
        for (_, noticed) in &mut self.over {
            noticed.get_or_insert(self.now_ms);
        }
        let released = self.release_gangs();
        let refilled = self.forget_evictions();
        let over = self.forget_reservations();
        let (now, keep) = (u128::from(self.now_ms), u128::from(self.policy.ttl_after_finished_ms));
        let long_over = |at: Option<u64>| at.is_some_and(|at| u128::from(at) + keep <= now);
        let mut forgotten: Vec<JobId> = Vec::new();
        for (id, _) in self.over.iter().filter(|(_, at)| long_over(*at)) {
            let tasks: usize = forgotten.iter().map(|id| self.jobs[id].tasks.len()).sum();
            if forgotten.len() < REMOVED_JOBS_MAX && tasks < REMOVED_TASKS {
                forgotten.push(*id);
            }
        }
        self.over.retain(|(id, _)| !forgotten.contains(id));
        self.jobs.retain(|id, _| !forgotten.contains(id));
        if forgotten.is_empty() && !released && !refilled && !over && !other_peaks {
            Outcome::Done(self.version)
        } else {
            self.done()
        }
    }
}
