//! Creation, inspection and opening of a log in RocksDB. The documentation of `mod.rs` lists the checks.

use super::endless;
use super::mark::{self, Mark};
use super::record::{self, CheckedPosition, ENTRY, OWNER, STATE, State, key};
use super::{CreateError, LogIndex, LogOwner, OpenError};
use rocksdb::{
    DB, DBCompressionType, DBRecoveryMode, Direction, ErrorKind, IteratorMode, Options,
    ReadOptions, WriteBatch, WriteOptions,
};
use std::io;
use std::path::Path;

/// Bytes in the table in memory after which the table is written. This is enough that most entries are compacted before
/// they would be written a second time, and little compared with a replica's memory.
pub(super) const TABLE_BYTES: u64 = 32 << 20;

/// Options of RocksDB. The log depends on two defaults. RocksDB writes its WAL with each batch: with manual flushes,
/// batches would stay in memory. And RocksDB recycles no WAL files: old content at the end of a recycled file could not
/// be distinguished from damage.
fn options() -> Options {
    let mut options = Options::default();
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_paranoid_checks(true);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_manual_wal_flush(false);
    options.set_compression_type(DBCompressionType::None);
    // The buffer is so large that RocksDB writes tables only when this module requests it (see the documentation of
    // `mod.rs`).
    options.set_write_buffer_size(4 * TABLE_BYTES as usize);
    options.set_max_write_buffer_number(3);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(4);
    options
}

/// Creates an empty log, or completes a log that consists only of RocksDB's own files.
pub(super) fn create(folder: &Path, owner: LogOwner) -> Result<(DB, Mark), CreateError> {
    let io_failed = |source: io::Error| CreateError::Io { path: folder.to_owned(), source };
    let failed = |error: rocksdb::Error| io_failed(io::Error::other(error));
    let mut options = options();
    options.create_if_missing(true);
    let exists = || CreateError::Exists(folder.to_owned());
    let db = DB::open(&options, folder)
        .map_err(|error| if is_lock(&error) { exists() } else { failed(error) })?;
    if let Some(found) = db.iterator(IteratorMode::Start).next() {
        return Err(found.map_or_else(failed, |_| exists()));
    }
    let mut first = WriteBatch::default();
    first.put(OWNER, record::owner_bytes(owner));
    first.put(STATE, State::default().to_bytes());
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    db.write_opt(first, &synced).map_err(failed)?;
    let mark = Mark::open(folder).map_err(io_failed)?;
    Ok((db, mark))
}

/// Checks a whole log. No file is changed.
pub(super) fn look(folder: &Path, owner: LogOwner) -> Result<(DB, State), OpenError> {
    let is_empty = std::fs::read_dir(folder).map_or(true, |mut files| files.next().is_none());
    if is_empty {
        return Err(OpenError::Missing(folder.to_owned()));
    }
    let failed = |error| open_error(folder, &error);
    let io_failed = |source| OpenError::Io { path: folder.to_owned(), source };
    let damaged = |what: &str| damaged(folder, what);
    if let Some(name) = endless::find(folder).map_err(io_failed)? {
        return Err(damaged(&format!("{name} is damaged")));
    }
    let db = DB::open_for_read_only(&options(), folder, false).map_err(failed)?;
    let owned = db.get(OWNER).map_err(failed)?.ok_or_else(|| damaged("it has no owner"))?;
    let found = record::read_owner(&owned).ok_or_else(|| damaged("its owner cannot be read"))?;
    let wanted = (owner.cell, owner.replica);
    if found != wanted {
        return Err(OpenError::OtherReplica { path: folder.to_owned(), found, wanted });
    }
    let state = db.get(STATE).map_err(failed)?;
    let state = state.and_then(|bytes| State::read(&bytes));
    let state = state.ok_or_else(|| damaged("its state cannot be read"))?;
    let safe = mark::read(folder).map_err(io_failed)?;
    if state.number < safe {
        let number = state.number;
        return Err(damaged(&format!(
            "it lost its end: {safe} writes were safe, {number} are there"
        )));
    }
    check_entries(&db, folder, &state)?;
    Ok((db, state))
}

/// Opens a checked log.
pub(super) fn open(folder: &Path, owner: LogOwner) -> Result<(DB, State, Mark), OpenError> {
    let (looked_at, state) = look(folder, owner)?;
    drop(looked_at);
    let failed = |error| open_error(folder, &error);
    let db = DB::open(&options(), folder).map_err(failed)?;
    // The last process may have left unsynced writes, which RocksDB does not sync. Writing the table syncs them, before
    // anything depends on them.
    db.flush().map_err(failed)?;
    let found = db.get(STATE).map_err(failed)?;
    if found.and_then(|bytes| State::read(&bytes)) != Some(state) {
        return Err(damaged(folder, "it was changed while it was opened"));
    }
    let marked = Mark::open(folder).and_then(|mut mark| {
        mark.write(state.number)?;
        Ok(mark)
    });
    let mark = marked.map_err(|source| OpenError::Io { path: folder.to_owned(), source })?;
    Ok((db, state, mark))
}

/// Reads every entry from the base to the last one.
fn check_entries(db: &DB, folder: &Path, state: &State) -> Result<(), OpenError> {
    let mut range = ReadOptions::default();
    range.set_iterate_upper_bound([ENTRY + 1]);
    let start = key(LogIndex(0));
    let mut last = state.base;
    for found in db.iterator_opt(IteratorMode::From(&start, Direction::Forward), range) {
        let (found_key, value) = found.map_err(|error| open_error(folder, &error))?;
        let index = last.position.index.next();
        let read = record::read_entry(&found_key, &value, index);
        let follows = read.filter(|(_, checks)| checks.before == last.checksum);
        let (entry, checks) = follows
            .ok_or_else(|| damaged(folder, &format!("entry {index} is damaged or missing")))?;
        last = CheckedPosition { position: entry.position, checksum: checks.own };
    }
    if last == state.last {
        Ok(())
    } else {
        let (found, wanted) = (last.position.index, state.last.position.index);
        let what = format!("its entries end at {found}, they ended at {wanted}");
        Err(damaged(folder, &what))
    }
}

fn damaged(folder: &Path, what: &str) -> OpenError {
    OpenError::Library { path: folder.to_owned(), detail: what.into() }
}

fn open_error(folder: &Path, error: &rocksdb::Error) -> OpenError {
    let path = folder.to_owned();
    if is_lock(error) {
        return OpenError::Locked(path);
    }
    let detail = error.to_string();
    match error.kind() {
        // RocksDB reports a missing file as an I/O error, but the disk works.
        ErrorKind::IOError if !detail.starts_with("IO error: No such file") => {
            OpenError::Io { path, source: io::Error::other(detail) }
        }
        _ => OpenError::Library { path, detail: detail.into() },
    }
}

/// Whether the log is already open, in this or another process.
fn is_lock(error: &rocksdb::Error) -> bool {
    let text = error.to_string();
    ["IO error: While lock file", "IO error: lock hold by"]
        .iter()
        .any(|with| text.starts_with(with))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::rocks::RocksLog;
    use crate::log::{LogEngine, ReplicaId};
    use crate::origin::CellId;

    const OWNER: LogOwner = LogOwner { cell: CellId(7), replica: ReplicaId(3) };

    /// Simulates a process that ended after RocksDB had created its files, and before they had content.
    #[test]
    fn a_creation_that_was_cut_short_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options();
        options.create_if_missing(true);
        drop(DB::open(&options, folder.path()).unwrap());
        assert!(matches!(RocksLog::open(folder.path(), OWNER), Err(OpenError::Library { .. })));
        drop(RocksLog::create(folder.path(), OWNER).unwrap());
        assert_eq!(RocksLog::open(folder.path(), OWNER).unwrap().bounds().last.index, LogIndex(0));
        assert!(matches!(RocksLog::create(folder.path(), OWNER), Err(CreateError::Exists(_))));
    }
}
