//! The past of a cell, from the directory of a replica: its entries, and the cell at any version that the directory
//! still has. No file in the directory is changed.
//!
//! ```text
//!   snapshots   ──●───────────────●─────▶            the newest that is not after the version,
//!   entries       ├──┬──┬──┬──┬──┬──┬──┬──▶          then the commands after it, one by one
//!                                   ▲
//!                                version
//! ```
//!
//! The directory is opened as for running a replica, but on a disk that keeps all writes in memory ([`ReadOnlyDisk`]).
//! A torn tail is truncated only in memory, and stays in the file. A log in RocksDB is opened read-only, with the same
//! checks as for running a replica.
//!
//! ```
//! # use omega_cellstate::Cell;
//! # use omega_core::{Amounts, Command, Kinds, Machine, Version};
//! # use omega_store::directory::{Directory, EngineKind, Identity};
//! use omega_store::history::{ReplayOptions, ReplayScope};
//! # use omega_store::log::ReplicaId;
//! # use omega_store::membership::Membership;
//! # use omega_store::replica::{Network, ReplicatedCell, Running, Settings, bootstrap, start};
//! # use omega_store::{CellId, Origin, RealDisk, history};
//! # use std::{sync::Arc, time::Duration};
//! # let folder = tempfile::tempdir()?;
//! # let path = &folder.path().join("r1");
//! // A cell of one replica, in which three machines were registered.
//! let origin = Origin { cell: CellId(42), kinds: Kinds::standard() };
//! let identity = Identity { origin, replica: ReplicaId(1), engine: EngineKind::Segment };
//! let directory = Directory::create(Arc::new(RealDisk), path, identity)?;
//! bootstrap(&directory, &Membership::initial([ReplicaId(1)]))?;
//! let started = start(directory, Settings::default())?;
//! let tick = Duration::from_millis(1);
//! let running = Running::start(started, Network::default().port(ReplicaId(1)), tick);
//! let cell = ReplicatedCell::new(&running);
//! let machine = |name| Command::RegisterMachine(Machine::new(name, Amounts::new([4000])));
//! for done in cell.apply_all(["a", "b", "c"].map(machine)) {
//!     done?;
//! }
//! running.end();
//!
//! // The cell after the second machine was registered. It can be read, and changed independently.
//! // The log may not record that the last entries are committed, so all entries are replayed.
//! let to = Some(Version(2));
//! let options = ReplayOptions { to, scope: ReplayScope::All, ..ReplayOptions::default() };
//! let mut then: Cell = history::open(path)?.replay(&options)?.into_cell();
//! assert_eq!((then.version(), then.machines().count()), (Version(2), 2));
//! then.apply(machine("other"))?;
//! assert!(then.machine_by_name("c").is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod replay;

pub use error::HistoryError;
pub use replay::{Replay, ReplayOptions, ReplayScope};

use crate::directory::{Directory, Expected, Identity};
use crate::log::{Bounds, Entry, HardState, LogEngine, LogIndex, Position};
use crate::read_only::ReadOnlyDisk;
use crate::snapshot::{LoadError, SnapshotInfo, Snapshots};
use omega_cellstate::Cell;
use omega_core::Version;
use std::path::Path;
use std::sync::Arc;

/// Position of a snapshot, with its content or the error of loading it.
pub type CheckedSnapshot = (Position, Result<SnapshotInfo, LoadError>);

/// Bytes of entries that are read at once.
const READ_BYTES: usize = 4 << 20;

/// The directory of a replica, opened for reading. No replica can run in the directory while it is open.
#[derive(Debug)]
pub struct History {
    directory: Directory,
    snapshots: Arc<Snapshots>,
    log: Box<dyn LogEngine>,
}

/// Opens the directory of a replica for inspection.
///
/// # Errors
/// The folder is no directory of a replica, is in use, or cannot be read; or its log is in RocksDB, and this program
/// was built without RocksDB.
pub fn open(path: &Path) -> Result<History, HistoryError> {
    let disk = Arc::new(ReadOnlyDisk::default());
    let directory = Directory::open(disk.clone(), path, Expected::default())?;
    let cell = directory.identity().origin.cell;
    let snapshots = Snapshots::open(disk, directory.snapshots(), cell)?;
    let log = directory.look_at_log()?;
    Ok(History { directory, snapshots, log })
}

/// Returns the cell at a version, from the directory of a replica. The directory often does not record that the last
/// applied entries are committed. Only [`ReplayScope::All`] then reaches the versions of these entries.
///
/// # Errors
/// Those of [`open`], or the version is not available.
pub fn replay_to(path: &Path, version: Version, scope: ReplayScope) -> Result<Cell, HistoryError> {
    let options = ReplayOptions { to: Some(version), scope, ..ReplayOptions::default() };
    Ok(open(path)?.replay(&options)?.into_cell())
}

impl History {
    /// Identity of the directory.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.directory.identity()
    }

    /// Range of the entries.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.log.bounds()
    }

    /// Term and vote of the replica.
    #[must_use]
    pub fn hard_state(&self) -> HardState {
        self.log.hard_state()
    }

    /// File and offset of a torn record that a replica would truncate, if any.
    #[must_use]
    pub fn torn(&self) -> Option<(&Path, u64)> {
        self.log.torn()
    }

    /// Checks every byte of all snapshots, and returns the snapshots in ascending order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn snapshots(&self) -> Result<Vec<CheckedSnapshot>, HistoryError> {
        let positions = self.snapshots.list()?;
        Ok(positions.into_iter().map(|at| (at, self.snapshots.check(at))).collect())
    }

    /// Reads some entries from an index on. The result is empty only at the end of the log.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub fn read(&mut self, from: LogIndex) -> Result<Vec<Entry>, HistoryError> {
        let mut entries = Vec::new();
        self.log.read(from, READ_BYTES, &mut entries)?;
        Ok(entries)
    }
}
