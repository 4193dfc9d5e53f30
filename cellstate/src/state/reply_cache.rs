//! The reply cache: results of past transactions, so that a retry is not applied twice.
//!
//! A scheduler that lost its connection does not know whether its transaction was committed, so it sends the
//! transaction again. If the first copy was committed, the scheduler gets the result of that commit. The cache is part
//! of the replicated state, so it survives a change of leader.
//!
//! The memory of the cache is bounded: if the cached results have too many conflicts, those of the oldest transactions
//! are forgotten. Retries of these transactions are rejected like those of transactions that are older than the cache.
//!
//! When another process takes over the scheduler's name, transaction numbers skip ahead to a new *floor* (see
//! `commands/leases.rs`). Cached results are still returned, and new transactions with numbers below the floor are
//! rejected.

use omega_core::limits::{CONFLICTS_PER_SCHEDULER, NUMBERS_AHEAD_MAX, REPLIES_PER_SCHEDULER};
use omega_core::{
    Claim, Commit, Conflict, ConflictCheck, Granularity, Resize, Take, TaskId, Transaction,
    TransactionError, TransactionId,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use xxhash_rust::xxh3::xxh3_64;

/// The cached result of one transaction.
///
/// The conflicts are in a `Box`: with an `Arc`, each commit would pay for a reference counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CachedReply {
    /// The number of the transaction.
    pub number: u64,
    /// Digest of the transaction. A different transaction with this number has another digest.
    pub digest: u64,
    /// The version that a view should sync to after this result; without a meaning if the result was forgotten.
    pub version: u64,
    /// The rejected items.
    pub conflicts: Box<[Conflict]>,
}

impl CachedReply {
    /// Version of a result that was forgotten. No cell reaches it.
    const FORGOTTEN: u64 = u64::MAX;

    /// Whether the result was forgotten, because the cache had too many conflicts.
    pub fn is_forgotten(&self) -> bool {
        self.version == CachedReply::FORGOTTEN
    }
}

/// The latest results of one scheduler, in a ring indexed by transaction number.
#[derive(Clone, Debug, Default, Hash)]
pub struct ReplyCache {
    ring: Vec<Option<CachedReply>>,
    /// Number of conflicts in the ring.
    conflicts: usize,
    /// One above the highest number that was used or skipped.
    pub next: u64,
    /// New transactions below this number are rejected, because they come from a former owner of the scheduler's name.
    /// Invariant: `floor <= next`.
    pub floor: u64,
}

impl ReplyCache {
    /// Checks that a transaction number does not skip so many numbers that they could run out (see
    /// [`NUMBERS_AHEAD_MAX`]).
    ///
    /// # Errors
    /// The number is too far ahead.
    pub fn check_ahead(&self, id: TransactionId) -> Result<(), TransactionError> {
        // The addition saturates at the largest number. That number is never accepted, because no number could follow.
        let below = self.next.saturating_add(NUMBERS_AHEAD_MAX);
        if id.number < below { Ok(()) } else { Err(TransactionError::NumberAhead(id)) }
    }

    /// Returns the cached result of a transaction, if there is one.
    ///
    /// # Errors
    /// The number was used for a different transaction, is older than the cache, or belongs to a former owner of the
    /// scheduler's name.
    pub fn find(
        &self,
        txn: &Transaction,
        digest: Digest,
    ) -> Result<Option<Commit>, TransactionError> {
        let number = txn.id.number;
        if number >= self.next {
            return Ok(None);
        }
        if number >= self.floor && self.next - number > REPLIES_PER_SCHEDULER as u64 {
            return Err(TransactionError::AnswerExpired(txn.id));
        }
        match self.at(number) {
            Some(_) if crate::injected!(RetryCheckedAgain) => Ok(None),
            Some(reply) if reply.number == number && reply.is_forgotten() => {
                Err(TransactionError::AnswerExpired(txn.id))
            }
            Some(reply) if reply.number == number && reply.digest == digest.0 => Ok(Some(Commit {
                version: omega_core::Version(reply.version),
                conflicts: reply.conflicts.to_vec(),
            })),
            Some(reply) if reply.number == number => Err(TransactionError::IdReused(txn.id)),
            _ if number < self.floor => Err(TransactionError::Fenced(txn.id)),
            // The number was skipped, and its transaction arrives only now.
            _ => Ok(None),
        }
    }

    /// Stores a result. If the cache then has too many conflicts, the results of the oldest transactions are forgotten.
    pub fn insert(&mut self, number: u64, Digest(digest): Digest, commit: &Commit) {
        let conflicts = commit.conflicts.as_slice().into();
        self.put(CachedReply { number, digest, version: commit.version.0, conflicts });
        if self.conflicts > CONFLICTS_PER_SCHEDULER {
            self.forget_oldest(number);
        }
    }

    /// Forgets results, those of the lowest numbers first and never that of `newest`, until the others have few enough
    /// conflicts.
    fn forget_oldest(&mut self, newest: u64) {
        let others = self.ring.iter_mut().flatten();
        let others = others.filter(|one| one.number != newest && !one.conflicts.is_empty());
        let mut others: Vec<&mut CachedReply> = others.collect();
        others.sort_unstable_by_key(|reply| reply.number);
        for reply in others {
            if self.conflicts <= CONFLICTS_PER_SCHEDULER {
                return;
            }
            reply.version = CachedReply::FORGOTTEN;
            self.conflicts -= std::mem::take(&mut reply.conflicts).len();
        }
    }

    /// Stores a result at its position in the ring.
    pub fn put(&mut self, reply: CachedReply) {
        let index = index(reply.number);
        if self.ring.len() <= index {
            self.ring.resize_with(index + 1, || None);
        }
        self.next = self.next.max(reply.number + 1);
        self.conflicts += reply.conflicts.len();
        let replaced = self.ring[index].replace(reply);
        self.conflicts -= replaced.map_or(0, |reply| reply.conflicts.len());
    }

    /// Number of conflicts of the cached results.
    pub fn conflicts(&self) -> usize {
        self.conflicts
    }

    /// The result of the transaction with this number.
    pub fn get(&self, number: u64) -> Option<&CachedReply> {
        self.at(number).filter(|reply| reply.number == number)
    }

    /// The ring entry at this number's index. The entry may belong to another number with an equal index.
    fn at(&self, number: u64) -> Option<&CachedReply> {
        self.ring.get(index(number)).and_then(Option::as_ref)
    }

    /// All cached results, in the order of the ring.
    pub fn iter(&self) -> impl Iterator<Item = &CachedReply> {
        self.ring.iter().flatten()
    }
}

/// The index of a transaction in the ring.
pub fn index(number: u64) -> usize {
    (number % REPLIES_PER_SCHEDULER as u64) as usize
}

/// Digest of a transaction, which distinguishes different transactions with equal ids. It depends only on the
/// transaction, so it is computed before the cell is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Computes the digest of a transaction.
    pub fn of(txn: &Transaction) -> Digest {
        BYTES.with_borrow_mut(|bytes| {
            bytes.clear();
            put_all(txn, bytes);
            Digest(xxh3_64(bytes))
        })
    }
}

thread_local! {
    /// Buffer for the bytes from which a digest is computed, reused by each thread.
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends all fields except the id. The lengths of the lists come first, so different transactions have different
/// bytes.
fn put_all(txn: &Transaction, bytes: &mut Vec<u8>) {
    let head = [
        txn.base.0,
        u64::from(txn.granularity == Granularity::AllOrNothing),
        u64::from(txn.check == ConflictCheck::SequenceNumber),
        txn.releases.len() as u64,
        txn.evictions.len() as u64,
        txn.claims.len() as u64,
        txn.resizes.len() as u64,
    ];
    put(bytes, &head);
    for TaskId { job, index } in txn.releases.iter().chain(&txn.evictions) {
        put(bytes, &[job.0, u64::from(*index)]);
    }
    for Claim { task, machine, seen, devices, take } in &txn.claims {
        let packed = u64::from(machine.slot) << 32 | u64::from(machine.incarnation);
        let small = u64::from(task.index) << 32 | u64::from(devices.0);
        let take = u64::from(*take == Take::WithOptional);
        put(bytes, &[task.job.0, small, packed, seen.0, take]);
    }
    for Resize { task, to } in &txn.resizes {
        let amounts = to.as_slice();
        put(bytes, &[task.job.0, u64::from(task.index), amounts.len() as u64]);
        put(bytes, amounts);
    }
}

fn put(bytes: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}
