//! The log of a replica: its entries, its term and its vote.
//!
//! ```text
//!            base            first                          last
//!   ─ ─ ─ ─ ─┬──────┬──────┬──────┬──────┬──────┬──────┬──────┐
//!   compacted│ 41 ·2│ 42 ·2│ 43 ·2│ 44 ·3│ 45 ·3│ 46 ·3│ 47 ·5│   index · term
//!   ─ ─ ─ ─ ─┴──────┴──────┴──────┴──────┴──────┴──────┴──────┘
//! ```
//!
//! A log engine stores the log on a disk. The engines differ in cost (see BENCHMARKS.md), but give equal guarantees,
//! which one set of tests checks for all of them:
//!
//! - A batch is atomic: after a crash the log has all of it, or nothing.
//! - Batches are ordered: if the log has a batch, it has all batches before it.
//! - After any crash the log has all synced data, or opening it fails and names the file and the offset. No entry is
//!   skipped or invented.
//! - After a failed write or sync the content of the disk is unknown, so the engine rejects all further work until it
//!   is opened again. A full disk is the one exception: nothing was written then, and the batch can be tried again.
//!
//! The log does not contain the state of the cell, which is the last snapshot plus the entries after it.

mod error;
pub mod memory;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod segment;

pub use error::{CreateError, OpenError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The index of an entry in the log, from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LogIndex(pub u64);

/// A Raft term, in which there is at most one leader. Terms only grow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Term(pub u64);

/// The id of a replica. The id of a removed replica is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaId(pub u64);

impl fmt::Display for LogIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl LogIndex {
    /// The index after this one.
    #[must_use]
    pub fn next(self) -> LogIndex {
        LogIndex(self.0 + 1)
    }
}

/// Position of an entry: its index and term, which together identify the entry within a cell's history.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position {
    /// Index of the entry.
    pub index: LogIndex,
    /// Term of the entry.
    pub term: Term,
}

impl Position {
    /// Whether a log that ends at this position is at least as up to date as one that ends at `other`, by Raft's rule
    /// for votes.
    #[must_use]
    pub fn covers(self, other: Position) -> bool {
        (self.term, self.index) >= (other.term, other.index)
    }
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EntryKind {
    /// Commands for the cell. The first entry of a new leader has none.
    Commands,
    /// A new membership.
    Membership,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Position of the entry.
    pub position: Position,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Content of the entry, which the log does not interpret. Clones share its memory.
    pub data: Bytes,
}

/// Durable state of a replica besides its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardState {
    /// Highest term that the replica has seen.
    pub term: Term,
    /// Vote of the replica in that term.
    pub vote: Option<ReplicaId>,
    /// Index up to which entries are known to be committed.
    pub commit: LogIndex,
}

impl HardState {
    /// Returns this state with the higher of both terms, and with the vote that either state has in that term. The
    /// commit index is unchanged.
    #[must_use]
    pub fn joined(self, other: HardState) -> HardState {
        match self.term.cmp(&other.term) {
            Ordering::Less => HardState { term: other.term, vote: other.vote, ..self },
            Ordering::Equal => HardState { vote: self.vote.or(other.vote), ..self },
            Ordering::Greater => self,
        }
    }
}

/// A promise of a replica: the highest term and index that it may have acknowledged after a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// End of the log. Every entry up to it may have been acknowledged.
    pub last: Position,
    /// Term and vote.
    pub hard_state: HardState,
}

impl Promise {
    /// The maximum of both promises.
    #[must_use]
    pub fn joined(self, other: Promise) -> Promise {
        let last = if self.last.covers(other.last) { self.last } else { other.last };
        Promise { last, hard_state: self.hard_state.joined(other.hard_state) }
    }

    /// Whether a log with the state `held` satisfies the promise.
    #[must_use]
    pub fn is_kept_by(&self, held: Promise) -> bool {
        let joined = held.hard_state.joined(self.hard_state);
        held.last.covers(self.last) && joined == held.hard_state
    }
}

/// Entries and state that are written together.
///
/// Invariant: the entries have consecutive indices, and their terms do not fall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// New entries. They replace all entries of the log from the index of the first new entry on.
    pub entries: Vec<Entry>,
    /// The new hard state, if it changed.
    pub hard_state: Option<HardState>,
}

impl Batch {
    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.hard_state.is_none()
    }

    /// Panics if the batch would break the log.
    ///
    /// # Panics
    /// The batch does not follow the log's end, breaks its own invariant, or has more than [`BATCH_BYTES_MAX`] bytes of
    /// data.
    pub fn check(&self, bounds: Bounds) {
        let Some(first) = self.entries.first().map(|entry| entry.position.index) else { return };
        assert!(first > bounds.base.index, "entry {first} was forgotten, the base is {bounds:?}");
        assert!(first <= bounds.last.index.next(), "entry {first} leaves a gap after {bounds:?}");
        let pairs = self.entries.windows(2).map(|pair| (pair[0].position, pair[1].position));
        for (before, after) in pairs {
            assert_eq!(after.index, before.index.next(), "the entries have consecutive indices");
            assert!(after.term >= before.term, "terms do not fall");
        }
        let bytes: usize = self.entries.iter().map(|entry| entry.data.len()).sum();
        assert!(bytes <= BATCH_BYTES_MAX, "a batch of {bytes} bytes");
    }
}

/// Maximum bytes of data in one batch. This is many times a replica's largest message, and small enough for 32-bit
/// offsets in a file.
pub const BATCH_BYTES_MAX: usize = 1 << 30;

/// Range of the entries in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Position before the first entry. All entries up to it are compacted.
    pub base: Position,
    /// Position of the last entry, or the base if there is none.
    pub last: Position,
}

/// Storage of one replica's entries. The documentation of this module states its guarantees.
///
/// Only one thread calls an engine. After [`WriteError::Unknown`], every write returns [`WriteError::Refused`].
pub trait LogEngine: fmt::Debug + Send {
    /// Range of the entries that are written, including those that are not synced.
    fn bounds(&self) -> Bounds;

    /// The last hard state that was written.
    fn hard_state(&self) -> HardState;

    /// Writes a batch, which becomes durable with the next [`LogEngine::sync`]. The index of the batch's first entry
    /// must be above that of the base, and at most one above that of the last entry.
    ///
    /// # Errors
    /// The disk is full or fails.
    ///
    /// # Panics
    /// The batch does not follow the log's end (see [`Batch::check`]).
    fn append(&mut self, batch: &Batch) -> Result<(), WriteError>;

    /// Makes all appended batches durable. Called after one or more appends. A sync for several appends costs less, but
    /// their requests wait until it ends.
    ///
    /// # Errors
    /// The disk fails. Batches that were not synced may then be durable or lost.
    fn sync(&mut self) -> Result<(), WriteError>;

    /// Appends the log's entries from the index `from` on to `entries`. The first entry is always appended if the log
    /// has it. Further entries follow as long as all data together has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// The data cannot be read back.
    fn read(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError>;

    /// Returns the term of an entry in the log, or of the base; `None` for any other index.
    ///
    /// # Errors
    /// The data cannot be read back.
    fn term(&mut self, index: LogIndex) -> Result<Option<Term>, ReadError> {
        let bounds = self.bounds();
        if index == bounds.base.index {
            return Ok(Some(bounds.base.term));
        }
        let mut entries = Vec::new();
        if index > bounds.base.index && index <= bounds.last.index {
            self.read(index, 0, &mut entries)?;
        }
        Ok(entries.first().map(|entry| entry.position.term))
    }

    /// Drops all entries up to a position in the log. Their space is reused later. The change is durable with the next
    /// sync.
    ///
    /// # Errors
    /// The disk fails.
    fn compact(&mut self, base: Position) -> Result<(), WriteError>;

    /// Replaces the log by an empty log that begins after the position `base`, for example after a received snapshot.
    /// The new log and the hard state are durable on return. After a crash, either the old log or the new log exists.
    ///
    /// # Errors
    /// The disk is full or fails.
    fn restart(&mut self, base: Position, hard_state: HardState) -> Result<(), WriteError>;

    /// Prepares a later append, for example by allocating space. Calling it is optional, and best done after the
    /// requests that waited for a sync are answered.
    ///
    /// # Errors
    /// The disk fails. A full disk is no error here.
    fn prepare(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    /// Returns a promise that the replica may have made before its start, if the log does not satisfy it. Either a loss
    /// of power tore the end of the log, or the end was damaged later. The log alone does not show which. Returns
    /// `None` once the log satisfies the promise.
    fn unmet_promise(&self) -> Option<Promise> {
        None
    }

    /// Records durably that the possible loss of a torn end is accepted.
    ///
    /// # Errors
    /// The disk fails.
    fn accept_torn_tail(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    /// File and offset at which a torn record was truncated when the log was opened, if any.
    fn torn(&self) -> Option<(&Path, u64)> {
        None
    }

    /// Bytes of the log's files.
    fn bytes_on_disk(&self) -> u64;

    /// Bytes written since the log was opened, without the zeros that only allocate space.
    fn bytes_written(&self) -> u64;
}

/// Error of writing a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The disk is full, and nothing was written. Make space on it, and try again.
    #[error("{}: the disk is full: make room", path.display())]
    Full {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// A write failed, and its outcome is unknown: data written since the last sync may be lost. Answer no request, and
    /// do not try again, because a second sync that succeeds proves nothing. Repair the disk, and start the replica
    /// again.
    #[error(
        "{}: the outcome of the write is unknown ({source}): repair the disk, and start the \
         replica again",
        path.display()
    )]
    Unknown {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
    /// An earlier write or sync failed, so the engine rejects all writes. Start the replica again.
    #[error("an earlier write or sync failed: repair the disk, and start the replica again")]
    Refused,
}

/// Error of reading entries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file was damaged after the log was opened. Restore the replica (see docs/durability.md).
    #[error("{}: entry {index} at byte {offset} was damaged: remove this replica and add a new one", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// Index of the entry.
        index: LogIndex,
    },
    /// The disk failed. Repair the disk, and start the replica again.
    #[error("{}: {source}: repair the disk, and start the replica again", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}
