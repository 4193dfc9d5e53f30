//! The answers to past transactions, so that a retry does nothing twice.
//!
//! A scheduler whose connection broke cannot know whether its transaction was taken. It sends the
//! same transaction again; if the first one was judged, its answer comes again. The table is part
//! of the cell's state, so a new leader answers as the old one would have.
//!
//! When the scheduler's name changes hands, its numbers jump (see `holders.rs`): what was answered before
//! is answered alike, as long as it is remembered, and what is new below the jump is refused.

use omega_core::limits::{ANSWERS_PER_SCHEDULER, NUMBERS_AHEAD_MAX};
use omega_core::{
    Claim, Commit, Conflict, ConflictCheck, Granularity, Resize, Take, TaskId, Transaction,
    TransactionError, TransactionId,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The answer to one transaction, as the cell remembers it.
///
/// What was refused is not shared between copies: every commit would pay for the counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answer {
    /// The transaction's number.
    pub number: u64,
    /// Tells it from another transaction of that number.
    pub digest: u64,
    /// The version to sync to.
    pub version: u64,
    /// What was refused.
    pub conflicts: Box<[Conflict]>,
}

/// The last answers to one scheduler, in a ring by transaction number.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Answers {
    ring: Vec<Option<Answer>>,
    /// One above the highest number seen, and above all that were left behind.
    pub(crate) next: u64,
    /// What is new below it comes from a process that does not hold the name any more. At most `next`.
    pub(crate) floor: u64,
}

impl Answers {
    /// Checks that a number is not so high that those after it would run out (see [`NUMBERS_AHEAD_MAX`]).
    ///
    /// # Errors
    /// If it is.
    pub(crate) fn check_ahead(&self, id: TransactionId) -> Result<(), TransactionError> {
        // No number comes after the last one, so it is never used.
        let below = self.next.saturating_add(NUMBERS_AHEAD_MAX);
        match id.number < below {
            true => Ok(()),
            false => Err(TransactionError::NumberAhead(id)),
        }
    }

    /// The answer that this transaction got before.
    ///
    /// # Errors
    /// If its number was used for another one, is too old to know, or is of a process that does not hold
    /// the name any more.
    pub(crate) fn find(
        &self,
        txn: &Transaction,
        digest: u64,
    ) -> Result<Option<Commit>, TransactionError> {
        let number = txn.id.number;
        if number >= self.next {
            return Ok(None);
        }
        if number >= self.floor && self.next - number > ANSWERS_PER_SCHEDULER as u64 {
            return Err(TransactionError::AnswerExpired(txn.id));
        }
        match self.at(number) {
            Some(_) if crate::planted!(RetryJudgedAgain) => Ok(None),
            Some(answer) if answer.number == number && answer.digest == digest => {
                Ok(Some(Commit {
                    version: omega_core::Version(answer.version),
                    conflicts: answer.conflicts.to_vec(),
                }))
            }
            Some(answer) if answer.number == number => Err(TransactionError::IdReused(txn.id)),
            _ if number < self.floor => Err(TransactionError::Fenced(txn.id)),
            // A number that was skipped may still come.
            _ => Ok(None),
        }
    }

    /// Remembers an answer.
    pub(crate) fn insert(&mut self, number: u64, digest: u64, commit: &Commit) {
        let conflicts = commit.conflicts.as_slice().into();
        self.put(Answer { number, digest, version: commit.version.0, conflicts });
    }

    /// Puts an answer in its place.
    pub(crate) fn put(&mut self, answer: Answer) {
        let index = index(answer.number);
        if self.ring.len() <= index {
            self.ring.resize_with(index + 1, || None);
        }
        self.next = self.next.max(answer.number + 1);
        self.ring[index] = Some(answer);
    }

    /// The answer to the transaction of this number.
    pub(crate) fn get(&self, number: u64) -> Option<&Answer> {
        self.at(number).filter(|answer| answer.number == number)
    }

    /// What is in the place of this number: its answer, or another one's.
    fn at(&self, number: u64) -> Option<&Answer> {
        self.ring.get(index(number)).and_then(Option::as_ref)
    }

    /// Every answer that is remembered, in the order of the ring.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Answer> {
        self.ring.iter().flatten()
    }
}

/// The place of a transaction's answer in the ring.
pub(crate) fn index(number: u64) -> usize {
    (number % ANSWERS_PER_SCHEDULER as u64) as usize
}

/// Tells two transactions of one id apart. `scratch` is reused between calls.
pub(crate) fn digest(txn: &Transaction, scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    let head = [
        txn.base.0,
        u64::from(txn.granularity == Granularity::AllOrNothing),
        u64::from(txn.check == ConflictCheck::SequenceNumber),
        txn.releases.len() as u64,
        txn.evictions.len() as u64,
    ];
    put(scratch, &head);
    for TaskId { job, index } in txn.releases.iter().chain(&txn.evictions) {
        put(scratch, &[job.0, u64::from(*index)]);
    }
    for Claim { task, machine, seen, devices, take: _ } in &txn.claims {
        let packed = u64::from(machine.slot) << 32 | u64::from(machine.incarnation);
        let small = u64::from(task.index) << 32 | u64::from(devices.0);
        put(scratch, &[task.job.0, small, packed, seen.0]);
    }
    put_later(txn, scratch);
    xxh3_64(scratch)
}

/// What transactions gained later goes in only where it asks for something, so that the answers to those of earlier
/// versions are found again. No job has the number that it begins with.
fn put_later(txn: &Transaction, scratch: &mut Vec<u8>) {
    for (claim, index) in txn.claims.iter().zip(0..) {
        if claim.take == Take::WithOptional {
            put(scratch, &[u64::MAX, index]);
        }
    }
    for Resize { task, to } in &txn.resizes {
        let amounts = to.as_slice();
        put(scratch, &[u64::MAX, task.job.0, u64::from(task.index), amounts.len() as u64]);
        put(scratch, amounts);
    }
}

fn put(bytes: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}
