//! The list of ended jobs, in the order of their ends.
//!
//! The position of a job in the list is not known, so the deletion of a job only marks it. Marked jobs are skipped, and
//! are removed together when a deletion makes them more than half of the list. So the duration of a deletion does not
//! depend on the number of ended jobs.

use crate::state::map::FastMap;
use omega_core::JobId;
use omega_core::limits::{REMOVED_JOBS_MAX, REMOVED_TASKS};
use std::collections::VecDeque;

/// An ended job, with the time at which the cell recorded the end.
pub type EndedJob = (JobId, Option<u64>);

/// The ended jobs, oldest first. The list begins with the jobs that have a recorded time, in ascending order of times.
///
/// Invariant: the first job of the list is not deleted.
#[derive(Clone, Debug, Default)]
pub struct EndedJobs {
    list: VecDeque<EndedJob>,
    /// The jobs in the list that were deleted.
    deleted: FastMap<JobId, ()>,
}

impl From<Vec<EndedJob>> for EndedJobs {
    fn from(list: Vec<EndedJob>) -> EndedJobs {
        EndedJobs { list: list.into(), deleted: FastMap::default() }
    }
}

impl EndedJobs {
    /// Number of positions in the list, including those of deleted jobs.
    pub fn positions(&self) -> usize {
        self.list.len()
    }

    /// Number of positions whose end has a recorded time.
    pub fn noticed(&self) -> usize {
        self.list.partition_point(|(_, at)| at.is_some())
    }

    /// Every job that was not deleted.
    pub fn iter(&self) -> impl Iterator<Item = &EndedJob> {
        self.list.iter().filter(move |(id, _)| !self.is_deleted(*id))
    }

    /// The positions from `first` on, without those of deleted jobs.
    pub fn entries_from(&self, first: usize) -> impl Iterator<Item = (usize, &EndedJob)> {
        let positions = (first..).zip(self.list.range(first..));
        positions.filter(move |(_, (id, _))| !self.is_deleted(*id))
    }

    fn is_deleted(&self, id: JobId) -> bool {
        !self.deleted.is_empty() && self.deleted.contains_key(&id)
    }

    /// Adds a job that has just ended.
    pub fn push(&mut self, id: JobId) {
        self.list.push_back((id, None));
    }

    /// Records the time of the ends that have none.
    pub fn notice(&mut self, now_ms: u64) {
        for (_, noticed) in self.list.iter_mut().rev().take_while(|(_, at)| at.is_none()) {
            *noticed = Some(now_ms);
        }
    }

    /// Number of positions at the start of the list that [`EndedJobs::forget`] is to remove: those of the jobs with a
    /// recorded time for which `is_over` is true, and of deleted jobs behind them. It is 0 if there is no such job.
    ///
    /// The positions include at most [`REMOVED_JOBS_MAX`] jobs, and no further job once they have [`REMOVED_TASKS`]
    /// tasks. `tasks` returns the number of a job's tasks.
    pub fn over(&self, is_over: impl Fn(u64) -> bool, tasks: impl Fn(JobId) -> usize) -> usize {
        let (mut jobs, mut removed) = (0, 0);
        let goes = self.list.iter().take_while(|(id, noticed)| {
            if self.is_deleted(*id) {
                return true;
            }
            let full = jobs == REMOVED_JOBS_MAX || removed >= REMOVED_TASKS;
            let goes = !full && noticed.is_some_and(&is_over);
            if goes {
                jobs += 1;
                removed += tasks(*id);
            }
            goes
        });
        goes.count()
    }

    /// The recorded time of the first job's end, if there is one.
    pub fn first_noticed(&self) -> Option<u64> {
        self.list.front().and_then(|(_, noticed)| *noticed)
    }

    /// Removes the first `count` positions, a number that [`EndedJobs::over`] returned. Returns their jobs.
    pub fn forget(&mut self, count: usize) -> impl Iterator<Item = JobId> {
        let EndedJobs { list, deleted } = self;
        list.drain(..count).map(|(id, _)| id).filter(move |id| deleted.remove(id).is_none())
    }

    /// Removes a job that runs again, and may end again. Unlike a deletion, this takes as long as the list is.
    pub fn revive(&mut self, id: JobId) {
        let EndedJobs { list, deleted } = self;
        list.retain(|(known, _)| *known != id && deleted.remove(known).is_none());
    }

    /// Removes a job.
    pub fn delete(&mut self, id: JobId) {
        self.deleted.insert(id, ());
        if 2 * self.deleted.len() > self.list.len() {
            let deleted = std::mem::take(&mut self.deleted);
            self.list.retain(|(id, _)| !deleted.contains_key(id));
        }
        while let Some((id, _)) = self.list.front()
            && self.deleted.remove(id).is_some()
        {
            self.list.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a list against a naive one.
    fn check(list: &EndedJobs, naive: &[EndedJob]) {
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), naive);
        let first = list.positions() / 2;
        let part: Vec<EndedJob> = list.entries_from(first).map(|(_, job)| *job).collect();
        assert!(naive.ends_with(&part) && part.len() <= list.positions() - first);
    }

    #[test]
    fn deleted_jobs_are_not_in_the_list_and_take_little_of_it() {
        let mut list = EndedJobs::default();
        let mut naive: Vec<EndedJob> = Vec::new();
        let mut random = 7u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % end
        };
        for step in 0..5000 {
            if below(3) > 0 {
                list.push(JobId(step));
                naive.push((JobId(step), None));
            }
            if below(3) == 0 && !naive.is_empty() {
                let (id, _) = naive.remove(below(naive.len() as u64) as usize);
                if below(8) > 0 {
                    list.delete(id);
                } else {
                    list.revive(id);
                    list.push(id);
                    naive.push((id, None));
                }
                assert!(list.positions() <= 2 * naive.len(), "step {step}");
            }
            if below(20) == 0 {
                list.notice(step);
                naive.iter_mut().for_each(|(_, at)| _ = at.get_or_insert(step));
            }
            if below(50) == 0 {
                let is_over = |at: u64| at + 100 <= step;
                let over = naive.iter().take_while(|(_, at)| at.is_some_and(is_over)).count();
                let positions = list.over(is_over, |_| 1);
                assert_eq!(positions == 0, over == 0, "step {step}");
                let forgotten: Vec<JobId> = list.forget(positions).collect();
                let expected: Vec<JobId> = naive.drain(..over).map(|(id, _)| id).collect();
                assert_eq!(forgotten, expected, "step {step}");
            }
            check(&list, &naive);
        }
        assert!(naive.len() > 10, "the list had jobs");
    }

    #[test]
    fn a_call_forgets_a_bounded_number_of_jobs_and_tasks() {
        let ids = (0..2 * REMOVED_JOBS_MAX as u64 + 7).map(JobId);
        let mut list = EndedJobs::from(ids.map(|id| (id, Some(1))).collect::<Vec<_>>());
        // Positions of deleted jobs do not count.
        list.delete(JobId(5));
        for expected in [REMOVED_JOBS_MAX, REMOVED_JOBS_MAX, 6, 0] {
            let positions = list.over(|_| true, |_| 1);
            assert_eq!(list.forget(positions).count(), expected);
        }
        let list = EndedJobs::from((1..4).map(|id| (JobId(id), Some(1))).collect::<Vec<_>>());
        assert_eq!(list.over(|_| true, |_| REMOVED_TASKS - 1), 2);
        assert_eq!(list.over(|_| true, |_| REMOVED_TASKS), 1);
    }
}
