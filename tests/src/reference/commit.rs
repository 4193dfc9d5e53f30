//! Transactions. To undo items, the model starts again from a copy.

use super::allocations::taken;
use super::fit::Member;
use super::{Answers, Reference, ReferenceJob};
use omega_core::limits::{
    CONFLICTS_PER_SCHEDULER, NUMBERS_AHEAD_MAX, REPLIES_PER_SCHEDULER, TRANSACTION_ITEMS_MAX,
};
use omega_core::{
    Claim, Commit, Conflict, ConflictCheck, Granularity, Item, Precedence, Reason, TaskId,
    TaskState, Transaction, TransactionError,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rejected items of a transaction, with reasons.
type Refused = BTreeMap<Item, Reason>;

/// Number of rounds after which all items that might conflict late are rejected, as in the cell.
const ROUNDS_MAX: usize = 4;

impl Reference {
    /// Commits a transaction.
    ///
    /// # Errors
    /// If the transaction is invalid.
    pub fn commit(&mut self, txn: &Transaction) -> Result<Commit, TransactionError> {
        if let Some(answer) = self.known_answer(txn)? {
            return Ok(answer);
        }
        if txn.base > self.version {
            let version = self.version;
            return Err(TransactionError::BaseFromFuture { base: txn.base, version });
        }
        let (mut after, refused) = self.check_transaction(txn);
        if !refused.is_empty() && txn.granularity == Granularity::AllOrNothing {
            after = self.clone();
        }
        let conflicts = if refused.is_empty() || txn.granularity == Granularity::Incremental {
            refused
        } else {
            all_items(txn)
                .map(|item| (item, refused.get(&item).copied().unwrap_or(Reason::OthersConflict)))
                .collect()
        };
        if conflicts.len() < txn.items() {
            after.raise(&self.touched(txn, &conflicts));
            let evictions = all_items(txn).filter(|item| matches!(item, Item::Eviction(_)));
            let taken = evictions.filter(|item| !conflicts.contains_key(item)).count();
            if after.policy.eviction_cap.is_some() {
                after.evicted.extend(std::iter::repeat_n(after.now_ms, taken));
            }
            after.done();
        }
        *self = after;
        let conflicts =
            conflicts.into_iter().map(|(item, reason)| Conflict { item, reason }).collect();
        let commit = Commit { version: self.version, conflicts };
        let scheduler = &mut self.schedulers[txn.id.scheduler.0 as usize];
        // The place of a result is its transaction's number modulo the number of places. A new result replaces the
        // earlier one there.
        let place = |number: u64| number % REPLIES_PER_SCHEDULER as u64;
        scheduler.answers.retain(|other, _| place(*other) != place(txn.id.number));
        scheduler.answers.insert(txn.id.number, Arc::new((txn.clone(), commit.clone())));
        scheduler.next = scheduler.next.max(txn.id.number + 1);
        let within = |numbers: &BTreeSet<u64>, answers: &Answers| {
            let kept = answers.iter().filter(|(number, _)| !numbers.contains(number));
            let conflicts: usize = kept.map(|(_, answer)| answer.1.conflicts.len()).sum();
            conflicts <= CONFLICTS_PER_SCHEDULER
        };
        // Results of the oldest transactions are forgotten until the others have few enough conflicts.
        for (number, answer) in &scheduler.answers {
            if within(&scheduler.forgotten, &scheduler.answers) {
                break;
            }
            if *number != txn.id.number && !answer.1.conflicts.is_empty() {
                scheduler.forgotten.insert(*number);
            }
        }
        Ok(commit)
    }

    /// The recorded result of the transaction, if the transaction is well-formed.
    fn known_answer(&self, txn: &Transaction) -> Result<Option<Commit>, TransactionError> {
        let (items, max) = (txn.items(), TRANSACTION_ITEMS_MAX);
        if items == 0 {
            return Err(TransactionError::Empty);
        }
        if items > max {
            return Err(TransactionError::TooManyItems { items, max });
        }
        let scheduler = self.schedulers.get(txn.id.scheduler.0 as usize);
        let scheduler = scheduler.ok_or(TransactionError::UnknownScheduler(txn.id.scheduler))?;
        let number = u128::from(txn.id.number);
        let left_behind = txn.id.number < scheduler.left_behind;
        let too_old = number + (REPLIES_PER_SCHEDULER as u128) < u128::from(scheduler.next);
        let below = u128::from(scheduler.next) + u128::from(NUMBERS_AHEAD_MAX);
        if number >= below.min(u128::from(u64::MAX)) {
            return Err(TransactionError::NumberAhead(txn.id));
        }
        if too_old && !left_behind {
            return Err(TransactionError::AnswerExpired(txn.id));
        }
        match scheduler.answers.get(&txn.id.number) {
            Some(_) if scheduler.forgotten.contains(&txn.id.number) => {
                Err(TransactionError::AnswerExpired(txn.id))
            }
            Some(known) if known.0 == *txn => Ok(Some(known.1.clone())),
            Some(_) => Err(TransactionError::IdReused(txn.id)),
            None if left_behind => Err(TransactionError::Fenced(txn.id)),
            None => Ok(None),
        }
    }

    /// Checks the transaction in rounds, each from the start, until a round ends without a gang or an eviction to
    /// reject.
    fn check_transaction(&self, txn: &Transaction) -> (Reference, Refused) {
        let mut early = Refused::new();
        let mut first: Option<Refused> = None;
        for round in 0.. {
            let mut trial = self.clone();
            let mut refused = trial.try_items(txn, &early, self);
            let late = trial.late_conflicts(txn, &refused, self, round >= ROUNDS_MAX);
            let first = first.get_or_insert_with(|| refused.clone());
            if late.is_empty() {
                for (item, reason) in &mut refused {
                    match first.get(item) {
                        Some(known) if *reason == Reason::GangIncomplete => *reason = *known,
                        _ => {}
                    }
                }
                return (trial, refused);
            }
            early.extend(late);
        }
        unreachable!("each round refuses one item more")
    }

    fn try_items(&mut self, txn: &Transaction, early: &Refused, before: &Reference) -> Refused {
        let mut refused = Refused::new();
        for item in all_items(txn) {
            let checked = match (early.get(&item), item) {
                (Some(reason), _) => Err(*reason),
                (None, Item::Release(i)) => self.try_leave(txn.releases[i as usize]),
                (None, Item::Eviction(i)) => self.try_leave(txn.evictions[i as usize]),
                (None, Item::Resize(i)) => self.try_resize(&txn.resizes[i as usize]),
                (None, Item::Claim(i)) => {
                    self.try_claim(&txn.claims[i as usize], txn.check, before)
                }
            };
            if let Err(reason) = checked {
                refused.insert(item, reason);
            }
        }
        refused
    }

    fn try_leave(&mut self, id: TaskId) -> Result<(), Reason> {
        let job = self.jobs.get_mut(&id.job).ok_or(Reason::UnknownTask)?;
        let task = job.tasks.get_mut(id.index as usize).ok_or(Reason::UnknownTask)?;
        if task.state.ended() {
            return Err(Reason::TaskEnded);
        }
        task.leave(TaskState::Pending).map(drop).ok_or(Reason::TaskNotPlaced)
    }

    fn try_claim(
        &mut self,
        claim: &Claim,
        check: ConflictCheck,
        before: &Reference,
    ) -> Result<(), Reason> {
        let (job, task) = self.task(claim.task).ok_or(Reason::UnknownTask)?;
        match task.state {
            TaskState::Pending => {}
            state if state.ended() => return Err(Reason::TaskEnded),
            _ => return Err(Reason::TaskPlaced),
        }
        let of = Member { id: claim.task.job, job, group: task.group };
        self.host(claim.machine).ok_or(Reason::MachineGone)?;
        let sequence = before.rows[claim.machine.row()].sequence;
        if check == ConflictCheck::SequenceNumber && sequence != claim.seen {
            return Err(Reason::MachineChanged);
        }
        let (devices, cores) = self.check_fit(of, claim.machine, (claim.take, claim.devices))?;
        self.check_cell(of)?;
        self.check_tasks_per_machine(of, claim.machine.row())?;
        self.check_chosen_ports(of, claim.machine.row())?;
        let ports = self.choose_ports(claim.task, claim.machine.row())?;
        self.check_quota(of, claim.take)?;
        let group = &job.spec.groups[of.group];
        let (holds, _) = taken(group, claim.take);
        let holds = (holds != group.request).then_some(holds);
        if let Some(job) = self.jobs.get_mut(&claim.task.job) {
            let task = &mut job.tasks[claim.task.index as usize];
            task.state = TaskState::Placed(claim.machine);
            (task.devices, task.cores) = (devices, cores);
            task.ports = ports;
            task.placed_ms = self.now_ms;
            task.allocation = holds;
        }
        Ok(())
    }

    /// Late conflicts: claims of incomplete gangs, and evictions without an accepted claim.
    fn late_conflicts(
        &self,
        txn: &Transaction,
        refused: &Refused,
        before: &Reference,
        all: bool,
    ) -> Refused {
        let mut late = Refused::new();
        let taken = |item: &Item| !refused.contains_key(item);
        let mut left = self.evictions_left();
        for item in all_items(txn).filter(taken) {
            match item {
                Item::Release(_) | Item::Resize(_) => {}
                Item::Eviction(i) => {
                    let task = txn.evictions[i as usize];
                    let reason = self.check_eviction(task, txn, refused, before);
                    let reason = reason.or(all.then_some(Reason::EvictionUnused));
                    let reason = match (reason, left) {
                        (None, 0) => Some(Reason::EvictionsCapped),
                        (None, _) => {
                            left -= 1;
                            None
                        }
                        (reason, _) => reason,
                    };
                    late.extend(reason.map(|reason| (item, reason)));
                }
                Item::Claim(i) => {
                    let job = &self.jobs[&txn.claims[i as usize].task.job];
                    let at_once = job.spec.gang_min.is_some() && job.spec.gang_timeout_ms.is_none();
                    if at_once && (all || !is_complete(job)) {
                        late.insert(item, Reason::GangIncomplete);
                    }
                }
            }
        }
        for item in self.runtime_affinity_needed(txn, refused, before, all) {
            late.entry(item).or_insert(Reason::RuntimeAffinityNeeded);
        }
        late
    }

    /// Removals of tasks that other tasks need by runtime affinity. In each domain, these are the last removals in the
    /// transaction, as many as tasks are missing there. With `all`, the removals of all tasks that any such rule might
    /// concern.
    fn runtime_affinity_needed(
        &self,
        txn: &Transaction,
        refused: &Refused,
        before: &Reference,
        all: bool,
    ) -> Vec<Item> {
        let left: Vec<(Item, TaskId)> = all_items(txn)
            .filter(|item| !refused.contains_key(item))
            .filter_map(|item| match item {
                Item::Release(i) => Some((item, txn.releases[i as usize])),
                Item::Eviction(i) => Some((item, txn.evictions[i as usize])),
                Item::Claim(_) | Item::Resize(_) => None,
            })
            .collect();
        let member = |id: TaskId| {
            let (job, task) = before.task(id).expect("it has left its machine");
            let of = Member { id: id.job, job, group: task.group };
            (of, task.state.machine().expect("it has left its machine").row())
        };
        if all {
            return left
                .iter()
                .filter(|(_, id)| self.may_be_runtime_affinity(member(*id).0))
                .map(|l| l.0)
                .collect();
        }
        let mut needed = Vec::new();
        for (of, near, domain, missing) in self.alone() {
            let was_there = |(_, id): &&(Item, TaskId)| {
                let (other, row) = member(*id);
                of.selects(&near.tasks, other)
                    && before.domain(row, &near.level).as_ref() == Some(&domain)
            };
            needed.extend(left.iter().rev().filter(was_there).take(missing).map(|(item, _)| *item));
        }
        needed
    }

    fn check_eviction(
        &self,
        victim: TaskId,
        txn: &Transaction,
        refused: &Refused,
        before: &Reference,
    ) -> Option<Reason> {
        let (job, task) = before.task(victim)?;
        let machine = task.state.machine();
        let claims = txn.claims.iter().zip(0..).filter(|(claim, i)| {
            !refused.contains_key(&Item::Claim(*i)) && Some(claim.machine) == machine
        });
        let claims: Vec<&Claim> = claims.map(|(claim, _)| claim).collect();
        let strongest: Option<Precedence> =
            claims.iter().map(|claim| self.jobs[&claim.task.job].spec.precedence).max();
        match strongest {
            None => Some(Reason::EvictionUnused),
            Some(strongest) => {
                let of = job.spec.precedence;
                let bands = &self.policy.bands;
                let within = |p: Precedence, at: usize| bands[at].from <= p && p <= bands[at].to;
                let same = (0..bands.len()).any(|at| within(of, at) && within(strongest, at));
                match (of < strongest, same) {
                    (true, false) => None,
                    _ if self.may_reclaim(&claims, victim, before) => None,
                    (true, true) => Some(Reason::SameBand),
                    (false, _) => Some(Reason::PrecedenceTooLow),
                }
            }
        }
    }

    /// Number of evictions left in the eviction limit; if there is no limit, more than any transaction has.
    #[must_use]
    pub fn evictions_left(&self) -> u64 {
        let Some(cap) = self.policy.eviction_cap else { return u64::MAX };
        u64::from(cap.count).saturating_sub(self.evicted.len() as u64)
    }

    /// Removes evictions that are older than the window. Returns whether there were any.
    pub(super) fn forget_evictions(&mut self) -> bool {
        let before = self.evicted.len();
        let now = u128::from(self.now_ms);
        match self.policy.eviction_cap {
            Some(cap) => {
                self.evicted.retain(|at| u128::from(*at) + u128::from(cap.per_ms) > now);
            }
            None => self.evicted.clear(),
        }
        self.evicted.len() < before
    }

    /// Rows that the accepted items of a transaction change.
    fn touched(&self, txn: &Transaction, conflicts: &Refused) -> BTreeSet<usize> {
        let row = |item: Item| match item {
            Item::Release(i) => self.row_of(txn.releases[i as usize]),
            Item::Eviction(i) => self.row_of(txn.evictions[i as usize]),
            Item::Claim(i) => Some(txn.claims[i as usize].machine.row()),
            Item::Resize(i) => self.row_of(txn.resizes[i as usize].task),
        };
        all_items(txn).filter(|item| !conflicts.contains_key(item)).filter_map(row).collect()
    }

    fn row_of(&self, task: TaskId) -> Option<usize> {
        Some(self.task(task)?.1.state.machine()?.row())
    }
}

/// Whether a gang has its minimum of placed tasks, or has placed all tasks that have not ended.
pub(super) fn is_complete(job: &ReferenceJob) -> bool {
    let needed = job.spec.gang_min.map_or(0, |min| min as usize);
    job.placed() >= needed.min(job.alive())
}

/// Every item of a transaction, in the order of checks.
fn all_items(txn: &Transaction) -> impl Iterator<Item = Item> {
    let releases = (0..txn.releases.len() as u32).map(Item::Release);
    let evictions = (0..txn.evictions.len() as u32).map(Item::Eviction);
    let resizes = (0..txn.resizes.len() as u32).map(Item::Resize);
    let claims = (0..txn.claims.len() as u32).map(Item::Claim);
    releases.chain(evictions).chain(resizes).chain(claims)
}
