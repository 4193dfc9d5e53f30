//! A second copy of the promise that each sync makes: the end of the log, the term and the vote.
//!
//! ```text
//!   0 ─ header ─ 56 ··· 1024 ─ slot ─ 1077 ··· 2048 ─ slot ─ 2101 ··· 4096 ─ records ─ ─
//!
//!       8         16          25         4
//!   ┌──────────┬──────┬────────────┬───────┐
//!   │ sequence │ last │ hard state │ crc32 │   one slot; the checksum begins with the salt
//!   └──────────┴──────┴────────────┴───────┘
//! ```
//!
//! A record at the end of a log may be damaged for one of two reasons. Either it was torn by a loss of power, and was
//! never acknowledged. Or it was synced, acknowledged, and damaged later. The record alone does not show which. So
//! every sync also writes a slot, far from the records, so that one fault damages only one of the two. If the log
//! reaches the slot's position, nothing is lost. If not, the log may have lost entries up to the slot's position.
//!
//! The two slots are written alternately, so that a torn write leaves the previous one intact. Each is in a sector of
//! its own, which a disk writes completely or not at all. If the whole block is lost together with the header, this is
//! detected when the log is opened.

use super::SegmentLog;
use super::record::{HIGHEST, Reader, put_hard_state, put_position};
use crate::log::{Promise, WriteError};
use crc32fast::Hasher;

/// Offsets of the slots in a segment.
const PLACES: [usize; 2] = [1024, 2048];

/// Bytes of a slot before its checksum.
const USED: usize = 8 + 16 + 25;

/// A promise as written, with its sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PromiseSlot {
    pub(super) sequence: u64,
    pub(super) promise: Promise,
}

impl PromiseSlot {
    /// Offset of the slot in a segment.
    pub(super) fn place(&self) -> u64 {
        PLACES[(self.sequence % 2) as usize] as u64
    }

    pub(super) fn encode(&self, salt: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(USED + 4);
        out.extend(self.sequence.to_le_bytes());
        put_position(&mut out, self.promise.last);
        put_hard_state(&mut out, self.promise.hard_state);
        out.extend(checksum(salt, &out).to_le_bytes());
        out
    }

    /// The newest intact slot in the first block of a segment.
    pub(super) fn newest(block: &[u8], salt: u32) -> Option<PromiseSlot> {
        let slots =
            PLACES.iter().filter_map(|place| PromiseSlot::decode(block.get(*place..)?, salt));
        slots.max_by_key(|slot| slot.sequence)
    }

    fn decode(bytes: &[u8], salt: u32) -> Option<PromiseSlot> {
        let bytes = bytes.get(..USED + 4)?;
        let (mut used, mut crc) = (Reader(&bytes[..USED]), Reader(&bytes[USED..]));
        if crc.u32()? != checksum(salt, &bytes[..USED]) {
            return None;
        }
        let sequence = used.u64().filter(|sequence| *sequence <= HIGHEST)?;
        let promise = Promise { last: used.position()?, hard_state: used.hard_state()? };
        Some(PromiseSlot { sequence, promise })
    }
}

fn checksum(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

impl SegmentLog {
    /// Returns the promise that the log satisfies.
    pub(super) fn held(&self) -> Promise {
        Promise { last: self.index.last(), hard_state: self.hard_state }
    }

    /// Forgets the unmet promise once the log reaches it.
    pub(super) fn settle_unmet_promise(&mut self) {
        let held = self.held();
        self.unmet_promise.take_if(|promise| promise.is_kept_by(held));
    }

    /// Writes the second copy of the promise that the next sync makes.
    pub(super) fn write_promise(&mut self) -> Result<(), WriteError> {
        let held = self.held();
        let promise = self.unmet_promise.map_or(held, |promise| held.joined(promise));
        let slot = PromiseSlot { sequence: self.promises + 1, promise };
        let bytes = slot.encode(self.current().salt);
        self.on_current(|file| file.write_at(slot.place(), &bytes))?;
        self.promises = slot.sequence;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{HardState, LogIndex, Position, ReplicaId, Term};

    fn slot(sequence: u64) -> PromiseSlot {
        let last = Position { index: LogIndex(7), term: Term(2) };
        let vote = Some(ReplicaId(3));
        let hard_state = HardState { term: Term(4), vote, commit: LogIndex(5) };
        PromiseSlot { sequence, promise: Promise { last, hard_state } }
    }

    #[test]
    fn a_damaged_slot_leaves_the_one_before() {
        let mut block = vec![0; 4096];
        assert_eq!(PromiseSlot::newest(&block, 9), None);
        for slot in [slot(1), slot(2)] {
            let (at, bytes) = (slot.place() as usize, slot.encode(9));
            block[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        assert_eq!(PromiseSlot::newest(&block, 9), Some(slot(2)));
        assert_eq!(PromiseSlot::newest(&block, 8), None, "another segment");
        for bit in 0..(USED + 4) * 8 {
            let mut damaged = block.clone();
            damaged[slot(2).place() as usize + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PromiseSlot::newest(&damaged, 9), Some(slot(1)), "bit {bit}");
        }
    }
}
