//! Errors of replaying a history, and their remedies.

use crate::codec::CodecError;
use crate::directory::{OpenDirectoryError, OpenLogError};
use crate::log::{LogIndex, ReadError};
use crate::snapshot::LoadError;
use omega_cellstate::AuditError;
use omega_core::Version;
use std::path::PathBuf;

/// Error of replaying a history. No file was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The directory could not be opened, as the underlying error explains.
    #[error(transparent)]
    Directory(#[from] OpenDirectoryError),
    /// The log could not be opened, as the underlying error explains.
    #[error(transparent)]
    Log(#[from] OpenLogError),
    /// Entries could not be read, as the underlying error explains.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A snapshot could not be loaded, as the underlying error explains.
    #[error(transparent)]
    Snapshot(#[from] LoadError),
    /// The membership in the snapshot cannot be read, so another program wrote the file. Inspect another replica.
    #[error("{}: the snapshot has no list of replicas: use the directory of another replica", .0.display())]
    ReplicaMeta(PathBuf),
    /// A snapshot is missing. Inspect another replica.
    #[error(
        "{}: the log begins after entry {base}, but the snapshot with the entries up to {base} is \
         missing: use the directory of another replica", path.display()
    )]
    Gap {
        /// Path of the directory.
        path: PathBuf,
        /// Index before the first entry of the log.
        base: LogIndex,
    },
    /// The log has lost its end. Inspect another replica, or replay all entries that the log still has.
    #[error(
        "{}: entries up to {committed} were committed, but the log ends at entry {last}, so its \
         end is lost: use the directory of another replica, or replay the remaining entries with --all", path.display()
    )]
    LostTail {
        /// Path of the directory.
        path: PathBuf,
        /// Last entry known to be committed.
        committed: LogIndex,
        /// Last entry of the log.
        last: LogIndex,
    },
    /// The commands before this version were compacted. Request a later version.
    #[error("version {wanted} is no longer kept: the oldest version that is kept is {oldest}")]
    TooOld {
        /// Requested version.
        wanted: Version,
        /// Oldest available version.
        oldest: Version,
    },
    /// The log does not reach this version. Request an earlier version, inspect a replica that is further ahead, or
    /// include log entries that are not known to be committed.
    #[error(
        "version {wanted} does not exist yet: the last entry that was replayed, {last}, gives \
         version {newest}, so give this or an earlier version"
    )]
    NotReached {
        /// Requested version.
        wanted: Version,
        /// Version at the end of the log.
        newest: Version,
        /// Index of the last replayed entry.
        last: LogIndex,
    },
    /// The version of an entry's encoding is unknown. Use the version of this program that wrote the entry.
    #[error("entry {at} cannot be read: {source}")]
    Unreadable {
        /// Index of the entry.
        at: LogIndex,
        /// Underlying error.
        source: CodecError,
    },
    /// The replay leads to another state than the leader had. Compare with the other replicas before trusting this log.
    #[error(
        "at entry {at}, the outcomes of this replica differ from those that the leader recorded: \
         compare its log and state with those of the other replicas"
    )]
    Diverged {
        /// Index of the entry that contains the leader's state.
        at: LogIndex,
    },
    /// The audit failed, which is a defect of Omega. Please report it.
    #[error(
        "at version {version}, the audit of the cell fails: this is a bug in Omega, please \
         report it: {source}"
    )]
    Audit {
        /// Audited version.
        version: Version,
        /// Difference that the audit found.
        source: AuditError,
    },
}
