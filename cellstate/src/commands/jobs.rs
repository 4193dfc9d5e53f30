//! Commands about jobs and reports about their tasks.

use crate::cell::{Cell, Change};
use crate::commands::bounds::{at_most, check_new_levels};
use crate::commands::validate::{self, GroupCounts};
use crate::fit::Grant;
use crate::history::{Event, EventKind, TASKS_NOTED_MAX};
use crate::index::machine_index::{JobGroup, Trackers, member};
use crate::policy::Placement;
use crate::policy::ports::TaskPorts;
use crate::rules::{GroupRules, Step, TrackerId, TrackerKey};
use crate::state::allocation_overrides::AllocationOverrides;
use crate::state::cores::TaskCores;
use crate::state::devices::Devices;
use crate::state::job_record::{GroupRecord, JobRecord, TaskRecord, TaskRun};
use crate::state::machines::FREE_MIN;
use crate::state::task_counts::TaskTally;
use omega_core::limits::{JOBS_MAX, TASKS_PER_MACHINE_MAX};
use omega_core::{
    DeviceSet, Job, JobId, MachineId, NodeCores, Outcome, Rejection, RunEnd, TaskId, TaskReport,
    TaskState,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of trackers for which the jobs are visited together: a bit of a number for each.
const TRACKERS_AT_ONCE: usize = u64::BITS as usize;

/// The trackers whose bits are set.
fn chosen(
    trackers: &[(TrackerId, TrackerKey)],
    bits: u64,
) -> SmallVec<[&(TrackerId, TrackerKey); 4]> {
    let chosen = trackers.iter().enumerate().filter(|(position, _)| bits >> position & 1 == 1);
    chosen.map(|(_, tracker)| tracker).collect()
}

impl Cell {
    pub(crate) fn submit_job(&mut self, mut job: Job) -> Result<Outcome, Rejection> {
        let bytes = validate::job(&job, GroupCounts::AsSubmitted, &self.kinds)?;
        if self.jobs.by_name(&job.name).is_some() {
            return Err(Rejection::NameTaken(job.name));
        }
        if self.jobs.next_id().0 >= JOBS_MAX {
            let given = self.jobs.next_id().0;
            return Err(Rejection::TooMany { what: "jobs".into(), given, max: JOBS_MAX });
        }
        self.tenants.check_count([&job.tenant])?;
        check_new_levels(&job, &self.machine_index)?;
        self.admit_job(&job)?;
        self.jobs.forget_owners(self.log.base());
        self.begin();
        let id = self.jobs.next_id();
        let owner = self.jobs.add_to_owner(&job.scheduler);
        let tenant = self.tenants.intern(&job.tenant);
        let kinds = self.kinds.count();
        job.tenant = self.tenants.name(tenant).clone();
        self.jobs.share_parts(&mut job);
        self.count_ports_for(&job);
        let job = Arc::new(job);
        let mut groups = SmallVec::with_capacity(job.groups.len());
        let mut made = Vec::new();
        let task_count = job.task_count() as u32;
        for index in 0..job.groups.len() {
            let group = JobGroup { id, job: &job, index };
            let (need, new) = self.machine_index.compile_shared(group, kinds, Trackers::Make);
            self.tenants.ask(tenant, &need, i64::from(job.groups[index].count));
            groups.push(GroupRecord { need });
            made.extend(new);
        }
        let counts = job.groups.iter().enumerate();
        let tasks: SmallVec<[TaskRecord; 1]> = counts
            .flat_map(|(i, group)| (0..group.count).map(move |_| TaskRecord::pending(i)))
            .collect();
        let tally = TaskTally::of_groups(job.groups.iter().map(|group| group.count));
        let record = JobRecord {
            spec: job,
            versions: Vec::new(),
            submitted_ms: self.now_ms,
            owner,
            tenant,
            bytes,
            groups,
            alive: tasks.len() as u32,
            tally,
            tasks,
            placed: 0,
            gang_wait: None,
            overrides: AllocationOverrides::default(),
            cores: TaskCores::default(),
            ports: TaskPorts::default(),
            resized: false,
            killed: false,
            scaled_to_zero: false,
        };
        self.tenants.list[tenant as usize].bytes += record.kept_bytes();
        self.jobs.push(record);
        self.adopt_trackers(&made);
        self.log.push(Change::Job(id, owner));
        self.note(|| Event::of_job(id, EventKind::Submitted { tasks: task_count }));
        Ok(Outcome::Job(id))
    }

    /// Counts the placed tasks in new trackers, because a rule also applies to tasks that were placed before the rule
    /// existed. Also adds each tracker to the groups whose tasks it counts. Each job is visited once for all trackers.
    pub(crate) fn adopt_trackers(&mut self, made: &[TrackerId]) {
        let mut keys = Vec::new();
        for tracker in made {
            self.log.push(Change::Tracker(*tracker));
            keys.extend(self.machine_index.rules.key(*tracker).map(|key| (*tracker, key.clone())));
        }
        for some in keys.chunks(TRACKERS_AT_ONCE) {
            for (id, bits) in self.jobs.counted_by(some) {
                self.adopt_in_job(id, &chosen(some, bits));
            }
        }
    }

    fn adopt_in_job(&mut self, id: JobId, trackers: &[&(TrackerId, TrackerKey)]) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let mut added: Vec<Vec<TrackerId>> = vec![Vec::new(); job.groups.len()];
        for (index, group) in job.groups.iter_mut().enumerate() {
            let member = member(id, &job.spec, index);
            let matching = trackers.iter().filter(|(_, key)| key.matches(member));
            for tracker in matching.map(|(tracker, _)| *tracker) {
                let need = Arc::make_mut(&mut group.need);
                let rules = need.rules.get_or_insert_with(|| Box::new(GroupRules::default()));
                if let Err(at) = rules.matched.binary_search(&tracker) {
                    rules.matched.insert(at, tracker);
                    added[index].push(tracker);
                }
            }
        }
        if added.iter().all(Vec::is_empty) {
            return;
        }
        for task in &job.tasks {
            let Some(machine) = task.state.machine() else { continue };
            for tracker in &added[usize::from(task.group)] {
                let one = Step { matched: 1, ..Step::default() };
                self.machine_index.rules.add(
                    *tracker,
                    machine.row(),
                    one,
                    &self.machine_index.sets,
                );
            }
        }
    }

    /// Records a kill event for each of these tasks, at most for the first [`TASKS_NOTED_MAX`].
    pub(crate) fn note_killed(&mut self, job: JobId, indexes: &[u32]) {
        for index in indexes.iter().copied().take(TASKS_NOTED_MAX) {
            let task = TaskId { job, index };
            let machine = self.task(task).and_then(TaskState::machine);
            self.note(|| Event { machine, ..Event::of_task(task, EventKind::Killed) });
        }
    }

    /// Kills tasks of a job, and records one change for each machine that they leave.
    pub(crate) fn kill_tasks(&mut self, job: JobId, numbers: impl Iterator<Item = u32>) {
        let killed = numbers.map(|index| self.end_task(TaskId { job, index }, TaskState::Killed));
        let mut left: Vec<usize> = killed.flatten().collect();
        left.sort_unstable();
        left.dedup();
        left.into_iter().for_each(|slot| self.touch(slot));
    }

    /// Compiles a group again after its count changed, because rules with a share depend on the count.
    pub(crate) fn recompile(&mut self, id: JobId, index: usize) {
        let kinds = self.kinds.count();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let spec = job.spec.clone();
        let group = JobGroup { id, job: &spec, index };
        let (need, _) = self.machine_index.compile_shared(group, kinds, Trackers::Make);
        let old = std::mem::replace(&mut job.groups[index].need, need);
        // This removes no tracker, because the new needs have just acquired all trackers of the old ones.
        self.machine_index.release(&old, Trackers::Make);
    }

    pub(crate) fn kill_job(&mut self, id: JobId) -> Result<Outcome, Rejection> {
        let Some(job) = self.jobs.get(id) else { return Err(Rejection::UnknownJob(id)) };
        if job.alive == 0 && !job.scaled_to_zero {
            return Ok(Outcome::Done(self.version));
        }
        let tasks = job.tasks.len() as u32;
        let version = self.begin();
        self.note(|| Event::of_job(id, EventKind::Killed));
        self.kill_tasks(id, 0..tasks);
        if let Some(job) = self.jobs.get_mut(id) {
            job.killed = true;
            if std::mem::take(&mut job.scaled_to_zero) {
                self.list_as_ended(id);
            }
        }
        self.settle_gang(id, None);
        self.end_if_over(id);
        Ok(Outcome::Done(version))
    }

    pub(crate) fn delete_job(&mut self, id: JobId) -> Result<Outcome, Rejection> {
        let Some(job) = self.jobs.get(id) else { return Err(Rejection::UnknownJob(id)) };
        match job.alive {
            0 if !job.scaled_to_zero => _ = self.begin(),
            _ => _ = self.kill_job(id)?,
        }
        if let Some(capture) = &mut self.capture {
            capture.before_deletion(&self.ended);
        }
        self.ended.delete(id);
        self.remove_job(id);
        Ok(Outcome::Done(self.version))
    }

    /// Removes an ended job.
    fn remove_job(&mut self, id: JobId) {
        if let Some(job) = self.jobs.remove(id, self.version) {
            if let Some(history) = &mut self.history {
                history.job_departs(id, job.spec.name.clone());
            }
            self.tenants.list[job.tenant as usize].bytes -= job.kept_bytes();
        }
    }

    pub(crate) fn report_task(
        &mut self,
        run: TaskRun,
        report: TaskReport,
        end: Option<RunEnd>,
    ) -> Result<Outcome, Rejection> {
        let TaskRun { task: id, machine, placed_ms } = run;
        let Some((job, task)) = self.jobs.task(id) else {
            return Err(Rejection::UnknownTask(id));
        };
        let is_earlier_run = placed_ms != 0 && task.placed_ms != 0 && placed_ms != task.placed_ms;
        if task.state.machine() != Some(machine) || is_earlier_run {
            return Err(Rejection::TaskNotThere(id, machine));
        }
        let owner = job.owner;
        let group = job.spec.groups.get(usize::from(task.group));
        let restarts = group.map_or(0, |group| group.restarts);
        let retry = u32::from(task.failures) < restarts;
        let started = task.state == TaskState::Placed(machine);
        match report {
            TaskReport::Started if !started => return Ok(Outcome::Done(self.version)),
            TaskReport::Restarted => {
                self.note(|| Event::of_task(id, EventKind::Restarted).on(machine).ended(end));
                return Ok(Outcome::Done(self.version));
            }
            _ => self.begin(),
        };
        self.note(|| {
            let kind = match report {
                TaskReport::Failed if retry => EventKind::Requeued,
                report => EventKind::of_report(report, end.as_ref()),
            };
            Event::of_task(id, kind).on(machine).ended(end)
        });
        match report {
            TaskReport::Started => {
                if let Some(job) = self.jobs.get_mut(id.job) {
                    let task = &mut job.tasks[id.index as usize];
                    let state = TaskState::Running(machine);
                    job.tally.change(usize::from(task.group), task.state, state);
                    task.state = state;
                }
                self.log_task(id, owner, None);
            }
            TaskReport::Finished => _ = self.end_task(id, TaskState::Finished),
            TaskReport::Failed if !retry => _ = self.end_task(id, TaskState::Failed),
            TaskReport::Failed | TaskReport::Lost => self.requeue_task(id, report),
            TaskReport::Restarted => {}
        }
        if report != TaskReport::Started {
            self.touch(machine.row());
        }
        self.settle_gang(id.job, None);
        self.end_if_over(id.job);
        Ok(Outcome::Done(self.version))
    }

    pub(crate) fn adopt_task(
        &mut self,
        id: TaskId,
        machine: MachineId,
    ) -> Result<Outcome, Rejection> {
        let Some((job, task)) = self.jobs.task(id) else {
            return Err(Rejection::UnknownTask(id));
        };
        if task.state != TaskState::Pending {
            return Err(Rejection::TaskNotPending(id));
        }
        let Some(row) = self.machines.get(machine) else {
            return Err(Rejection::UnknownMachine(machine));
        };
        at_most("tasks on a machine", row.tasks.len() + 1, TASKS_PER_MACHINE_MAX)?;
        let owner = job.owner;
        if !self.can_count(job, task, machine.row()) {
            let (what, max) =
                ("units of a resource claimed on a machine".into(), FREE_MIN.unsigned_abs());
            return Err(Rejection::TooMany { what, given: max + 1, max });
        }
        let left = self.machines.devices(machine.row());
        let devices = match job.need(task).devices {
            None => DeviceSet::default(),
            Some(request) => left
                .and_then(|devices: &Devices| devices.choose(request, DeviceSet::default()))
                .ok_or(Rejection::NoDevicesLeft(id, machine))?,
        };
        let cores = match job.need(task).cores {
            None => NodeCores::NONE,
            Some(request) => {
                let left = self.machines.cores(machine.row());
                let chosen = left.and_then(|left| left.choose(request));
                chosen.ok_or(Rejection::NoCoresLeft(id, machine))?
            }
        };
        if !self.policies.ports.has_room(machine.row(), job.need(task), &self.machine_index) {
            return Err(Rejection::NoPortsLeft(id, machine));
        }
        let version = self.begin();
        if let Some(parts) = self.parts(id.job) {
            Cell::place(parts, id, machine, Grant { devices, cores });
        }
        self.log_task(id, owner, Some(machine.row()));
        self.note(|| Event::of_task(id, EventKind::Adopted).on(machine));
        self.touch(machine.row());
        self.begin_gang(id.job);
        Ok(Outcome::Done(version))
    }

    /// Whether all sums stay within 64 bits with a further task on the machine in a row.
    fn can_count(&self, job: &JobRecord, task: &TaskRecord, row: usize) -> bool {
        let need = job.need(task);
        let (tenant, request) = (job.tenant, &need.request[..]);
        let at = Placement { row, job: &job.spec, tenant, need, request, ports: &[] };
        let sum = self.machines.demand_profiles(row).map(|sum| &**sum);
        let mut sums = self.machines.free(row).iter().zip(request);
        sums.all(|(free, request)| free.saturating_sub(*request) >= FREE_MIN)
            && self.policies.can_count(&at)
            && need.demand_profiles.as_deref().is_none_or(|profiles| profiles.can_count(sum))
    }

    /// Makes a placed task pending again.
    fn requeue_task(&mut self, id: TaskId, report: TaskReport) {
        let Some(parts) = self.parts(id.job) else { return };
        let owner = parts.job.owner;
        let task = &mut parts.job.tasks[id.index as usize];
        let Some(machine) = task.state.machine() else { return };
        let failures = task.failures.saturating_add(u16::from(report == TaskReport::Failed));
        parts.job.tally.add_failures(usize::from(task.group), failures - task.failures);
        task.failures = failures;
        Cell::unplace(parts, id, TaskState::Pending);
        self.log_task(id, owner, Some(machine.row()));
    }

    /// Ends a task in any state. Returns the row of the machine that it left, if any, which the caller must touch.
    fn end_task(&mut self, id: TaskId, state: TaskState) -> Option<usize> {
        let parts = self.parts(id.job)?;
        let owner = parts.job.owner;
        let task = &mut parts.job.tasks[id.index as usize];
        if task.state.ended() {
            return None;
        }
        parts.job.alive -= 1;
        let need = &parts.job.groups[usize::from(task.group)].need;
        parts.tenants.ask(parts.job.tenant, need, -1);
        let slot = task.state.machine().map(MachineId::row);
        match slot {
            None => {
                parts.job.tally.change(usize::from(task.group), task.state, state);
                task.state = state;
            }
            Some(_) => _ = Cell::unplace(parts, id, state),
        }
        self.log_task(id, owner, slot);
        slot
    }

    /// Releases the resources of a job if all its tasks have ended.
    pub(super) fn end_if_over(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.alive > 0 || job.groups.is_empty() {
            return;
        }
        self.counters.deadlines.note(&job.spec, self.now_ms);
        self.release_groups(id);
        self.list_as_ended(id);
    }

    /// Adds a job without unfinished tasks to those that an `Expire` removes.
    fn list_as_ended(&mut self, id: JobId) {
        let Some(owner) = self.jobs.get(id).map(|job| job.owner) else { return };
        self.ended.push(id);
        self.note(|| Event::of_job(id, EventKind::Ended));
        self.log.push(Change::Job(id, owner));
    }

    /// Releases what the cell has compiled for the tasks of a job.
    pub(super) fn release_groups(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let groups = std::mem::take(&mut job.groups);
        self.jobs.unlist_attributes(id);
        let gone: Vec<_> = groups
            .iter()
            .flat_map(|group| self.machine_index.release(&group.need, Trackers::Make))
            .collect();
        self.forget_trackers(&gone);
    }

    /// Removes deleted trackers from the groups whose tasks they counted. Each job is visited once for all trackers.
    pub(crate) fn forget_trackers(&mut self, gone: &[(TrackerId, TrackerKey)]) {
        self.log.extend(gone.iter().map(|(tracker, _)| Change::Tracker(*tracker)));
        for some in gone.chunks(TRACKERS_AT_ONCE) {
            for (id, bits) in self.jobs.counted_by(some) {
                self.forget_in_job(id, &chosen(some, bits));
            }
        }
    }

    fn forget_in_job(&mut self, id: JobId, gone: &[&(TrackerId, TrackerKey)]) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let is_gone = |tracker: &TrackerId| gone.iter().any(|(other, _)| other == tracker);
        for group in &mut job.groups {
            let matched = group.need.rules.as_ref().map(|rules| &rules.matched);
            if !matched.is_some_and(|matched| matched.iter().any(is_gone)) {
                continue;
            }
            let rules = &mut Arc::make_mut(&mut group.need).rules;
            if let Some(rules) = rules {
                rules.matched.retain(|tracker| !is_gone(tracker));
            }
            rules.take_if(|rules| rules.is_empty());
        }
    }

    pub(crate) fn expire(&mut self, now_ms: u64) -> Outcome {
        let before = self.now_ms;
        self.now_ms = self.now_ms.max(now_ms);
        let now = self.now_ms;
        self.ended.notice(now);
        let keep = self.policy.ttl_after_finished_ms;
        let tasks = |id| self.jobs.get(id).map_or(0, |job| job.tasks.len());
        let forgotten = self.ended.over(|noticed| noticed.saturating_add(keep) <= now, tasks);
        let overdue = self.overdue_gangs();
        let refilled = self.refill_evictions();
        let changing = self.policies.changing_between(before, now);
        if forgotten > 0 || !overdue.is_empty() || refilled || !changing.is_empty() {
            self.begin();
        }
        if !changing.is_empty() {
            self.policies.pass_time(changing, &mut self.machine_index, now);
            self.log.push(Change::Policy(changing));
        }
        if refilled {
            self.log_evictions();
        }
        self.release_gangs(overdue);
        if let Some(capture) = &mut self.capture {
            capture.before_forgetting(&self.ended, forgotten);
        }
        let forgotten: Vec<JobId> = self.ended.forget(forgotten).collect();
        forgotten.into_iter().for_each(|id| self.remove_job(id));
        Outcome::Done(self.version)
    }
}
