//! Gangs in the cell: the check of transactions, and the timeouts of waiting gangs.

use super::{GangCounts, Gangs};
use crate::cell::{Cell, Change};
use crate::commit::{Review, Scope, Step};
use crate::history::{Event, EventKind};
use crate::policy::CellPolicy;
use crate::state::job_record::{GangWait, JobRecord};
use omega_core::transaction::Item;
use omega_core::{Conflict, JobId, Reason, TaskId, TaskState};
use std::collections::{BTreeMap, BTreeSet};

impl CellPolicy for Gangs {
    /// Rejects the claims of gangs that must be placed by one transaction, if this transaction leaves them too small.
    fn check_all(cell: &Cell, review: &Review<'_>, _: &mut (), late: &mut Vec<Conflict>) {
        let all = review.scope == Scope::All;
        for (claim, i) in review.txn.claims.iter().zip(0..) {
            let job = cell.jobs.get(claim.task.job).filter(|job| job.spec.is_placed_at_once());
            let Some(job) = job.filter(|_| review.is_accepted(Item::Claim(i))) else { continue };
            let is_too_small = |min: u32| all || job.placed < min.min(job.alive);
            if job.spec.gang_min.is_some_and(is_too_small) {
                late.push(Conflict { item: Item::Claim(i), reason: Reason::GangIncomplete });
            }
        }
    }

    fn settle(cell: &mut Cell, review: &Review<'_>, (): ()) {
        cell.settle_gangs(review.steps);
    }
}

impl JobRecord {
    /// Whether enough tasks are placed: the gang's minimum, or all unfinished tasks if there are fewer.
    fn has_enough(&self) -> bool {
        self.placed >= self.spec.gang_min.unwrap_or(0).min(self.alive)
    }

    /// Whether the recorded state of the waiting gang, if any, could result from commands.
    pub fn gang_wait_is_right(&self, now_ms: u64) -> bool {
        self.gang_wait.is_none_or(|wait| {
            let may_wait = self.spec.gang_timeout_ms.is_some() && self.spec.gang_min.is_some();
            let in_past = wait.since_ms.is_none_or(|since| since <= now_ms);
            may_wait && in_past && self.placed > 0 && !self.has_enough()
        })
    }

    fn is_overdue(&self, now_ms: u64) -> bool {
        let since = self.gang_wait.and_then(|wait| wait.since_ms);
        let most = u64::from(self.spec.gang_timeout_ms.unwrap_or(0));
        since.is_some_and(|since| since.saturating_add(most) <= now_ms)
    }
}

impl Cell {
    /// The state of a job's waiting gang, whose tasks must not be started yet; `None` if the job has no waiting gang.
    #[must_use]
    pub fn gang_wait(&self, job: JobId) -> Option<GangWait> {
        self.jobs.get(job)?.gang_wait
    }

    /// The jobs with a waiting gang, in ascending order.
    #[must_use]
    pub fn waiting_gangs(&self) -> &BTreeSet<JobId> {
        &self.policies.gangs.waiting
    }

    /// The time at which a waiting gang is released if it stays incomplete. `None` if the job has no waiting gang, or
    /// if no `Expire` has started the timeout.
    #[must_use]
    pub fn gang_expires_ms(&self, job: JobId) -> Option<u64> {
        let job = self.jobs.get(job)?;
        Some(job.gang_wait?.since_ms?.saturating_add(u64::from(job.spec.gang_timeout_ms?)))
    }

    /// Counts of waiting gangs since this process started.
    #[must_use]
    pub fn gang_counts(&self) -> GangCounts {
        self.policies.gangs.counts
    }

    /// Updates the gangs whose tasks a transaction placed or removed.
    fn settle_gangs(&mut self, steps: &[Step]) {
        let mut net: BTreeMap<JobId, i64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Placed { task, .. } => *net.entry(task.job).or_default() += 1,
                Step::Removed { task, .. } => *net.entry(task.job).or_default() -= 1,
                Step::Resized { .. } => {}
            }
        }
        for (id, net) in net {
            let had_none = self.jobs.get(id).is_some_and(|job| i64::from(job.placed) == net);
            self.settle_gang(id, had_none.then(GangWait::default));
        }
    }

    /// Updates the gang of a job whose tasks have changed. If the gang is too small and does not wait yet, `new` is its
    /// wait.
    pub(crate) fn settle_gang(&mut self, id: JobId, new: Option<GangWait>) {
        let Some(job) = self.jobs.get(id).filter(|job| job.spec.gang_timeout_ms.is_some()) else {
            return;
        };
        let small = job.placed > 0 && !job.has_enough();
        let wait = job.gang_wait.or(new).filter(|_| small);
        if wait == job.gang_wait {
            return;
        }
        match wait {
            Some(_) => {
                self.policies.gangs.waiting.insert(id);
                self.policies.gangs.counts.begun += 1;
                if let Some(job) = self.jobs.get_mut(id) {
                    job.gang_wait = wait;
                }
            }
            None if job.placed > 0 => self.begin_gang(id),
            None => self.end_wait(id),
        }
    }

    /// Ends the wait of a job's gang, if it waits, because its tasks may now be started.
    pub(crate) fn begin_gang(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id).filter(|job| job.gang_wait.is_some()) else { return };
        // Logged so that agents look at all tasks of the job again.
        self.log.push(Change::Job(id, job.owner));
        self.policies.gangs.counts.completed += 1;
        self.end_wait(id);
    }

    fn end_wait(&mut self, id: JobId) {
        self.policies.gangs.waiting.remove(&id);
        if let Some(job) = self.jobs.get_mut(id) {
            job.gang_wait = None;
        }
    }

    /// Starts the timeouts of gangs that began to wait. Returns the gangs whose timeout is over, except one that gets a
    /// second timeout.
    pub(crate) fn overdue_gangs(&mut self) -> Vec<JobId> {
        if self.policies.gangs.waiting.is_empty() {
            return Vec::new();
        }
        let now_ms = self.now_ms;
        let mut overdue = Vec::new();
        for id in &self.policies.gangs.waiting {
            let Some(job) = self.jobs.get_mut(*id) else { continue };
            if job.is_overdue(now_ms) {
                overdue.push((job.gang_wait.and_then(|wait| wait.since_ms), *id));
            } else if let Some(wait) = &mut job.gang_wait {
                wait.since_ms.get_or_insert(now_ms);
            }
        }
        overdue.sort_unstable();
        let mut overdue: Vec<JobId> = overdue.into_iter().map(|(_, id)| id).collect();
        let spared = |id: &JobId| self.gang_wait(*id).is_none_or(|wait| wait.spared);
        if overdue.len() > 1
            && let Some(first) = overdue.iter().position(|id| !spared(id))
        {
            let id = overdue.remove(first);
            if let Some(job) = self.jobs.get_mut(id) {
                job.gang_wait = Some(GangWait { since_ms: Some(now_ms), spared: true });
            }
        }
        overdue
    }

    /// Removes all tasks of these gangs from their machines.
    pub(crate) fn release_gangs(&mut self, gangs: Vec<JobId>) {
        let mut left: Vec<usize> = Vec::new();
        for id in gangs {
            let tasks = self.jobs.get(id).map_or(0, |job| job.tasks.len() as u32);
            for index in 0..tasks {
                left.extend(self.release_task(TaskId { job: id, index }));
            }
            self.policies.gangs.counts.timed_out += 1;
            self.end_wait(id);
        }
        left.sort_unstable();
        left.dedup();
        left.into_iter().for_each(|slot| self.touch(slot));
    }

    /// Makes a task pending if it is placed. Returns the row of the machine that it left.
    fn release_task(&mut self, id: TaskId) -> Option<usize> {
        let machine = self.jobs.task(id)?.1.state.machine()?;
        let slot = machine.row();
        let parts = self.parts(id.job)?;
        let owner = parts.job.owner;
        Cell::unplace(parts, id, TaskState::Pending);
        self.log_task(id, owner, Some(slot));
        self.note(|| Event::of_task(id, EventKind::GangTimedOut).on(machine));
        Some(slot)
    }
}
