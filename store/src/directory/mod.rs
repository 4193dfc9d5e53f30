//! The directory of a replica: its identity, its lock and its log.
//!
//! ```text
//!   DIR/IDENTITY      cell, replica, log engine, resource kinds; written once, last of all
//!   DIR/LOCK          locked while the directory is open
//!   DIR/log/          the files of the log engine
//!   DIR/snapshots/    the snapshots
//! ```
//!
//! A directory exists once it has its `IDENTITY`. When everything else is durable, that file is written under a
//! temporary name, and then renamed. So there are two kinds of directories without `IDENTITY`. An incomplete directory
//! has an empty log, and is completed by creating it again. A directory that has lost the file is rejected, because its
//! log may belong to another replica. A directory with an `IDENTITY` but without a log is rejected, too, because the
//! replica has forgotten its vote.

mod error;
mod identity;

pub use error::{CreateDirectoryError, OpenDirectoryError, OpenLogError};
pub use identity::{EngineKind, FORMAT, Identity};

use crate::disk::{Disk, DiskFile, folder_of};
use crate::log::segment::{LogOwner, SegmentLog, SegmentOptions};
use crate::log::{Bounds, HardState, LogEngine, OpenError, ReplicaId};
use crate::origin::CellId;
use identity::IdentityError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const IDENTITY: &str = "IDENTITY";
const UNFINISHED: &str = "IDENTITY.tmp";
const LOCK: &str = "LOCK";
const LOG: &str = "log";
const SNAPSHOTS: &str = "snapshots";

/// Expectations about a directory that is opened. `None` accepts any value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Required cell of the directory.
    pub cell: Option<CellId>,
    /// Required replica of the directory.
    pub replica: Option<ReplicaId>,
    /// Required log engine.
    pub engine: Option<EngineKind>,
}

/// Purpose of opening a log: running the replica, or inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Work,
    Look,
}

/// An open directory, locked against other processes.
#[derive(Debug)]
pub struct Directory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    identity: Identity,
    options: SegmentOptions,
    /// Never read; it keeps the directory locked.
    _lock: Box<dyn DiskFile>,
}

impl Directory {
    /// Creates the directory of a new replica with an empty log, durably. An interrupted creation is completed.
    ///
    /// # Errors
    /// The directory exists, the folder has other files, or the disk fails.
    pub fn create(
        disk: Arc<dyn Disk>,
        path: &Path,
        identity: Identity,
    ) -> Result<Directory, CreateDirectoryError> {
        Directory::create_with(disk, path, identity, SegmentOptions::default())
    }

    /// Creates a directory like [`Directory::create`], with segments of another size.
    ///
    /// # Errors
    /// Those of [`Directory::create`].
    pub fn create_with(
        disk: Arc<dyn Disk>,
        path: &Path,
        identity: Identity,
        options: SegmentOptions,
    ) -> Result<Directory, CreateDirectoryError> {
        if !identity.engine.is_built_in() {
            return Err(CreateDirectoryError::EngineMissing(identity.engine));
        }
        let bytes = identity::encode(&identity).map_err(CreateDirectoryError::Kinds)?;
        let failed = |source| CreateDirectoryError::Io { path: path.to_owned(), source };
        make_folder(&*disk, path).map_err(failed)?;
        let lock = lock(&*disk, path).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => CreateDirectoryError::Locked(path.to_owned()),
            _ => failed(source),
        })?;
        let names = disk.list(path).map_err(failed)?;
        if names.iter().any(|name| name == IDENTITY) {
            return Err(CreateDirectoryError::Exists(path.to_owned()));
        }
        for folder in [LOG, SNAPSHOTS] {
            make_folder(&*disk, &path.join(folder)).map_err(failed)?;
        }
        let path = path.to_owned();
        let directory = Directory { disk, path, identity, options, _lock: lock };
        directory.begin_log()?;
        directory.write_identity(&bytes).map_err(|source| CreateDirectoryError::Io {
            path: directory.path.join(IDENTITY),
            source,
        })?;
        Ok(directory)
    }

    /// Opens the directory of a replica.
    ///
    /// # Errors
    /// There is no directory, it does not match `expected`, is in use or is damaged, or the disk fails.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        expected: Expected,
    ) -> Result<Directory, OpenDirectoryError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => OpenDirectoryError::Missing(path.to_owned()),
            io::ErrorKind::WouldBlock => OpenDirectoryError::Locked(path.to_owned()),
            _ => OpenDirectoryError::Io { path: path.to_owned(), source },
        };
        let names = disk.list(path).map_err(failed)?;
        if !names.iter().any(|name| name == IDENTITY) {
            let held = |folder| disk.list(&path.join(folder)).is_ok_and(|names| !names.is_empty());
            return Err(if held(LOG) || held(SNAPSHOTS) {
                OpenDirectoryError::IdentityMissing(path.join(IDENTITY))
            } else {
                OpenDirectoryError::Missing(path.to_owned())
            });
        }
        let lock = lock(&*disk, path).map_err(failed)?;
        let identity = read_identity(&*disk, &path.join(IDENTITY))?;
        check(path, &identity, expected)?;
        let (path, options) = (path.to_owned(), SegmentOptions::default());
        Ok(Directory { disk, path, identity, options, _lock: lock })
    }

    /// Returns the directory with other options for segments, which apply to logs that are opened from now on.
    #[must_use]
    pub fn with_options(self, options: SegmentOptions) -> Directory {
        Directory { options, ..self }
    }

    /// The identity of the directory.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the folder of snapshots.
    #[must_use]
    pub fn snapshots(&self) -> PathBuf {
        self.path.join(SNAPSHOTS)
    }

    /// The disk that the directory is on.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Opens the log. Only one log can be open at a time.
    ///
    /// # Errors
    /// The log is missing or damaged, or the disk fails.
    pub fn open_log(&self) -> Result<Box<dyn LogEngine>, OpenLogError> {
        self.open_log_to(Purpose::Work)
    }

    /// Opens the log for inspection, in a directory on a read-only disk ([`crate::read_only`]). No file is changed.
    /// Only one log can be open at a time.
    ///
    /// # Errors
    /// Those of [`Directory::open_log`].
    pub(crate) fn look_at_log(&self) -> Result<Box<dyn LogEngine>, OpenLogError> {
        self.open_log_to(Purpose::Look)
    }

    fn open_log_to(&self, purpose: Purpose) -> Result<Box<dyn LogEngine>, OpenLogError> {
        let folder = self.path.join(LOG);
        let opened = match self.identity.engine {
            // The disk of the directory keeps writes in memory, so opening for writing changes no file.
            EngineKind::Segment => self.open_segments(&folder),
            EngineKind::RocksDb => self.open_rocks(&folder, purpose)?,
        };
        opened.map_err(|error| match error {
            OpenError::Missing(path) => OpenLogError::Forgotten(path),
            other => OpenLogError::Log(other),
        })
    }

    fn owner(&self) -> LogOwner {
        LogOwner { cell: self.identity.origin.cell, replica: self.identity.replica }
    }

    fn open_segments(&self, folder: &Path) -> Result<Box<dyn LogEngine>, OpenError> {
        let log = SegmentLog::open(self.disk.clone(), folder, self.owner(), self.options)?;
        Ok(Box::new(log))
    }

    #[cfg(feature = "rocksdb")]
    fn open_rocks(
        &self,
        folder: &Path,
        purpose: Purpose,
    ) -> Result<Result<Box<dyn LogEngine>, OpenError>, OpenLogError> {
        use crate::log::rocks::RocksLog;
        let opened = match purpose {
            Purpose::Work => RocksLog::open(folder, self.owner()),
            Purpose::Look => RocksLog::look(folder, self.owner()),
        };
        Ok(opened.map(|log| Box::new(log) as Box<dyn LogEngine>))
    }

    #[cfg(not(feature = "rocksdb"))]
    fn open_rocks(
        &self,
        _folder: &Path,
        _purpose: Purpose,
    ) -> Result<Result<Box<dyn LogEngine>, OpenError>, OpenLogError> {
        Err(OpenLogError::RocksDbMissing(self.path.clone()))
    }

    /// Creates the log, or adopts the empty log that an interrupted creation of this replica left.
    fn begin_log(&self) -> Result<(), CreateDirectoryError> {
        let folder = self.path.join(LOG);
        let failed = |source| CreateDirectoryError::Io { path: folder.clone(), source };
        let snapshots = self.disk.list(&self.snapshots()).map_err(failed)?;
        if !snapshots.is_empty() {
            return Err(CreateDirectoryError::NotEmpty(self.path.clone()));
        }
        match self.create_log(&folder) {
            Err(crate::log::CreateError::Exists(_)) => {}
            other => return other.map_err(CreateDirectoryError::Log),
        }
        let empty = (Bounds::default(), HardState::default());
        match self.open_log() {
            Ok(log) if (log.bounds(), log.hard_state()) == empty => Ok(()),
            _ => Err(CreateDirectoryError::NotEmpty(self.path.clone())),
        }
    }

    fn create_log(&self, folder: &Path) -> Result<(), crate::log::CreateError> {
        match self.identity.engine {
            EngineKind::Segment => {
                let disk = self.disk.clone();
                SegmentLog::create(disk, folder, self.owner(), self.options).map(drop)
            }
            #[cfg(feature = "rocksdb")]
            EngineKind::RocksDb => {
                crate::log::rocks::RocksLog::create(folder, self.owner()).map(drop)
            }
            #[cfg(not(feature = "rocksdb"))]
            EngineKind::RocksDb => unreachable!("it was refused before anything was made"),
        }
    }

    fn write_identity(&self, bytes: &[u8]) -> io::Result<()> {
        let (unfinished, path) = (self.path.join(UNFINISHED), self.path.join(IDENTITY));
        remove_if_there(&*self.disk, &unfinished)?;
        let mut file = self.disk.create(&unfinished)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        drop(file);
        self.disk.rename(&unfinished, &path)?;
        self.disk.sync_folder(&self.path)
    }
}

/// Creates a folder and its parents durably.
fn make_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let parent = folder_of(folder);
    let missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    if !parent.as_os_str().is_empty() && disk.list(parent).is_err_and(missing) {
        make_folder(disk, parent)?;
    }
    disk.create_folder(folder)?;
    disk.sync_folder(parent)
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Locks a directory. The lock file is created if there is none.
fn lock(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    let path = path.join(LOCK);
    match disk.open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(&path),
        other => other,
    }
}

fn read_identity(disk: &dyn Disk, path: &Path) -> Result<Identity, OpenDirectoryError> {
    let failed = |source| OpenDirectoryError::Io { path: path.to_owned(), source };
    let mut file = disk.open(path).map_err(failed)?;
    let length = file.length().map_err(failed)?.min(identity::BYTES_MAX as u64 + 1);
    let mut bytes = vec![0; length as usize];
    let count = file.read_at(0, &mut bytes).map_err(failed)?;
    let path = path.to_owned();
    identity::decode(&bytes[..count]).map_err(|error| match error {
        IdentityError::Damaged => OpenDirectoryError::IdentityDamaged(path),
        IdentityError::Format(found) => OpenDirectoryError::UnknownFormat { path, found },
        IdentityError::Engine(found) => OpenDirectoryError::UnknownEngine { path, found },
        IdentityError::Kinds(source) => OpenDirectoryError::Kinds { path, source },
    })
}

fn check(path: &Path, identity: &Identity, expected: Expected) -> Result<(), OpenDirectoryError> {
    let (path, found) = (path.to_owned(), identity.origin.cell);
    if let Some(wanted) = expected.cell.filter(|wanted| *wanted != found) {
        return Err(OpenDirectoryError::OtherCell { path, found, wanted });
    }
    let found = identity.replica;
    if let Some(wanted) = expected.replica.filter(|wanted| *wanted != found) {
        return Err(OpenDirectoryError::OtherReplica { path, found, wanted });
    }
    let found = identity.engine;
    if let Some(wanted) = expected.engine.filter(|wanted| *wanted != found) {
        return Err(OpenDirectoryError::OtherEngine { path, found, wanted });
    }
    Ok(())
}
