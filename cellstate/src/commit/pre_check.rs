//! The pre-check of a transaction: finds its result, if possible, without a commit.
//!
//! In a replicated cell a commit costs a write on a majority of disks. The pre-check saves that write for retries, for
//! invalid transactions, and for transactions whose items will certainly all conflict. Its result is valid for the
//! present version only, and the pre-check does not change the state.

use crate::cell::Cell;
use crate::fit::{ClaimRequest, Rules, check_fit};
use crate::policy::{Context, Placement};
use crate::state::reply_cache::Digest;
use omega_core::{
    Claim, Commit, ConflictCheck, Granularity, TaskState, Transaction, TransactionError,
};

impl Cell {
    /// Returns the result of a transaction if no commit is needed: a cached result, an error, or a conflict for every
    /// item.
    ///
    /// A rejection is valid for the present version only, because the cell might accept the transaction at a later
    /// version. A caller that returns the rejection must make sure that the transaction is not committed afterwards.
    #[must_use]
    pub fn pre_check(&mut self, txn: &Transaction) -> Option<Result<Commit, TransactionError>> {
        if let Err(error) = self.check_form(txn) {
            return Some(Err(error));
        }
        let reply_cache = &self.schedulers[txn.id.scheduler.0 as usize].reply_cache;
        if txn.id.number < reply_cache.next {
            match reply_cache.find(txn, Digest::of(txn)) {
                Ok(None) => {}
                known => return known.transpose(),
            }
        }
        if txn.base > self.version {
            // The view may be in sync with a replica that has applied more entries than this one. The transaction may
            // be valid at its base version, so this cell cannot reject it.
            return None;
        }
        self.will_be_rejected(txn).then(|| Ok(self.rejection(txn)))
    }

    /// Whether the transaction will certainly be rejected: if each of its claims would be rejected, or, for an
    /// all-or-nothing transaction, if at least one claim would be. For an incremental transaction, the check ends at
    /// the first claim that may be accepted.
    fn will_be_rejected(&self, txn: &Transaction) -> bool {
        if !txn.releases.is_empty() || !txn.evictions.is_empty() || !txn.resizes.is_empty() {
            // Releases, evictions and resizes might make room for a claim.
            return false;
        }
        let mut refused = txn.claims.iter().map(|claim| self.rejects(claim, txn.check));
        match txn.granularity {
            Granularity::AllOrNothing => refused.any(|refused| refused),
            Granularity::Incremental => refused.all(|refused| refused),
        }
    }

    /// The result that rejects every item.
    fn rejection(&mut self, txn: &Transaction) -> Commit {
        let scheduler = txn.id.scheduler.0 as usize;
        let mut scratch = self.schedulers[scheduler].scratch.take().unwrap_or_default();
        self.check_transaction(txn, &mut scratch);
        assert!(scratch.steps.is_empty(), "what is refused by itself is refused with others");
        let commit = Commit { version: self.version, conflicts: scratch.conflicts.clone() };
        self.schedulers[scheduler].scratch = Some(scratch);
        commit
    }

    /// Whether a claim would be rejected even if it were alone in its transaction.
    fn rejects(&self, claim: &Claim, check: ConflictCheck) -> bool {
        let Some((job, task)) = self.jobs.task(claim.task) else { return true };
        if task.state != TaskState::Pending {
            return true;
        }
        let Some(row) = self.machines.get(claim.machine) else { return true };
        if check == ConflictCheck::SequenceNumber && row.sequence != claim.seen {
            return true;
        }
        let need = job.need(task);
        if need.rules.is_some() {
            // Another claim of the transaction may satisfy a rule of this claim.
            return false;
        }
        let request = need.taken(claim.take).0;
        let machine_info = self.machines.machine_info(claim.machine, row);
        let (row, tenant) = (claim.machine.row(), job.tenant);
        let at = Placement { row, job: &job.spec, tenant, need, request, ports: &[] };
        let context = Context {
            machine_index: &self.machine_index,
            now_ms: self.now_ms,
            tenants: &self.tenants,
        };
        let rules = Rules { policies: &self.policies, context: &context };
        let asked = ClaimRequest { take: claim.take, devices: claim.devices };
        check_fit(claim.machine, &machine_info, &at, &rules, asked).is_err()
    }
}
