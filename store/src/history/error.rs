//! Errors of replaying a history, and their remedies.

use crate::codec::CodecError;
use crate::directory::{OpenDirectoryError, OpenLogError};
use crate::log::{LogIndex, ReadError};
use crate::snapshot::LoadError;
use omega_cellstate::AuditError;
use omega_core::Version;
use std::path::PathBuf;

/// Error of replaying a history. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The underlying error.
    #[error(transparent)]
    Directory(#[from] OpenDirectoryError),
    /// The underlying error.
    #[error(transparent)]
    Log(#[from] OpenLogError),
    /// The underlying error.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The underlying error.
    #[error(transparent)]
    Snapshot(#[from] LoadError),
    /// The snapshot's membership cannot be read, so another program wrote the file: inspect another replica.
    #[error("{}: the snapshot does not say who the replicas are: look at another replica", .0.display())]
    Agreed(PathBuf),
    /// A snapshot is missing: inspect another replica.
    #[error(
        "{}: the log begins after entry {base}, and no snapshot leads up to it: a snapshot is missing; \
         look at another replica", path.display()
    )]
    Gap {
        /// Path of the directory.
        path: PathBuf,
        /// Start of the log.
        base: LogIndex,
    },
    /// The log lost its end: inspect another replica, or replay all entries that are there.
    #[error(
        "{}: entries up to {committed} were committed and the log ends at {last}: it lost its end; look \
         at another replica, or replay what there is with --all", path.display()
    )]
    LostTail {
        /// Path of the directory.
        path: PathBuf,
        /// Last entry known to be committed.
        committed: LogIndex,
        /// Last entry of the log.
        last: LogIndex,
    },
    /// The commands before this version were compacted: request a later version.
    #[error("version {wanted} is not there any more: the oldest that is left is {oldest}")]
    TooOld {
        /// Requested version.
        wanted: Version,
        /// Oldest available version.
        oldest: Version,
    },
    /// The log does not reach this version: request an earlier one, inspect a replica that is further ahead, or include
    /// entries that are not known to be committed.
    #[error("version {wanted} is not reached: after entry {last} the cell is at {newest}")]
    NotReached {
        /// Requested version.
        wanted: Version,
        /// Version reached.
        newest: Version,
        /// The last entry that was replayed.
        last: LogIndex,
    },
    /// The entry's version is unknown: use the version of this program that wrote it.
    #[error("entry {at} cannot be read: {source}")]
    Unreadable {
        /// Index of the entry.
        at: LogIndex,
        /// The reason.
        source: CodecError,
    },
    /// This log leads to another state than its leader had: compare with the other replicas before trusting it.
    #[error(
        "at entry {at} the outcomes are not those that the leader had: compare with the other replicas"
    )]
    Diverged {
        /// Index of the entry with the leader's head.
        at: LogIndex,
    },
    /// The audit failed, a defect of Omega: please report it.
    #[error("at version {version} the cell is wrong, please report it: {source}")]
    Audit {
        /// The version.
        version: Version,
        /// The violated invariant.
        source: AuditError,
    },
}
