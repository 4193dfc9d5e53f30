//! Numbers and lists of a queue's jobs and tasks.

use crate::queue::Queue;
use crate::queue::entry::JobState;
use omega_core::JobId;

impl Queue {
    /// Number of tasks that are pending.
    #[must_use]
    pub fn pending_tasks(&self) -> usize {
        self.counts.pending
    }

    /// Number of jobs that may be tried now.
    #[must_use]
    pub fn active_jobs(&self) -> usize {
        self.active.len()
    }

    /// Number of tasks whose claims wait for a permit.
    #[must_use]
    pub fn held_tasks(&self) -> usize {
        self.counts.held
    }

    /// Whether all pending tasks belong to rejected jobs.
    #[must_use]
    pub fn only_unplaceable(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty() && self.counts.held == 0
    }

    /// Number of pending tasks of rejected jobs, except tasks that wait for a permit.
    #[must_use]
    pub fn unplaceable_tasks(&self) -> usize {
        self.counts.refused
    }

    /// Whether every rejected job was tried after the last event that may help this job. If not, some job will be tried
    /// after its backoff, even if nothing changes.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let tried = |id| match self.jobs[id].state {
            JobState::Cooling(_, news) => !self.is_woken(self.rejecting_plugins(*id), news),
            _ => true,
        };
        self.only_unplaceable()
            && self.counts.timed == 0
            && self.cooling.iter().all(|(_, id)| tried(id))
    }

    /// Whether some rejected job will be tried after its backoff, because an event after its rejection may help it.
    #[must_use]
    pub fn owes_retry(&self) -> bool {
        self.cooling.iter().any(|(_, id)| self.is_owed(*id))
    }

    /// Whether a job is in backoff, and an event after its rejection may help it.
    pub(super) fn is_owed(&self, id: JobId) -> bool {
        match self.jobs.get(&id).map(|entry| entry.state) {
            Some(JobState::Cooling(_, news)) => {
                self.event_log.any_since(self.rejecting_plugins(id).events(), news)
            }
            _ => false,
        }
    }

    /// Number of changes of the queue so far, except changes of jobs' descriptions. Until it increases, the queue's other
    /// figures stay.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.counts.changes
    }

    /// Number of jobs with pending tasks.
    #[must_use]
    pub fn waiting_jobs(&self) -> usize {
        self.counts.jobs
    }

    /// Jobs that an Admit plugin rejects, ascending by id.
    #[must_use]
    pub fn gated(&self) -> Vec<JobId> {
        let gated = self.refused.iter().filter(|(_, refused)| refused.gated);
        let mut ids: Vec<_> = gated.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Whether some job waits for events.
    #[must_use]
    pub fn anyone_listens(&self) -> bool {
        !(self.cooling.is_empty() && self.sleeping.is_empty())
    }

    /// Rejected jobs, in no particular order.
    fn refused_ids(&self) -> impl Iterator<Item = JobId> {
        let retried = self.cooling.iter().map(|(_, id)| *id).chain(self.sleeping.ids());
        retried.chain(self.followers())
    }

    /// All jobs with pending tasks and their numbers of pending tasks, ascending by id.
    #[must_use]
    pub fn waiting(&self) -> Vec<(JobId, usize)> {
        let waiting = self.jobs.iter().filter(|(_, entry)| entry.waiting > 0);
        let mut jobs: Vec<_> = waiting.map(|(id, e)| (*id, e.waiting as usize)).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Rejected jobs with their numbers of pending tasks, ascending by id.
    #[must_use]
    pub fn unplaceable(&self) -> Vec<(JobId, usize)> {
        let mut jobs: Vec<_> =
            self.refused_ids().map(|id| (id, self.jobs[&id].waiting as usize)).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Ids of all known jobs, in no particular order.
    pub fn ids(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }
}
