//! The snapshots of one replica: a folder with one file per snapshot.

use super::error::{LoadError, SaveError, SnapshotDamage};
use super::read::{self, corrupt};
use super::whole;
use super::write::WriteError;
use super::{KEPT, Meta};
use crate::CellId;
use crate::disk::{Disk, DiskFile};
use crate::failpoint::failpoint;
use crate::log::{LogIndex, Position, Term};
use omega_cellstate::{Cell, SnapshotState};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Suffix of the name of a complete snapshot.
const WHOLE: &str = ".snapshot";

/// Suffix of the name of an incomplete snapshot.
pub(super) const PARTIAL: &str = ".partial";

/// Prefix of the name of an incoming snapshot.
pub(super) const PARTIAL_INCOMING: &str = "incoming-";

/// A file that several readers share, because a disk allows each file to be opened only once.
pub(super) type SharedFile = Arc<Mutex<Box<dyn DiskFile>>>;

/// Open files by position, as long as they have readers.
type OpenFiles = BTreeMap<Position, Weak<Mutex<Box<dyn DiskFile>>>>;

/// A complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Description of the snapshot.
    pub meta: Meta,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// The snapshots of one replica.
///
/// One thread may save while others read. The folder belongs to one process.
#[derive(Debug)]
pub struct Snapshots {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folder: PathBuf,
    pub(super) cell: CellId,
    /// Files that are being read in this process. Locked while a file is opened, but not while it is read.
    open: Mutex<OpenFiles>,
}

impl Snapshots {
    /// Opens a folder, or creates it. Incomplete files are removed, except the file of a transfer, which
    /// [`Snapshots::receive`] can continue.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: impl Into<PathBuf>,
        cell: CellId,
    ) -> Result<Arc<Snapshots>, LoadError> {
        let folder = folder.into();
        let snapshots = Snapshots { disk, folder, cell, open: Default::default() };
        let io = |source| LoadError::Io { path: snapshots.folder.clone(), source };
        snapshots.disk.create_folder(&snapshots.folder).map_err(io)?;
        for name in snapshots.disk.list(&snapshots.folder).map_err(io)? {
            if name.ends_with(PARTIAL) && !name.starts_with(PARTIAL_INCOMING) {
                snapshots.disk.remove(&snapshots.folder.join(name)).map_err(io)?;
            }
        }
        Ok(Arc::new(snapshots))
    }

    /// Cell of the snapshots.
    #[must_use]
    pub fn cell(&self) -> CellId {
        self.cell
    }

    /// The positions of all snapshots, in ascending order. No file is opened.
    ///
    /// # Errors
    /// The disk fails.
    pub fn list(&self) -> Result<Vec<Position>, LoadError> {
        let names = self.disk.list(&self.folder);
        let names = names.map_err(|source| LoadError::Io { path: self.folder.clone(), source })?;
        let mut positions: Vec<Position> = names.iter().filter_map(|name| position(name)).collect();
        positions.sort_unstable();
        Ok(positions)
    }

    /// Writes a snapshot durably, and then removes old snapshots. The newest [`KEPT`] snapshots are kept.
    ///
    /// # Errors
    /// The snapshot is not durable. No file has the final name then, unless the disk failed after everything was
    /// written. A file with the final name is always complete.
    pub fn save(&self, meta: &Meta, state: &SnapshotState) -> Result<(), SaveError> {
        if meta.cell != self.cell {
            return Err(SaveError::OtherCell { found: meta.cell, wanted: self.cell });
        }
        if meta.replica_meta.len() > super::REPLICA_META_BYTES_MAX {
            return Err(SaveError::Membership(meta.replica_meta.len()));
        }
        let partial = self.folder.join(format!("{}{PARTIAL}", name(meta.position)));
        let written = self.write(&partial, meta, state);
        if written.is_err() {
            // If this fails, the file is removed when the folder is opened next.
            let _ = self.disk.remove(&partial);
        }
        written.map_err(|error| match error {
            WriteError::Full => SaveError::Full(partial),
            WriteError::TooLarge(bytes) => SaveError::TooLarge { bytes },
            WriteError::Io(source) => SaveError::Io { path: partial, source },
        })
    }

    fn write(&self, partial: &Path, meta: &Meta, state: &SnapshotState) -> Result<(), WriteError> {
        match self.disk.remove(partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        failpoint!("snapshot-create", Err(io::Error::other("injected").into()));
        let mut file = self.disk.create(partial)?;
        whole::write(meta, state, &mut |offset, bytes| file.write_at(offset, bytes))?;
        failpoint!("snapshot-sync", Err(io::Error::other("injected").into()));
        if !omega_cellstate::injected!(SnapshotNotSynced) {
            file.sync()?;
        }
        drop(file);
        self.publish(partial, meta.position)?;
        Ok(())
    }

    /// Renames a complete and synced file to its final name, and removes older snapshots.
    pub(super) fn publish(&self, partial: &Path, position: Position) -> io::Result<()> {
        failpoint!("snapshot-rename", Err(io::Error::other("injected")));
        self.open_files().remove(&position);
        self.disk.rename(partial, &self.path(position))?;
        failpoint!("snapshot-renamed", Err(io::Error::other("injected")));
        if !omega_cellstate::injected!(SnapshotFolderNotSynced) {
            self.disk.sync_folder(&self.folder)?;
        }
        let mut all = self.list().map_err(|error| match error {
            LoadError::Io { source, .. } => source,
            other => io::Error::other(other),
        })?;
        all.retain(|other| *other <= position);
        for old in all.iter().rev().skip(KEPT) {
            failpoint!("snapshot-remove", Err(io::Error::other("injected")));
            self.disk.remove(&self.path(*old))?;
        }
        Ok(())
    }

    /// Checks all of the newest snapshot, and returns it; `None` if there is none.
    ///
    /// # Errors
    /// The snapshot is damaged. A replica then refuses to start, because the log may lack entries that only this
    /// snapshot includes. [`Snapshots::newest_before`] finds an older snapshot, whose state is complete but older.
    pub fn newest(&self) -> Result<Option<SnapshotInfo>, LoadError> {
        self.found(self.list()?.last().copied())
    }

    /// Returns the newest snapshot before a position, for callers for which an older snapshot suffices.
    ///
    /// # Errors
    /// Those of [`Snapshots::newest`].
    pub fn newest_before(&self, position: Position) -> Result<Option<SnapshotInfo>, LoadError> {
        self.found(self.list()?.into_iter().rfind(|other| *other < position))
    }

    fn found(&self, position: Option<Position>) -> Result<Option<SnapshotInfo>, LoadError> {
        position.map(|position| self.check(position)).transpose()
    }

    /// Checks all of the snapshot at a position, and returns it.
    ///
    /// # Errors
    /// There is no snapshot at this position, it is damaged, or it belongs to another cell or position.
    pub fn check(&self, position: Position) -> Result<SnapshotInfo, LoadError> {
        self.with_file(position, |file, path| {
            let (header, _) = read::verify(file, path)?;
            self.check_meta(&header.meta, position, path)?;
            Ok(SnapshotInfo { meta: header.meta, bytes: header.length })
        })
    }

    /// Reads a snapshot's state, and checks every byte and the state hash.
    ///
    /// # Errors
    /// There is no snapshot at this position, it is damaged, or it belongs to another cell or position.
    pub fn load(&self, position: Position) -> Result<(Meta, SnapshotState), LoadError> {
        self.with_file(position, |file, path| {
            let (header, state) = whole::read(file, path)?;
            self.check_meta(&header.meta, position, path)?;
            check_state(state.state_hash(), header.state_hash, path)?;
            Ok((header.meta, state))
        })
    }

    /// Restores the cell of a snapshot, and checks the state hash.
    ///
    /// # Errors
    /// Those of [`Snapshots::load`], or the snapshot is not a valid cell.
    pub fn restore(&self, position: Position) -> Result<(Meta, Cell), LoadError> {
        self.with_file(position, |file, path| {
            let (header, state) = whole::read(file, path)?;
            self.check_meta(&header.meta, position, path)?;
            let cell =
                Cell::from_snapshot_state(state).map_err(|error| corrupt(path, 0, error.into()))?;
            check_state(cell.state_hash(), header.state_hash, path)?;
            Ok((header.meta, cell))
        })
    }

    pub(super) fn check_meta(
        &self,
        meta: &Meta,
        position: Position,
        path: &Path,
    ) -> Result<(), LoadError> {
        let path = path.to_owned();
        if meta.cell != self.cell {
            return Err(LoadError::OtherCell { path, found: meta.cell, wanted: self.cell });
        }
        if meta.position != position {
            return Err(LoadError::OtherPosition { path, found: meta.position });
        }
        Ok(())
    }

    fn with_file<T>(
        &self,
        position: Position,
        read: impl FnOnce(&mut dyn DiskFile, &Path) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        let file = self.file(position)?;
        let mut file = file.lock();
        read(&mut **file, &self.path(position))
    }

    /// The open file of a snapshot. Readers share it, because the disk locks an open file.
    pub(super) fn file(&self, position: Position) -> Result<SharedFile, LoadError> {
        let mut files = self.open_files();
        if let Some(file) = files.get(&position).and_then(Weak::upgrade) {
            return Ok(file);
        }
        files.retain(|_, file| file.strong_count() > 0);
        let path = self.path(position);
        let file = self.disk.open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LoadError::Missing(path.clone()),
            io::ErrorKind::WouldBlock => LoadError::Locked(path.clone()),
            _ => LoadError::Io { path: path.clone(), source },
        })?;
        let file = Arc::new(Mutex::new(file));
        files.insert(position, Arc::downgrade(&file));
        Ok(file)
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock()
    }

    /// Path of a snapshot.
    #[must_use]
    pub fn path(&self, position: Position) -> PathBuf {
        self.folder.join(format!("{}{WHOLE}", name(position)))
    }
}

fn check_state(found: u64, wanted: u64, path: &Path) -> Result<(), LoadError> {
    if found == wanted {
        Ok(())
    } else {
        Err(corrupt(path, 0, SnapshotDamage::State { found, wanted }))
    }
}

/// The file name for a position. Names are in the order of positions as long as terms have at most eight digits.
pub(super) fn name(position: Position) -> String {
    format!("{:020}-{:08}", position.index.0, position.term.0)
}

/// The position in the file name of a complete snapshot.
fn position(file: &str) -> Option<Position> {
    let (index, term) = file.strip_suffix(WHOLE)?.split_once('-')?;
    let position =
        Position { index: LogIndex(index.parse().ok()?), term: Term(term.parse().ok()?) };
    // Other names for the position are rejected, such as `+1-2.snapshot`, which would parse, too.
    (format!("{}{WHOLE}", name(position)) == file).then_some(position)
}
