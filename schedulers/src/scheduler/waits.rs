//! Jobs that wait for machines that they prefer: see [`crate::delay`].

use super::Scheduler;
use crate::delay::is_preferred;
use crate::queue::Nanos;
use omega_cellstate::{GroupRef, LocalityLevel};
use omega_core::{Commit, Job, JobId, TaskId, Transaction};
use std::sync::Arc;

impl Scheduler {
    /// Claims machines for tasks of a group within its present locality level.
    ///
    /// Returns the number of placed tasks, and whether no further attempt is needed now: all tasks are placed, or
    /// the other tasks wait for preferred machines.
    pub(super) fn place_within_reach(
        &mut self,
        id: JobId,
        group: GroupRef,
        tasks: &[TaskId],
        now: Nanos,
    ) -> (usize, bool) {
        if !self.bound_reach(id, group, now) {
            return (0, false);
        }
        let placed = self.place_in_room(group, tasks);
        let Some(next) = tasks.get(placed) else { return (placed, true) };
        self.view.set_locality_level(group, LocalityLevel::Anywhere);
        if !self.has_room(*next, group) {
            // Machines that are not preferred have no room either, so the job waits for room like any other job.
            return (placed, false);
        }
        self.waits.begin(id, now);
        self.bound_reach(id, group, now);
        (placed, true)
    }

    /// Limits a group to the locality level that the group accepts now. Returns false if the group accepts all
    /// machines.
    fn bound_reach(&mut self, id: JobId, group: GroupRef, now: Nanos) -> bool {
        let Some(delay) = &self.profile.delay else { return false };
        let reach = delay.reach(&self.view, group, self.waits.waited(id, now));
        let bounded = reach != LocalityLevel::Anywhere;
        self.view.set_locality_level(group, reach);
        bounded
    }

    /// Whether there is room for a task on any machine.
    fn has_room(&mut self, task: TaskId, group: GroupRef) -> bool {
        self.finder.has_room(&mut self.view, &self.profile, group, task)
    }

    /// Returns the time at which a group's wait for preferred machines ends; `None` if the group does not wait.
    pub(super) fn waits_until(&self, id: JobId, group: GroupRef, now: Nanos) -> Option<Nanos> {
        let left = self.view.locality_level(group).left()?;
        self.waits.has(id).then(|| now.saturating_add(left))
    }

    /// Counts the tasks of a transaction that were placed on preferred machines, and those placed elsewhere.
    pub(super) fn count_preferences(&mut self, txn: &Transaction, commit: &Commit) {
        if self.profile.delay.is_none() {
            return;
        }
        for (index, claim) in txn.claims.iter().enumerate() {
            if commit.conflict_of_claim(index).is_some() {
                continue;
            }
            let Some(spec) = self.queue.job(claim.task.job).cloned() else { continue };
            let Some(group) = self.queue.group_of(claim.task) else { continue };
            self.count_preference(claim.task.job, &spec, group, claim.machine.row());
        }
    }

    fn count_preference(&mut self, id: JobId, spec: &Arc<Job>, group: usize, row: usize) {
        if spec.groups[group].rules.affinity.preferred.is_empty() {
            return;
        }
        let group = self.view.compile(id, spec, group);
        match is_preferred(&self.view, group, row) {
            Some(true) => self.waits.figures.met += 1,
            Some(false) => self.waits.figures.missed += 1,
            None => {}
        }
    }
}
