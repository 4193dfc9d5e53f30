//! The log of a replica: its entries, its term and its vote.
//!
//! ```text
//!            base            first                          last
//!   ─ ─ ─ ─ ─┬──────┬──────┬──────┬──────┬──────┬──────┬──────┐
//!   compacted│ 41 ·2│ 42 ·2│ 43 ·2│ 44 ·3│ 45 ·3│ 46 ·3│ 47 ·5│   index · term
//!   ─ ─ ─ ─ ─┴──────┴──────┴──────┴──────┴──────┴──────┴──────┘
//! ```
//!
//! An engine stores it on a disk. The engines differ in cost (see BENCHMARKS.md), but give the same guarantees, which
//! the same tests check:
//!
//! - A batch is atomic: after a crash all of it is there, or nothing.
//! - Batches are ordered: if one is there, so are all before it.
//! - Synced data is there after any crash, or opening fails and names the file and the offset. No entry is skipped or
//!   invented.
//! - After a failed write or sync the content of the disk is unknown: the engine rejects all further work until it is
//!   opened again. The one exception is a full disk: then nothing was written, and the same batch can be tried again.
//!
//! The state of the cell is not here: it is the last snapshot plus the entries after it.

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

/// A Raft term: the time of at most one leader. Terms only grow.
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

/// Position of an entry: its index and term, which identify it within a cell's history.
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
    /// Whether a log that ends here is at least as up to date as one that ends at `other`, in the sense of Raft's vote.
    #[must_use]
    pub fn covers(self, other: Position) -> bool {
        (self.term, self.index) >= (other.term, other.index)
    }
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EntryKind {
    /// Commands for the cell; empty for the first entry of a new leader.
    Commands,
    /// A new membership.
    Membership,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its position.
    pub position: Position,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Its content, opaque to the log. Clones share it.
    pub data: Bytes,
}

/// Durable state of a replica beside its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardState {
    /// The highest term seen.
    pub term: Term,
    /// The vote in that term.
    pub vote: Option<ReplicaId>,
    /// Index up to which entries are known to be committed.
    pub commit: LogIndex,
}

impl HardState {
    /// The higher term with its vote; the commit index is unchanged.
    #[must_use]
    pub fn joined(self, other: HardState) -> HardState {
        match self.term.cmp(&other.term) {
            Ordering::Less => HardState { term: other.term, vote: other.vote, ..self },
            Ordering::Equal => HardState { vote: self.vote.or(other.vote), ..self },
            Ordering::Greater => self,
        }
    }
}

/// The highest term and index that a replica may have acknowledged after a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The end of the log; every entry up to it may have been acknowledged.
    pub last: Position,
    /// The term and the vote.
    pub hard_state: HardState,
}

impl Promise {
    /// The maximum of both promises.
    #[must_use]
    pub fn joined(self, other: Promise) -> Promise {
        let last = if self.last.covers(other.last) { self.last } else { other.last };
        Promise { last, hard_state: self.hard_state.joined(other.hard_state) }
    }

    /// Whether a log with this state satisfies the promise.
    #[must_use]
    pub fn is_kept_by(&self, held: Promise) -> bool {
        let joined = held.hard_state.joined(self.hard_state);
        held.last.covers(self.last) && joined == held.hard_state
    }
}

/// Records written together.
///
/// Invariant: the entries have consecutive indices, and their terms do not fall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// New entries. They replace those of the log from the first one's index on.
    pub entries: Vec<Entry>,
    /// The new hard state, if it changed.
    pub hard_state: Option<HardState>,
}

impl Batch {
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.hard_state.is_none()
    }

    /// Panics on a batch that would break the log.
    ///
    /// # Panics
    /// If the batch does not follow the log's end, breaks its own invariant, or has more than [`BATCH_BYTES_MAX`] bytes
    /// of data.
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

/// Maximum bytes of data in one batch: many times a replica's largest message, and small enough for 32-bit offsets in a
/// file.
pub const BATCH_BYTES_MAX: usize = 1 << 30;

/// Range of an engine's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The entry before the first one; everything up to it is compacted.
    pub base: Position,
    /// The last entry, or the base if there is none.
    pub last: Position,
}

/// Storage of one replica's entries. The head of the file states its guarantees.
///
/// One thread calls it. After [`WriteError::Unknown`] every write returns [`WriteError::Refused`].
pub trait LogEngine: fmt::Debug + Send {
    /// Bounds of the entries, written or synced.
    fn bounds(&self) -> Bounds;

    /// The last hard state that was written.
    fn hard_state(&self) -> HardState;

    /// Writes a batch, which becomes durable with the next [`LogEngine::sync`]. Its first index must be above the
    /// base's and at most one above the last.
    ///
    /// # Errors
    /// If the disk is full or fails.
    ///
    /// # Panics
    /// If the batch does not follow: see [`Batch::check`].
    fn append(&mut self, batch: &Batch) -> Result<(), WriteError>;

    /// Makes all appended batches durable. Called after one or more appends, as rarely as waiting requests allow.
    ///
    /// # Errors
    /// If the disk fails; unsynced batches may then be durable or lost.
    fn sync(&mut self) -> Result<(), WriteError>;

    /// Appends entries from an index on to `entries`: at least one if it exists, and more up to `bytes_max` bytes of
    /// data in all; none if the log lacks the first one.
    ///
    /// # Errors
    /// If the data cannot be read back.
    fn read(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError>;

    /// The term of an entry in the log, or of the base.
    ///
    /// # Errors
    /// If the data cannot be read back.
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

    /// Drops all entries up to a position in the log. Their space is reused later. Durable with the next sync.
    ///
    /// # Errors
    /// If the disk fails.
    fn compact(&mut self, base: Position) -> Result<(), WriteError>;

    /// Replaces the log by an empty one after any position, such as that of a received snapshot. The new log and the
    /// hard state are durable on return; a crash leaves the old log or the new one.
    ///
    /// # Errors
    /// If the disk is full or fails.
    fn restart(&mut self, base: Position, hard_state: HardState) -> Result<(), WriteError>;

    /// Prepares a later append, for example by allocating space. Optional; best called after the requests that waited
    /// for a sync are answered.
    ///
    /// # Errors
    /// If the disk fails. A full disk is no error here.
    fn prepare(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    /// The promise that the replica may have made before its start and that the log does not keep: its end was torn by
    /// a loss of power, or damaged afterwards, which cannot be distinguished. `None` once the log reaches it.
    fn doubt(&self) -> Option<Promise> {
        None
    }

    /// Accepts the possible loss of a torn end, durably.
    ///
    /// # Errors
    /// If the disk fails.
    fn forgive(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    /// File and offset at which a torn record was truncated when the log was opened, if any.
    fn torn(&self) -> Option<(&Path, u64)> {
        None
    }

    /// Bytes of the log's files.
    fn bytes_on_disk(&self) -> u64;

    /// Bytes written since it was opened, without those that only allocate space.
    fn bytes_written(&self) -> u64;
}

/// Error of writing a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Nothing was written: free disk space, and try again.
    #[error("{}: the disk is full; make room", path.display())]
    Full {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// The outcome is unknown: data written since the last sync may be lost. Answer no request, and do not retry: a
    /// second sync that succeeds proves nothing. Repair the disk and start the replica again.
    #[error(
        "{}: the outcome of the write is unknown ({source}): mend the disk and start the replica again",
        path.display()
    )]
    Unknown {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
    /// An earlier write or sync failed. Start the replica again.
    #[error("an earlier write or sync failed: mend the disk and start the replica again")]
    Refused,
}

/// Error of reading entries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file was damaged after it was opened: restore the replica, see docs/durability.md.
    #[error("{}: entry {index} at byte {offset} was damaged: remove this replica and add a new one", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// Index of the entry.
        index: LogIndex,
    },
    /// A disk error: repair the disk and start the replica again.
    #[error("{}: {source}; mend the disk and start the replica again", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}
