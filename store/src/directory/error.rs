//! Errors of a directory.

use super::{EngineKind, FORMAT};
use crate::codec::{CodecError, EncodeError};
use crate::log::{self, ReplicaId};
use crate::origin::CellId;
use std::io;
use std::path::PathBuf;

/// Error of creating a directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateDirectoryError {
    /// The directory exists. Open it, or choose another folder: an existing replica is never overwritten.
    #[error("{} is already the directory of a replica: open it, or choose another folder", .0.display())]
    Exists(PathBuf),
    /// The folder has the log or snapshots of an unknown replica. Choose an empty folder. If it was a replica's
    /// directory, remove that replica from the cell, delete the folder, and add a new replica.
    #[error("{} is not empty: choose another folder, or delete this one if its replica was removed", .0.display())]
    NotEmpty(PathBuf),
    /// Another process has the directory open. Stop that process.
    #[error("{} is in use by another process: stop that process first", .0.display())]
    Locked(PathBuf),
    /// The engine is not built in. Build the program with the feature `rocksdb`, or choose another engine.
    #[error(
        "this program has no log engine {0}: build it with --features rocksdb, or choose another \
         engine"
    )]
    EngineMissing(EngineKind),
    /// The resource kinds need too much space. Give them shorter names.
    #[error("the resource kinds are too large for the identity file: give them shorter names")]
    Kinds(#[source] EncodeError),
    /// The log could not be created, as the underlying error explains.
    #[error(transparent)]
    Log(log::CreateError),
    /// The disk failed. Repair the disk or the folder, and try again, which completes the creation.
    #[error("{}: {source}: repair the disk or the folder, and try again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}

/// Error of opening a directory. No file was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDirectoryError {
    /// The folder is no directory of a replica. Create the directory, or name the right folder. If the creation was
    /// interrupted, repeat it.
    #[error("{} is not the directory of a replica: give the one that `omega serve --dir` uses", .0.display())]
    Missing(PathBuf),
    /// The folder has a log or a snapshot, but no `IDENTITY`. If the creation of the directory was interrupted, create
    /// it again: the creation changes no log that has entries. Otherwise restore the file, or remove the replica from
    /// the cell and add a new one.
    #[error("{} is missing, although the directory has a log: create the directory again if its \
         creation was interrupted; otherwise restore the file, or remove this replica and add a new one", .0.display())]
    IdentityMissing(PathBuf),
    /// The file `IDENTITY` is damaged. Restore it from a copy, or remove the replica from the cell and add a new one.
    #[error("{} is damaged: restore it from a copy, or remove this replica and add a new one", .0.display())]
    IdentityDamaged(PathBuf),
    /// The format of the directory is unknown. Use the version of this program that wrote it.
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
    /// The log engine in the file is unknown. Use the version of this program that wrote the file.
    #[error(
        "{}: this program does not know the log engine {found}: use the program that created the \
         directory",
        path.display()
    )]
    UnknownEngine {
        /// Path of the file.
        path: PathBuf,
        /// Number of the engine.
        found: u8,
    },
    /// The resource kinds cannot be decoded. Use the version of this program that wrote them.
    #[error("{}: the resource kinds are invalid: {source}", path.display())]
    Kinds {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        source: CodecError,
    },
    /// The directory belongs to another cell. Name the right folder.
    #[error("{} belongs to cell {found}, not to {wanted}: name the right folder", path.display())]
    OtherCell {
        /// Path of the folder.
        path: PathBuf,
        /// Cell of the directory.
        found: CellId,
        /// Requested cell.
        wanted: CellId,
    },
    /// The directory belongs to another replica. Name the right folder.
    #[error("{} belongs to replica {found}, not to {wanted}: name the right folder", path.display())]
    OtherReplica {
        /// Path of the folder.
        path: PathBuf,
        /// Replica of the directory.
        found: ReplicaId,
        /// Requested replica.
        wanted: ReplicaId,
    },
    /// The directory has another log engine. Open it with that engine: a log is never converted.
    #[error("{} keeps its log in {found}, not in {wanted}: set the engine to {found}", path.display())]
    OtherEngine {
        /// Path of the folder.
        path: PathBuf,
        /// Engine of the directory.
        found: EngineKind,
        /// Requested engine.
        wanted: EngineKind,
    },
    /// Another process has the directory open. Stop that process, because two writers would destroy the log.
    #[error("{} is in use by another process: stop that process first", .0.display())]
    Locked(PathBuf),
    /// The disk failed. Repair the disk, and try again.
    #[error("{}: {source}: repair the disk, and try again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}

/// Error of opening a directory's log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenLogError {
    /// The log is missing, so the replica has forgotten its vote. Remove the replica from the cell, and add a new one.
    #[error("{} is empty, although this replica had a log, so its vote is lost: remove this \
         replica from the cell and add a new one", .0.display())]
    Forgotten(PathBuf),
    /// The log is in RocksDB, which is not built in. Build the program with the feature `rocksdb`.
    #[error("{}: the log engine of this directory is RocksDB: use a program built with --features \
         rocksdb", .0.display())]
    RocksDbMissing(PathBuf),
    /// The log could not be opened, as the underlying error explains.
    #[error(transparent)]
    Log(log::OpenError),
}
