//! Fingerprint of the history, which is equal on replicas that applied equal entries with equal outcomes.
//!
//! Hashing the whole state often would be too slow, so each outcome is added to a hash of all outcomes before it, in a
//! few nanoseconds. If replicas diverge, the next outcome that depends on the difference differs. A leader writes the
//! fingerprint of its applied state into the head of each entry, and a follower that has another fingerprint at that
//! index stops.

use crate::codec::Head;
use crate::log::LogIndex;
use omega_core::{Outcome, Rejection, Version};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of past fingerprints that are kept: more than the number of entries that a leader has in flight.
const REMEMBERED: usize = 256;

/// The fingerprint. See the module documentation.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    hash: u64,
    /// The outcomes of the entry that is being applied.
    open: Collected,
    /// The heads after each of the last entries, in order.
    past: VecDeque<Head>,
}

impl Fingerprint {
    pub(crate) fn new(applied: LogIndex, fingerprint: u64) -> Fingerprint {
        let past = VecDeque::from([Head { applied, fingerprint }]);
        Fingerprint { hash: fingerprint, open: Collected::default(), past }
    }

    pub(crate) fn value(&self) -> u64 {
        self.hash
    }

    /// The head of a new entry.
    pub(crate) fn head(&self) -> Head {
        *self.past.back().expect("there is always the last one")
    }

    /// Whether this replica's fingerprint after the entry of `head` equals that of `head`. Also `true` if this replica
    /// no longer keeps its fingerprint after that entry.
    pub(crate) fn agrees(&self, head: Head) -> bool {
        let found = self.past.binary_search_by_key(&head.applied, |past| past.applied);
        found.is_err() || found.is_ok_and(|i| self.past[i].fingerprint == head.fingerprint)
    }

    /// Adds the outcome of a command, and the version that the cell has after it.
    pub(crate) fn add(&mut self, outcome: &Result<Outcome, Rejection>, version: Version) {
        self.open.write_u64(version.0);
        match outcome {
            Ok(Outcome::Commit(commit)) => commit.conflicts.hash(&mut self.open),
            Ok(Outcome::Machine(id)) => id.hash(&mut self.open),
            Ok(Outcome::Job(id)) => id.hash(&mut self.open),
            Ok(Outcome::Scheduler { id, next_transaction }) => {
                (id, next_transaction).hash(&mut self.open);
            }
            Ok(_) => self.open.write_u8(1),
            Err(_) => self.open.write_u8(2),
        }
    }

    /// Ends an entry, all of whose outcomes were added.
    pub(crate) fn close(&mut self, applied: LogIndex) {
        if !self.open.0.is_empty() {
            self.hash = xxh3_64_with_seed(&self.open.0, self.hash);
            self.open.0.clear();
        }
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(Head { applied, fingerprint: self.hash });
    }
}

/// Bytes that are collected to be hashed together.
#[derive(Debug, Default)]
struct Collected(Vec<u8>);

impl Hasher for Collected {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        xxh3_64_with_seed(&self.0, 0)
    }
}
