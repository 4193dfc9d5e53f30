//! A backup: a snapshot that belongs to no replica, and from which a new cell can be bootstrapped.
//!
//! It has the format of a snapshot, but no metadata of a replica, because a restore bootstraps a new cell without any
//! replica of the old one. So no replica starts from a backup that is put among its snapshots. The reply cache is part
//! of the state, so earlier results stay valid.

use super::Meta;
use super::error::{LoadError, SaveError, SnapshotDamage};
use super::read::corrupt;
use super::whole;
use super::write::WriteError;
use crate::CellId;
use crate::disk::{Disk, is_full};
use crate::replica::FIRST;
use bytes::Bytes;
use crc32fast::Hasher;
use omega_cellstate::{Cell, SnapshotState};
use std::io;
use std::path::Path;

/// Content of a backup, after all of it was checked.
#[derive(Debug)]
pub struct BackupContent {
    /// Id of the cell that was backed up.
    pub from: CellId,
    /// Bytes of the file.
    pub bytes: u64,
    /// The cell, at the version of the backup.
    pub cell: Cell,
}

/// Writes a backup. `put` is called with bytes and their offset in the file, at most a little over a mebibyte at once.
/// The beginning of the file is written last. Returns the length of the file.
///
/// # Errors
/// Those of `put`, or a part of the state is too large.
pub fn write_backup(
    from: CellId,
    state: &SnapshotState,
    mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> Result<u64, SaveError> {
    let meta = Meta { cell: from, position: FIRST, replica_meta: Bytes::new() };
    whole::write(&meta, state, &mut put).map_err(|error| match error {
        WriteError::TooLarge(bytes) => SaveError::TooLarge { bytes },
        WriteError::Full => io_error(io::ErrorKind::StorageFull.into()),
        WriteError::Io(source) => io_error(source),
    })
}

fn io_error(source: io::Error) -> SaveError {
    let path = "backup".into();
    if is_full(&source) { SaveError::Full(path) } else { SaveError::Io { path, source } }
}

/// The checksum of a piece of a backup in transit, over its bytes and its offset.
#[must_use]
pub fn piece_checksum(offset: u64, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&offset.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Reads a backup, or any snapshot, and checks every byte: checksums, file hash, validity of the cell, and the state
/// hash.
///
/// # Errors
/// The file is damaged, is no snapshot, or has another version, or the disk fails.
pub fn read_backup(disk: &dyn Disk, path: &Path) -> Result<BackupContent, LoadError> {
    let mut file = disk.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(path.to_owned()),
        io::ErrorKind::WouldBlock => LoadError::Locked(path.to_owned()),
        _ => LoadError::Io { path: path.to_owned(), source },
    })?;
    let (header, state) = whole::read(&mut *file, path)?;
    let cell = Cell::from_snapshot_state(state).map_err(|error| corrupt(path, 0, error.into()))?;
    let (found, wanted) = (cell.state_hash(), header.state_hash);
    if found != wanted {
        return Err(corrupt(path, 0, SnapshotDamage::State { found, wanted }));
    }
    Ok(BackupContent { from: header.meta.cell, bytes: header.length, cell })
}
