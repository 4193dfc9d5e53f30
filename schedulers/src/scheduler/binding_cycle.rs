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
use crate::placing::refusals::RejectingPlugins;
use crate::queue::Nanos;
use omega_cellstate::{OpenClaim, View};
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
struct PendingClaim {
    task: TaskId,
    machine: MachineId,
    /// The position of the task's group in its job.
    group: usize,
    /// Events that may help the job if the wait times out.
    then: Refused,
}

impl PendingClaim {
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
struct WaitingClaims {
    job: JobId,
    spec: Arc<Job>,
    claims: Vec<PendingClaim>,
}

/// The claims that wait for permits.
#[derive(Debug, Default)]
pub(super) struct Permits {
    waiting: Waiting,
    /// Whether another handle to the waiting tasks may exist.
    shared: bool,
    parts: Vec<WaitingClaims>,
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

/// Claims of a job that are in no transaction yet.
#[derive(Clone, Copy)]
pub(super) struct NewClaims<'a> {
    pub(super) spec: &'a Arc<Job>,
    /// Position of the first of them among the open claims of the view. All later open claims are of this job.
    pub(super) first: usize,
}

/// A rejection, and the name of the plugin that rejected.
type Rejection = (Refused, &'static str);

/// The claims of one decision, sorted by the plugins' answers.
#[derive(Default)]
struct Sorted {
    accepted: Vec<PendingClaim>,
    held: Vec<(PendingClaim, WaitingTask)>,
    refused: Vec<(PendingClaim, Rejection)>,
}

impl Sorted {
    /// Rejects the remaining claims. The gang is retried after the events that the first rejection names. If no claim
    /// was rejected before, the gang is too small because it lost other tasks; then the gang is retried after its
    /// backoff.
    fn refuse_rest(&mut self) {
        let first = self.refused.first().map(|(_, (refusal, _))| *refusal);
        let rejection = (first.unwrap_or(Refused(Events::TIME)), GANG);
        let held = self.held.drain(..).map(|(claim, _)| claim);
        self.refused.extend(self.accepted.drain(..).chain(held).map(|claim| (claim, rejection)));
    }

    /// Events after which the job of rejected claims is retried.
    fn rejecting_plugins(&self) -> RejectingPlugins {
        let events = self.refused.iter().map(|(_, (Refused(events), _))| *events);
        RejectingPlugins::waiting_for(events.fold(Events::NONE, |all, events| all | events))
    }
}

impl Scheduler {
    /// Calls the plugins for the claims of a job that are in no transaction yet.
    #[inline(never)]
    pub(super) fn bind(
        &mut self,
        decided: &mut Decided,
        claims: NewClaims<'_>,
        now: Nanos,
        observer: &mut impl Observer,
    ) {
        let NewClaims { spec, first } = claims;
        let pending = |index| {
            let OpenClaim { task, machine, group } = self.view.open_claim(index)?;
            let (_, group) = self.view.job(group);
            Some(PendingClaim { task, machine, group, then: Refused(Events::NONE) })
        };
        let accepted = (first..self.view.open_claims()).filter_map(pending).collect();
        let mut sorted = Sorted { accepted, ..Sorted::default() };
        self.stage(&mut sorted, spec, Scheduler::reserve);
        self.permits(&mut sorted, spec, now);
        self.stage(&mut sorted, spec, Scheduler::pre_bind);
        decided.placed = sorted.accepted.len();
        decided.held = sorted.held.len();
        decided.rejected_later = !sorted.refused.is_empty();
        decided.by = decided.by.and(sorted.rejecting_plugins());
        self.give_back(spec, &sorted.refused, observer);
        self.hold(decided.job, spec, sorted.held);
    }

    /// Calls the plugins of one extension point for each remaining claim. If this makes a gang too small, the whole
    /// gang is rejected.
    fn stage(
        &mut self,
        sorted: &mut Sorted,
        spec: &Arc<Job>,
        ask: fn(&mut Scheduler, &Arc<Job>, &PendingClaim) -> Result<(), Rejection>,
    ) {
        for claim in std::mem::take(&mut sorted.accepted) {
            match ask(self, spec, &claim) {
                Ok(()) => sorted.accepted.push(claim),
                Err(rejection) => sorted.refused.push((claim, rejection)),
            }
        }
        self.refuse_small_gang(sorted, spec);
    }

    fn refuse_small_gang(&self, sorted: &mut Sorted, spec: &Job) {
        let left = sorted.accepted.len() + sorted.held.len();
        let some = sorted.accepted.first().or(sorted.held.first().map(|(claim, _)| claim));
        let Some(job) = some.map(|claim| claim.task.job) else { return };
        if spec.is_placed_at_once() && !self.queue.gang_suffices(job, left) {
            sorted.refuse_rest();
        }
    }

    fn reserve(&mut self, spec: &Arc<Job>, claim: &PendingClaim) -> Result<(), Rejection> {
        let claimed = claim.claimed(&self.view, spec);
        let mut plugins = self.profile.chain.reserve.iter_mut();
        plugins.try_for_each(|plugin| plugin.reserve(&claimed).map_err(|no| (no, plugin.name())))
    }

    fn pre_bind(&mut self, spec: &Arc<Job>, claim: &PendingClaim) -> Result<(), Rejection> {
        let claimed = claim.claimed(&self.view, spec);
        let mut plugins = self.profile.chain.pre_bind.iter_mut();
        plugins.try_for_each(|plugin| plugin.pre_bind(&claimed).map_err(|no| (no, plugin.name())))
    }

    /// Calls the permit plugins. A gang waits as a whole.
    fn permits(&mut self, sorted: &mut Sorted, spec: &Arc<Job>, now: Nanos) {
        for claim in std::mem::take(&mut sorted.accepted) {
            match self.permit(spec, &claim, now) {
                Ok((_, waits)) if waits.plugins.is_empty() => sorted.accepted.push(claim),
                Ok((then, waits)) => sorted.held.push((PendingClaim { then, ..claim }, waits)),
                Err(rejection) => sorted.refused.push((claim, rejection)),
            }
        }
        self.refuse_small_gang(sorted, spec);
        if spec.is_placed_at_once() && !sorted.held.is_empty() {
            let others = sorted.accepted.drain(..).map(|claim| (claim, claim.waits()));
            sorted.held.extend(others);
        }
    }

    /// Calls all permit plugins for a claim. Returns the plugins that let the claim wait, and the events that may help
    /// after a timeout.
    fn permit(
        &mut self,
        spec: &Arc<Job>,
        claim: &PendingClaim,
        now: Nanos,
    ) -> Result<(Refused, WaitingTask), Rejection> {
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
    fn hold(&mut self, job: JobId, spec: &Arc<Job>, held: Vec<(PendingClaim, WaitingTask)>) {
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
        self.permits.parts.push(WaitingClaims { job, spec: spec.clone(), claims });
    }

    /// Undoes rejected claims, whether or not they waited for permits, and removes them from the view.
    fn give_back(
        &mut self,
        spec: &Arc<Job>,
        refused: &[(PendingClaim, Rejection)],
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
    pub(super) fn release_permitted(&mut self, now: Nanos, observer: &mut impl Observer) {
        if self.permits.any_answer(now) {
            self.release_all_permitted(now, observer);
        }
    }

    #[cold]
    fn release_all_permitted(&mut self, now: Nanos, observer: &mut impl Observer) {
        for part in std::mem::take(&mut self.permits.parts) {
            let rest = self.release_permitted_of(part, now, observer);
            self.permits.parts.extend(rest);
        }
    }

    fn release_permitted_of(
        &mut self,
        part: WaitingClaims,
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Option<WaitingClaims> {
        let WaitingClaims { job, spec, claims } = part;
        let mut sorted = Sorted::default();
        for claim in claims {
            match self.permits.waiting.answer(claim.task, now) {
                Answer::Waits => sorted.held.push((claim, claim.waits())),
                Answer::Allowed => sorted.accepted.push(claim),
                Answer::Refused(by) => sorted.refused.push((claim, (claim.then, by))),
            }
        }
        self.refuse_small_gang(&mut sorted, &spec);
        let gang_waits = spec.is_placed_at_once() && !sorted.held.is_empty();
        let too_many = self.open_items() + sorted.accepted.len() > TRANSACTION_ITEMS_MAX;
        if too_many {
            self.permits.waiting.look_again();
        }
        let mut rest: Vec<PendingClaim> = sorted.held.drain(..).map(|(claim, _)| claim).collect();
        if gang_waits || too_many {
            rest.append(&mut sorted.accepted);
        }
        for claim in &sorted.accepted {
            self.permits.waiting.remove(claim.task);
            self.view.resume_claim(claim.task);
            self.queue.resume(claim.task);
        }
        self.stage(&mut sorted, &spec, Scheduler::pre_bind);
        if !sorted.accepted.is_empty() {
            let resumed = sorted.accepted.len();
            self.queue.begin(job);
            let decided = Decided::new(job, self.queue.news());
            self.decisions.resume(Decided { asked: resumed, placed: resumed, ..decided });
        }
        if !sorted.refused.is_empty() {
            self.give_back(&spec, &sorted.refused, observer);
            self.refuse_held(job, &sorted, now);
        }
        (!rest.is_empty()).then_some(WaitingClaims { job, spec, claims: rest })
    }

    /// Records that waiting claims of a job were undone, and retries the job later.
    fn refuse_held(&mut self, job: JobId, sorted: &Sorted, now: Nanos) {
        self.wake_after_undo(sorted.refused.iter().map(|(claim, _)| claim.machine.slot), now);
        let by = sorted.rejecting_plugins();
        match self.decisions.of(job) {
            Some(part) => {
                part.rejected_later = true;
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
            let pending = PendingClaim { task: claim.task, machine: claim.machine, group, then };
            let claimed = pending.claimed(&self.view, spec);
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
