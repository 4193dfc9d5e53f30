//! The log in segment files, whose space is allocated in advance.
//!
//! ```text
//!   obsolete           sealed                  current                          spare
//!  ┌──┬──┬──┬──┬──┐  ┌──┬───┬──┬──┬──┬────┐  ┌──┬───┬──┬──┬──┬─ ─ ─ ─ ─ ─┐  ┌──┬─ ─ ─ ─ ─ ─ ─┐
//!  │h │  │  │  │  │  │h │ c │41│42│43│seal│  │h │ c │46│47│m │           │  │h │             │
//!  └──┴──┴──┴──┴──┘  └──┴───┴──┴──┴──┴────┘  └──┴───┴──┴──┴──┴─ ─ ─ ─ ─ ─┘  └──┴─ ─ ─ ─ ─ ─ ─┘
//!    h: header, a block of its own     c: checkpoint of all segments before     m: marker
//! ```
//!
//! One write is one *record* (`record.rs`): a batch, a new base, or a restart. Records are numbered without a gap
//! through all segments, and each contains the number of the last record known to be synced when it was written. A new
//! segment is used once the one before it is sealed and synced. After each sync, a *marker* is written at the offset of
//! the next record. Nothing waits for this write.
//!
//! # Opening
//!
//! Let `k` be the number of the first record that is not intact. There are two cases. Either the record was never
//! synced, and so never acknowledged; then its remains are a torn tail. Or it was synced and damaged since; then the
//! log must not be used without it. The record was synced if
//!
//! - an intact record or marker behind it contains a synced number of at least `k`, or an intact record behind it has a
//!   number of at most `k` (only after manual changes of the file); or
//! - it is in a segment before the last used one, because such a segment is synced before the next one is used.
//!
//! Otherwise the tail is truncated: everything in it that could be mistaken for a record is overwritten with zeros, and
//! synced before the log is used. Records before `k` that were not known to be synced are written again and synced. The
//! reason is that after a failed sync of an earlier process, the operating system may consider pages clean that never
//! reached the disk.
//!
//! *Unmet promises*: the very last records may be damaged while nothing behind them proves that they were synced. This happens
//! if the power failed before the marker was written, or if one fault damaged both. Then it is unknown whether the
//! records were torn, or damaged later. So every sync also writes a second copy of its promise, into the block of the
//! header (`promise.rs`). [`LogEngine::unmet_promise`] returns the promise that the log does not satisfy. The replica's
//! votes contain the position of this promise, so that no candidate with a shorter log counts these votes. The copy is
//! kept until the log again reaches that promise.
//!
//! Damaged headers, missing segments, and shortened files are always detected.
//!
//! # Full disks
//!
//! Only a new segment needs space. If there is none, nothing is written. The end of each segment is reserved for
//! compactions and restarts, so that a full log can be shortened. The segments that this frees are reused next. If a new
//! segment cannot be made for another reason, this is treated as a full disk (`spares.rs`).

mod header;
mod index;
mod open;
mod promise;
mod read;
mod record;
mod room;
mod spares;

pub use header::FORMAT;
pub use record::Damage;

use super::{
    Batch, Bounds, CreateError, Entry, HardState, LogEngine, LogIndex, OpenError, Position, Promise,
};
use super::{ReadError, ReplicaId, Term, WriteError};
use crate::disk::{Disk, DiskFile, is_full};
use crate::failpoint::failpoint;
use crate::origin::CellId;
use header::Header;
use index::Index;
use record::{Checkpoint, Slot, Stamp, Written};
use room::{Segment, Unfinished};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes at the end of a segment that no batch may use. They suffice for a seal, a marker, and a dozen new bases.
const RESERVE: u64 = 1024;

/// Upper bound of the bytes of a new base or a restart, including a checkpoint before it.
const SMALL: u64 = 256;

/// Capacity of the buffer that is kept between appends, enough for a batch of four thousand small entries.
const BUFFER: usize = 2 << 20;

/// Layout of a log's files. A log can be opened with other options than it was created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Size of a segment, from 8 KiB to 1 GiB. A larger batch gets a segment of its own.
    pub segment_bytes: u64,
    /// Number of free segments kept for reuse.
    pub reused_max: usize,
}

impl Default for SegmentOptions {
    /// The size is 16 MiB per segment: large enough that a replica seldom waits for a new segment, and small enough for
    /// an idle replica. Four free segments have room for everything that is written while a snapshot is taken.
    fn default() -> SegmentOptions {
        SegmentOptions { segment_bytes: 16 << 20, reused_max: 4 }
    }
}

/// Owner of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOwner {
    /// Id of the cell.
    pub cell: CellId,
    /// Id of the replica.
    pub replica: ReplicaId,
}

/// A log in segment files.
///
/// Invariant, while `trust` is `Sound`: `segments` are the needed segments without a gap. They contain all needed
/// records up to `next - 1`. The next write goes to the last segment, at the offset `end`. `spares` follow the segments
/// in order and are empty.
#[derive(Debug)]
pub struct SegmentLog {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    owner: LogOwner,
    options: SegmentOptions,
    segments: VecDeque<Segment>,
    spares: VecDeque<Segment>,
    /// Obsolete segments, kept for reuse.
    free: Vec<Segment>,
    unfinished: Option<Unfinished>,
    /// Offset in the current segment from which the next segment is prepared again, after this failed.
    prepare_from: Option<u64>,
    end: u64,
    next: u64,
    synced: u64,
    /// The first segment that is needed once all writes are synced.
    first_segment: u64,
    index: Index,
    hard_state: HardState,
    trust: Trust,
    torn: Option<(PathBuf, u64)>,
    /// The promise that the replica may have made and that the log does not satisfy.
    unmet_promise: Option<Promise>,
    /// Number of promises written so far.
    promises: u64,
    written: u64,
    /// Buffer of the bytes to be written, reused between appends.
    buffer: Vec<u8>,
}

/// Position of a batch's data.
#[derive(Clone, Copy, Debug)]
struct Data {
    in_segment: u64,
    in_buffer: usize,
}

/// Whether the content of the files is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Sound,
    Unknown,
}

impl SegmentLog {
    /// Creates an empty log in a folder that has none. The log is durable on return, if the folder is.
    ///
    /// # Errors
    /// There is a log already, or the disk is full or fails.
    ///
    /// # Panics
    /// The options are out of their bounds.
    pub fn create(
        disk: Arc<dyn Disk>,
        folder: &Path,
        owner: LogOwner,
        options: SegmentOptions,
    ) -> Result<SegmentLog, CreateError> {
        assert!((8 << 10..=1 << 30).contains(&options.segment_bytes), "8 KiB to 1 GiB");
        let failed = |source: io::Error| {
            let path = folder.to_owned();
            if is_full(&source) {
                CreateError::Full(path)
            } else {
                CreateError::Io { path, source }
            }
        };
        let names = disk.list(folder).map_err(failed)?;
        if names.iter().any(|name| room::sequence_of(name).is_some()) {
            return Err(CreateError::Exists(folder.to_owned()));
        }
        let header = Header {
            cell: owner.cell,
            replica: owner.replica,
            sequence: 1,
            length: options.segment_bytes,
        };
        let mut unfinished = Unfinished::begin(&*disk, folder).map_err(failed)?;
        unfinished.grow(header.length).map_err(failed)?;
        let checkpoint = Checkpoint { first_segment: 1, ..Checkpoint::default() };
        let mut end = header::BYTES as u64;
        let records = |salt| {
            let mut out = Vec::new();
            let stamp = Stamp { salt, number: 1, synced: 0 };
            record::write(&mut out, stamp, Written::Checkpoint(checkpoint));
            end += out.len() as u64;
            // The segment is synced before it gets its name. So the name proves that this record is durable.
            record::write(&mut out, Stamp { salt, number: 2, synced: 1 }, Written::Marker);
            out
        };
        let segment = unfinished.finish((&*disk, folder), header, records).map_err(failed)?;
        Ok(SegmentLog {
            disk,
            folder: folder.to_owned(),
            owner,
            options,
            segments: VecDeque::from([segment]),
            spares: VecDeque::new(),
            free: Vec::new(),
            unfinished: None,
            prepare_from: None,
            end,
            next: 2,
            synced: 1,
            first_segment: 1,
            index: Index::default(),
            hard_state: HardState::default(),
            trust: Trust::Sound,
            torn: None,
            unmet_promise: None,
            promises: 0,
            written: header.length,
            buffer: Vec::new(),
        })
    }

    /// Opens a log: reads and checks all of it, and truncates a torn tail. Its content is durable on return.
    ///
    /// # Errors
    /// There is no log, it belongs to another replica, is in use or is damaged, or the disk fails.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        owner: LogOwner,
        options: SegmentOptions,
    ) -> Result<SegmentLog, OpenError> {
        open::open(disk, folder, owner, options)
    }

    /// File and offset at which a torn record was truncated when this log was opened, if any.
    #[must_use]
    pub fn torn(&self) -> Option<(&Path, u64)> {
        self.torn.as_ref().map(|(path, offset)| (path.as_path(), *offset))
    }

    fn current(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a log has a segment that is written to")
    }

    fn stamp(&mut self) -> Stamp {
        Stamp { salt: self.current().salt, number: self.next, synced: self.synced }
    }

    /// Checkpoint of the next segment.
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            base: self.index.before(),
            last: self.index.last(),
            hard_state: self.hard_state,
            first_segment: self.first_segment,
        }
    }

    fn unknown(&mut self, path: PathBuf, source: io::Error) -> WriteError {
        self.trust = Trust::Unknown;
        WriteError::Unknown { path, source }
    }

    /// Runs an operation on the current file. If it fails, the log rejects all later writes.
    fn on_current(
        &mut self,
        work: impl FnOnce(&mut dyn DiskFile) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let segment = self.current();
        match work(&mut *segment.file) {
            Ok(()) => Ok(()),
            Err(source) => {
                let path = segment.path.clone();
                Err(self.unknown(path, source))
            }
        }
    }

    fn check_trust(&self) -> Result<(), WriteError> {
        if self.trust == Trust::Unknown { Err(WriteError::Refused) } else { Ok(()) }
    }

    /// Writes a record. In a new segment, a checkpoint is written before it. Returns the position of a batch's data.
    fn write(&mut self, content: Written<'_>) -> Result<Data, WriteError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        if self.end == header::BYTES as u64 {
            let stamp = self.stamp();
            record::write(&mut buffer, stamp, Written::Checkpoint(self.checkpoint()));
            self.next += 1;
        }
        let stamp = self.stamp();
        let in_buffer = record::write(&mut buffer, stamp, content);
        let at = self.end;
        assert!(at + buffer.len() as u64 <= self.current().header.length, "room was made");
        failpoint!("log-write");
        self.on_current(|file| file.write_at(at, &buffer))?;
        self.next += 1;
        self.end += buffer.len() as u64;
        self.written += buffer.len() as u64;
        self.buffer = buffer;
        Ok(Data { in_segment: at + in_buffer as u64, in_buffer })
    }

    fn sync_current(&mut self) -> Result<(), WriteError> {
        self.write_promise()?;
        failpoint!("log-sync-file");
        let synced = self.on_current(|file| file.sync());
        if omega_cellstate::injected!(SyncErrorIgnored) {
            self.trust = Trust::Sound;
        } else {
            synced?;
        }
        self.synced = self.next - 1;
        Ok(())
    }

    /// Writes a marker. At the next opening, the marker proves that everything before it was synced. The marker itself
    /// is not synced.
    fn mark(&mut self) -> Result<(), WriteError> {
        if self.end + record::HEAD as u64 > self.current().header.length {
            return Ok(());
        }
        failpoint!("log-mark");
        let mut marker = Vec::with_capacity(record::HEAD);
        let stamp = self.stamp();
        record::write(&mut marker, stamp, Written::Marker);
        let end = self.end;
        self.written += marker.len() as u64;
        self.on_current(|file| file.write_at(end, &marker))
    }

    /// Deletes obsolete segments, or keeps them for reuse. If a file cannot be deleted, the next opening deletes it.
    fn free_segments(&mut self) {
        while self.segments.front().is_some_and(|s| s.header.sequence < self.first_segment) {
            failpoint!("log-free");
            let segment = self.segments.pop_front().expect("there is a first one");
            if self.free.len() < self.options.reused_max {
                self.free.push(segment);
            } else {
                drop(self.disk.remove(&segment.path));
            }
        }
    }
}

impl LogEngine for SegmentLog {
    fn bounds(&self) -> Bounds {
        Bounds { base: self.index.before(), last: self.index.last() }
    }

    fn hard_state(&self) -> HardState {
        self.hard_state
    }

    fn append(&mut self, batch: &Batch) -> Result<(), WriteError> {
        self.check_trust()?;
        batch.check(self.bounds());
        if batch.is_empty() {
            return Ok(());
        }
        self.make_room(record::batch_bytes(batch), RESERVE)?;
        let Data { in_segment, in_buffer } = self.write(Written::Batch(batch))?;
        let mut offset = in_segment as u32;
        let segment = self.current().header.sequence;
        let checksums = record::checksums(&self.buffer[..in_buffer], batch.entries.len());
        for (entry, crc) in batch.entries.iter().zip(checksums) {
            let length = entry.data.len() as u32;
            let slot = Slot { offset, length, crc, kind: entry.kind };
            self.index.put(entry.position, segment, slot);
            offset += length;
        }
        self.hard_state = batch.hard_state.unwrap_or(self.hard_state);
        self.settle_unmet_promise();
        // Frees the memory of an unusually large batch.
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER);
        self.keep_pace();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), WriteError> {
        self.check_trust()?;
        if self.synced + 1 == self.next {
            return Ok(());
        }
        self.sync_current()?;
        self.mark()?;
        self.free_segments();
        Ok(())
    }

    fn read(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError> {
        self.read_entries(from, bytes_max, entries)
    }

    fn term(&mut self, index: LogIndex) -> Result<Option<Term>, ReadError> {
        Ok(self.index.term(index))
    }

    fn compact(&mut self, base: Position) -> Result<(), WriteError> {
        self.check_trust()?;
        if base.index <= self.index.before().index {
            return Ok(());
        }
        assert_eq!(self.index.term(base.index), Some(base.term), "the log holds {base:?}");
        self.make_room(0, 0)?;
        let current = self.current().header.sequence;
        let first_segment = self.index.segment_after(base.index).unwrap_or(current);
        self.write(Written::Base { base, first_segment })?;
        self.index.forget(base);
        self.first_segment = first_segment;
        if omega_cellstate::injected!(FreedEarly) {
            self.free_segments();
        }
        Ok(())
    }

    fn restart(&mut self, base: Position, hard_state: HardState) -> Result<(), WriteError> {
        self.check_trust()?;
        self.make_room(0, 0)?;
        let first_segment = self.current().header.sequence;
        self.write(Written::Restart { base, hard_state, first_segment })?;
        self.index = Index::after(base);
        self.hard_state = hard_state;
        self.first_segment = first_segment;
        // Entries up to the snapshot's end are not missing: the snapshot includes them, or entries that replaced them.
        if let Some(promise) =
            self.unmet_promise.as_mut().filter(|promise| promise.last.index <= base.index)
        {
            promise.last = base;
        }
        self.settle_unmet_promise();
        self.sync()
    }

    fn prepare(&mut self) -> Result<(), WriteError> {
        self.check_trust()?;
        self.prepare_next(u64::MAX);
        Ok(())
    }

    fn unmet_promise(&self) -> Option<Promise> {
        self.unmet_promise
    }

    fn accept_torn_tail(&mut self) -> Result<(), WriteError> {
        self.check_trust()?;
        self.unmet_promise = None;
        self.write_promise()?;
        self.on_current(|file| file.sync())
    }

    fn torn(&self) -> Option<(&Path, u64)> {
        SegmentLog::torn(self)
    }

    fn bytes_on_disk(&self) -> u64 {
        let segments = self.segments.iter().chain(&self.spares).chain(&self.free);
        let unfinished = self.unfinished.as_ref().map_or(0, Unfinished::length);
        segments.map(|segment| segment.header.length).sum::<u64>() + unfinished
    }

    fn bytes_written(&self) -> u64 {
        self.written
    }
}
