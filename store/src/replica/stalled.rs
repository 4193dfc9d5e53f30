//! Transfer of leadership by a leader whose disk hangs or is full.
//!
//! While the log's thread waits for a hanging disk, the replica's own thread still sends heartbeats. So no other
//! replica starts an election, but no request is answered, because a leader applies only entries that are durable on
//! its own disk, too. Therefore the leader watches its oldest write that is not durable. If a majority of the others
//! has had the entries of that write for the shortest election timeout, only the leader's disk is at fault. The leader
//! then asks the most advanced replica to start an election. If the others do not have the entries either, the whole
//! cell is slow, and another leader would not be faster.
//!
//! A leader whose own thread hangs in a write sends no heartbeats, so another leader is elected anyway.
//!
//! A full disk returns an error at once, but may stay full for hours. Then a leader asks the most advanced replica to
//! start an election if a majority without the leader has all committed entries. Until then it rejects requests with
//! the reason. A replica with a full disk starts no election, not even when it is asked to.

use super::Replica;
use crate::log::LogIndex;
use crate::node::Write;
use std::collections::VecDeque;

/// Requested writes that are not known to be durable.
#[derive(Debug, Default)]
pub(super) struct UnsyncedWrites {
    /// The number, the tick of the request, and the last entry of each write, in order.
    writes: VecDeque<(u64, u64, LogIndex)>,
    /// Tick of the last time that another replica was asked to start an election.
    handed_over: u64,
}

impl UnsyncedWrites {
    /// Records a requested write. Writes without entries are ignored, because no request waits for them.
    pub(super) fn requested(&mut self, write: &Write, ticks: u64) {
        if let Some(last) = write.batch.entries.last() {
            self.writes.push_back((write.number, ticks, last.position.index));
        }
    }

    /// Records that all writes up to this one are durable.
    pub(super) fn persisted(&mut self, number: u64) {
        while self.writes.pop_front_if(|(write, ..)| *write <= number).is_some() {}
    }

    /// Index of the last entry in the oldest write that is not durable. `None` if that write was requested after this
    /// tick.
    fn late(&self, ticks: u64) -> Option<LogIndex> {
        self.writes.front().filter(|(_, given, _)| *given <= ticks).map(|(_, _, last)| *last)
    }
}

impl Replica {
    /// Asks another replica to start an election if this replica's disk hangs or is full. Called at every tick.
    pub(super) fn leave_a_bad_disk(&mut self) {
        let patience = self.settings.node.election_ticks as u64;
        let Some(before) = self.ticks.checked_sub(patience) else { return };
        if !self.leadership.is_leader || self.unsynced_writes.handed_over > before {
            return;
        }
        let full = self.full.then(|| self.node.committed());
        let Some(index) = full.or_else(|| self.unsynced_writes.late(before)) else { return };
        if let Some(to) = self.node.hand_over(index) {
            self.unsynced_writes.handed_over = self.ticks;
            let why = if self.full { "the disk is full" } else { "the disk hangs" };
            tracing::warn!(id = %self.node.id(), %to, entry = %index, why, "another replica is to lead");
        }
    }
}
