//! Errors of the start of a replica.

use crate::codec::CodecError;
use crate::directory::OpenLogError;
use crate::log::{LogIndex, ReadError, Term, WriteError};
use crate::snapshot::{LoadError, SaveError};
use std::path::PathBuf;

/// Error of starting a replica. No file was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The log could not be opened, as the underlying error explains.
    #[error(transparent)]
    Log(#[from] OpenLogError),
    /// Entries could not be read, as the underlying error explains.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log could not be written, as the underlying error explains.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The snapshot could not be loaded, as the underlying error explains.
    #[error(transparent)]
    Snapshot(#[from] LoadError),
    /// The first snapshot could not be saved, as the underlying error explains.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The membership in the snapshot cannot be read, so another program wrote the file.
    #[error("{}: the snapshot has no list of replicas: remove this replica and add a new one", path.display())]
    ReplicaMeta {
        /// Path of the file.
        path: PathBuf,
    },
    /// The version of an entry's encoding is unknown. Use the version of this program that wrote the entry, or a newer
    /// one.
    #[error("{}: entry {at} cannot be read: {source}", path.display())]
    Unreadable {
        /// Path of the folder.
        path: PathBuf,
        /// Index of the entry.
        at: LogIndex,
        /// Underlying error.
        source: CodecError,
    },
    /// A snapshot is missing: the log begins after the end of the newest snapshot.
    #[error(
        "{}: the log begins after entry {base}, but the newest snapshot ends at entry {snapshot}, \
         so a snapshot is missing: remove this replica and add a new one with another id", path.display()
    )]
    Gap {
        /// Path of the folder.
        path: PathBuf,
        /// Index before the first entry of the log.
        base: LogIndex,
        /// Index of the newest snapshot.
        snapshot: LogIndex,
    },
    /// The last write was torn by a loss of power, or damaged later, and there is no other voter that could tell which.
    /// To continue without the write, set [`TornTail::Accept`](super::TornTail::Accept).
    #[error(
        "{}: the log ends at entry {last}, but entries up to {promised} may have been \
         acknowledged: either a loss of power interrupted their write, or they were written and \
         damaged later; no other replica has a copy, so start with --accept-torn-log to give up \
         these entries", path.display()
    )]
    TornTail {
        /// Path of the folder.
        path: PathBuf,
        /// Index up to which entries may have been acknowledged.
        promised: LogIndex,
        /// Last entry of the log.
        last: LogIndex,
    },
    /// Entries that are known to be committed are missing, so the log has lost its end.
    #[error(
        "{}: entries up to {committed} were committed, but the log ends at entry {last}, so its \
         end is lost: remove this replica and add a new one with another id", path.display()
    )]
    LostTail {
        /// Path of the folder.
        path: PathBuf,
        /// Last entry known to be committed.
        committed: LogIndex,
        /// Last entry of the log.
        last: LogIndex,
    },
    /// The log and the newest snapshot contradict each other, so one of them belongs to another replica or to an earlier
    /// time.
    #[error(
        "{}: entry {index} was committed in term {committed} according to the log, but in term \
         {snapshot} according to the newest snapshot, so one of them belongs to another replica \
         or to an earlier time: remove this replica and add a new one with another id", path.display()
    )]
    Contradiction {
        /// Path of the folder.
        path: PathBuf,
        /// Index of the entry, which is the last one of the snapshot.
        index: LogIndex,
        /// Term of the entry in the log.
        committed: Term,
        /// Term of the entry in the snapshot.
        snapshot: Term,
    },
}
