//! The log of a replica: its entries, its term and its vote.
//!
//! ```text
//!            base            first                          last
//!   ─ ─ ─ ─ ─┬──────┬──────┬──────┬──────┬──────┬──────┬──────┐
//!  forgotten │ 41 ·2│ 42 ·2│ 43 ·2│ 44 ·3│ 45 ·3│ 46 ·3│ 47 ·5│   index · term
//!   ─ ─ ─ ─ ─┴──────┴──────┴──────┴──────┴──────┴──────┴──────┘
//! ```
//!
//! An engine keeps them on a disk. There are several, because what is best differs: see
//! ARCHITECTURE.md for what was measured. All keep the same promises, and the same tests check
//! them:
//!
//! - A batch is one: after a crash all of it is there, or nothing.
//! - Batches are in order: if one is there, so are all before it.
//! - What was synced is there after any crash, or opening fails and names the file and the place.
//!   No entry is ever skipped, and none is made up.
//! - After a write or a sync that failed, nobody knows what the disk holds: the engine refuses all
//!   further work, and opening it again shows what is there. The one exception is a disk that is
//!   full: then nothing was written, and the same batch can be tried again.
//!
//! The state of the cell is not here: it is the last snapshot and the entries after it.

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

/// The position of an entry in the log. The first has 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LogIndex(pub u64);

/// The reign of one leader. Terms only grow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Term(pub u64);

/// One replica of a cell. A replica that was removed never comes back under its id.
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

/// Names an entry: no two entries of a cell's history have the same index and term.
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
    /// Whether a log that ends here is at least as up to date as one that ends there, as votes compare them.
    #[must_use]
    pub fn covers(self, other: Position) -> bool {
        (self.term, self.index) >= (other.term, other.index)
    }
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EntryKind {
    /// Commands for the cell; none where a new leader begins.
    Commands,
    /// A new membership.
    Membership,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub position: Position,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Its content, which the log does not look into. Clones share it.
    pub data: Bytes,
}

/// Durable state of a replica beside its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardState {
    /// The highest term that it has seen.
    pub term: Term,
    /// For whom it has voted in that term.
    pub vote: Option<ReplicaId>,
    /// Index up to which entries are known to be committed.
    pub commit: LogIndex,
}

impl HardState {
    /// The higher term with its vote; the commit index stays.
    #[must_use]
    pub fn joined(self, other: HardState) -> HardState {
        match self.term.cmp(&other.term) {
            Ordering::Less => HardState { term: other.term, vote: other.vote, ..self },
            Ordering::Equal => HardState { vote: self.vote.or(other.vote), ..self },
            Ordering::Greater => self,
        }
    }
}

/// State that a replica that synced its log may have acknowledged to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The end of the log: all up to there may have been acknowledged.
    pub last: Position,
    /// The term and the vote.
    pub hard_state: HardState,
}

impl Promise {
    /// Both promises.
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
    /// New entries. Those that the log has from the first one's index on are replaced.
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

    /// Stops a caller that would break the log.
    ///
    /// # Panics
    /// If the batch does not follow from what the log holds, breaks its own invariant, or has more
    /// than [`BATCH_BYTES_MAX`] bytes of data.
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

/// Bytes of data in one batch: many times what a replica takes in one message, and little enough
/// that offsets in a file have 32 bits.
pub const BATCH_BYTES_MAX: usize = 1 << 30;

/// Contents of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The entry before the first one: all up to it are forgotten.
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

    /// Writes a batch, which is safe after the next [`LogEngine::sync`]. Its first entry must have
    /// an index above the base's and at most one above the last's.
    ///
    /// # Errors
    /// If the disk is full or fails.
    ///
    /// # Panics
    /// If the batch does not follow: see [`Batch::check`].
    fn append(&mut self, batch: &Batch) -> Result<(), WriteError>;

    /// Makes all appended batches durable. Called after one or more appends, as rarely as waiting
    /// requests allow.
    ///
    /// # Errors
    /// If the disk fails; unsynced batches may then be durable or lost.
    fn sync(&mut self) -> Result<(), WriteError>;

    /// Reads entries from an index on, at least one if there is one, and more while all together
    /// have at most `bytes_max` bytes of data. They are appended to `entries`; none is if the log
    /// does not hold the first one.
    ///
    /// # Errors
    /// If what was written cannot be read back.
    fn read(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError>;

    /// The term of an entry in the log, or of the base.
    ///
    /// # Errors
    /// If what was written cannot be read back.
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

    /// Forgets all entries up to a position, which the log has. Their room is reused in time. Safe
    /// after the next sync.
    ///
    /// # Errors
    /// If the disk fails.
    fn compact(&mut self, base: Position) -> Result<(), WriteError>;

    /// Replaces the log by an empty one after a position that it need not have: that of a snapshot
    /// from another replica. It is safe, with the hard state, when this returns; a crash leaves the
    /// old log or the new one.
    ///
    /// # Errors
    /// If the disk is full or fails.
    fn restart(&mut self, base: Position, hard_state: HardState) -> Result<(), WriteError>;

    /// Does work ahead of a later append, such as allocating space. Optional; best called after the
    /// requests that waited for a sync are answered.
    ///
    /// # Errors
    /// If the disk fails. A full disk is no error here.
    fn prepare(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    /// State that the replica may have acknowledged before its start, and the log does not have:
    /// its end was torn by a loss of power, or damaged afterwards, which cannot be distinguished.
    /// `None` once the log contains as much.
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

    /// Number of bytes it has on the disk.
    fn bytes_on_disk(&self) -> u64;

    /// Number of bytes it has written since it was opened, but for those that only make room.
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
    /// Unknown outcome: data written since the last sync may be lost. Answer no request, and do not
    /// retry: a second sync that succeeds proves nothing. Repair the disk and start the replica
    /// again.
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
    /// The file was damaged after it was opened. Restore the replica: see docs/recovery.md.
    #[error("{}: entry {index} at byte {offset} was damaged: remove this replica and add a new one", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// The place.
        offset: u64,
        /// Index of the entry.
        index: LogIndex,
    },
    /// Mend the disk and start the replica again.
    #[error("{}: {source}; mend the disk and start the replica again", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}
