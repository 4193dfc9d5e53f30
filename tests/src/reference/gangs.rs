//! Waiting gangs. The effect of each command is determined by comparing all gangs before and after it.

use super::commit::is_complete;
use super::{Reference, ReferenceGangWait};
use omega_core::{JobId, TaskState};
use std::collections::{BTreeMap, BTreeSet};

impl Reference {
    /// Number of placed tasks of each gang with a timeout.
    pub(super) fn gangs_placed(&self) -> BTreeMap<JobId, usize> {
        let gangs = self.jobs.iter().filter(|(_, job)| job.spec.gang_timeout_ms.is_some());
        gangs.map(|(id, job)| (*id, job.placed())).collect()
    }

    /// Updates the waiting gangs after a command.
    pub(super) fn note_gang_waits(
        &mut self,
        before: &BTreeMap<JobId, usize>,
        adopts: Option<JobId>,
    ) {
        for (id, had) in before {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            if job.placed() == 0 || is_complete(job) || adopts == Some(*id) {
                job.gang_wait = None;
            } else if *had == 0 {
                job.gang_wait = Some(ReferenceGangWait { noticed_ms: None, spared: false });
            }
        }
    }

    /// The state of a job's gang while it waits for more tasks.
    #[must_use]
    pub fn gang_wait(&self, id: JobId) -> Option<ReferenceGangWait> {
        self.jobs.get(&id)?.gang_wait
    }

    /// Releases gangs whose timeout has passed. Returns whether there were any.
    pub(super) fn release_gangs(&mut self) -> bool {
        let now = self.now_ms;
        let mut late: Vec<(u64, JobId)> = Vec::new();
        for (id, job) in &self.jobs {
            let (Some(wait), Some(most)) = (job.gang_wait, job.spec.gang_timeout_ms) else {
                continue;
            };
            if let Some(noticed) = wait.noticed_ms
                && u128::from(noticed) + u128::from(most) <= u128::from(now)
            {
                late.push((noticed, *id));
            }
        }
        for job in self.jobs.values_mut() {
            if let Some(wait) = &mut job.gang_wait {
                wait.noticed_ms.get_or_insert(now);
            }
        }
        late.sort_unstable();
        let fresh =
            |(_, id): &&(u64, JobId)| self.jobs[id].gang_wait.is_some_and(|wait| !wait.spared);
        let spared = if late.len() > 1 { late.iter().find(fresh).map(|(_, id)| *id) } else { None };
        let mut left = BTreeSet::new();
        for (_, id) in &late {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            if spared == Some(*id) {
                job.gang_wait = Some(ReferenceGangWait { noticed_ms: Some(now), spared: true });
                continue;
            }
            job.gang_wait = None;
            let placed = job.tasks.iter_mut().filter(|task| task.state.machine().is_some());
            left.extend(placed.filter_map(|task| task.leave(TaskState::Pending)));
        }
        self.raise(&left);
        !left.is_empty()
    }
}
