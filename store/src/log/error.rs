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
    /// There is a log already. Open it, or choose another folder: a log is never overwritten.
    #[error("{} already contains a log: open it, or choose another folder", .0.display())]
    Exists(PathBuf),
    /// The disk is full. Make space on it, and try again.
    #[error("{}: the disk is full: make room, and try again", .0.display())]
    Full(PathBuf),
    /// The disk failed. Repair the disk or the folder, and try again.
    #[error("{}: {source}: repair the disk or the folder, and try again", path.display())]
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
    /// There is no log. Name the right folder. If the folder had a log before, the replica has forgotten its vote:
    /// remove the replica from the cell, and add a new one.
    #[error("{} contains no log: name the right folder, or remove this replica and add a new \
         one", .0.display())]
    Missing(PathBuf),
    /// Another process has the log open. Stop that process, because two writers would destroy the log.
    #[error("{} is in use by another process: stop that process first", .0.display())]
    Locked(PathBuf),
    /// The format of the log is unknown. Use the version of this program that wrote the log.
    #[error(
        "{} has format {found}, but this program reads {FORMAT}: use a program that reads format \
         {found}",
        path.display()
    )]
    UnknownFormat {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
    },
    /// The log belongs to another replica. Name the right folder.
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
    /// A segment has an invalid header, or another length than when it was created. Remove this replica from the cell,
    /// and add a new one.
    #[error("{} is damaged: remove this replica and add a new one", .0.display())]
    BadSegment(PathBuf),
    /// A needed segment is missing. Restore the file, or remove this replica from the cell and add a new one.
    #[error("{} is missing: restore it, or remove this replica and add a new one", .0.display())]
    SegmentMissing(PathBuf),
    /// Synced data is damaged or missing. The entries before the damage are intact, but the replica has acknowledged
    /// later entries, too. Remove the replica from the cell, and add a new one.
    #[error("{}: record {record} at byte {offset}, near entry {index}, was synced, but is now \
         damaged ({damage}): remove this replica and add a new one", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the record.
        offset: u64,
        /// Number of the missing record.
        record: u64,
        /// Index of the first missing entry.
        index: LogIndex,
        /// Damage of the record.
        damage: Damage,
    },
    /// The files of RocksDB are damaged or missing. Remove this replica from the cell, and add a new one.
    #[error("{}: {detail}: remove this replica and add a new one", path.display())]
    Library {
        /// Path of the folder.
        path: PathBuf,
        /// Underlying error.
        detail: Box<str>,
    },
    /// The disk failed. Repair the disk, and try again.
    #[error("{}: {source}: repair the disk, and try again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}
