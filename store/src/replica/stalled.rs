//! A leader whose disk hangs lets another replica lead.
//!
//! While the log's thread waits for the disk, the replica's own thread says as before that it leads. So nobody
//! else stands for election; and nobody is answered, because a leader applies only what is safe on its own
//! disk, too. So it looks at its oldest write that is not safe: when the others have had its
//! entries for as long as an election takes at least, and its own disk has not, the fault is that disk's alone,
//! and the one that is furthest along is asked to stand. Where the others have not got them, either, the
//! whole cell is slow, and another leader would be no quicker.
//!
//! A leader whose own thread hangs in a write is silent, and is followed by another without this.

use super::Replica;
use crate::log::LogIndex;
use crate::node::Write;
use std::collections::VecDeque;

/// Writes that were given out and are not known to be safe.
#[derive(Debug, Default)]
pub(super) struct Unsafe {
    /// With when they were given out, and the last entry in them; in order.
    writes: VecDeque<(u64, u64, LogIndex)>,
    /// When somebody was asked to stand last.
    asked: u64,
}

impl Unsafe {
    /// A write was given out. One without entries promises nothing that anybody waits for.
    pub(super) fn given(&mut self, write: &Write, ticks: u64) {
        if let Some(last) = write.batch.entries.last() {
            self.writes.push_back((write.number, ticks, last.position.index));
        }
    }

    /// All writes up to this one are safe.
    pub(super) fn persisted(&mut self, number: u64) {
        while self.writes.pop_front_if(|(write, ..)| *write <= number).is_some() {}
    }

    /// Up to where entries were given out so many ticks ago, and are not safe.
    fn late(&self, ticks: u64) -> Option<LogIndex> {
        self.writes.front().filter(|(_, given, _)| *given <= ticks).map(|(_, _, last)| *last)
    }
}

impl Replica {
    /// Asks another replica to lead if the disk of this one hangs; to be called at every tick.
    pub(super) fn leave_a_stalled_disk(&mut self) {
        let patience = self.settings.node.election_ticks as u64;
        let Some(before) = self.ticks.checked_sub(patience) else { return };
        // A disk that is full says so, and whoever asks is told.
        if !self.leadership.is_leader || self.full || self.unsafe_writes.asked > before {
            return;
        }
        let Some(index) = self.unsafe_writes.late(before) else { return };
        if let Some(to) = self.node.hand_over(index) {
            self.unsafe_writes.asked = self.ticks;
            tracing::warn!(id = %self.node.id(), %to, entry = %index, "the disk hangs: another is to lead");
        }
    }
}
