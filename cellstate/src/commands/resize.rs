//! Resizes of task groups, and services that are scaled to zero.
//!
//! ```text
//!     runs ── ScaleGroup to 0 ──▶ scaled to zero ── ScaleGroup, UpdateJob ──▶ runs
//!      │                                │
//!      └── its last task ends ──▶ ended ◀── KillJob
//! ```
//!
//! A service that is scaled to zero has no compiled groups, like an ended job. Unlike an ended job, it is not in the
//! list from which an `Expire` removes jobs.

use crate::cell::{Cell, Change};
use crate::commands::bounds::check_new_levels;
use crate::commands::shrink_order::shrink_order;
use crate::history::{Event, EventKind};
use crate::state::job_record::{JobRecord, TASK_BYTES, TaskRecord, WithoutTasks};
use omega_core::limits::TASKS_PER_JOB_MAX;
use omega_core::{JobId, Outcome, Rejection, Text};
use std::sync::Arc;

impl Cell {
    pub(crate) fn resize_group(
        &mut self,
        id: JobId,
        name: &Text,
        count: u32,
        without_tasks: WithoutTasks,
    ) -> Result<Outcome, Rejection> {
        let stays = without_tasks == WithoutTasks::Stays;
        let is_resizable = |job: &&JobRecord| job.alive > 0 || stays && job.scaled_to_zero;
        let Some(job) = self.jobs.get(id).filter(is_resizable) else {
            return Err(Rejection::UnknownJob(id));
        };
        let target = job.target().groups.iter().find(|group| group.name == *name);
        let Some((index, target)) = job.target_group(name).zip(target) else {
            return Err(Rejection::UnknownGroup { job: id, group: name.clone() });
        };
        let (has, wanted) = (job.spec.groups[index].count, target.count);
        // During an update of the job, the group's present number of tasks (`has`) may differ from its target count
        // (`wanted`).
        let (more, fewer) = (count.saturating_sub(wanted), wanted.saturating_sub(count).min(has));
        let total = job.tasks.len() as u64 + u64::from(more);
        let others = job.spec.task_count() + u64::from(more) - u64::from(fewer);
        if total.max(others) > u64::from(TASKS_PER_JOB_MAX) {
            let max = u64::from(TASKS_PER_JOB_MAX);
            return Err(Rejection::TooMany { what: "tasks of a job".into(), given: total, max });
        }
        if count == wanted {
            return Ok(Outcome::Done(self.version));
        }
        let (owner, tenant, was_zero) = (job.owner, job.tenant, job.scaled_to_zero);
        let requests = job.spec.groups[index].requests().map(|amounts| (amounts, more));
        self.tenants.admit(&self.kinds, tenant, requests)?;
        if was_zero {
            check_new_levels(&job.spec, &self.machine_index)?;
        }
        let version = self.begin();
        if was_zero {
            self.compile_again(id);
        }
        self.note(|| {
            let (group, to) = (index as u16, count);
            Event::of_job(id, EventKind::Resized { group, from: wanted, to })
        });
        if fewer > 0 {
            self.shrink_group(id, index, fewer);
        }
        if let Some(job) = self.jobs.get_mut(id) {
            self.tenants.ask(tenant, &job.groups[index].need, i64::from(more));
            self.tenants.list[tenant as usize].bytes += TASK_BYTES * u64::from(more);
            job.tasks.extend((0..more).map(|_| TaskRecord::pending(index)));
            job.alive += more;
            job.tally.add_pending(index, more);
            job.resized = true;
            Arc::make_mut(&mut job.spec).groups[index].count = has + more - fewer;
            job.set_target_count(name, count);
        }
        self.end_if_unwanted(id);
        self.recompile(id, index);
        self.log.push(Change::Job(id, owner));
        self.settle_gang(id, None);
        let remains = stays && self.jobs.get(id).is_some_and(JobRecord::may_be_scaled_to_zero);
        if remains {
            self.scale_to_zero_if_over(id);
        } else {
            self.end_if_over(id);
        }
        Ok(Outcome::Done(version))
    }

    /// Kills the remaining tasks of a job whose newest version has no tasks.
    fn end_if_unwanted(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id).filter(|job| job.target().task_count() == 0) else {
            return;
        };
        let living = job.tasks.iter().zip(0..).filter(|(task, _)| !task.state.ended());
        let living: Vec<u32> = living.map(|(_, index)| index).collect();
        self.note_killed(id, &living);
        self.kill_tasks(id, living.into_iter());
    }

    /// Kills `count` tasks of a group, as ordered by [`shrink_order`].
    fn shrink_group(&mut self, id: JobId, index: usize, count: u32) {
        let Some(job) = self.jobs.get(id) else { return };
        let of_group = (0..).zip(&job.tasks).filter(|(_, task)| usize::from(task.group) == index);
        let killed = shrink_order(of_group.map(|(number, task)| (number, task.state)), count);
        self.note_killed(id, &killed);
        self.kill_tasks(id, killed.into_iter());
    }

    /// Keeps a service whose tasks have all ended, so that it can get tasks again.
    fn scale_to_zero_if_over(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.alive > 0 || job.groups.is_empty() {
            return;
        }
        job.scaled_to_zero = true;
        // In the middle of an update, the groups of older versions still had counts.
        let groups = &mut Arc::make_mut(&mut job.spec).groups;
        groups.iter_mut().filter(|group| group.count > 0).for_each(|group| group.count = 0);
        let owner = job.owner;
        self.release_groups(id);
        self.log.push(Change::Job(id, owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{
        Amounts, Command, Job, Kinds, Machine, TaskGroup, TaskRule, TaskSelector, TopologyLevel,
    };

    /// A cell with a machine and a service of two tasks that exclude each other.
    fn cell() -> (Cell, JobId) {
        let mut cell = Cell::new(Kinds::standard());
        cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([8])))).unwrap();
        let mut group = TaskGroup::new(2, Amounts::new([1]));
        let (from, level) = (TaskSelector::SameJob, TopologyLevel::Machine);
        group.rules.tasks = vec![TaskRule::AntiAffinity { from, level }];
        let Ok(Outcome::Job(id)) = cell.apply(Command::SubmitJob(Job::service("web", group)))
        else {
            panic!("a job")
        };
        (cell, id)
    }

    fn scale(cell: &mut Cell, job: JobId, count: u32) {
        cell.apply(Command::ScaleGroup { job, group: "main".into(), count }).unwrap();
        cell.audit().unwrap();
    }

    /// Lets much time pass, so that the cell forgets ended jobs.
    fn expire(cell: &mut Cell) {
        for _ in 0..2 {
            cell.apply(Command::Expire { now_ms: cell.now_ms() + (1 << 40) }).unwrap();
        }
    }

    fn restored(cell: &Cell) -> Cell {
        let restored = Cell::from_snapshot_state(cell.snapshot_state()).unwrap();
        assert_eq!(restored.state_hash(), cell.state_hash());
        restored.audit().unwrap();
        restored
    }

    #[test]
    fn a_service_that_is_scaled_to_zero_gets_tasks_again() {
        let (mut cell, job) = cell();
        for round in 0..3 {
            scale(&mut cell, job, 0);
            assert!(cell.is_scaled_to_zero(job) && !cell.is_alive(job), "round {round}");
            expire(&mut cell);
            cell = restored(&cell);
            assert!(cell.is_scaled_to_zero(job), "round {round}");
            let version = cell.version();
            scale(&mut cell, job, 0);
            assert_eq!(cell.version(), version, "it has no tasks already");
            scale(&mut cell, job, 3);
            let pending = cell.task_counts(job).unwrap().pending;
            assert_eq!((pending, cell.is_scaled_to_zero(job)), (3, false), "round {round}");
            assert_eq!(cell.job_version(job), Some(0), "a resize is no update");
            cell = restored(&cell);
        }
        let spec = Job::service("web", TaskGroup::new(1, Amounts::zero()));
        scale(&mut cell, job, 0);
        cell.apply(Command::UpdateJob { job, version: None, spec }).unwrap();
        assert_eq!(cell.task_counts(job).unwrap().pending, 1, "an update starts its tasks");
        assert!(!cell.is_scaled_to_zero(job));
        cell.audit().unwrap();
    }

    #[test]
    fn a_service_that_is_scaled_to_zero_ends_when_it_is_killed() {
        let (mut cell, job) = cell();
        scale(&mut cell, job, 0);
        cell.apply(Command::KillJob { job }).unwrap();
        assert!(cell.job_was_killed(job) && !cell.is_scaled_to_zero(job));
        let again = Command::ScaleGroup { job, group: "main".into(), count: 1 };
        assert_eq!(cell.apply(again), Err(Rejection::UnknownJob(job)));
        cell = restored(&cell);
        expire(&mut cell);
        assert!(cell.job(job).is_none());

        let (mut cell, job) = self::cell();
        scale(&mut cell, job, 0);
        cell.apply(Command::DeleteJob { job }).unwrap();
        assert!(cell.job_by_name("web").is_none());
        cell = restored(&cell);
        expire(&mut cell);
        cell.audit().unwrap();
    }

    #[test]
    fn a_service_is_scaled_to_zero_in_the_middle_of_an_update() {
        let (mut cell, job) = cell();
        let spec = Job::service("web", TaskGroup::new(2, Amounts::new([2])));
        cell.apply(Command::UpdateJob { job, version: None, spec }).unwrap();
        assert_eq!(cell.job(job).unwrap().task_count(), 2, "only the old group has tasks");
        scale(&mut cell, job, 0);
        assert_eq!(cell.job(job).unwrap().task_count(), 0);
        scale(&mut cell, job, 3);
        let groups = &cell.job(job).unwrap().groups;
        assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [0, 3]);
        restored(&cell);
    }

    #[test]
    fn other_jobs_without_tasks_end() {
        let (mut cell, service) = cell();
        let group = || TaskGroup::new(1, Amounts::zero());
        let gang = Job { gang_min: Some(1), ..Job::service("gang", group()) };
        for job in [Job::batch("batch", group()), gang] {
            let Ok(Outcome::Job(id)) = cell.apply(Command::SubmitJob(job)) else { panic!("a job") };
            scale(&mut cell, id, 0);
            assert!(!cell.is_scaled_to_zero(id));
            expire(&mut cell);
            assert!(cell.job(id).is_none());
        }
        let resize = Command::ResizeGroup { job: service, group: "main".into(), count: 0 };
        cell.apply(resize).unwrap();
        expire(&mut cell);
        assert!(cell.job(service).is_none(), "the older command ends a service");
    }
}
