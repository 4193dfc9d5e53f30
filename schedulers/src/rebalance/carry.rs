//! Applies a plan to the cell: one transaction for each step.
//!
//! The plan was made on a view, and the cell may have changed since then. So before each wave the view is synced, and
//! steps whose tasks have left the expected machine are skipped. The view checks the other steps first, and then the
//! cell does.
//!
//! The cell of a server pre-checks a transaction before earlier transactions are applied. So the pre-check may reject a
//! step because the task of an earlier step still occupies the room. Rejected and unanswered steps are retried as long
//! as other steps succeed.

use super::Rebalancer;
use super::aims::rules::{Keep, Rule, Shift};
use super::plan::{Move, Plan, Step};
use omega_cellstate::{CellHandle, HandleError, PlacedTask, View};
use omega_core::limits::REPLIES_PER_SCHEDULER;
use omega_core::{Granularity, JobId, Reason, Transaction};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The tasks have moved.
    Moved,
    /// A task was no longer on the machine where the plan expected it.
    Stale,
    /// The view or the cell rejected the move for this reason.
    Refused(Reason),
    /// A rule of the objectives forbids the step, given the steps applied before it.
    Forbidden,
}

/// Outcomes of the steps of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The outcome of each step, in the order of the plan.
    pub fates: Vec<Fate>,
}

impl Done {
    /// Number of steps that were applied.
    #[must_use]
    pub fn moved(&self) -> usize {
        self.fates.iter().filter(|fate| **fate == Fate::Moved).count()
    }
}

/// A submitted step: its position among the steps of this attempt, and its transaction.
struct Sent {
    step: usize,
    txn: Transaction,
}

/// Maximum number of steps that are sent together. This is a quarter of the results that the cell keeps for each
/// scheduler, so the cell still has the result of a transaction that is sent again.
const TOGETHER: usize = REPLIES_PER_SCHEDULER / 4;

/// Number of consecutive attempts without success after which the failure of an unanswered step is returned.
const ATTEMPTS: usize = 3;

/// Outcome of one attempt at a step; `None` if the cell did not answer.
type Attempt = Option<Fate>;

/// Applies the steps of one wave, a limited number at a time.
pub(super) fn wave(
    rebalancer: &mut Rebalancer,
    cell: &(impl CellHandle + ?Sized),
    steps: &[Step],
) -> Result<Vec<Fate>, HandleError> {
    rebalancer.sync(cell)?;
    let mut fates = Vec::with_capacity(steps.len());
    for some in steps.chunks(TOGETHER) {
        fates.extend(persist(rebalancer, cell, some)?);
    }
    Ok(fates)
}

/// Attempts steps until each has moved or become stale, or until an attempt settles no more steps. Steps that an
/// unanswered attempt has committed are not sent again.
fn persist(
    rebalancer: &mut Rebalancer,
    cell: &(impl CellHandle + ?Sized),
    steps: &[Step],
) -> Result<Vec<Fate>, HandleError> {
    let done = |step| is_done(&rebalancer.view, step).then_some(Fate::Moved);
    let mut fates: Vec<Attempt> = steps.iter().map(done).collect();
    let mut failures = 0;
    while fates.iter().any(is_open) {
        let open: Vec<usize> = (0..steps.len()).filter(|at| is_open(&fates[*at])).collect();
        let again: Vec<Step> = open.iter().map(|at| steps[*at].clone()).collect();
        let rules = &rebalancer.settings.objectives.rules;
        let (attempts, failed) = attempt(&mut rebalancer.view, rules, cell, &again);
        rebalancer.sync(cell)?;
        open.iter().zip(attempts).for_each(|(at, attempt)| fates[*at] = attempt);
        // An unanswered transaction may have been committed; the synced view shows whether its tasks have moved.
        for (fate, step) in fates.iter_mut().zip(steps).filter(|(fate, _)| fate.is_none()) {
            *fate = is_done(&rebalancer.view, step).then_some(Fate::Moved);
        }
        let left = fates.iter().filter(|fate| is_open(fate)).count();
        failures = if left < open.len() { 0 } else { failures + 1 };
        match (left, failed) {
            (_, Some(error)) if failures == ATTEMPTS => return Err(error),
            (_, None) if failures > 0 => break,
            _ => {}
        }
    }
    Ok(fates.into_iter().flatten().collect())
}

/// Whether a step should be tried again.
fn is_open(fate: &Attempt) -> bool {
    matches!(fate, None | Some(Fate::Refused(_) | Fate::Forbidden))
}

/// Whether all tasks of a step run on their new machines.
fn is_done(view: &View, step: &Step) -> bool {
    step.moves.iter().all(|m| {
        let row = m.to.row();
        let is_there = row < view.rows() && view.machine_id(row) == m.to;
        is_there && view.tasks_on(row).iter().any(|task| task.id == m.task)
    })
}

/// Sends each step once, on a synced view. Returns the result of each step, and the last failure.
///
/// If a rule of the objectives concerns several steps, only the first of them is sent. A check of the others would have
/// to assume that the first step succeeds.
fn attempt(
    view: &mut View,
    rules: &[Rule],
    cell: &(impl CellHandle + ?Sized),
    steps: &[Step],
) -> (Vec<Attempt>, Option<HandleError>) {
    let mut fates = vec![Some(Fate::Stale); steps.len()];
    let (mut sent, mut lifted, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    let mut keep = Keep::new(rules, view);
    let mut in_flight: BTreeSet<u32> = BTreeSet::new();
    for (index, step) in steps.iter().enumerate() {
        let Some(tasks) = placed(view, step) else { continue };
        let concerned = keep.rules_of(step.moves.iter().map(|m| m.task.job));
        let waits = concerned.iter().any(|rule| in_flight.contains(rule));
        if waits || !keep.allows(&shifts(step)) {
            fates[index] = Some(Fate::Forbidden);
            continue;
        }
        match prepare(view, step, &tasks) {
            Ok(txn) => {
                sent.push(Sent { step: index, txn });
                in_flight.extend(concerned);
                lifted.extend(step.moves.iter().map(|m| m.from.row()).zip(tasks));
                jobs.extend(step.moves.iter().map(|m| m.task.job));
            }
            Err(reason) => fates[index] = Some(Fate::Refused(reason)),
        }
    }
    let txns: Vec<&Transaction> = sent.iter().map(|sent| &sent.txn).collect();
    let answers = cell.commit_all(&txns);
    let mut failed = None;
    for (Sent { step, txn }, answer) in sent.iter().zip(answers) {
        match answer {
            Ok(commit) => {
                view.settle(txn, &commit);
                let reasons = commit.conflicts.iter().map(|conflict| conflict.reason);
                let first = reasons.reduce(|first, next| match first {
                    Reason::OthersConflict => next,
                    first => first,
                });
                fates[*step] = Some(first.map_or(Fate::Moved, Fate::Refused));
            }
            Err(error) => {
                view.abandon(txn);
                fates[*step] = None;
                failed = Some(error);
            }
        }
    }
    lifted.into_iter().for_each(|(row, task)| view.put_back(row, task));
    forget(view, jobs);
    (fates, failed)
}

/// Converts the moves of a step for the check of the rules.
fn shifts(step: &Step) -> SmallVec<[Shift; 2]> {
    let shift = |m: &Move| Shift { job: m.task.job, from: m.from.row(), to: m.to.row() };
    step.moves.iter().map(shift).collect()
}

/// Finds the tasks of a step in the view. Returns `None` unless all of them are on the machines where the plan expects
/// them.
fn placed(view: &View, step: &Step) -> Option<SmallVec<[PlacedTask; 2]>> {
    let find = |m: &Move| {
        let row = m.from.row();
        let is_there = row < view.rows() && view.machine_id(row) == m.from;
        let mut tasks = view.tasks_on(row).iter().filter(|_| is_there);
        tasks.find(|task| task.id == m.task).copied()
    };
    step.moves.iter().map(find).collect()
}

/// Removes the tasks of a step from the view, and claims their new machines. Returns the transaction.
///
/// If the view's check rejects a claim, the function returns the reason and leaves the view unchanged.
fn prepare(view: &mut View, step: &Step, tasks: &[PlacedTask]) -> Result<Transaction, Reason> {
    let moves = || step.moves.iter().zip(tasks);
    moves().for_each(|(m, task)| view.lift(m.from.row(), *task));
    for (count, (m, task)) in moves().enumerate() {
        let claimed = match view.job_of(task.id).cloned() {
            Some(job) => {
                let group = view.compile(task.id.job, &job, usize::from(task.group));
                view.claim(task.id, m.to, group)
            }
            None => Err(Reason::UnknownTask),
        };
        if let Err(reason) = claimed {
            view.drop_claims(count);
            moves().for_each(|(m, task)| view.put_back(m.from.row(), *task));
            return Err(reason);
        }
    }
    let txn = view.take_transaction();
    let releases = step.moves.iter().map(|m| m.task).collect();
    Ok(Transaction { granularity: Granularity::AllOrNothing, releases, ..txn })
}

/// Removes the compiled groups of jobs whose claims are settled.
fn forget(view: &mut View, mut jobs: Vec<JobId>) {
    jobs.sort_unstable();
    jobs.dedup();
    jobs.into_iter().for_each(|job| view.forget_job(job));
}

impl Plan {
    /// The steps of this plan that were applied, according to the fates in `done`.
    pub fn taken<'a>(&'a self, done: &'a Done) -> impl Iterator<Item = &'a Step> {
        let both = self.steps().zip(&done.fates);
        both.filter(|(_, fate)| **fate == Fate::Moved).map(|(step, _)| step)
    }
}
