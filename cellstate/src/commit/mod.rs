//! Commit of a transaction: applies valid claims and rejects conflicting ones.
//!
//! ```text
//!   releases ─▶ evictions ─▶ resizes ─▶ claims    each checked after the earlier ones
//!        └──────────┴──────────┴──────────┴─▶ steps   applied to amounts and counters at once
//!                     │
//!           gang too small? eviction unused?      then undo all steps, reject those, check again
//!           a task with unmet runtime affinity?
//!           all-or-nothing and a conflict?        then undo all steps
//!                     │
//!                  finish                         one version, one sequence number per machine
//! ```
//!
//! Sequence numbers, the version and the change log change only in `finish`. So the sequence-number check compares with
//! machines as they were *before* the transaction, while the fit check uses the amounts that earlier items left. A
//! rejected gang leaves no trace.

pub mod pre_check;
mod resize;
mod scratch;
mod undo;

pub use scratch::{Review, Scope, Scratch, Step};

use crate::cell::{Cell, Parts};
use crate::fit::{ClaimRequest, Grant, Rules, check_fit};
use crate::policy::{Context, Placement, Policies, PolicySet};
use crate::state::reply_cache::Digest;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::transaction::Item;
use omega_core::{
    Claim, Commit, Conflict, ConflictCheck, Granularity, NodeCores, Reason, Take, TaskId,
    TaskState, Transaction, TransactionError,
};
use scratch::Had;

/// Number of rounds that reject only the gangs and evictions that break a rule. After them, one round rejects all gangs
/// and evictions that could break a rule. The bound is needed because each round checks the whole transaction, and its
/// rejections may cause another round.
const ROUNDS_MAX: usize = 4;

impl Cell {
    /// Checks a transaction, and applies the items that pass.
    ///
    /// # Errors
    /// The transaction is invalid as a whole. Conflicts are not errors.
    pub fn commit(&mut self, txn: &Transaction) -> Result<Commit, TransactionError> {
        self.commit_digested(txn, Digest::of(txn))
    }

    /// Commits a transaction whose digest was computed before the cell was locked.
    ///
    /// # Errors
    /// Those of [`Cell::commit`].
    pub(crate) fn commit_digested(
        &mut self,
        txn: &Transaction,
        digest: Digest,
    ) -> Result<Commit, TransactionError> {
        self.check_form(txn)?;
        let scheduler = txn.id.scheduler.0 as usize;
        let registered = &mut self.schedulers[scheduler];
        if let Some(reply) = registered.reply_cache.find(txn, digest)? {
            return Ok(reply);
        }
        if txn.base > self.version {
            let version = self.version;
            return Err(TransactionError::BaseFromFuture { base: txn.base, version });
        }
        let mut scratch = registered.scratch.take().unwrap_or_default();
        self.check_transaction(txn, &mut scratch);
        if !scratch.steps.is_empty() || crate::injected!(RejectionLeavesVersion) {
            self.finish(&mut scratch);
            if self.history.is_some() {
                self.note_commit(txn, &scratch);
            }
            self.count_moves(txn, &scratch.conflicts);
        }
        if !scratch.met.is_empty() {
            let met = scratch.met;
            let (review, notes) = scratch.review(txn, Scope::Breaking);
            Policies::settle(self, &review, met, *notes);
        }
        let conflicts = std::mem::take(&mut scratch.conflicts);
        let commit = Commit { version: self.version, conflicts };
        let registered = &mut self.schedulers[scheduler];
        if let Some(capture) = &mut self.capture {
            capture.save_reply_caches(scheduler, registered);
        }
        registered.reply_cache.insert(txn.id.number, digest, &commit);
        registered.scratch = Some(scratch);
        Ok(commit)
    }

    /// Counts the tasks that the transaction moved: it released them and placed them again.
    fn count_moves(&mut self, txn: &Transaction, conflicts: &[Conflict]) {
        if txn.releases.is_empty() {
            return;
        }
        let stayed = |i| conflicts.binary_search_by(|c| c.item.cmp(&Item::Release(i))).is_ok();
        let is_placed = |task: TaskId| {
            self.jobs.task(task).is_some_and(|(_, task)| task.state.machine().is_some())
        };
        let moved =
            txn.releases.iter().zip(0..).filter(|(task, i)| !stayed(*i) && is_placed(**task));
        self.counters.moves += moved.count() as u64;
    }

    pub(crate) fn check_form(&self, txn: &Transaction) -> Result<(), TransactionError> {
        let items = txn.items();
        if items == 0 {
            return Err(TransactionError::Empty);
        }
        if items > TRANSACTION_ITEMS_MAX {
            return Err(TransactionError::TooManyItems { items, max: TRANSACTION_ITEMS_MAX });
        }
        match self.schedulers.get(txn.id.scheduler.0 as usize) {
            Some(scheduler) => scheduler.reply_cache.check_ahead(txn.id),
            None => Err(TransactionError::UnknownScheduler(txn.id.scheduler)),
        }
    }

    /// Checks all items. Repeats the check without the rejected items until it rejects no further gang, eviction or
    /// claim with unmet runtime affinity.
    pub(crate) fn check_transaction(&mut self, txn: &Transaction, scratch: &mut Scratch) {
        let mut refused = Vec::new();
        let mut first = Vec::new();
        for round in 0.. {
            self.check_items(txn, &refused, scratch);
            // The review is skipped if no policy needs it, because it reads vector lengths that were just written, and
            // the processor would stall.
            if scratch.met.is_empty() {
                break;
            }
            let scope = if round >= ROUNDS_MAX { Scope::All } else { Scope::Breaking };
            let met = scratch.met;
            let mut late = Vec::new();
            let (review, notes) = scratch.review(txn, scope);
            Policies::check_all(self, &review, met, notes, &mut late);
            if late.is_empty() {
                break;
            }
            self.undo(scratch);
            if round == 0 {
                first.clone_from(&scratch.conflicts);
            }
            refused.append(&mut late);
            refused.sort_unstable_by_key(|conflict| conflict.item);
        }
        name_first_reasons(&mut scratch.conflicts, &first);
        if txn.granularity == Granularity::AllOrNothing && !scratch.conflicts.is_empty() {
            self.undo(scratch);
            refuse_others(txn, &mut scratch.conflicts);
        }
    }

    /// Checks each item once, in order. Items in `refused` are rejected without a check.
    fn check_items(&mut self, txn: &Transaction, refused: &[Conflict], scratch: &mut Scratch) {
        scratch.clear(PolicySet::of_transaction(txn));
        let early = |item: Item| {
            let found = refused.binary_search_by(|conflict| conflict.item.cmp(&item));
            found.ok().map(|i| refused[i].reason)
        };
        for (task, i) in txn.releases.iter().zip(0..) {
            self.remove(*task, Item::Release(i), early(Item::Release(i)), scratch);
        }
        for (task, i) in txn.evictions.iter().zip(0..) {
            self.remove(*task, Item::Eviction(i), early(Item::Eviction(i)), scratch);
        }
        let resized = self.check_resizes(txn, scratch);
        if txn.claims.len() > 1 {
            self.machines.load_rows(txn.claims.iter().map(|claim| claim.machine));
        }
        for (claim, i) in txn.claims.iter().zip(0..) {
            let item = Item::Claim(i);
            let checked = match early(item) {
                Some(reason) => Err(reason),
                None => self.claim(claim, txn.check, scratch),
            };
            if let Err(reason) = checked {
                scratch.conflicts.push(Conflict { item, reason });
            }
        }
        scratch.conflicts.extend(resized);
    }

    /// Checks each resize. Returns the rejected ones, which come last among the conflicts.
    fn check_resizes(&mut self, txn: &Transaction, scratch: &mut Scratch) -> Vec<Conflict> {
        let mut refused = Vec::new();
        for (resize, i) in txn.resizes.iter().zip(0..) {
            match self.resize(resize, scratch) {
                Ok(step) => scratch.steps.push(step),
                Err(reason) => refused.push(Conflict { item: Item::Resize(i), reason }),
            }
        }
        refused
    }

    /// Removes a task from its machine, for a release or an eviction.
    fn remove(&mut self, task: TaskId, item: Item, early: Option<Reason>, scratch: &mut Scratch) {
        let checked = match (early, self.parts(task.job)) {
            (Some(reason), _) => Err(reason),
            (None, None) => Err(Reason::UnknownTask),
            (None, Some(parts)) => remove_task(parts, task, scratch),
        };
        match checked {
            Ok(step) => scratch.steps.push(step),
            Err(reason) => scratch.conflicts.push(Conflict { item, reason }),
        }
    }

    /// Checks one claim and applies it.
    fn claim(
        &mut self,
        claim: &Claim,
        check: ConflictCheck,
        scratch: &mut Scratch,
    ) -> Result<(), Reason> {
        let Cell { jobs, machines, machine_index, tenants, policies, now_ms, .. } = self;
        let job = jobs.get_mut(claim.task.job).ok_or(Reason::UnknownTask)?;
        let task = job.tasks.get(claim.task.index as usize).ok_or(Reason::UnknownTask)?;
        match task.state {
            TaskState::Pending => {}
            state if state.ended() => return Err(Reason::TaskEnded),
            _ => return Err(Reason::TaskPlaced),
        }
        let need = job.need(task);
        let row = machines.get(claim.machine).ok_or(Reason::MachineGone)?;
        if check == ConflictCheck::SequenceNumber && row.sequence != claim.seen {
            return Err(Reason::MachineChanged);
        }
        let grant = if crate::injected!(PreCheckTrusted) {
            Grant { devices: claim.devices, cores: NodeCores::NONE }
        } else {
            let request = need.taken(claim.take).0;
            let (spec, tenant, ports) = (&job.spec, job.tenant, &[][..]);
            let at =
                Placement { row: claim.machine.row(), job: spec, tenant, need, request, ports };
            let context = Context { machine_index, now_ms: *now_ms, tenants };
            let rules = Rules { policies, context: &context };
            let asked = ClaimRequest { take: claim.take, devices: claim.devices };
            check_fit(
                claim.machine,
                &machines.machine_info(claim.machine, row),
                &at,
                &rules,
                asked,
            )?
        };
        scratch.met |= policies.meeting(need);
        if claim.take == Take::WithOptional {
            let request = need.taken(claim.take).0.clone();
            job.set_allocation(claim.task.index, request);
        }
        let owner = job.owner;
        let parts = Parts { job, machines, tenants, policies, machine_index, now_ms: *now_ms };
        Cell::place(parts, claim.task, claim.machine, grant);
        // Pushed here instead of returned, because a returned step is copied at the size of the largest variant.
        scratch.steps.push(Step::Placed { task: claim.task, slot: claim.machine.slot, owner });
        Ok(())
    }

    /// Publishes the steps as one version, with one sequence number for each machine, and logs the changes.
    fn finish(&mut self, scratch: &mut Scratch) {
        self.begin();
        scratch.touched.clear();
        for step in &scratch.steps {
            scratch.touched.push(step.slot());
            let (Step::Placed { task, slot, owner }
            | Step::Removed { task, slot, owner, .. }
            | Step::Resized { task, slot, owner }) = *step;
            match step {
                Step::Resized { .. } => self.log_resize(task, owner),
                _ => self.log_task(task, owner, Some(slot as usize)),
            }
        }
        scratch.touched.sort_unstable();
        scratch.touched.dedup();
        for slot in &scratch.touched {
            self.touch(*slot as usize);
        }
    }
}

/// Removes a task from its machine, and records its allocation.
fn remove_task(parts: Parts<'_>, id: TaskId, scratch: &mut Scratch) -> Result<Step, Reason> {
    let record = *parts.job.tasks.get(id.index as usize).ok_or(Reason::UnknownTask)?;
    if record.state.ended() {
        return Err(Reason::TaskEnded);
    }
    let machine = record.state.machine().ok_or(Reason::TaskNotPlaced)?;
    let owner = parts.job.owner;
    let need = parts.job.need(&record);
    scratch.met |= parts.policies.meeting(need);
    let request = parts.job.part(id.index).request;
    let (row, tenant) = (machine.row(), parts.job.tenant);
    let ports = parts.job.ports.get(id.index);
    let at = Placement { row, job: &parts.job.spec, tenant, need, request, ports };
    parts.policies.note_removal(&at, parts.machine_index, &mut scratch.notes);
    let cores = parts.job.cores.get(id.index).copied().unwrap_or_default();
    let ports = ports.to_vec();
    let amounts = Cell::unplace(parts, id, TaskState::Pending);
    if amounts.is_some() || !cores.is_empty() || !ports.is_empty() {
        scratch.had.push((id, Had { amounts, cores, ports }));
    }
    Ok(Step::Removed { task: id, slot: machine.slot, owner, before: record })
}

/// Restores the first round's reason for claims that were rejected because their gang stayed too small. The last round
/// does not always find that reason, because it rejects the gang's other claims unchecked.
fn name_first_reasons(conflicts: &mut [Conflict], first: &[Conflict]) {
    for conflict in conflicts.iter_mut().filter(|c| c.reason == Reason::GangIncomplete) {
        if let Ok(i) = first.binary_search_by(|known| known.item.cmp(&conflict.item)) {
            conflict.reason = first[i].reason;
        }
    }
}

/// Rejects all other items of an all-or-nothing transaction that has a conflict.
fn refuse_others(txn: &Transaction, conflicts: &mut Vec<Conflict>) {
    let releases = (0..txn.releases.len() as u32).map(Item::Release);
    let evictions = (0..txn.evictions.len() as u32).map(Item::Eviction);
    let claims = (0..txn.claims.len() as u32).map(Item::Claim);
    let resizes = (0..txn.resizes.len() as u32).map(Item::Resize);
    let own = std::mem::take(conflicts);
    conflicts.extend(releases.chain(evictions).chain(claims).chain(resizes).map(|item| {
        let found = own.binary_search_by(|conflict| conflict.item.cmp(&item));
        let reason = found.map_or(Reason::OthersConflict, |i| own[i].reason);
        Conflict { item, reason }
    }));
}
