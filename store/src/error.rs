//! What can go wrong with a journal, one enum per operation, and what to do then.

use crate::codec::{CodecError, EncodeError};
use crate::header::{CellId, FORMAT};
use crate::record::Damage;
use std::io;
use std::path::PathBuf;

/// A record that was whole once and is not now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: record {index} at byte {offset} is corrupt: {damage}", path.display())]
pub struct Corruption {
    /// In which file.
    pub path: PathBuf,
    /// Where the record begins.
    pub offset: u64,
    /// Which record it is, or should be.
    pub index: u64,
    /// What is wrong with it.
    pub damage: Damage,
}

/// Why a journal was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Open it, or choose another place: no journal is ever written over.
    #[error("{} exists already: open it, or choose another place", .0.display())]
    Exists(PathBuf),
    /// Give the resource kinds shorter names.
    #[error("the resource kinds do not fit in the header: give them shorter names")]
    Kinds(#[source] EncodeError),
    /// Mend the disk or the folder, delete what is there of the file, and try again.
    #[error("{}: {source}; mend the disk, delete the file, and try again", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}

/// Why a journal was not opened. No record was changed; after `Io` a torn end may be cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Create it, or name the right file.
    #[error("there is no {}: create it, or name the right file", .0.display())]
    Missing(PathBuf),
    /// Stop the other process first; two writers would destroy the history.
    #[error("{} is in use by another process: stop that one first", .0.display())]
    Locked(PathBuf),
    /// Name the right file: this one is something else.
    #[error("{} is not a journal: name the right file", .0.display())]
    NotAJournal(PathBuf),
    /// Open it with the version of this program that wrote it.
    #[error("{} has format {found}, this program knows {FORMAT}: use one that knows {found}", path.display())]
    UnknownFormat {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The file ends within its header, so there is no record in it. If it was just being created,
    /// delete it and create it again; otherwise it was cut: restore it.
    #[error("{} ends within its header and holds no record: delete it if it was just being created, else restore it", .0.display())]
    HeaderIncomplete(PathBuf),
    /// Restore the file from a copy: whose history it is cannot be told.
    #[error("the header of {} is corrupt: restore the file from a copy", .0.display())]
    HeaderCorrupt(PathBuf),
    /// The resource kinds in the header cannot be read: use the version of this program that wrote
    /// them.
    #[error("the resource kinds in the header of {}: {source}", path.display())]
    Kinds {
        /// Which file.
        path: PathBuf,
        /// What is wrong with them.
        source: CodecError,
    },
    /// Name the right file: this is the history of another cell.
    #[error("{} is the journal of cell {found}, not of {wanted}: name the right file", path.display())]
    OtherCell {
        /// Which file.
        path: PathBuf,
        /// Whose history it holds.
        found: CellId,
        /// Whose was asked for.
        wanted: CellId,
    },
    /// Restore the file from a copy. What comes before the record is good, but there is more after
    /// it, so the history must not end here.
    #[error("{0}, and more follows: restore the file from a copy")]
    Corrupt(Corruption),
    /// Mend the disk and try again.
    #[error("{}: {source}; mend the disk and try again", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}

/// Why commands were not appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Nothing was written. Leave the command out, or split it; the journal goes on.
    #[error("command {position} of the batch: {source}")]
    TooLarge {
        /// Which command of the batch.
        position: usize,
        /// How large it is.
        source: EncodeError,
    },
    /// The write failed: any part of the commands may be in the file. Answer nobody; close the
    /// journal, mend the disk, and open it again to see what it holds.
    #[error(
        "the outcome of the write is unknown ({0}): close the journal, mend the disk, open it again"
    )]
    Unknown(#[source] io::Error),
    /// An earlier write or sync failed. Nothing was written now; close the journal and open it
    /// again.
    #[error("an earlier write or sync failed: close the journal and open it again")]
    Refused,
}

/// Why what was appended is perhaps not safe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// What was appended since the last sync may or may not survive. Answer nobody, and do not try
    /// again: a second sync that succeeds proves nothing. Close the journal, mend the disk, and
    /// open it again to see what it holds.
    #[error(
        "the outcome of the sync is unknown ({0}): close the journal, mend the disk, open it again"
    )]
    Unknown(#[source] io::Error),
    /// An earlier write or sync failed. Close the journal and open it again.
    #[error("an earlier write or sync failed: close the journal and open it again")]
    Refused,
}

/// Why a history was not read to its end. Throw away what was made of it: it is only a part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file was damaged after it was opened: restore it from a copy.
    #[error("{0}: restore the file from a copy")]
    Corrupt(Corruption),
    /// The record is as it was written, but this version of the program cannot read it: use the one
    /// that wrote it.
    #[error("{}: record {index} at byte {offset} cannot be read: {source}", path.display())]
    Unreadable {
        /// In which file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// Which record.
        index: u64,
        /// Why not.
        source: CodecError,
    },
    /// An earlier write or sync failed. Close the journal and open it again.
    #[error("an earlier write or sync failed: close the journal and open it again")]
    Refused,
    /// Mend the disk and try again.
    #[error("{}: {source}; mend the disk and try again", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}
