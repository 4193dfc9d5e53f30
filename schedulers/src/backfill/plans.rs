//! The pending jobs without room, in queue order, and the plans of the first few.
//!
//! Invariant: no two plans need the same room, provided that tasks end as their jobs estimate.

use super::plan::{Holds, MissingTasks, Plan, Search, When};
use super::timeline::Hold;
use crate::framework::evaluator::Evaluator;
use crate::framework::points::{Order, Queued};
use crate::queue::place_in_order::Place;
use omega_cellstate::{BLOCK, View};
use omega_core::{Job, JobId, Version};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The order of a queue without an order plugin: precedence, then age.
struct ByPrecedence;

impl Order for ByPrecedence {
    fn name(&self) -> &'static str {
        "precedence"
    }

    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
        b.job.precedence.cmp(&a.job.precedence)
    }
}

/// Counters of backfill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackfillFigures {
    /// Number of current plans.
    pub held: u64,
    /// Number of plans made or remade.
    pub made: u64,
    /// Tasks of other jobs placed while a plan restricted them.
    pub backfilled: u64,
    /// Number of jobs that had a plan and then got all their machines.
    pub started: u64,
    /// Number of started jobs that got their machines later than first planned.
    pub late: u64,
    /// Total delay of all late jobs, in milliseconds.
    pub late_ms: u64,
}

/// A job without room.
#[derive(Debug)]
struct Lacking {
    /// Description by which the job is in order.
    job: Arc<Job>,
    /// Start time of the job's first plan.
    promised_ms: Option<u64>,
    /// Version and time of the view at the last failed attempt.
    tried: (Version, u64),
}

/// A job with its plan.
#[derive(Debug)]
struct Planned {
    id: JobId,
    /// `None` if all tasks are in a transaction, or if no start time can be computed.
    plan: Option<Plan>,
    missing: MissingTasks,
    /// Cell time of the last search for this plan, or for an earlier start of the plan.
    looked_ms: u64,
    /// Change stamps of the rows of the plan's machines, as of the last check.
    stamps: Vec<u64>,
}

impl Planned {
    /// The rows of a plan's machines that have changed since the last check.
    fn changed_rows(&self, plan: &Plan, view: &View) -> BTreeSet<usize> {
        let rows = plan.slots.iter().map(|slot| slot.machine.row()).zip(&self.stamps);
        rows.filter(|(row, stamp)| view.row_stamp(*row) != **stamp).map(|(row, _)| row).collect()
    }
}

/// The change stamps of the rows of a plan's machines.
fn stamps(plan: &Plan, view: &View) -> Vec<u64> {
    plan.slots.iter().map(|slot| view.row_stamp(slot.machine.row())).collect()
}

/// The plans; see the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    order: Option<Arc<dyn Order>>,
    /// Least time between two searches for a job's plan, in milliseconds of the cell's time.
    interval_ms: u64,
    /// Latest start of a plan, in milliseconds from now.
    window_ms: u64,
    waiting: BTreeSet<Place>,
    jobs: BTreeMap<JobId, Lacking>,
    /// The first waiting jobs, in order, with their plans.
    planned: Vec<Planned>,
    /// Whether tasks of a job that precedes a planned job in the queue were placed, maybe on the planned machines.
    passed: bool,
    /// Cell time of the last check of all plans.
    checked_ms: u64,
    /// The job being decided, and the number of plans of jobs before it in the order.
    turn: Option<(JobId, usize)>,
    /// Slots of plans by the row of their machine. An entry is a pair: the position of the plan, and the position of
    /// the slot in the plan.
    by_row: BTreeMap<usize, SmallVec<[(usize, usize); 2]>>,
    pub(crate) figures: BackfillFigures,
}

/// A set of plans that restrict a job.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// The plans of all other jobs.
    AllBut(JobId),
    /// The plans of the first jobs, as many as this number.
    First(usize),
}

/// Result of [`Plans::renew`].
#[derive(Debug, Default)]
pub(crate) struct Renewed {
    /// Whether a plan was dropped or shrunk.
    pub(crate) eased: bool,
    /// Jobs whose plans begin now.
    pub(crate) due: Vec<JobId>,
}

impl Plans {
    /// Creates an empty set of plans for a queue in this order, with this interval between searches and this window.
    pub(crate) fn new(order: Option<Arc<dyn Order>>, interval_ms: u64, window_ms: u64) -> Plans {
        let order = Some(order.unwrap_or_else(|| Arc::new(ByPrecedence)));
        Plans { order, interval_ms, window_ms, ..Plans::default() }
    }

    fn place(&self, id: JobId, job: &Arc<Job>) -> Option<Place> {
        Some(Place::new(self.order.as_ref()?, job, id))
    }

    /// Records that tasks of the job being decided have claims.
    pub(crate) fn note_claims(&mut self) {
        self.passed |= self.turn.is_some_and(|(_, before)| before < self.planned.len());
    }

    /// Whether a job is among the first `depth` jobs.
    pub(crate) fn is_in_head(&self, id: JobId, depth: usize) -> bool {
        self.waiting.iter().take(depth).any(|place| place.id == id)
    }

    /// Whether no job lacks room.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether a job lacks room or has a plan.
    pub(crate) fn is_used(&self) -> bool {
        !self.jobs.is_empty() || !self.planned.is_empty()
    }

    /// Whether a job is recorded as lacking room.
    pub(crate) fn has(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    /// All jobs that lack room, by id.
    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// The planned jobs in order, each with its start time.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (JobId, u64)> {
        let start = |planned: &Planned| Some((planned.id, planned.plan.as_ref()?.start_ms));
        self.planned.iter().filter_map(start)
    }

    /// Records that the decision about a job begins.
    pub(crate) fn begin_turn(&mut self, id: JobId, job: &Arc<Job>) {
        self.turn = None;
        if self.planned.is_empty() {
            return;
        }
        let Some(place) = self.place(id, job) else { return };
        let is_before = |planned: &Planned| {
            let known =
                self.jobs.get(&planned.id).and_then(|other| self.place(planned.id, &other.job));
            known.is_some_and(|other| other < place)
        };
        let before = self.planned.iter().take_while(|planned| is_before(planned)).count();
        self.turn = Some((id, before));
    }

    /// Records that a job found no room in a view.
    pub(crate) fn lacks(&mut self, id: JobId, job: &Arc<Job>, view: &View) {
        let tried = (view.version(), view.now_ms());
        if let Some(known) = self.jobs.get_mut(&id) {
            known.tried = tried;
            return;
        }
        let Some(place) = self.place(id, job) else { return };
        self.waiting.insert(place);
        self.jobs.insert(id, Lacking { job: job.clone(), promised_ms: None, tried });
    }

    /// Replaces the description of a job, which may change its place in the order.
    pub(crate) fn update(&mut self, id: JobId, job: &Arc<Job>) {
        let Some(known) = self.jobs.get(&id).filter(|known| known.job != *job) else { return };
        if let (Some(old), Some(new)) = (self.place(id, &known.job), self.place(id, job)) {
            self.waiting.remove(&old);
            self.waiting.insert(new);
        }
        if let Some(known) = self.jobs.get_mut(&id) {
            known.job = job.clone();
        }
    }

    /// Removes a job that no longer lacks room, or has ended. `placed_ms` is the time at which the job got the last of
    /// its machines; `None` if it did not get all of them.
    pub(crate) fn leaves(&mut self, id: JobId, placed_ms: Option<u64>) {
        let Some(known) = self.jobs.remove(&id) else { return };
        if let Some(place) = self.place(id, &known.job) {
            self.waiting.remove(&place);
        }
        if let (Some(placed), Some(promised)) = (placed_ms, known.promised_ms) {
            self.figures.started += 1;
            self.figures.late += u64::from(placed > promised);
            self.figures.late_ms += placed.saturating_sub(promised);
        }
    }

    /// Counts placed tasks as backfilled, if their job has no plan and plans of other jobs restrict it.
    pub(crate) fn count_placed(&mut self, id: JobId, tasks: usize) {
        if !self.planned.iter().any(|planned| planned.id == id) && self.binds(id) {
            self.figures.backfilled += tasks as u64;
        }
    }

    // --- Jobs that plans restrict ---------------------------------------------------------------

    fn bound(&self, id: JobId) -> Bound {
        match self.turn {
            Some((turn, before)) if turn == id && !self.planned.iter().any(|one| one.id == id) => {
                Bound::First(before)
            }
            _ => Bound::AllBut(id),
        }
    }

    fn has_bound(&self, position: usize, bound: Bound) -> bool {
        match bound {
            Bound::AllBut(own) => self.planned[position].id != own,
            Bound::First(before) => position < before,
        }
    }

    /// Whether plans restrict a job.
    pub(crate) fn binds(&self, id: JobId) -> bool {
        if self.by_row.is_empty() {
            return false;
        }
        let bound = self.bound(id);
        let is_bound = |at: usize| self.planned[at].plan.is_some() && self.has_bound(at, bound);
        (0..self.planned.len()).any(is_bound)
    }

    /// Resources that plans keep on the machine in a row, each with the position of its plan.
    fn kept_on(&self, bound: Bound, row: usize) -> impl Iterator<Item = (usize, &Hold)> + Clone {
        let here = self.by_row.get(&row).into_iter().flatten();
        here.filter(move |(position, _)| self.has_bound(*position, bound)).filter_map(
            |(position, slot)| {
                let plan = self.planned[*position].plan.as_ref()?;
                Some((*position, &plan.slots.get(*slot)?.hold))
            },
        )
    }

    /// Resources that the plans of other jobs keep on the machine in a row.
    pub(super) fn holds_on(&self, id: JobId, row: usize) -> impl Iterator<Item = &Hold> + Clone {
        self.kept_on(self.bound(id), row).map(|(_, hold)| hold)
    }

    /// The machines of a block that are in any plan, as bits.
    pub(super) fn rows_held(&self, block: usize) -> u64 {
        let rows = self.by_row.range(block * BLOCK..(block + 1) * BLOCK);
        rows.fold(0, |word, (row, _)| word | 1 << (row % BLOCK))
    }

    /// Returns the job whose plan is the first to restrict the job `id` on the machine in a row, and the start of that
    /// plan.
    pub(super) fn holder_of(&self, id: JobId, row: usize) -> Option<(&Arc<Job>, u64)> {
        let kept = self.kept_on(self.bound(id), row);
        let (position, hold) = kept.min_by_key(|(_, hold)| hold.from_ms)?;
        Some((&self.jobs.get(&self.planned[position].id)?.job, hold.from_ms))
    }

    // --- Updates of plans ------------------------------------------------------------------------

    /// The first `depth` jobs.
    pub(crate) fn head(&self, depth: usize) -> Vec<(JobId, Arc<Job>)> {
        let known = |place: &Place| Some((place.id, self.jobs.get(&place.id)?.job.clone()));
        self.waiting.iter().take(depth).filter_map(known).collect()
    }

    /// Updates the plans of the first jobs, in order, given the missing tasks of each.
    pub(crate) fn renew(
        &mut self,
        head: Vec<(JobId, MissingTasks)>,
        view: &View,
        evaluator: &Evaluator,
    ) -> Renewed {
        self.turn = None;
        if let Some(due) = self.confirm(&head, view, evaluator) {
            return Renewed { eased: false, due };
        }
        let mut before = std::mem::take(&mut self.planned);
        let mut renewed = Renewed::default();
        let mut changed = std::mem::take(&mut self.passed);
        let mut later: BTreeSet<JobId> = head.iter().map(|(id, _)| *id).collect();
        for (id, missing) in head {
            later.remove(&id);
            let known = before.iter().position(|planned| planned.id == id);
            let old = known.map(|at| before.remove(at));
            let stays = |one: &&Planned| later.contains(&one.id);
            let after = before.iter().filter(stays).filter_map(|one| one.plan.as_ref());
            let after: Vec<&Plan> = after.collect();
            let old_plan = old.as_ref().and_then(|old| old.plan.clone());
            let wanted = Wanted { id, old, missing };
            let others = Others { after: &after, changed };
            let (mut next, made) = self.next_plan(wanted, others, view, evaluator);
            next.stamps = next.plan.as_ref().map_or_else(Vec::new, |plan| stamps(plan, view));
            changed |= old_plan != next.plan;
            renewed.eased |= old_plan.is_some() && old_plan != next.plan;
            self.figures.made += u64::from(made);
            if let (Some(plan), Some(known)) = (&next.plan, self.jobs.get_mut(&id)) {
                known.promised_ms.get_or_insert(plan.start_ms);
                if plan.start_ms <= view.now_ms() {
                    renewed.due.push(id);
                }
            }
            self.planned.push(next);
        }
        self.checked_ms = view.now_ms();
        renewed.eased |= before.iter().any(|left| left.plan.is_some());
        self.figures.held = self.planned.iter().filter(|one| one.plan.is_some()).count() as u64;
        self.index();
        renewed
    }

    /// Checks the plans if no time has passed and no job has other missing tasks. Only machines that have changed since
    /// the last check are examined. Returns the jobs whose plans begin now; `None` if plans may have to change.
    fn confirm(
        &mut self,
        head: &[(JobId, MissingTasks)],
        view: &View,
        evaluator: &Evaluator,
    ) -> Option<Vec<JobId>> {
        let is_same = |(planned, (id, missing)): (&Planned, &(JobId, MissingTasks))| {
            planned.id == *id && planned.missing == *missing
        };
        let is_known = self.checked_ms == view.now_ms() && self.planned.len() == head.len();
        if self.passed || !is_known || !self.planned.iter().zip(head).all(is_same) {
            return None;
        }
        let mut due = Vec::new();
        for position in 0..self.planned.len() {
            let planned = &self.planned[position];
            let Some(plan) = &planned.plan else { continue };
            if plan.start_ms < self.earliest_ms(planned.id, view) {
                return None;
            }
            if plan.start_ms <= view.now_ms() {
                due.push(planned.id);
            }
            let rows = planned.changed_rows(plan, view);
            if rows.is_empty() {
                continue;
            }
            let before = |row| self.kept_on(Bound::First(position), row).map(|(_, hold)| hold);
            let holds = rows.iter().map(|row| (*row, before(*row).collect())).collect();
            let fits = {
                let search = Search { view, evaluator, missing: &planned.missing, holds };
                search
                    .still_fit(plan.slots.iter().filter(|slot| rows.contains(&slot.machine.row())))
            };
            if !fits {
                return None;
            }
            let stamps = stamps(plan, view);
            self.planned[position].stamps = stamps;
        }
        Some(due)
    }

    /// The earliest start of a job's plan. If an attempt to place the job has just failed, this is later than now, even
    /// if the timelines show room now.
    fn earliest_ms(&self, id: JobId, view: &View) -> u64 {
        let tried = self.jobs.get(&id).map(|known| known.tried);
        view.now_ms() + u64::from(tried == Some((view.version(), view.now_ms())))
    }

    /// Builds the index of planned machines by row.
    fn index(&mut self) {
        self.by_row.clear();
        for (position, planned) in self.planned.iter().enumerate() {
            let slots = planned.plan.iter().flat_map(|plan| plan.slots.iter().enumerate());
            for (at, slot) in slots {
                self.by_row.entry(slot.machine.row()).or_default().push((position, at));
            }
        }
    }

    /// Returns the updated plan of a job, and whether a new search made it. The plans of earlier jobs must be up to
    /// date.
    fn next_plan(
        &self,
        Wanted { id, old, missing }: Wanted,
        others: Others<'_>,
        view: &View,
        evaluator: &Evaluator,
    ) -> (Planned, bool) {
        let now_ms = view.now_ms();
        let before: Vec<&Plan> = self.planned.iter().filter_map(|one| one.plan.as_ref()).collect();
        let from_ms = self.earliest_ms(id, view);
        let search = |others: &[&Plan], before_ms| {
            let holds = holds_of(others);
            let search = Search { view, evaluator, missing: &missing, holds };
            let before_ms = now_ms.saturating_add(self.window_ms).min(before_ms);
            search.earliest(When { from_ms, before_ms })
        };
        let Some(old) = old else {
            let plan = search(&before, u64::MAX);
            let made = plan.is_some();
            return (Planned { id, plan, missing, looked_ms: now_ms, stamps: Vec::new() }, made);
        };
        let time_passed = now_ms > old.looked_ms;
        let is_due = now_ms.saturating_sub(old.looked_ms) >= self.interval_ms;
        let nobody_knew = old.plan.is_none() && old.missing == missing;
        let is_same = !time_passed && !others.changed && old.missing == missing;
        let kept = old.plan.clone().and_then(|plan| plan.fit_to(&old.missing, &missing));
        let kept = kept.filter(|plan| plan.start_ms >= from_ms).filter(|plan| {
            if is_same && old.changed_rows(plan, view).is_empty() {
                return true;
            }
            let holds = holds_of(&before);
            let search = Search { view, evaluator, missing: &missing, holds };
            search.still_fit(&plan.slots)
        });
        let made = match &kept {
            // A valid plan is moved to an earlier time if that delays no other plan.
            Some(plan) if is_due && time_passed && plan.start_ms > from_ms => {
                let all: Vec<&Plan> = before.iter().chain(others.after).copied().collect();
                Some(search(&all, plan.start_ms))
            }
            Some(_) => None,
            None if nobody_knew && !time_passed => None,
            None if old.missing == missing && !is_due => None,
            None => Some(search(&before, u64::MAX)),
        };
        let looked_ms = if made.is_some() { now_ms } else { old.looked_ms };
        let made = made.flatten();
        let is_made = made.is_some();
        let plan = made.or(kept);
        (Planned { id, plan, missing, looked_ms, stamps: Vec::new() }, is_made)
    }
}

/// A job to be planned.
struct Wanted {
    id: JobId,
    /// Present plan of the job, if the job was already among the first ones.
    old: Option<Planned>,
    missing: MissingTasks,
}

/// The plans of other jobs.
#[derive(Clone, Copy)]
struct Others<'a> {
    /// The present plans of later jobs.
    after: &'a [&'a Plan],
    /// Whether a plan of an earlier job has changed.
    changed: bool,
}

/// Resources that plans keep, by row.
fn holds_of<'a>(plans: &[&'a Plan]) -> Holds<'a> {
    let mut holds = Holds::new();
    for slot in plans.iter().flat_map(|plan| &plan.slots) {
        holds.entry(slot.machine.row()).or_default().push(&slot.hold);
    }
    holds
}
