//! Placement of tasks: one decision for all identical tasks of a group.
//!
//! Between the decisions for two identical tasks, only one machine changes: the machine that the first task took. So a
//! group of `n` tasks takes one search and a heap of the best `n` machines: claim the best machine, score it again, and
//! repeat. Each task gets the same machine as with a search of its own. Each claim changes only one machine, so `n`
//! claims never need a machine outside of the best `n`.
//!
//! This method requires that a claim changes the results of plugins only for the claimed machine. If a plugin reads
//! tasks on other machines (spread, affinity to tasks), every task has its own search. Relative scores that compare
//! machine attributes change only when a machine becomes full and leaves the comparison; then the heap is rebuilt.
//!
//! Before the search, the number of tasks is limited to what the cluster resources and the tenant's quota allow.

use crate::framework::evaluator::Active;
use crate::framework::plugin::tasks;
use crate::framework::profile::Profile;
use crate::placing::reuse::Reuse;
use crate::placing::search::{Candidate, Candidates, Request, keep_best, search, search_best};
use crate::scheduler::Placement;
use omega_cellstate::{BLOCK, GroupRef, View};
use omega_core::TaskId;
use rand::Rng;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A group whose tasks are to be placed, the profile that decides where, and the settings of the search.
#[derive(Clone, Copy, Debug)]
pub struct GroupPlacement<'a> {
    /// The filters and scores.
    pub profile: &'a Profile,
    /// The settings of the search.
    pub placement: Placement,
    /// The tasks' group, compiled.
    pub group: GroupRef,
}

/// Places tasks on a view. Keep a placer for many calls, because it reuses its buffers.
#[derive(Debug, Default)]
pub struct Placer {
    candidates: Candidates,
    heap: BinaryHeap<Candidate>,
    best: Vec<Candidate>,
    reuse: Reuse,
}

impl Placer {
    /// Claims machines in the view for tasks of one group, as far as there is room, in the order of the list. Returns
    /// the number of placed tasks.
    pub fn place(
        &mut self,
        view: &mut View,
        wanted: GroupPlacement<'_>,
        tasks: &[TaskId],
        rng: &mut impl Rng,
    ) -> usize {
        let GroupPlacement { profile, placement: how, group } = wanted;
        let enough = tasks.len().min(view.cell_room(group));
        let tasks = &tasks[..view.quota_room(group, enough)];
        if tasks.is_empty() {
            return 0;
        }
        let request = Request {
            evaluator: &profile.evaluator,
            group,
            search: how.search,
            tasks: tasks.len(),
            home: how.home,
            near_best: how.near_best,
        };
        if tasks.len() == 1 || self.depends_on_others(view, profile, group) {
            let one = Request { tasks: 1, ..request };
            let placed = |task: &&TaskId| {
                let best = self.best_for_one(view, one, how, rng);
                best.is_some_and(|best| claim(view, group, **task, best))
            };
            return tasks.iter().take_while(placed).count();
        }
        search(view, request, rng, &mut self.candidates);
        self.place_batch(view, request, tasks)
    }

    /// Whether there is room for a task. To find out, the task is placed on the view and removed again.
    pub(crate) fn has_room(
        &mut self,
        view: &mut View,
        wanted: GroupPlacement<'_>,
        task: TaskId,
        rng: &mut impl Rng,
    ) -> bool {
        let placed = self.place(view, wanted, &[task], rng);
        view.drop_claims(placed);
        placed > 0
    }

    /// Whether each task of a group needs a search of its own, because plugins read tasks on other machines.
    pub(crate) fn depends_on_others(
        &self,
        view: &View,
        profile: &Profile,
        group: GroupRef,
    ) -> bool {
        profile.evaluator.active(&tasks(view, group)).reads_other_machines()
    }

    /// Returns a random one of the best machines for one task; `None` if no machine is feasible.
    fn best_for_one(
        &mut self,
        view: &mut View,
        request: Request<'_>,
        how: Placement,
        rng: &mut impl Rng,
    ) -> Option<Candidate> {
        let found = &mut self.candidates;
        let known = if how.reuse { self.reuse.best(view, request, rng, found) } else { None };
        known.unwrap_or_else(|| search_best(view, request, rng, found))
    }

    /// Builds the heap of the best `count` candidates in `self.best`.
    fn heap_of_best(&mut self, count: usize) {
        keep_best(&mut self.best, count);
        self.heap.clear();
        self.heap.extend(self.best.drain(..));
    }

    /// Builds the heap of the best `count` of all candidates found.
    fn heap_of_found(&mut self, count: usize) {
        self.best.clear();
        self.best.extend_from_slice(&self.candidates.found);
        self.heap_of_best(count);
    }

    /// Claims the best machine for one task after another, and scores the machine again after each claim.
    fn place_batch(&mut self, view: &mut View, request: Request<'_>, ids: &[TaskId]) -> usize {
        let is_ranked = self.candidates.is_ranked();
        if is_ranked {
            self.heap_of_found(ids.len());
        } else {
            std::mem::swap(&mut self.best, &mut self.candidates.found);
            self.heap_of_best(ids.len());
        }
        let active = request.evaluator.active(&tasks(view, request.group));
        let mut placed = 0;
        while placed < ids.len() {
            let Some(mut best) = self.heap.peek_mut() else { break };
            let row = best.row as usize;
            let claimed = view.claim_in_quota(ids[placed], view.machine_id(row), request.group);
            debug_assert!(claimed.is_ok(), "the filters allowed what the check rejects");
            placed += usize::from(claimed.is_ok());
            let score = score_again(view, &active, request.group, row);
            match score.filter(|_| claimed.is_ok()) {
                Some(score) if is_ranked => best.score = self.candidates.score_again(&best, score),
                Some(score) => best.score = score,
                None => {
                    let full = PeekMut::pop(best);
                    let tasks = tasks(view, request.group);
                    // Without the full machine, the relative scores of other machines may be different.
                    if is_ranked
                        && self.candidates.leave_out(&full, &tasks, &active)
                        && placed < ids.len()
                    {
                        self.heap_of_found(ids.len() - placed);
                    }
                }
            }
        }
        placed
    }
}

/// Claims the machine of a candidate for a task. Returns whether the claim succeeded.
fn claim(view: &mut View, group: GroupRef, task: TaskId, best: Candidate) -> bool {
    let claimed = view.claim_in_quota(task, view.machine_id(best.row as usize), group);
    debug_assert!(claimed.is_ok(), "the filters allowed what the check rejects: {claimed:?}");
    claimed.is_ok()
}

/// The score of a machine after a claim, without relative scores; `None` if no further task fits.
fn score_again(view: &View, active: &Active<'_>, group: GroupRef, row: usize) -> Option<i32> {
    let tasks = tasks(view, group);
    let block = view.block(row / BLOCK);
    let bit = 1 << (row % BLOCK);
    let feasible = active.feasible(&tasks, block, bit);
    (feasible != 0).then(|| active.scores(&tasks, block, bit)[row % BLOCK])
}
