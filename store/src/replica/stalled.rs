//! A leader whose disk hangs, or is full, lets another replica lead.
//!
//! While the log's thread waits for the disk, the replica's own thread says as before that it leads. So nobody
//! else stands for election; and nobody is answered, because a leader applies only what is safe on its own
//! disk, too. So it looks at its oldest write that is not safe: when the others have had its
//! entries for as long as an election takes at least, and its own disk has not, the fault is that disk's alone,
//! and the one that is furthest along is asked to stand. Where the others have not got them, either, the
//! whole cell is slow, and another leader would be no quicker.
//!
//! A leader whose own thread hangs in a write is silent, and is followed by another without this.
//!
//! A disk that is full says so at once, and may be for hours. Then a leader asks the one that is furthest along, if
//! a majority has all that is committed without this replica; requests are refused meanwhile with the reason. While
//! its disk is full a replica does not stand for election, nor does it when it is asked to.

use super::Replica;
use crate::log::LogIndex;
use crate::node::Write;
use std::collections::VecDeque;

/// Writes that were given out and are not known to be safe.
#[derive(Debug, Default)]
pub(super) struct Unsafe {
    /// With when they were given out, and the last entry in them; in order.
    writes: VecDeque<(u64, u64, LogIndex)>,
    /// Time of the last request to another replica to stand for election.
    asked: u64,
}

impl Unsafe {
    /// A write was given out. One without entries promises nothing that anybody waits for.
    pub(super) fn given(&mut self, write: &Write, ticks: u64) {
        if let Some(last) = write.batch.entries.last() {
            self.writes.push_back((write.number, ticks, last.position.index));
        }
    }

    /// All writes up to this one are durable.
    pub(super) fn persisted(&mut self, number: u64) {
        while self.writes.pop_front_if(|(write, ..)| *write <= number).is_some() {}
    }

    /// Index up to which entries were written this many ticks ago and are not synced.
    fn late(&self, ticks: u64) -> Option<LogIndex> {
        self.writes.front().filter(|(_, given, _)| *given <= ticks).map(|(_, _, last)| *last)
    }
}

impl Replica {
    /// Asks another replica to lead if the disk of this one hangs or is full; to be called at every tick.
    pub(super) fn leave_a_bad_disk(&mut self) {
        let patience = self.settings.node.election_ticks as u64;
        let Some(before) = self.ticks.checked_sub(patience) else { return };
        if !self.leadership.is_leader || self.unsafe_writes.asked > before {
            return;
        }
        let full = self.full.then(|| self.node.committed());
        let Some(index) = full.or_else(|| self.unsafe_writes.late(before)) else { return };
        if let Some(to) = self.node.hand_over(index) {
            self.unsafe_writes.asked = self.ticks;
            let why = if self.full { "the disk is full" } else { "the disk hangs" };
            tracing::warn!(id = %self.node.id(), %to, entry = %index, why, "another replica is to lead");
        }
    }
}
