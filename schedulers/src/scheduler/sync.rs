//! Applies the changes of a sync to a scheduler, and wakes the jobs that they may help.

use super::{Observer, Scheduler};
use crate::framework::events::Events;
use crate::framework::plugin::News;
use crate::framework::plugin::tasks;
use crate::placing::refusals::RejectingPlugins;
use crate::queue::Nanos;
use omega_cellstate::{CellHandle, ChangeCounts, Delta, HandleError, TaskDelta};
use omega_core::{Job, JobId};
use smallvec::SmallVec;

impl Scheduler {
    /// Brings view and queue up to date.
    pub(super) fn sync(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<(), HandleError> {
        let before = self.view.change_counts();
        self.view.sync(cell)?;
        self.synced(before, now, observer);
        Ok(())
    }

    /// Applies the changes that were fetched with commits, and brings the queue up to date.
    pub(super) fn apply_fetched(
        &mut self,
        fetched: Delta,
        now: Nanos,
        observer: &mut impl Observer,
    ) {
        let before = self.view.change_counts();
        self.view.apply_fetched(fetched);
        self.synced(before, now, observer);
    }

    /// Brings the queue, the plugins and the plans up to date with the view. `before` is the view's change counts before the
    /// sync.
    fn synced(&mut self, before: ChangeCounts, now: Nanos, observer: &mut impl Observer) {
        self.round_state.synced(self.view.rows());
        if self.view.delta().full && self.round_state.is_holding() {
            self.drop_held();
        }
        self.update_queue(now);
        if self.profile.delay.is_some() && !self.view.delta().jobs.is_empty() {
            let queue = &self.queue;
            self.waits.retain(|id| queue.job(id).is_some(), now);
        }
        if let Some(shares) = self.queue.shares() {
            shares.apply_sync(&self.view);
        }
        if self.view.delta().full {
            self.profile.prepare(&mut self.view);
        }
        let view = &self.view;
        self.profile.chain.reserve.iter_mut().for_each(|plugin| plugin.synced(view));
        self.drop_lost(now, observer);
        let stale = std::mem::take(&mut self.stale);
        for job in stale {
            // The compiled data of a job is needed as long as a claim of the job waits for a permit or for an answer.
            if self.permits.includes(job) || self.decisions.includes(job) {
                self.stale.push(job);
            } else {
                self.view.forget_job(job);
            }
        }
        let mut events = self.permits.take_raised();
        if self.queue.anyone_listens() || self.finder.listens() {
            events |= events_of(self.view.delta(), before, self.view.change_counts());
        }
        if !events.is_empty() {
            let delta = self.view.delta();
            let machines = delta.machines.iter().map(|machine| machine.slot);
            let rows: Vec<u32> = delta.slots.iter().copied().chain(machines).collect();
            self.wake_jobs(events, &rows, now);
        }
        self.sync_plans(now);
        observer.synced(&self.view, &self.queue);
    }

    fn update_queue(&mut self, now: Nanos) {
        let delta = self.view.delta();
        if delta.full {
            // A full delta does not list ended jobs. All known jobs are marked as outdated, so the remaining ones are
            // compiled again.
            self.stale.extend(self.queue.ids());
            self.stale.sort_unstable();
            self.queue.clear();
        }
        let (settings, hears_of_all) = (&self.settings, self.view.receives_all_jobs());
        let is_own = |id: JobId, job: &Job| {
            !hears_of_all || job.scheduler == settings.takes && settings.share.includes(id)
        };
        for change in &delta.jobs {
            if self.queue.job(change.id).is_some() {
                self.stale.push(change.id);
            }
            match &change.job {
                Some(job) if is_own(change.id, job) => self.queue.add_job(change.id, job.clone()),
                Some(_) => {}
                None => self.queue.remove_job(change.id),
            }
        }
        let mut thinned: SmallVec<[JobId; 4]> = SmallVec::new();
        for change in &delta.tasks {
            if self.queue.set_task(change) && thinned.last() != Some(&change.id.job) {
                thinned.push(change.id.job);
            }
        }
        thinned.into_iter().for_each(|job| self.queue.rest_if_released(job, now));
    }

    /// Wakes the jobs that events may help. `rows` are the machines that the events are about.
    pub(super) fn wake_jobs(&mut self, events: Events, rows: &[u32], now: Nanos) {
        self.finder.record_events(events, rows);
        let news = News { events, rows };
        for (id, by) in self.queue.record_events(events) {
            if self.may_help(id, by, &news) {
                self.queue.wake(id);
            } else {
                self.queue.sleep_on(id, now);
            }
        }
    }

    /// Wakes jobs after claims of this scheduler were undone, as after events about these rows, because other
    /// decisions may have depended on the claims.
    pub(super) fn wake_after_undo(&mut self, rows: impl Iterator<Item = u32>, now: Nanos) {
        let rows: Vec<u32> = rows.collect();
        let of_rows = Events::ROOM_FREED | Events::ROOM_TAKEN | Events::RULES_CHANGED;
        self.wake_jobs(of_rows | Events::CELL_FREED | Events::QUOTA_CHANGED, &rows, now);
    }

    /// Whether news may help a job, according to the plugins that rejected it.
    fn may_help(&mut self, id: JobId, by: RejectingPlugins, news: &News<'_>) -> bool {
        let Some(job) = self.queue.job(id).cloned() else { return false };
        (0..job.groups.len()).any(|index| {
            let group = self.view.compile(id, &job, index);
            by.may_be_helped(&self.profile, &tasks(&self.view, group), news)
        })
    }
}

/// Events that a delta implies, given the view's counts before and after.
fn events_of(delta: &Delta, before: ChangeCounts, after: ChangeCounts) -> Events {
    if delta.full {
        return Events::ALL;
    }
    let has_machine = |task: &TaskDelta| task.state.machine().is_some();
    let happened = [
        (after.added > before.added, Events::MACHINE_ADDED),
        (after.changed > before.changed, Events::MACHINE_CHANGED),
        (after.removed > before.removed, Events::MACHINE_REMOVED),
        (after.freed > before.freed, Events::ROOM_FREED),
        (after.loads > before.loads, Events::LOAD_REPORTED),
        (!delta.slots.is_empty(), Events::ROOM_TAKEN),
        (delta.tasks.iter().any(has_machine), Events::TASK_PLACED),
        (!delta.tasks.iter().all(has_machine), Events::TASK_ENDED),
        (!delta.jobs.is_empty(), Events::JOB_CHANGED),
        (delta.quotas || after.quota_freed > before.quota_freed, Events::QUOTA_CHANGED),
        (delta.changes_rules(), Events::RULES_CHANGED),
        (delta.policies.evictions.refilled, Events::EVICTIONS_REFILLED),
        (delta.policies.reservations.all.is_some(), Events::RESERVATIONS_CHANGED),
        (after.cell_freed > before.cell_freed, Events::CELL_FREED),
        (delta.policies.peaks.calendars.is_some(), Events::PEAKS_CHANGED),
    ];
    let happened = happened.into_iter().filter(|(did, _)| *did);
    happened.fold(Events::NONE, |events, (_, event)| events | event)
}
