//! The log in RocksDB, for those who want all that a replica keeps in one well-known store.
//!
//! ```text
//!   "b" ── base      "e" + index, big-endian ── crc32 · kind · term · data
//!   "h" ── hard state                            (ascending keys are ascending indices)
//!   "o" ── owner
//! ```
//!
//! A batch is one write to RocksDB's own log (the WAL), with all it replaces and its hard state, so
//! it is there as a whole or not at all; [`LogEngine::sync`] syncs the WAL. RocksDB's defaults are
//! not fit for this: its usual way to recover drops synced writes behind a damaged one without a
//! word, and a voter with a shorter log breaks Raft's promise. Here the tail alone may be torn, all
//! checks are on, and at opening every entry is read, checked and counted.
//!
//! It writes data twice, at least, and takes longer for it: see ARCHITECTURE.md.

use super::segment::LogOwner;
use super::{
    Batch, Bounds, CreateError, Entry, EntryKind, HardState, LogEngine, LogIndex, OpenError,
    Position, ReadError, ReplicaId, Term, WriteError,
};
use crate::origin::CellId;
use bytes::Bytes;
use rocksdb::{DB, DBRecoveryMode, Direction, ErrorKind, IteratorMode, Options, WriteBatch};
use rocksdb::{ReadOptions, WriteOptions};
use std::io;
use std::path::{Path, PathBuf};

const BASE: &[u8] = b"b";
const HARD_STATE: &[u8] = b"h";
const OWNER: &[u8] = b"o";
const ENTRY: u8 = b'e';

/// Bytes before the data of an entry.
const HEAD: usize = 13;

/// Bytes of a table in memory: large enough that most entries are forgotten before they are
/// written a second time, small enough for a replica among other processes.
const TABLE_BYTES: usize = 32 << 20;

/// A log in RocksDB.
pub struct RocksLog {
    db: DB,
    path: PathBuf,
    bounds: Bounds,
    hard_state: HardState,
    trust: Trust,
    written: u64,
}

impl std::fmt::Debug for RocksLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RocksLog { path, bounds, hard_state, trust, .. } = self;
        write!(f, "RocksLog({}, {bounds:?}, {hard_state:?}, {trust:?})", path.display())
    }
}

/// Whether it is known what the files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Sound,
    Unknown,
}

fn options() -> Options {
    let mut options = Options::default();
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_paranoid_checks(true);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options.set_write_buffer_size(TABLE_BYTES);
    options.set_max_write_buffer_number(3);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(4);
    options
}

fn key(index: LogIndex) -> [u8; 9] {
    let mut key = [ENTRY; 9];
    key[1..].copy_from_slice(&index.0.to_be_bytes());
    key
}

impl RocksLog {
    /// Makes an empty log in a folder that has none.
    ///
    /// # Errors
    /// If there is a log, or the disk fails.
    pub fn create(folder: &Path, owner: LogOwner) -> Result<RocksLog, CreateError> {
        let failed = |source: io::Error| CreateError::Io { path: folder.to_owned(), source };
        let mut options = options();
        options.create_if_missing(true);
        options.set_error_if_exists(true);
        let db = DB::open(&options, folder).map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => CreateError::Exists(folder.to_owned()),
            _ => failed(io::Error::other(error)),
        })?;
        let mut owned = owner.cell.0.to_le_bytes().to_vec();
        owned.extend(owner.replica.0.to_le_bytes());
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        let put = db.put_opt(OWNER, owned, &synced);
        put.map_err(|error| failed(io::Error::other(error)))?;
        Ok(RocksLog {
            db,
            path: folder.to_owned(),
            bounds: Bounds::default(),
            hard_state: HardState::default(),
            trust: Trust::Sound,
            written: 0,
        })
    }

    /// Opens a log: reads and checks all of it.
    ///
    /// # Errors
    /// If there is none, it is another replica's, is in use, or is damaged; or if the disk fails.
    pub fn open(folder: &Path, owner: LogOwner) -> Result<RocksLog, OpenError> {
        let path = folder.to_owned();
        let empty = std::fs::read_dir(folder).map_or(true, |mut files| files.next().is_none());
        if empty {
            return Err(OpenError::Missing(path));
        }
        let db = DB::open(&options(), folder).map_err(|error| open_error(folder, error))?;
        // What the last process wrote and did not sync is here now: nobody may act on it before it
        // is safe, and RocksDB does not say that it is. A table that is flushed is synced.
        db.flush().map_err(|error| open_error(folder, error))?;
        let read = |name| db.get(name).map_err(|error| open_error(folder, error));
        let detail =
            |detail: &str| OpenError::Library { path: path.clone(), detail: detail.into() };
        let owned = read(OWNER)?.ok_or_else(|| detail("it holds no log of ours"))?;
        let found = read_owner(&owned).ok_or_else(|| detail("its owner cannot be read"))?;
        let wanted = (owner.cell, owner.replica);
        if found != wanted {
            return Err(OpenError::OtherReplica { path, found, wanted });
        }
        let base = read(BASE)?.map_or(Some(Position::default()), |bytes| read_position(&bytes));
        let base = base.ok_or_else(|| detail("its base cannot be read"))?;
        let hard = read(HARD_STATE)?.map_or(Some(HardState::default()), |b| read_hard_state(&b));
        let hard_state = hard.ok_or_else(|| detail("its hard state cannot be read"))?;
        let last = last_entry(&db, folder, base)?;
        let bounds = Bounds { base, last };
        Ok(RocksLog { db, path, bounds, hard_state, trust: Trust::Sound, written: 0 })
    }

    fn check_trust(&self) -> Result<(), WriteError> {
        if self.trust == Trust::Unknown { Err(WriteError::Refused) } else { Ok(()) }
    }

    /// RocksDB does not tell whether anything was written when it fails, not even when the disk is
    /// full: so the outcome is never known.
    fn unknown(&mut self, error: rocksdb::Error) -> WriteError {
        self.trust = Trust::Unknown;
        WriteError::Unknown { path: self.path.clone(), source: io::Error::other(error) }
    }

    fn write(&mut self, batch: WriteBatch) -> Result<(), WriteError> {
        self.written += batch.size_in_bytes() as u64;
        self.db.write(batch).map_err(|error| self.unknown(error))
    }
}

impl LogEngine for RocksLog {
    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn hard_state(&self) -> HardState {
        self.hard_state
    }

    fn append(&mut self, batch: &Batch) -> Result<(), WriteError> {
        self.check_trust()?;
        batch.check(self.bounds);
        let mut writes = WriteBatch::default();
        let mut last = self.bounds.last;
        if let (Some(first), Some(end)) = (batch.entries.first(), batch.entries.last()) {
            if first.position.index <= last.index {
                writes.delete_range(key(first.position.index), key(last.index.next()));
            }
            last = end.position;
        }
        let mut value = Vec::new();
        for entry in &batch.entries {
            put_entry(&mut value, entry);
            writes.put(key(entry.position.index), &value);
        }
        if let Some(hard_state) = batch.hard_state {
            writes.put(HARD_STATE, hard_state_bytes(hard_state));
        }
        self.write(writes)?;
        self.bounds.last = last;
        self.hard_state = batch.hard_state.unwrap_or(self.hard_state);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), WriteError> {
        self.check_trust()?;
        self.db.flush_wal(true).map_err(|error| self.unknown(error))
    }

    fn read(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError> {
        if from <= self.bounds.base.index || from > self.bounds.last.index {
            return Ok(());
        }
        let mut range = ReadOptions::default();
        range.set_iterate_upper_bound(key(self.bounds.last.index.next()));
        let start = key(from);
        let mode = IteratorMode::From(&start, Direction::Forward);
        let (mut index, mut bytes) = (from, 0);
        for found in self.db.iterator_opt(mode, range) {
            let (found_key, value) = found.map_err(|error| ReadError::Io {
                path: self.path.clone(),
                source: io::Error::other(error),
            })?;
            let entry = read_entry(&found_key, &value, index);
            let entry = entry.ok_or_else(|| corrupt(&self.path, index))?;
            bytes += entry.data.len();
            if index > from && bytes > bytes_max {
                return Ok(());
            }
            entries.push(entry);
            index = index.next();
        }
        if index <= self.bounds.last.index {
            return Err(corrupt(&self.path, index));
        }
        Ok(())
    }

    fn compact(&mut self, base: Position) -> Result<(), WriteError> {
        self.check_trust()?;
        if base.index <= self.bounds.base.index {
            return Ok(());
        }
        assert!(base.index <= self.bounds.last.index, "the log holds {base:?}");
        let mut writes = WriteBatch::default();
        writes.put(BASE, position_bytes(base));
        writes.delete_range(key(self.bounds.base.index), key(base.index.next()));
        self.write(writes)?;
        self.bounds.base = base;
        if self.bounds.last.index == base.index {
            self.bounds.last = base;
        }
        Ok(())
    }

    fn restart(&mut self, base: Position, hard_state: HardState) -> Result<(), WriteError> {
        self.check_trust()?;
        let mut writes = WriteBatch::default();
        writes.delete_range(key(LogIndex(0)), key(self.bounds.last.index.next()));
        writes.put(BASE, position_bytes(base));
        writes.put(HARD_STATE, hard_state_bytes(hard_state));
        self.write(writes)?;
        (self.bounds, self.hard_state) = (Bounds { base, last: base }, hard_state);
        self.sync()
    }

    fn bytes_on_disk(&self) -> u64 {
        let Ok(files) = std::fs::read_dir(&self.path) else { return 0 };
        files.flatten().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
    }

    /// Without what RocksDB writes again in the background.
    fn bytes_written(&self) -> u64 {
        self.written
    }
}

/// The last entry, when every one from the base on was read and is whole.
fn last_entry(db: &DB, folder: &Path, base: Position) -> Result<Position, OpenError> {
    let mut range = ReadOptions::default();
    range.set_iterate_upper_bound([ENTRY + 1]);
    let mut last = base;
    let start = key(LogIndex(0));
    for found in db.iterator_opt(IteratorMode::From(&start, Direction::Forward), range) {
        let (found_key, value) = found.map_err(|error| open_error(folder, error))?;
        let index = last.index.next();
        let entry = read_entry(&found_key, &value, index).ok_or_else(|| OpenError::Library {
            path: folder.to_owned(),
            detail: format!("entry {index} is damaged or missing").into(),
        })?;
        last = entry.position;
    }
    Ok(last)
}

fn open_error(folder: &Path, error: rocksdb::Error) -> OpenError {
    let (path, detail) = (folder.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::IOError if detail.contains("lock") => OpenError::Locked(path),
        ErrorKind::IOError => OpenError::Io { path, source: io::Error::other(error) },
        _ => OpenError::Library { path, detail: detail.into() },
    }
}

/// Where in RocksDB's files the entry is, nobody can say.
fn corrupt(path: &Path, index: LogIndex) -> ReadError {
    ReadError::Corrupt { path: path.to_owned(), offset: 0, index }
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    out.clear();
    out.extend(crc32fast::hash(&entry.data).to_le_bytes());
    out.push(match entry.kind {
        EntryKind::Commands => 0,
        EntryKind::Membership => 1,
    });
    out.extend(entry.position.term.0.to_le_bytes());
    out.extend_from_slice(&entry.data);
}

fn read_entry(found: &[u8], value: &[u8], index: LogIndex) -> Option<Entry> {
    let (head, data) = value.split_at_checked(HEAD)?;
    let crc = u32::from_le_bytes(*head.first_chunk()?);
    let kind = match head[4] {
        0 => EntryKind::Commands,
        1 => EntryKind::Membership,
        _ => return None,
    };
    let term = Term(u64::from_le_bytes(*head[5..].first_chunk()?));
    let whole = found == key(index) && crc32fast::hash(data) == crc;
    let position = Position { index, term };
    whole.then(|| Entry { position, kind, data: Bytes::copy_from_slice(data) })
}

fn position_bytes(position: Position) -> Vec<u8> {
    [position.index.0.to_le_bytes(), position.term.0.to_le_bytes()].concat()
}

fn read_position(bytes: &[u8]) -> Option<Position> {
    let [index, term] = words(bytes)?;
    Some(Position { index: LogIndex(index), term: Term(term) })
}

fn hard_state_bytes(hard_state: HardState) -> Vec<u8> {
    let vote = hard_state.vote.map_or(0, |vote| vote.0);
    let words =
        [hard_state.term.0, u64::from(hard_state.vote.is_some()), vote, hard_state.commit.0];
    words.map(u64::to_le_bytes).concat()
}

fn read_hard_state(bytes: &[u8]) -> Option<HardState> {
    let [term, voted, vote, commit] = words(bytes)?;
    let vote = (voted == 1).then_some(ReplicaId(vote));
    Some(HardState { term: Term(term), vote, commit: LogIndex(commit) })
}

fn read_owner(bytes: &[u8]) -> Option<(CellId, ReplicaId)> {
    let [low, high, replica] = words(bytes)?;
    Some((CellId(u128::from(low) | u128::from(high) << 64), ReplicaId(replica)))
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = bytes.as_chunks();
    let words: &[[u8; 8]; N] = words.try_into().ok().filter(|_| rest.is_empty())?;
    Some(words.map(u64::from_le_bytes))
}
