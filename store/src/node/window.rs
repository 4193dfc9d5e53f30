//! The end of the log in memory, as raft-rs reads it.
//!
//! raft-rs reads entries and terms within a step, which must not wait for a disk. So all entries since the last
//! compaction are also in memory, and snapshots bound their number. The disk is written asynchronously, and read only
//! at the start.

use super::convert::snapshot_of;
use super::message::SnapshotOffer;
use crate::log::{HardState, LogIndex, Position, ReplicaId, Term};
use crate::membership::Membership;
use raft::eraftpb::{Entry, MessageType, Snapshot};
use raft::{GetEntriesContext, RaftState, StorageError};
use std::cell::Cell;
use std::collections::VecDeque;

/// The entries in memory. See the module documentation.
///
/// Invariant: `entries` are consecutive, and begin after `base`.
#[derive(Debug)]
pub(super) struct Window {
    base: Position,
    entries: VecDeque<Entry>,
    bytes: u64,
    start: RaftState,
    /// The newest durable snapshot, offered to other replicas.
    offer: Option<(Position, Membership)>,
    /// Whether another replica needed a newer snapshot.
    wanted: Cell<bool>,
}

impl Window {
    /// Creates the log of a replica that has the state at `base` and no entries after it.
    pub(super) fn new(base: Position, membership: &Membership, hard_state: HardState) -> Window {
        let hard_state = raft::eraftpb::HardState {
            term: hard_state.term.0,
            vote: hard_state.vote.map_or(0, |vote| vote.0),
            commit: hard_state.commit.0,
            ..Default::default()
        };
        Window {
            base,
            entries: VecDeque::new(),
            bytes: 0,
            start: RaftState::new(hard_state, membership.to_raft()),
            offer: None,
            wanted: Cell::new(false),
        }
    }

    /// Offers a durable snapshot to replicas that are too far behind, unless a newer one is offered already. A snapshot
    /// that this replica took may become durable after it has installed a newer one.
    pub(super) fn offer(&mut self, position: Position, membership: Membership) {
        if self.offer.as_ref().is_none_or(|(offered, _)| offered.index <= position.index) {
            self.offer = Some((position, membership));
        }
    }

    /// Returns the snapshot that a message of raft-rs offers; `None` if the message does not offer the newest snapshot.
    pub(super) fn offer_of(&self, message: &raft::eraftpb::Message) -> Option<SnapshotOffer> {
        let (position, membership) = self.offer.as_ref()?;
        let same = message.get_snapshot().get_metadata().index == position.index.0;
        let offer = || SnapshotOffer { position: *position, membership: membership.clone() };
        (message.msg_type == MessageType::MsgSnapshot && same).then(offer)
    }

    /// Whether another replica needed a newer snapshot since the last call.
    pub(super) fn take_wanted(&self) -> bool {
        self.wanted.take()
    }

    /// Position of the offered snapshot.
    pub(super) fn offered(&self) -> Option<Position> {
        self.offer.as_ref().map(|(position, _)| *position)
    }

    /// Size of the entries in bytes.
    pub(super) fn bytes_in_memory(&self) -> u64 {
        self.bytes + (self.entries.len() * size_of::<Entry>()) as u64
    }

    pub(super) fn base(&self) -> Position {
        self.base
    }

    pub(super) fn last(&self) -> LogIndex {
        LogIndex(self.base.index.0 + self.entries.len() as u64)
    }

    /// The term of an entry in memory, or of the base.
    pub(super) fn term_of(&self, index: LogIndex) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.entries.get(self.place(index)?).map(|entry| Term(entry.term))
    }

    /// An entry in memory.
    pub(super) fn entry(&self, index: LogIndex) -> Option<&Entry> {
        self.entries.get(self.place(index)?)
    }

    /// Position in `entries` of the entry with this index; `None` if it is before the first.
    fn place(&self, index: LogIndex) -> Option<usize> {
        Some(index.0.checked_sub(self.base.index.0 + 1)? as usize)
    }

    /// Adds entries. They replace all entries from the index of the first new entry on.
    pub(super) fn append(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            let place = self.place(LogIndex(entry.index));
            let place = place.expect("raft does not write what was compacted");
            while self.entries.len() > place {
                let gone = self.entries.pop_back().expect("there are more than none");
                self.bytes -= gone.data.len() as u64;
            }
            assert_eq!(self.entries.len(), place, "raft leaves no gap in its log");
            self.bytes += entry.data.len() as u64;
            self.entries.push_back(entry);
        }
    }

    /// Drops the oldest entries, up to `index`, until at most `keep_bytes` bytes remain. Returns the new base.
    pub(super) fn compact(&mut self, index: LogIndex, keep_bytes: u64) -> Position {
        while self.base.index < index && self.bytes_in_memory() > keep_bytes {
            let Some(gone) = self.entries.pop_front() else { break };
            self.base = Position { index: LogIndex(gone.index), term: Term(gone.term) };
            self.bytes -= gone.data.len() as u64;
        }
        self.base
    }

    /// Restarts the log after a received snapshot.
    pub(super) fn restart(&mut self, base: Position) {
        self.entries.clear();
        self.bytes = 0;
        self.base = base;
    }
}

impl raft::Storage for Window {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.start.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let Some(from) = self.place(LogIndex(low)) else {
            return Err(StorageError::Compacted.into());
        };
        let until = self.place(LogIndex(high)).filter(|until| *until <= self.entries.len());
        let until = until.ok_or(StorageError::Unavailable)?;
        let mut left = max_size.into().unwrap_or(u64::MAX);
        let mut found = Vec::with_capacity(until - from);
        for entry in self.entries.range(from..until) {
            let bytes = entry.data.len() as u64;
            if bytes > left && !found.is_empty() {
                break;
            }
            left = left.saturating_sub(bytes);
            found.push(entry.clone());
        }
        Ok(found)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.term_of(LogIndex(index)) {
            Some(term) => Ok(term.0),
            None if index < self.base.index.0 => Err(StorageError::Compacted.into()),
            None => Err(StorageError::Unavailable.into()),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.index.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().0)
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        // A replica rejects a snapshot whose membership does not include it.
        let offer = self.offer.as_ref().filter(|(position, membership)| {
            position.index.0 >= request_index && membership.contains(ReplicaId(to))
        });
        let Some((position, membership)) = offer else {
            self.wanted.set(true);
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        };
        Ok(snapshot_of(*position, membership))
    }
}
