//! Errors of creating or opening a log, and their remedies.

use super::segment::{Damage, FORMAT};
use super::{LogIndex, ReplicaId};
use crate::origin::CellId;
use std::io;
use std::path::PathBuf;

/// Error of creating a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Open it, or choose another place: no log is ever written over.
    #[error("{} holds a log already: open it, or choose another folder", .0.display())]
    Exists(PathBuf),
    /// Make room and try again.
    #[error("{}: the disk is full; make room and try again", .0.display())]
    Full(PathBuf),
    /// Mend the disk or the folder and try again.
    #[error("{}: {source}; mend the disk or the folder and try again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}

/// Error of opening a log. No entry was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Name the right folder. If this one held a log before, the replica has forgotten its vote:
    /// remove it from the cell and add a new one.
    #[error("{} holds no log: name the right folder, or remove this replica and add a new one", .0.display())]
    Missing(PathBuf),
    /// Stop the other process first: two writers would destroy the log.
    #[error("{} is in use by another process: stop that one first", .0.display())]
    Locked(PathBuf),
    /// Use the version of this program that wrote it.
    #[error("{} has format {found}, this program knows {FORMAT}: use one that knows {found}", path.display())]
    UnknownFormat {
        /// Path of the file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Name the right folder: this is the log of another replica.
    #[error("{} belongs to replica {} of cell {}, not to {} of {}: name the right folder",
        path.display(), found.1, found.0, wanted.1, wanted.0)]
    OtherReplica {
        /// Path of the file.
        path: PathBuf,
        /// Owner of the log.
        found: (CellId, ReplicaId),
        /// Requested owner.
        wanted: (CellId, ReplicaId),
    },
    /// The beginning of a segment is no header any more, or the file has another length than when
    /// it was made. Remove this replica and add a new one.
    #[error("{} is damaged: remove this replica and add a new one", .0.display())]
    BadSegment(PathBuf),
    /// A segment that is needed is not there. Put it back, or remove this replica and add a new one.
    #[error("{} is missing: put it back, or remove this replica and add a new one", .0.display())]
    SegmentMissing(PathBuf),
    /// Synced data that is missing. The entries before are good, but more were
    /// promised: remove this replica and add a new one.
    #[error("{}: record {record} at byte {offset}, near entry {index}, is damaged ({damage}), although it was synced: remove this replica and add a new one", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the record.
        offset: u64,
        /// Number of the record that is, or should be, there.
        record: u64,
        /// The entry that would come next.
        index: LogIndex,
        /// The damage.
        damage: Damage,
    },
    /// The files of a log that another library keeps are damaged or missing. Remove this replica and
    /// add a new one.
    #[error("{}: {detail}; remove this replica and add a new one", path.display())]
    Library {
        /// Path of the folder.
        path: PathBuf,
        /// Underlying error.
        detail: Box<str>,
    },
    /// Mend the disk and try again.
    #[error("{}: {source}; mend the disk and try again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}
