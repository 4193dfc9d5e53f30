//! What can be told of a transaction before it is committed.
//!
//! In a replicated cell a commit costs a write on a majority of disks. A transaction that was
//! answered before, that makes no sense, or of which nothing can be taken, need not have it. What
//! is said here is said of this version of the cell, and changes nothing.

use crate::answers;
use crate::cell::Cell;
use crate::judge::judge;
use omega_core::transaction::Item;
use omega_core::{
    Claim, Commit, Conflict, ConflictCheck, Granularity, Reason, TaskState, Transaction,
    TransactionError,
};

impl Cell {
    /// The answer to a transaction, if it is known without committing it: the one that it got
    /// before, an error, or that all of it conflicts.
    ///
    /// A refusal is true of this version; a version later the same transaction might be taken. So
    /// whoever passes it on must see to it that the transaction is not committed after it.
    #[must_use]
    pub fn answer_early(&self, txn: &Transaction) -> Option<Result<Commit, TransactionError>> {
        if let Err(error) = self.check_form(txn) {
            return Some(Err(error));
        }
        let answers = &self.schedulers[txn.id.scheduler.0 as usize].answers;
        if txn.id.number < answers.next || txn.id.number == u64::MAX {
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
        self.refuse_early(txn).map(Ok)
    }

    /// The refusal of a transaction of which each part by itself would be refused, or one part if
    /// it is all or nothing.
    fn refuse_early(&self, txn: &Transaction) -> Option<Commit> {
        if !txn.releases.is_empty() || !txn.evictions.is_empty() {
            // They might make the room that a claim needs.
            return None;
        }
        let mut conflicts = Vec::new();
        let all_or_nothing = txn.granularity == Granularity::AllOrNothing;
        for (claim, index) in txn.claims.iter().zip(0..) {
            match self.refuses(claim, txn.check) {
                Some(reason) => conflicts.push(Conflict { item: Item::Claim(index), reason }),
                None if all_or_nothing => {}
                None => return None,
            }
        }
        if conflicts.is_empty() {
            return None;
        }
        if conflicts.len() < txn.claims.len() {
            crate::commit::refuse_others(txn, &mut conflicts);
        }
        Some(Commit { version: self.version, conflicts })
    }

    /// Why a claim by itself would be refused.
    fn refuses(&self, claim: &Claim, check: ConflictCheck) -> Option<Reason> {
        let Some((job, task)) = self.jobs.task(claim.task) else {
            return Some(Reason::UnknownTask);
        };
        match task.state {
            TaskState::Pending => {}
            state if state.ended() => return Some(Reason::TaskEnded),
            _ => return Some(Reason::TaskPlaced),
        }
        let Some(row) = self.machines.get(claim.machine) else { return Some(Reason::MachineGone) };
        if check == ConflictCheck::SequenceNumber && row.sequence != claim.seen {
            return Some(Reason::MachineChanged);
        }
        let need = job.need(task);
        if need.rules.is_some() {
            // Another claim of the transaction may be what its rules ask for.
            return None;
        }
        let spot = self.machines.spot(claim.machine)?;
        let judged = judge(claim.machine, spot, need, &self.facts, claim.cards);
        judged.and_then(|_| self.tenants.judge(job.tenant, &need.request)).err()
    }
}
