//! Plans for the first jobs that find no room: see [`crate::backfill`].

use super::{Decided, Scheduler};
use crate::backfill::{Backfill, MissingInGroup, MissingTasks};
use crate::framework::events::Events;
use crate::queue::Nanos;
use omega_core::{Commit, Job, JobId, Transaction};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Scheduler {
    /// The jobs with planned machines, in the order of the queue, each with its planned start in the cell's time. Empty
    /// unless the profile has [`Backfill`].
    #[must_use]
    pub fn planned(&self) -> Vec<(JobId, u64)> {
        let backfill = self.profile.backfill.as_ref();
        backfill.map_or_else(Vec::new, |backfill| backfill.plans().starts().collect())
    }

    /// Updates the plans after a sync, and drops those of jobs that no longer wait.
    pub(super) fn sync_plans(&mut self, now: Nanos) {
        let Some(backfill) = self.profile.backfill.clone() else { return };
        if backfill.plans().is_empty() {
            return;
        }
        self.drop_placed(&backfill);
        self.renew_plans(&backfill, now);
    }

    /// Drops the plans of jobs that have all their machines, or have ended, and updates the descriptions of others.
    fn drop_placed(&self, backfill: &Backfill) {
        let delta = self.view.delta();
        let changed: Vec<JobId> = {
            let plans = backfill.plans();
            let tasks = delta.tasks.iter().map(|change| change.id.job);
            let changed = delta.jobs.iter().map(|job| job.id).chain(tasks);
            let mut changed: Vec<JobId> = if delta.full {
                plans.ids().collect()
            } else {
                changed.filter(|id| plans.has(*id)).collect()
            };
            changed.dedup();
            changed
        };
        for id in changed {
            let job = self.queue.job(id);
            let is_known = job.is_some();
            if let Some(job) = job {
                backfill.change(|plans| plans.update(id, job));
            }
            if !is_known || self.queue.is_placed(id) {
                let placed_ms = is_known.then(|| self.view.now_ms());
                backfill.change(|plans| plans.leaves(id, placed_ms));
            }
        }
    }

    /// Records in the plans that the decision about a job begins.
    pub(super) fn begin_turn(&mut self, id: JobId, job: &Arc<Job>) {
        if let Some(backfill) = &self.profile.backfill
            && backfill.is_used()
        {
            backfill.change(|plans| plans.begin_turn(id, job));
        }
    }

    /// Updates the plans after a decision. If the job found no room and is among the first jobs, it gets a plan before
    /// the next decision. The plan of a job that is now in the transaction is dropped. A job that waits for a quota or
    /// a cluster resource has no plan.
    pub(super) fn end_turn(&mut self, decided: &Decided, job: &Arc<Job>, now: Nanos) {
        let Some(backfill) = &self.profile.backfill else { return };
        if !decided.short && !backfill.is_used() {
            return;
        }
        let backfill = backfill.clone();
        let concerns = backfill.change(|plans| {
            if decided.placed > 0 {
                plans.note_claims();
            }
            let had = plans.is_in_head(decided.job, backfill.depth());
            match (decided.short, decided.by.is_of_the_cell(&self.profile)) {
                (true, false) => plans.lacks(decided.job, job, &self.view),
                (true, true) => plans.leaves(decided.job, None),
                (false, _) => {}
            }
            had || plans.is_in_head(decided.job, backfill.depth())
        });
        if concerns {
            self.renew_plans(&backfill, now);
        }
    }

    fn renew_plans(&mut self, backfill: &Backfill, now: Nanos) {
        let head = backfill.plans().head(backfill.depth());
        let head = head.into_iter().map(|(id, job)| (id, self.missing_tasks(id, &job))).collect();
        let renewed =
            backfill.change(|plans| plans.renew(head, &self.view, &self.profile.evaluator));
        renewed.due.into_iter().for_each(|id| self.queue.wake(id));
        if renewed.eased {
            self.wake_jobs(Events::PLANS_CHANGED, &[], now);
        }
    }

    /// Returns the tasks of a job that lack machines. Tasks in a transaction do not count, nor do tasks that the
    /// tenant's limits or the cluster resources exclude. If too few tasks of a gang are left, the gang lacks nothing.
    fn missing_tasks(&mut self, id: JobId, job: &Arc<Job>) -> MissingTasks {
        let waiting = self.queue.waiting_tasks(id);
        let all: u32 = waiting.iter().map(|(_, tasks)| tasks).sum();
        let group = |(index, tasks): (usize, u32)| {
            let group = self.view.compile(id, job, index);
            MissingInGroup { group, index, tasks }
        };
        let groups: SmallVec<[MissingInGroup; 2]> = waiting.into_iter().map(group).collect();
        let may = |missing: &MissingInGroup| {
            let room = self.view.cell_room(missing.group).min(missing.tasks as usize);
            self.view.quota_room(missing.group, room) as u64
        };
        let may: u64 = groups.iter().map(may).sum();
        let may = u32::try_from(may).unwrap_or(u32::MAX);
        let tasks = match self.queue.gang_lacks(id).map(|lacks| lacks.min(all)) {
            Some(needed) if needed > may => 0,
            Some(needed) => needed,
            None => all.min(may),
        };
        MissingTasks { groups, tasks, run_ms: job.runtime_estimate_ms.unwrap_or(u64::MAX) }
    }

    /// Counts the tasks that were placed while other jobs had plans.
    pub(super) fn count_backfilled(&mut self, txn: &Transaction, commit: &Commit) {
        let Some(backfill) = self.profile.backfill.as_ref().filter(|one| one.is_used()) else {
            return;
        };
        let mut placed: BTreeMap<JobId, usize> = BTreeMap::new();
        for (index, claim) in txn.claims.iter().enumerate() {
            if commit.conflict_of_claim(index).is_none() {
                *placed.entry(claim.task.job).or_default() += 1;
            }
        }
        backfill.change(|plans| {
            if !plans.is_empty() {
                placed.into_iter().for_each(|(id, tasks)| plans.count_placed(id, tasks));
            }
        });
    }
}
