//! How a transaction is judged: what still holds is taken, what conflicts is refused.
//!
//! ```text
//!   releases ─▶ evictions ─▶ resizes ─▶ claims    each judged after those before it
//!        └──────────┴──────────┴──────────┴─▶ steps   done to amounts and counters at once
//!                     │
//!           gang too small? eviction unused?      then undo all steps, refuse those, judge anew
//!           somebody left alone?
//!           all-or-nothing and a conflict?        then undo all steps
//!                     │
//!                  finish                         one version, one sequence number a machine
//! ```
//!
//! Sequence numbers, the version and the change lists move only in `finish`. So the sequence
//! check compares with the machine as it was *before* the transaction while room is compared with
//! the running tally; and a refused gang leaves no trace at all.

use crate::answers;
use crate::cell::{Cell, Parts};
use crate::held::Values;
use crate::jobs::{OwnerId, TaskRecord};
use crate::judge::{Asked, Grant, Rules, judge};
use crate::map::FastMap;
use crate::policy::peaks::PeakCounts;
use crate::policy::{Context, Placement};
use crate::tenants::{Borrower, Claimant};
use omega_core::bands::band_of;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::transaction::Item;
use omega_core::{
    Claim, Commit, Conflict, ConflictCheck, Granularity, NodeCores, Precedence, Reason, Take,
    TaskId, TaskState, Transaction, TransactionError,
};
use smallvec::SmallVec;

/// After so many rounds of refusing gangs and evictions, what is left of them is refused together:
/// each round takes as long as the transaction has items, and one more could always follow.
const ROUNDS_MAX: usize = 4;

/// By row, the tenants that claim something there.
type Claimants = FastMap<u32, SmallVec<[Claimant; 2]>>;

/// A change that was made for a transaction, and can be undone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Placed { task: TaskId, slot: u32, owner: OwnerId },
    Removed { task: TaskId, slot: u32, owner: OwnerId, before: TaskRecord },
    Resized { task: TaskId, slot: u32, owner: OwnerId },
}

impl Step {
    fn slot(&self) -> u32 {
        match self {
            Step::Placed { slot, .. } | Step::Removed { slot, .. } | Step::Resized { slot, .. } => {
                *slot
            }
        }
    }
}

/// What one commit needs and the next can use again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) steps: Vec<Step>,
    pub(crate) conflicts: Vec<Conflict>,
    touched: Vec<u32>,
    bytes: Vec<u8>,
    /// What tasks held that were resized, or were removed and held something else than their group's
    /// request: for the undo, in the order of the steps.
    pub(crate) held: Vec<(TaskId, Values)>,
    /// The cores that tasks had to themselves which were removed, likewise.
    cores: Vec<(TaskId, NodeCores)>,
    /// Whether tasks are placed that want something.
    pub(crate) optional: bool,
    /// How batch steps back for peaks, and grows.
    pub(crate) peaks: PeakCounts,
    /// Whether gangs are in it that it must place.
    gangs: bool,
    /// Whether a task has left that others may need near them.
    pub(crate) runtime_affinity: bool,
    /// Evictions that only a guarantee allows, as far as they are taken.
    reclaimed: u32,
    /// Whether it places or removes tasks of gangs that may hold places.
    holds: bool,
}

impl Scratch {
    /// Where the tasks that were removed had been.
    fn machines_before(&self) -> FastMap<TaskId, u32> {
        let removed = |step: &Step| match step {
            Step::Removed { task, slot, .. } => Some((*task, *slot)),
            Step::Placed { .. } | Step::Resized { .. } => None,
        };
        self.steps.iter().filter_map(removed).collect()
    }

    /// What a task held that was removed, if that was not its group's request.
    fn held_before(&self, task: TaskId) -> Option<&Values> {
        self.held.iter().find(|(held, _)| *held == task).map(|(_, values)| values)
    }
}

impl Cell {
    /// Judges a transaction and takes what holds.
    ///
    /// # Errors
    /// If the transaction makes no sense; conflicts are no errors.
    pub fn commit(&mut self, txn: &Transaction) -> Result<Commit, TransactionError> {
        self.check_form(txn)?;
        let mut scratch = self.scratch.take().unwrap_or_default();
        let digest = answers::digest(txn, &mut scratch.bytes);
        let scheduler = txn.id.scheduler.0 as usize;
        let known = self.schedulers[scheduler].answers.find(txn, digest);
        if !matches!(known, Ok(None)) {
            self.scratch = Some(scratch);
            return known.map(|answer| answer.expect("Ok(None) was excluded"));
        }
        if txn.base > self.version {
            self.scratch = Some(scratch);
            let version = self.version;
            return Err(TransactionError::BaseFromFuture { base: txn.base, version });
        }
        self.judge_all(txn, &mut scratch);
        if !scratch.steps.is_empty() || crate::planted!(RefusalLeavesVersion) {
            self.finish(&mut scratch);
            if !txn.evictions.is_empty() {
                let stayed =
                    scratch.conflicts.iter().filter(|c| matches!(c.item, Item::Eviction(_)));
                let taken = txn.evictions.len() - stayed.count();
                self.count_evictions(taken as u32, scratch.reclaimed);
            }
            self.moves += self.moved(txn, &scratch.conflicts);
            self.count_peaks(scratch.peaks);
        }
        if !txn.resizes.is_empty() || scratch.optional {
            self.count_held(txn, &scratch);
        }
        let commit = Commit { version: self.version, conflicts: scratch.conflicts.clone() };
        let registered = &mut self.schedulers[scheduler];
        if let Some(capture) = &mut self.capture {
            capture.save_answers(scheduler, registered);
        }
        registered.answers.insert(txn.id.number, digest, &commit);
        self.scratch = Some(scratch);
        Ok(commit)
    }

    /// How many tasks it took off their machines and placed again.
    fn moved(&self, txn: &Transaction, conflicts: &[Conflict]) -> u64 {
        let stayed = |i| conflicts.binary_search_by(|c| c.item.cmp(&Item::Release(i))).is_ok();
        let is_placed = |task: TaskId| {
            self.jobs.task(task).is_some_and(|(_, task)| task.state.machine().is_some())
        };
        let moved =
            txn.releases.iter().zip(0..).filter(|(task, i)| !stayed(*i) && is_placed(**task));
        moved.count() as u64
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
            Some(scheduler) => scheduler.answers.check_ahead(txn.id),
            None => Err(TransactionError::UnknownScheduler(txn.id.scheduler)),
        }
    }

    /// Judges until no gang, no eviction and no leaving of runtime affinity must be refused any more.
    pub(crate) fn judge_all(&mut self, txn: &Transaction, scratch: &mut Scratch) {
        let mut refused = Vec::new();
        let mut first = Vec::new();
        for round in 0.. {
            self.judge_items(txn, &refused, scratch);
            let all = round >= ROUNDS_MAX;
            let mut late = match txn.evictions.is_empty() && !scratch.gangs {
                true => Vec::new(),
                false => self.late_conflicts(txn, scratch, all),
            };
            self.add_runtime_affinity_conflicts((txn, scratch), all, &mut late);
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

    /// Judges each item once, in order, but for those that are refused already.
    fn judge_items(&mut self, txn: &Transaction, refused: &[Conflict], scratch: &mut Scratch) {
        scratch.steps.clear();
        scratch.conflicts.clear();
        scratch.held.clear();
        scratch.cores.clear();
        (scratch.gangs, scratch.holds, scratch.runtime_affinity) = (false, false, false);
        scratch.optional = false;
        scratch.peaks = PeakCounts::default();
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
        let resized = self.judge_resizes(txn, scratch);
        for (claim, i) in txn.claims.iter().zip(0..) {
            let item = Item::Claim(i);
            let judged = match early(item) {
                Some(reason) => Err(reason),
                None => self.claim(claim, txn.check, scratch),
            };
            if let Err(reason) = judged {
                scratch.conflicts.push(Conflict { item, reason });
            }
        }
        scratch.conflicts.extend(resized);
    }

    /// Judges each resize. The answer is those that are refused, which come last among the conflicts.
    fn judge_resizes(&mut self, txn: &Transaction, scratch: &mut Scratch) -> Vec<Conflict> {
        let mut refused = Vec::new();
        for (resize, i) in txn.resizes.iter().zip(0..) {
            match self.resize(resize, scratch) {
                Ok(step) => scratch.steps.push(step),
                Err(reason) => refused.push(Conflict { item: Item::Resize(i), reason }),
            }
        }
        refused
    }

    /// Takes a task off its machine, for a release or an eviction.
    fn remove(&mut self, task: TaskId, item: Item, early: Option<Reason>, scratch: &mut Scratch) {
        let steps_back = self.is_over_its_share(task);
        let judged = match (early, self.parts(task.job)) {
            (Some(reason), _) => Err(reason),
            (None, None) => Err(Reason::UnknownTask),
            (None, Some(parts)) => {
                scratch.runtime_affinity |= may_be_runtime_affinity(&parts, task);
                scratch.holds |= parts.job.spec.gang_timeout_ms.is_some();
                remove_task(parts, task, scratch)
            }
        };
        match judged {
            Ok(step) => {
                scratch.peaks.released += u64::from(steps_back);
                scratch.steps.push(step);
            }
            Err(reason) => scratch.conflicts.push(Conflict { item, reason }),
        }
    }

    /// Judges one claim and takes it.
    fn claim(
        &mut self,
        claim: &Claim,
        check: ConflictCheck,
        scratch: &mut Scratch,
    ) -> Result<(), Reason> {
        let Cell { jobs, machines, facts, tenants, policies, now_ms, .. } = self;
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
        let grant = match crate::planted!(EarlyJudgementTrusted) {
            true => Grant { devices: claim.devices, cores: NodeCores::NONE },
            false => {
                let request = need.taken(claim.take).0;
                let at = Placement { row: claim.machine.row(), job: &job.spec, need, request };
                let context = Context { facts, now_ms: *now_ms, tenants };
                let rules = Rules { policies, context: &context };
                let asked = Asked { take: claim.take, devices: claim.devices };
                judge(claim.machine, &machines.spot(claim.machine, row), &at, &rules, asked)?
            }
        };
        scratch.optional |= need.optional.is_some();
        let request = need.taken(claim.take).0;
        tenants.judge(job.tenant, &need.charged(request))?;
        if claim.take == Take::WithOptional {
            let request = request.clone();
            job.hold(claim.task.index, request);
        }
        scratch.gangs |= job.spec.is_placed_at_once();
        scratch.holds |= job.spec.gang_timeout_ms.is_some();
        let owner = job.owner;
        let parts = Parts { job, machines, tenants, policies, facts, now_ms: *now_ms };
        Cell::place(parts, claim.task, claim.machine, grant);
        // It is written where it stays: it is smaller than the place that any step may need.
        scratch.steps.push(Step::Placed { task: claim.task, slot: claim.machine.slot, owner });
        Ok(())
    }

    /// Gangs that stay too small, and evictions that made room for nobody. With `all`, every claim
    /// of a gang and every eviction, whether or not it is one of those.
    fn late_conflicts(&self, txn: &Transaction, scratch: &mut Scratch, all: bool) -> Vec<Conflict> {
        let conflicts = &scratch.conflicts;
        let taken = |item: Item| conflicts.binary_search_by(|c| c.item.cmp(&item)).is_err();
        let mut late = Vec::new();
        let mut strongest: FastMap<u32, Precedence> = FastMap::default();
        for (claim, i) in txn.claims.iter().zip(0..).filter(|(_, i)| taken(Item::Claim(*i))) {
            let Some(job) = self.jobs.get(claim.task.job) else { continue };
            let precedence = job.spec.precedence;
            let strongest = strongest.entry(claim.machine.slot).or_insert(precedence);
            *strongest = precedence.max(*strongest);
            let needs = job.spec.gang_min.filter(|_| job.spec.is_placed_at_once());
            if needs.is_some_and(|min| all || job.placed < min.min(job.alive)) {
                late.push(Conflict { item: Item::Claim(i), reason: Reason::GangIncomplete });
            }
        }
        if !txn.evictions.is_empty() {
            self.late_evictions(txn, scratch, (&strongest, all), &mut late);
        }
        late
    }

    /// Evictions that made room for nobody, or of tasks that may stay.
    fn late_evictions(
        &self,
        txn: &Transaction,
        scratch: &mut Scratch,
        (strongest, all): (&FastMap<u32, Precedence>, bool),
        late: &mut Vec<Conflict>,
    ) {
        let conflicts = &scratch.conflicts;
        let taken = |item: Item| conflicts.binary_search_by(|c| c.item.cmp(&item)).is_err();
        let machine_before = scratch.machines_before();
        let (mut left, mut reclaimed) = (self.evictions_left(), 0);
        let mut claimants = None;
        let mut reclaims = |task: TaskId, slot: u32| {
            if !self.tenants.may_guarantee() {
                return false;
            }
            let claimants = claimants.get_or_insert_with(|| self.claimants(txn, conflicts));
            let held = scratch.held_before(task);
            claimants.get(&slot).is_some_and(|here| self.may_reclaim(here, task, held))
        };
        for (task, i) in txn.evictions.iter().zip(0..).filter(|(_, i)| taken(Item::Eviction(*i))) {
            let slot = machine_before.get(task).copied().unwrap_or(u32::MAX);
            let victim = self.jobs.get(task.job).map(|job| job.spec.precedence);
            let stays = match (strongest.get(&slot), victim) {
                (Some(strongest), Some(victim)) => self.may_stay(victim, *strongest),
                _ => Some(Reason::EvictionUnused),
            };
            let is_reclaimed = stays.is_some_and(|reason| reason != Reason::EvictionUnused)
                && reclaims(*task, slot);
            let reason = match (stays.filter(|_| !is_reclaimed), &mut left) {
                (Some(reason), _) => reason,
                _ if all => Reason::EvictionUnused,
                (None, Some(0)) => Reason::EvictionsCapped,
                (None, left) => {
                    left.iter_mut().for_each(|left| *left -= 1);
                    reclaimed += u32::from(is_reclaimed);
                    continue;
                }
            };
            late.push(Conflict { item: Item::Eviction(i), reason });
        }
        scratch.reclaimed = reclaimed;
    }

    /// Why a task may stay where a claim of this precedence wants its room, if guarantees are left aside.
    fn may_stay(&self, victim: Precedence, strongest: Precedence) -> Option<Reason> {
        if victim >= strongest {
            return Some(Reason::PrecedenceTooLow);
        }
        let band = band_of(&self.policy.bands, strongest);
        band.is_some_and(|band| band.includes(victim)).then_some(Reason::SameBand)
    }

    /// Who claims what of each machine, of claims that were taken: looked up only where precedence does not
    /// allow an eviction.
    #[inline(never)]
    fn claimants(&self, txn: &Transaction, conflicts: &[Conflict]) -> Claimants {
        let mut claimants = Claimants::default();
        for (claim, i) in txn.claims.iter().zip(0..) {
            let taken = conflicts.binary_search_by(|c| c.item.cmp(&Item::Claim(i))).is_err();
            let Some((job, task)) = self.jobs.task(claim.task).filter(|_| taken) else { continue };
            let request = job.need(task).taken(claim.take).0.iter().zip(0..);
            let kinds = request.filter(|(amount, _)| **amount > 0);
            let kinds = kinds.fold(0, |kinds, (_, kind)| kinds | 1 << kind);
            let here = claimants.entry(claim.machine.slot).or_default();
            match here.iter_mut().find(|known| known.tenant == job.tenant) {
                Some(known) => known.kinds |= kinds,
                None => here.push(Claimant { tenant: job.tenant, kinds }),
            }
        }
        claimants
    }

    /// Whether one of these has a guarantee that an evicted task stands in the way of.
    fn may_reclaim(&self, claimants: &[Claimant], victim: TaskId, held: Option<&Values>) -> bool {
        let Some((job, task)) = self.jobs.task(victim) else { return false };
        // One that was placed elsewhere in the same transaction is counted already.
        let counted = task.state.machine().is_some();
        let request = held.unwrap_or(&job.need(task).request);
        let victim = Borrower { tenant: job.tenant, request, counted };
        claimants.iter().any(|claimant| self.tenants.may_reclaim(*claimant, &victim))
    }

    /// Takes every step back, the last one first.
    fn undo(&mut self, scratch: &mut Scratch) {
        if crate::planted!(GangHalfUndone) {
            scratch.steps.pop();
        }
        while let Some(step) = scratch.steps.pop() {
            match step {
                Step::Placed { task, .. } => {
                    if let Some(parts) = self.parts(task.job) {
                        Cell::unplace(parts, task, TaskState::Pending);
                    }
                }
                Step::Removed { task, before, .. } => {
                    let held = scratch.held.pop_if(|(held, _)| *held == task);
                    let cores = scratch.cores.pop_if(|(had, _)| *had == task);
                    let grant = Grant {
                        devices: before.devices,
                        cores: cores.map_or(NodeCores::NONE, |(_, cores)| cores),
                    };
                    self.put_back((task, before), held.map(|(_, values)| values), grant);
                }
                Step::Resized { task, slot, .. } => {
                    let (_, held) = scratch.held.pop().expect("each resize noted what was held");
                    self.set_held(task, slot, held);
                }
            }
        }
    }

    fn put_back(
        &mut self,
        (task, before): (TaskId, TaskRecord),
        held: Option<Values>,
        grant: Grant,
    ) {
        let Some(machine) = before.state.machine() else { return };
        if let Some(parts) = self.parts(task.job) {
            if let Some(held) = held {
                parts.job.hold(task.index, held);
            }
            Cell::place(parts, task, machine, grant);
        }
        if let Some(job) = self.jobs.get_mut(task.job) {
            job.tasks[task.index as usize] = before;
        }
    }

    /// Makes the steps known: a version, a sequence number for each machine, the changes.
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
        if scratch.holds {
            self.settle_gangs(&scratch.steps);
        }
    }
}

/// Whether others may need a placed task near them. (A job that has ended has no rules any more.)
fn may_be_runtime_affinity(parts: &Parts<'_>, id: TaskId) -> bool {
    let book = &parts.facts.rules;
    if !book.any_runtime_affinity() {
        return false;
    }
    let placed = |task: &&TaskRecord| task.state.machine().is_some();
    let task = parts.job.tasks.get(id.index as usize).filter(placed);
    let rules = task.and_then(|task| parts.job.need(task).rules.as_deref());
    rules.is_some_and(|rules| book.may_be_runtime_affinity(rules))
}

/// Takes a task off its machine, and notes what it held.
fn remove_task(parts: Parts<'_>, id: TaskId, scratch: &mut Scratch) -> Result<Step, Reason> {
    let record = *parts.job.tasks.get(id.index as usize).ok_or(Reason::UnknownTask)?;
    if record.state.ended() {
        return Err(Reason::TaskEnded);
    }
    let machine = record.state.machine().ok_or(Reason::TaskNotPlaced)?;
    let owner = parts.job.owner;
    scratch.cores.extend(parts.job.cores.get(id.index).map(|cores| (id, *cores)));
    let held = Cell::unplace(parts, id, TaskState::Pending);
    scratch.held.extend(held.map(|values| (id, values)));
    Ok(Step::Removed { task: id, slot: machine.slot, owner, before: record })
}

/// A claim of a gang that stays too small is told what refused it first, if anything did: without
/// the gang's other claims, which are refused by then, that may not be seen any more.
fn name_first_reasons(conflicts: &mut [Conflict], first: &[Conflict]) {
    for conflict in conflicts.iter_mut().filter(|c| c.reason == Reason::GangIncomplete) {
        if let Ok(i) = first.binary_search_by(|known| known.item.cmp(&conflict.item)) {
            conflict.reason = first[i].reason;
        }
    }
}

/// In an all-or-nothing transaction what did not conflict is refused because of what did.
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
