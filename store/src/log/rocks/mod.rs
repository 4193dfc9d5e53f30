//! The log in RocksDB, for operators who prefer one well-known store.
//!
//! ```text
//!   "e" + index, big-endian ── checksum · checksum of the entry before · kind · term · data
//!   "s" ── state: batch number, base, last entry, hard state; in every batch
//!   "o" ── owner
//!
//!   SYNCED, a file of this module beside RocksDB's: the number of the last synced batch
//! ```
//!
//! A batch is one write to RocksDB's write-ahead log (WAL), with all entries that it replaces and the state after it,
//! so it is atomic. [`LogEngine::sync`] syncs the WAL.
//!
//! RocksDB's defaults do not suffice: its usual recovery silently drops synced writes behind a damaged one, and a voter
//! with a shorter log breaks Raft. With the options used here only the tail may be torn, and all checks are on. That is
//! still not enough: if the length of a record is damaged in the last 32 KiB of the WAL or of the list of files (the
//! MANIFEST), RocksDB considers everything from there on a torn tail. So this module checks the files before RocksDB
//! may change any of them:
//!
//! - The state contains the number of batches written, and `SYNCED` the number of synced ones. If the state has fewer
//!   than `SYNCED`, the log lost its end and is rejected. `SYNCED` is written after each sync and is not synced itself.
//!   So at worst its number is too low, and then RocksDB's recovery decides alone.
//! - A file that RocksDB would read forever is rejected: see `endless.rs`.
//! - Every entry from the base to the last one is read and checked. Each has the checksum of the entry before it, so no
//!   entry in between can be missing or outdated.
//!
//! RocksDB starts a new WAL when its table in memory is full, and syncs the old WAL later. So a loss of power could
//! keep the new WAL and tear the old one. To prevent this, this module makes RocksDB write the table right after a
//! sync, before RocksDB would do so by itself.
//!
//! RocksDB writes data at least twice, so writes take longer: see BENCHMARKS.md.

mod endless;
mod mark;
mod open;
mod record;

use super::segment::LogOwner;
use super::{
    Batch, Bounds, CreateError, Entry, HardState, LogEngine, LogIndex, OpenError, Position,
    ReadError, WriteError,
};
use mark::Mark;
use open::TABLE_BYTES;
use record::{CheckedPosition, STATE, State, key};
use rocksdb::{DB, Direction, FlushOptions, IteratorMode, ReadOptions, WriteBatch};
use std::io;
use std::path::{Path, PathBuf};

/// A log in RocksDB.
pub struct RocksLog {
    db: DB,
    path: PathBuf,
    state: State,
    access: Access,
    /// The file with the number of synced batches; `None` if the log is read-only.
    mark: Option<Mark>,
    written: u64,
    /// Bytes in the table in memory.
    in_table: u64,
}

impl std::fmt::Debug for RocksLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RocksLog { path, state, access, .. } = self;
        write!(f, "RocksLog({}, {state:?}, {access:?})", path.display())
    }
}

/// Operations that the log permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    All,
    /// The log is only read.
    ReadOnly,
    /// A write failed, so the content of the files is unknown.
    Failed,
}

impl RocksLog {
    /// Creates an empty log in a folder that has none. An interrupted creation is completed.
    ///
    /// # Errors
    /// There is a log already, or the disk fails.
    pub fn create(folder: &Path, owner: LogOwner) -> Result<RocksLog, CreateError> {
        let (db, mark) = open::create(folder, owner)?;
        Ok(RocksLog::new(db, folder, State::default(), Some(mark)))
    }

    /// Opens a log, after reading and checking all of it.
    ///
    /// # Errors
    /// There is no log, it belongs to another replica, is in use or is damaged, or the disk fails.
    pub fn open(folder: &Path, owner: LogOwner) -> Result<RocksLog, OpenError> {
        let (db, state, mark) = open::open(folder, owner)?;
        Ok(RocksLog::new(db, folder, state, Some(mark)))
    }

    /// Opens a log read-only: no file is changed, and writes are rejected. The caller must make sure that no process
    /// has the log open, as [`crate::directory`] does.
    ///
    /// # Errors
    /// Those of [`RocksLog::open`].
    pub fn look(folder: &Path, owner: LogOwner) -> Result<RocksLog, OpenError> {
        let (db, state) = open::look(folder, owner)?;
        Ok(RocksLog::new(db, folder, state, None))
    }

    fn new(db: DB, folder: &Path, state: State, mark: Option<Mark>) -> RocksLog {
        let access = if mark.is_some() { Access::All } else { Access::ReadOnly };
        let path = folder.to_owned();
        RocksLog { db, path, state, access, mark, written: 0, in_table: 0 }
    }

    fn check_access(&self) -> Result<(), WriteError> {
        if self.access == Access::All { Ok(()) } else { Err(WriteError::Refused) }
    }

    /// The error of a failed write. Its outcome is unknown, because RocksDB does not report whether the write changed
    /// anything, even on a full disk.
    fn unknown(&mut self, source: io::Error) -> WriteError {
        self.access = Access::Failed;
        WriteError::Unknown { path: self.path.clone(), source }
    }

    /// Writes a batch with the state after it.
    fn write(&mut self, mut batch: WriteBatch, state: State) -> Result<(), WriteError> {
        let state = State { number: self.state.number + 1, ..state };
        batch.put(STATE, state.to_bytes());
        let bytes = batch.size_in_bytes() as u64;
        self.written += bytes;
        self.in_table += bytes;
        self.db.write(batch).map_err(|error| self.unknown(io::Error::other(error)))?;
        self.state = state;
        Ok(())
    }

    /// Term and checksum of an entry in the log, or of the base.
    fn known(&self, index: LogIndex) -> io::Result<CheckedPosition> {
        for known in [self.state.base, self.state.last] {
            if known.position.index == index {
                return Ok(known);
            }
        }
        let found = self.db.get(key(index)).map_err(io::Error::other)?;
        let read = found.and_then(|value| record::read_entry(&key(index), &value, index));
        let (entry, checks) = read.ok_or(io::ErrorKind::InvalidData)?;
        Ok(CheckedPosition { position: entry.position, checksum: checks.own })
    }
}

impl LogEngine for RocksLog {
    fn bounds(&self) -> Bounds {
        Bounds { base: self.state.base.position, last: self.state.last.position }
    }

    fn hard_state(&self) -> HardState {
        self.state.hard_state
    }

    fn append(&mut self, batch: &Batch) -> Result<(), WriteError> {
        self.check_access()?;
        batch.check(self.bounds());
        let mut writes = WriteBatch::default();
        let mut state = self.state;
        state.hard_state = batch.hard_state.unwrap_or(state.hard_state);
        if let Some(first) = batch.entries.first().map(|entry| entry.position.index) {
            let end = self.state.last.position.index.next();
            if first < end {
                writes.delete_range(key(first), key(end));
            }
            let before = LogIndex(first.0 - 1);
            state.last = self.known(before).map_err(|error| self.unknown(error))?;
        }
        let mut value = Vec::new();
        for entry in &batch.entries {
            let checksum = record::put_entry(&mut value, entry, state.last.checksum);
            writes.put(key(entry.position.index), &value);
            state.last = CheckedPosition { position: entry.position, checksum };
        }
        self.write(writes, state)
    }

    fn sync(&mut self) -> Result<(), WriteError> {
        self.check_access()?;
        let synced = self.db.flush_wal(true);
        synced.map_err(|error| self.unknown(io::Error::other(error)))?;
        let number = self.state.number;
        let marked = self.mark.as_mut().map_or(Ok(()), |mark| mark.write(number));
        marked.map_err(|error| self.unknown(error))?;
        if self.in_table >= TABLE_BYTES {
            self.in_table = 0;
            let mut behind = FlushOptions::default();
            behind.set_wait(false);
            let begun = self.db.flush_opt(&behind);
            begun.map_err(|error| self.unknown(io::Error::other(error)))?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError> {
        let Bounds { base, last } = self.bounds();
        if from <= base.index || from > last.index {
            return Ok(());
        }
        let mut range = ReadOptions::default();
        range.set_iterate_upper_bound(key(last.index.next()));
        let start = key(from);
        let mode = IteratorMode::From(&start, Direction::Forward);
        let (mut index, mut bytes) = (from, 0);
        for found in self.db.iterator_opt(mode, range) {
            let (found_key, value) = found.map_err(|error| ReadError::Io {
                path: self.path.clone(),
                source: io::Error::other(error),
            })?;
            let entry = record::read_entry(&found_key, &value, index);
            let (entry, _) = entry.ok_or_else(|| corrupt(&self.path, index))?;
            bytes += entry.data.len();
            if index > from && bytes > bytes_max {
                return Ok(());
            }
            entries.push(entry);
            index = index.next();
        }
        if index <= last.index {
            return Err(corrupt(&self.path, index));
        }
        Ok(())
    }

    fn compact(&mut self, base: Position) -> Result<(), WriteError> {
        self.check_access()?;
        let before = self.state.base.position.index;
        if base.index <= before {
            return Ok(());
        }
        assert!(base.index <= self.bounds().last.index, "the log holds {base:?}");
        let mut writes = WriteBatch::default();
        writes.delete_range(key(before), key(base.index.next()));
        let base = self.known(base.index).map_err(|error| self.unknown(error))?;
        self.write(writes, State { base, ..self.state })
    }

    fn restart(&mut self, base: Position, hard_state: HardState) -> Result<(), WriteError> {
        self.check_access()?;
        let mut writes = WriteBatch::default();
        writes.delete_range(key(LogIndex(0)), key(self.bounds().last.index.next()));
        let base = CheckedPosition { position: base, checksum: 0 };
        self.write(writes, State { base, last: base, hard_state, ..self.state })?;
        self.sync()
    }

    fn bytes_on_disk(&self) -> u64 {
        let Ok(files) = std::fs::read_dir(&self.path) else { return 0 };
        files.flatten().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
    }

    /// Does not include RocksDB's background writes.
    fn bytes_written(&self) -> u64 {
        self.written
    }
}

/// The error for a damaged entry. RocksDB does not report the entry's offset in its files.
fn corrupt(path: &Path, index: LogIndex) -> ReadError {
    ReadError::Corrupt { path: path.to_owned(), offset: 0, index }
}
