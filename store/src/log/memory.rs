//! A log in memory only, for tests, for measurements without a disk, and for cells that need not survive their process.
//!
//! While the process runs, this log gives the guarantees of any log. Nothing survives a crash.

use super::{
    Batch, Bounds, Entry, HardState, LogEngine, LogIndex, Position, ReadError, WriteError,
};
use std::collections::VecDeque;

/// A log in memory.
#[derive(Debug, Default)]
pub struct MemoryLog {
    base: Position,
    entries: VecDeque<Entry>,
    hard_state: HardState,
    /// Bytes of the data in the log, and of all data that was ever appended.
    bytes: (u64, u64),
}

impl MemoryLog {
    fn data_bytes<'e>(entries: impl Iterator<Item = &'e Entry>) -> u64 {
        entries.map(|entry| entry.data.len() as u64).sum()
    }

    fn place(&self, index: LogIndex) -> usize {
        (index.0 - self.base.index.0 - 1) as usize
    }
}

impl LogEngine for MemoryLog {
    fn bounds(&self) -> Bounds {
        let last = self.entries.back().map_or(self.base, |entry| entry.position);
        Bounds { base: self.base, last }
    }

    fn hard_state(&self) -> HardState {
        self.hard_state
    }

    fn append(&mut self, batch: &Batch) -> Result<(), WriteError> {
        batch.check(self.bounds());
        if let Some(first) = batch.entries.first() {
            let place = self.place(first.position.index);
            self.bytes.0 -= MemoryLog::data_bytes(self.entries.range(place..));
            self.entries.truncate(place);
        }
        let bytes = MemoryLog::data_bytes(batch.entries.iter());
        self.bytes = (self.bytes.0 + bytes, self.bytes.1 + bytes);
        self.entries.extend(batch.entries.iter().cloned());
        self.hard_state = batch.hard_state.unwrap_or(self.hard_state);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    fn read(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError> {
        if from <= self.base.index || from > self.bounds().last.index {
            return Ok(());
        }
        let mut bytes = 0;
        for (count, entry) in self.entries.range(self.place(from)..).enumerate() {
            bytes += entry.data.len();
            if count > 0 && bytes > bytes_max {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(())
    }

    fn compact(&mut self, base: Position) -> Result<(), WriteError> {
        if base.index > self.base.index {
            let count = self.place(base.index) + 1;
            let forgotten = self.entries.drain(..count);
            let held = forgotten.last().map(|entry| entry.position);
            assert_eq!(held, Some(base), "the log holds {base:?}");
            self.base = base;
            self.bytes.0 = MemoryLog::data_bytes(self.entries.iter());
        }
        Ok(())
    }

    fn restart(&mut self, base: Position, hard_state: HardState) -> Result<(), WriteError> {
        self.entries.clear();
        (self.base, self.hard_state, self.bytes.0) = (base, hard_state, 0);
        Ok(())
    }

    fn bytes_on_disk(&self) -> u64 {
        self.bytes.0
    }

    fn bytes_written(&self) -> u64 {
        self.bytes.1
    }
}
