//! Claims between the decision and the commit: they are reserved, permitted and prepared, held until a permit, or
//! undone.
//!
//! ```text
//!   decision ─▶ reserve ─▶ permit ─┬─▶ pre-bind ─▶ the transaction ─▶ post-bind, or unreserve
//!                                  └─▶ held ─▶ continued or undone, in any later step
//! ```
//!
//! Each stage handles all claims of a decision before the next stage, so that no machine is prepared for a gang that
//! stays too small. A rejected claim is unreserved once and removed from the view.

use super::{Decided, Observer, Scheduler};
use crate::framework::chain::Chain;
use crate::framework::events::Events;
use crate::framework::points::{Claimed, PERMIT_WAIT_MAX, Permission, Refused};
use crate::framework::profile::Profile;
use crate::framework::waiting::{Answer, Waiting, WaitingTask};
use crate::placing::refusals::Refusers;
use crate::queue::Nanos;
use omega_cellstate::View;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Job, JobId, MachineId, TaskId, Transaction};
use smallvec::SmallVec;
use std::sync::Arc;

/// Name reported in place of the rejecting plugin's name if a claim is undone because its gang became too small.
const GANG: &str = "gang";

/// Name reported in place of the rejecting plugin's name if a claim is undone because its machine was removed or its
/// task is no longer pending.
const CELL: &str = "cell";

/// A claim between decision and commit.
#[derive(Clone, Copy, Debug)]
struct Bound {
    task: TaskId,
    machine: MachineId,
    /// The position of the task's group in its job.
    group: usize,
    /// Events that may help the job if the wait times out.
    then: Refused,
}

impl Bound {
    fn claimed<'a>(&self, view: &'a View, job: &'a Arc<Job>) -> Claimed<'a> {
        let group = &job.groups[self.group];
        Claimed { view, task: self.task, machine: self.machine, job, group }
    }

    /// Returns the claim as a waiting task that waits for no plugin and has no timeout.
    fn waits(&self) -> WaitingTask {
        let plugins = SmallVec::new();
        WaitingTask { task: self.task, machine: self.machine, until: Nanos::MAX, plugins }
    }
}

/// Claims of one decision that wait for permits.
#[derive(Debug)]
struct Part {
    job: JobId,
    spec: Arc<Job>,
    claims: Vec<Bound>,
}

/// The claims that wait for permits.
#[derive(Debug, Default)]
pub(super) struct Permits {
    waiting: Waiting,
    /// Whether another handle to the waiting tasks may exist.
    shared: bool,
    parts: Vec<Part>,
}

impl Permits {
    /// Creates permits with a handle to the waiting tasks. The handle counts as shared if the chain has plugins that
    /// may keep a clone.
    pub(super) fn new(waiting: Waiting, chain: &Chain) -> Permits {
        let shared = !chain.permit.is_empty() || !chain.reserve.is_empty();
        Permits { waiting, shared, parts: Vec::new() }
    }

    /// Returns another handle to the waiting tasks.
    pub(super) fn share(&mut self) -> Waiting {
        self.shared = true;
        self.waiting.clone()
    }

    /// Whether another handle to the waiting tasks may exist.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Events that other handles raised since the last call.
    pub(super) fn take_raised(&self) -> Events {
        if self.shared { self.waiting.take_raised() } else { Events::NONE }
    }

    /// Whether claims of a job wait for permits.
    pub(super) fn includes(&self, job: JobId) -> bool {
        self.parts.iter().any(|part| part.job == job)
    }

    /// Whether the wait of some claim has ended.
    fn any_answer(&self, now: Nanos) -> bool {
        !self.parts.is_empty() && self.waiting.any_answer(now)
    }
}

/// A rejection, and the name of the plugin that rejected.
type No = (Refused, &'static str);

/// The claims of one decision, sorted by the plugins' answers.
#[derive(Default)]
struct Way {
    on: Vec<Bound>,
    held: Vec<(Bound, WaitingTask)>,
    refused: Vec<(Bound, No)>,
}

impl Way {
    /// Rejects the remaining claims. The gang is retried after the events that the first rejection names. If no claim
    /// was rejected before, the gang is too small because it lost other tasks; then the gang is retried after its
    /// backoff.
    fn refuse_rest(&mut self) {
        let first = self.refused.first().map(|(_, (refusal, _))| *refusal);
        let no = (first.unwrap_or(Refused(Events::TIME)), GANG);
        let held = self.held.drain(..).map(|(claim, _)| claim);
        self.refused.extend(self.on.drain(..).chain(held).map(|claim| (claim, no)));
    }

    /// Events after which the job of rejected claims is retried.
    fn refusers(&self) -> Refusers {
        let events = self.refused.iter().map(|(_, (Refused(events), _))| *events);
        Refusers::waiting_for(events.fold(Events::NONE, |all, events| all | events))
    }
}

impl Scheduler {
    /// Calls the plugins for the claims of a job that are in no transaction yet: the open claims of the view from
    /// position `first` on.
    #[inline(never)]
    pub(super) fn pass(
        &mut self,
        decided: &mut Decided,
        (spec, first): (&Arc<Job>, usize),
        now: Nanos,
        observer: &mut impl Observer,
    ) {
        let bound = |index| {
            let (task, machine, group) = self.view.open_claim(index)?;
            let (_, group) = self.view.job(group);
            Some(Bound { task, machine, group, then: Refused(Events::NONE) })
        };
        let on = (first..self.view.open_claims()).filter_map(bound).collect();
        let mut way = Way { on, ..Way::default() };
        self.stage(&mut way, spec, Scheduler::reserve);
        self.permits(&mut way, spec, now);
        self.stage(&mut way, spec, Scheduler::pre_bind);
        decided.placed = way.on.len();
        decided.held = way.held.len();
        decided.turned_away = !way.refused.is_empty();
        decided.by = decided.by.and(way.refusers());
        self.give_back(spec, &way.refused, observer);
        self.hold(decided.job, spec, way.held);
    }

    /// Calls the plugins of one extension point for each remaining claim. If this makes a gang too small, the whole
    /// gang is rejected.
    fn stage(
        &mut self,
        way: &mut Way,
        spec: &Arc<Job>,
        ask: fn(&mut Scheduler, &Arc<Job>, &Bound) -> Result<(), No>,
    ) {
        for claim in std::mem::take(&mut way.on) {
            match ask(self, spec, &claim) {
                Ok(()) => way.on.push(claim),
                Err(no) => way.refused.push((claim, no)),
            }
        }
        self.refuse_small_gang(way, spec);
    }

    fn refuse_small_gang(&self, way: &mut Way, spec: &Job) {
        let left = way.on.len() + way.held.len();
        let some = way.on.first().or(way.held.first().map(|(claim, _)| claim));
        let Some(job) = some.map(|claim| claim.task.job) else { return };
        if spec.is_placed_at_once() && !self.queue.gang_suffices(job, left) {
            way.refuse_rest();
        }
    }

    fn reserve(&mut self, spec: &Arc<Job>, claim: &Bound) -> Result<(), No> {
        let claimed = claim.claimed(&self.view, spec);
        let mut plugins = self.profile.chain.reserve.iter_mut();
        plugins.try_for_each(|plugin| plugin.reserve(&claimed).map_err(|no| (no, plugin.name())))
    }

    fn pre_bind(&mut self, spec: &Arc<Job>, claim: &Bound) -> Result<(), No> {
        let claimed = claim.claimed(&self.view, spec);
        let mut plugins = self.profile.chain.pre_bind.iter_mut();
        plugins.try_for_each(|plugin| plugin.pre_bind(&claimed).map_err(|no| (no, plugin.name())))
    }

    /// Calls the permit plugins. A gang waits as a whole.
    fn permits(&mut self, way: &mut Way, spec: &Arc<Job>, now: Nanos) {
        for claim in std::mem::take(&mut way.on) {
            match self.permit(spec, &claim, now) {
                Ok((_, waits)) if waits.plugins.is_empty() => way.on.push(claim),
                Ok((then, waits)) => way.held.push((Bound { then, ..claim }, waits)),
                Err(no) => way.refused.push((claim, no)),
            }
        }
        self.refuse_small_gang(way, spec);
        if spec.is_placed_at_once() && !way.held.is_empty() {
            let others = way.on.drain(..).map(|claim| (claim, claim.waits()));
            way.held.extend(others);
        }
    }

    /// Calls all permit plugins for a claim. Returns the plugins that let the claim wait, and the events that may help
    /// after a timeout.
    fn permit(
        &mut self,
        spec: &Arc<Job>,
        claim: &Bound,
        now: Nanos,
    ) -> Result<(Refused, WaitingTask), No> {
        let claimed = claim.claimed(&self.view, spec);
        let mut waits = claim.waits();
        let mut events = Events::NONE;
        for plugin in &mut self.profile.chain.permit {
            match plugin.permit(&claimed, &self.permits.waiting) {
                Permission::Allow => {}
                Permission::Refuse(refusal) => return Err((refusal, plugin.name())),
                Permission::Wait { at_most, then } => {
                    let until = now.saturating_add(at_most.min(PERMIT_WAIT_MAX));
                    waits.until = waits.until.min(until);
                    waits.plugins.push(plugin.name());
                    events |= then.0;
                }
            }
        }
        Ok((Refused(events), waits))
    }

    /// Sets claims aside until they are permitted.
    fn hold(&mut self, job: JobId, spec: &Arc<Job>, held: Vec<(Bound, WaitingTask)>) {
        if held.is_empty() {
            return;
        }
        let mut claims = Vec::with_capacity(held.len());
        // The newest claims are held first, because the view searches its open claims from the newest to the oldest.
        for (claim, waits) in held.into_iter().rev() {
            self.view.defer_claim(claim.task);
            self.queue.hold(claim.task);
            self.permits.waiting.insert(waits);
            claims.push(claim);
        }
        claims.reverse();
        self.permits.parts.push(Part { job, spec: spec.clone(), claims });
    }

    /// Undoes rejected claims, whether or not they waited for permits, and removes them from the view.
    fn give_back(
        &mut self,
        spec: &Arc<Job>,
        refused: &[(Bound, No)],
        observer: &mut impl Observer,
    ) {
        if !refused.is_empty() {
            self.finder.forget_failures();
        }
        for (claim, (_, by)) in refused.iter().rev() {
            self.permits.waiting.remove(claim.task);
            self.view.drop_claim(claim.task);
            unreserve(&mut self.profile, &claim.claimed(&self.view, spec));
            observer.refused(claim.task, by);
        }
        self.queue.put_back(refused.iter().map(|(claim, _)| claim.task));
    }

    // --- Waiting claims ------------------------------------------------------------------------

    /// Continues with the allowed claims, and undoes those that were rejected or timed out.
    pub(super) fn let_go(&mut self, now: Nanos, observer: &mut impl Observer) {
        if self.permits.any_answer(now) {
            self.let_go_all(now, observer);
        }
    }

    #[cold]
    fn let_go_all(&mut self, now: Nanos, observer: &mut impl Observer) {
        for part in std::mem::take(&mut self.permits.parts) {
            let rest = self.let_go_of(part, now, observer);
            self.permits.parts.extend(rest);
        }
    }

    fn let_go_of(&mut self, part: Part, now: Nanos, observer: &mut impl Observer) -> Option<Part> {
        let Part { job, spec, claims } = part;
        let mut way = Way::default();
        for claim in claims {
            match self.permits.waiting.answer(claim.task, now) {
                Answer::Waits => way.held.push((claim, claim.waits())),
                Answer::Allowed => way.on.push(claim),
                Answer::Refused(by) => way.refused.push((claim, (claim.then, by))),
            }
        }
        self.refuse_small_gang(&mut way, &spec);
        let gang_waits = spec.is_placed_at_once() && !way.held.is_empty();
        let too_many = self.open_items() + way.on.len() > TRANSACTION_ITEMS_MAX;
        if too_many {
            self.permits.waiting.look_again();
        }
        let mut rest: Vec<Bound> = way.held.drain(..).map(|(claim, _)| claim).collect();
        if gang_waits || too_many {
            rest.append(&mut way.on);
        }
        for claim in &way.on {
            self.permits.waiting.remove(claim.task);
            self.view.resume_claim(claim.task);
            self.queue.resume(claim.task);
        }
        self.stage(&mut way, &spec, Scheduler::pre_bind);
        if !way.on.is_empty() {
            let resumed = way.on.len();
            self.queue.begin(job);
            let decided = Decided::new(job, self.queue.news());
            self.turns.resume(Decided { asked: resumed, placed: resumed, ..decided });
        }
        if !way.refused.is_empty() {
            self.give_back(&spec, &way.refused, observer);
            self.refuse_held(job, &way, now);
        }
        (!rest.is_empty()).then_some(Part { job, spec, claims: rest })
    }

    /// Records that waiting claims of a job were undone, and retries the job later.
    fn refuse_held(&mut self, job: JobId, way: &Way, now: Nanos) {
        self.wake_after_undo(way.refused.iter().map(|(claim, _)| claim.machine.slot), now);
        let by = way.refusers();
        match self.turns.of(job) {
            Some(part) => {
                part.turned_away = true;
                part.by = part.by.and(by);
            }
            None => self.queue.refuse(job, by, now),
        }
    }

    /// Undoes waiting claims, after a sync, if their machine was removed or their task is no longer pending.
    pub(super) fn drop_lost(&mut self, now: Nanos, observer: &mut impl Observer) {
        if !self.permits.parts.is_empty() {
            self.drop_lost_of_parts(now, observer);
        }
    }

    #[cold]
    fn drop_lost_of_parts(&mut self, now: Nanos, observer: &mut impl Observer) {
        for mut part in std::mem::take(&mut self.permits.parts) {
            let mut lost = Vec::new();
            part.claims.retain(|claim| {
                let row = claim.machine.row();
                let is_there =
                    self.view.machine(row).is_some() && self.view.machine_id(row) == claim.machine;
                // A rebuilt queue has no record of permit waits, so each wait is recorded again.
                let kept = self.queue.hold(claim.task) && is_there;
                if !kept {
                    lost.push((*claim, (Refused(Events::NONE), CELL)));
                }
                kept
            });
            if !lost.is_empty() {
                self.give_back(&part.spec, &lost, observer);
                self.wake_after_undo(lost.iter().map(|(claim, _)| claim.machine.slot), now);
                self.queue.wake(part.job);
                // The gang may need fewer claims now, so its remaining claims may be enough to continue.
                self.permits.waiting.look_again();
            }
            if !part.claims.is_empty() {
                self.permits.parts.push(part);
            }
        }
    }

    // --- Answers --------------------------------------------------------------------------------

    /// Calls the plugins with the results of a transaction.
    pub(super) fn follow(&mut self, txn: &Transaction, taken: impl Fn(usize) -> bool) {
        if self.profile.chain.follows() {
            self.follow_claims(txn, taken);
        }
    }

    #[inline(never)]
    fn follow_claims(&mut self, txn: &Transaction, taken: impl Fn(usize) -> bool) {
        for (index, claim) in txn.claims.iter().enumerate() {
            let Some(spec) = self.queue.job(claim.task.job) else { continue };
            let Some(group) = self.queue.group_of(claim.task) else { continue };
            let then = Refused(Events::NONE);
            let bound = Bound { task: claim.task, machine: claim.machine, group, then };
            let claimed = bound.claimed(&self.view, spec);
            if taken(index) {
                let plugins = self.profile.chain.post_bind.iter_mut();
                plugins.for_each(|plugin| plugin.post_bind(&claimed));
            } else {
                unreserve(&mut self.profile, &claimed);
            }
        }
    }
}

/// Calls `unreserve` of all plugins for a claim, in reverse order.
fn unreserve(profile: &mut Profile, claimed: &Claimed<'_>) {
    profile.chain.reserve.iter_mut().rev().for_each(|plugin| plugin.unreserve(claimed));
}
