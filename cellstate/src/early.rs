//! What can be told of a transaction before it is committed.
//!
//! In a replicated cell a commit costs a write on a majority of disks. A transaction that was
//! answered before, that makes no sense, or of which nothing can be taken, need not have it. What
//! is said here is said of this version of the cell, and changes nothing.

use crate::answers;
use crate::cell::Cell;
use crate::judge::{Asked, Rules, judge};
use crate::policy::{Context, Placement};
use omega_core::{
    Claim, Commit, ConflictCheck, Granularity, TaskState, Transaction, TransactionError,
};

impl Cell {
    /// The answer to a transaction, if it is known without committing it: the one that it got
    /// before, an error, or that all of it conflicts.
    ///
    /// A refusal is true of this version; a version later the same transaction might be taken. So
    /// whoever passes it on must see to it that the transaction is not committed after it.
    #[must_use]
    pub fn answer_early(&mut self, txn: &Transaction) -> Option<Result<Commit, TransactionError>> {
        if let Err(error) = self.check_form(txn) {
            return Some(Err(error));
        }
        let answers = &self.schedulers[txn.id.scheduler.0 as usize].answers;
        if txn.id.number < answers.next {
            let digest = answers::digest(txn, &mut Vec::new());
            match answers.find(txn, digest) {
                Ok(None) => {}
                known => return known.transpose(),
            }
        }
        if txn.base > self.version {
            // It may come: the base may be of a replica that has applied more.
            return None;
        }
        self.will_be_refused(txn).then(|| Ok(self.refusal(txn)))
    }

    /// Whether each part of a transaction by itself would be refused, or one part if it is all or
    /// nothing. For a transaction that will be taken this costs one look at one claim, mostly.
    fn will_be_refused(&self, txn: &Transaction) -> bool {
        if !txn.releases.is_empty() || !txn.evictions.is_empty() || !txn.resizes.is_empty() {
            // They might make the room that a claim needs.
            return false;
        }
        let mut refused = txn.claims.iter().map(|claim| self.refuses(claim, txn.check));
        match txn.granularity {
            Granularity::AllOrNothing => refused.any(|refused| refused),
            Granularity::Incremental => refused.all(|refused| refused),
        }
    }

    /// The answer to a transaction of which nothing will be taken.
    fn refusal(&mut self, txn: &Transaction) -> Commit {
        let mut scratch = self.scratch.take().unwrap_or_default();
        self.judge_all(txn, &mut scratch);
        assert!(scratch.steps.is_empty(), "what is refused by itself is refused with others");
        let commit = Commit { version: self.version, conflicts: scratch.conflicts.clone() };
        self.scratch = Some(scratch);
        commit
    }

    /// Whether a claim by itself would be refused.
    fn refuses(&self, claim: &Claim, check: ConflictCheck) -> bool {
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
            // Another claim of the transaction may be what its rules ask for.
            return false;
        }
        let request = need.taken(claim.take).0;
        let spot = self.machines.spot(claim.machine, row);
        let (row, tenant) = (claim.machine.row(), job.tenant);
        let at = Placement { row, job: &job.spec, tenant, need, request };
        let context = Context { facts: &self.facts, now_ms: self.now_ms, tenants: &self.tenants };
        let rules = Rules { policies: &self.policies, context: &context };
        let asked = Asked { take: claim.take, devices: claim.devices };
        judge(claim.machine, &spot, &at, &rules, asked).is_err()
    }
}
