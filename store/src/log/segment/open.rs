//! Opening a log: the files are read and checked by the rules in the documentation of `mod.rs`.
//!
//! The last used segment is read first, because its newest record determines which segments are needed. Other segments
//! may be left over, or may have reappeared after a crash.

use super::header::{self, Header, HeaderError};
use super::index::Index;
use super::promise::PromiseSlot;
use super::record::{self, Checkpoint, Content, Damage, Head, Record};
use super::room::{self, Segment};
use super::{LogOwner, SegmentLog, SegmentOptions, Trust};
use crate::disk::Disk;
use crate::log::{HardState, LogIndex, OpenError, Position, WriteError};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// State after the records read so far.
#[derive(Debug, Default)]
struct Replay {
    index: Index,
    base: Position,
    hard_state: HardState,
    first_segment: u64,
    /// Number of the next record; 0 before the first one.
    number: u64,
    /// Number of the last record known to be synced.
    synced: u64,
    sealed: bool,
}

/// The end of a segment's records.
struct End {
    offset: usize,
    /// Damage of the record that follows the end; `None` if a marker follows.
    damage: Option<Damage>,
    /// Offset of the first record that is not known to be synced.
    unsafe_from: usize,
}

/// Meaning of the bytes behind the end of the records.
enum Behind {
    /// The bytes prove that the missing record was synced.
    Proof,
    /// The bytes have no records, or only unsynced ones, up to this offset.
    Debris(usize),
}

impl Replay {
    /// Applies a record.
    fn apply(&mut self, record: &Record, segment: u64) -> Result<(), Damage> {
        let is_checkpoint = matches!(record.content, Content::Checkpoint(_));
        if self.sealed != is_checkpoint && self.number != 0 {
            return Err(Damage::Order);
        }
        if self.number != 0 && record.number != self.number {
            return Err(Damage::Number(record.number));
        }
        self.sealed = false;
        match &record.content {
            Content::Marker => return Ok(()),
            Content::Seal => self.sealed = true,
            Content::Checkpoint(checkpoint) => self.start(checkpoint)?,
            Content::Base { base, first_segment } => {
                if base.index > self.index.last().index || base.index < self.base.index {
                    return Err(Damage::Order);
                }
                (self.base, self.first_segment) = (*base, *first_segment);
                if base.index >= self.index.before().index {
                    self.index.forget(*base);
                }
            }
            Content::Restart { base, hard_state, first_segment } => {
                (self.base, self.hard_state) = (*base, *hard_state);
                self.first_segment = *first_segment;
                self.index = Index::after(*base);
            }
            Content::Batch { hard_state, first, entries } => {
                let (base, last) = (self.base.index, self.index.last().index);
                let follows = *first > base && *first <= last.next();
                if !entries.is_empty() && !follows {
                    return Err(Damage::Order);
                }
                for (index, (term, slot)) in (first.0..).zip(entries) {
                    let position = Position { index: LogIndex(index), term: *term };
                    self.index.put(position, segment, *slot);
                }
                self.hard_state = hard_state.unwrap_or(self.hard_state);
            }
        }
        self.number = record.number + 1;
        self.synced = self.synced.max(record.synced);
        Ok(())
    }

    /// Applies a checkpoint. The first checkpoint gives the initial state; later ones must agree with the records
    /// before them.
    fn start(&mut self, checkpoint: &Checkpoint) -> Result<(), Damage> {
        if self.number == 0 {
            *self = Replay {
                index: Index::after(checkpoint.last),
                base: checkpoint.base,
                hard_state: checkpoint.hard_state,
                first_segment: checkpoint.first_segment,
                ..Replay::default()
            };
            return Ok(());
        }
        let same = checkpoint.base == self.base
            && checkpoint.last == self.index.last()
            && checkpoint.hard_state == self.hard_state;
        if same { Ok(()) } else { Err(Damage::Order) }
    }
}

/// A log that is being opened.
struct Opening {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    owner: LogOwner,
    segments: BTreeMap<u64, Segment>,
}

pub(super) fn open(
    disk: Arc<dyn Disk>,
    folder: &Path,
    owner: LogOwner,
    options: SegmentOptions,
) -> Result<SegmentLog, OpenError> {
    let names = disk.list(folder).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OpenError::Missing(folder.to_owned()),
        _ => failed(folder, source),
    })?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|n| room::sequence_of(n)).collect();
    sequences.sort_unstable();
    let highest = *sequences.last().ok_or_else(|| OpenError::Missing(folder.to_owned()))?;
    let segments = BTreeMap::new();
    let mut opening = Opening { folder: folder.to_owned(), disk, owner, segments };

    let last = opening.last_used(&sequences, highest)?;
    let (tail, end, mut bytes) = opening.tail(last)?;
    opening.check_behind(&tail, &end, last, &bytes)?;
    if !(1..=last).contains(&tail.first_segment) {
        return Err(opening.corrupt(last, &tail, end.offset, None));
    }
    let mut replay = Replay::default();
    for sequence in tail.first_segment..last {
        opening.whole(sequence, &mut replay)?;
    }
    let salt = opening.segment(last)?.salt;
    let again = walk(&mut replay, &bytes, salt, last);
    // The last segment was read alone before. Now it was read after the other segments, and must give an equal result.
    if again.offset != end.offset || replay.base.index < replay.index.before().index {
        return Err(opening.corrupt(last, &replay, again.offset, again.damage));
    }
    replay.index.forget(replay.base);
    let slot = opening.newest_promise()?;
    let torn = opening.clean(&replay, &end, last, &mut bytes)?;
    let tail = Tail { last, end: end.offset as u64, torn };
    let mut log = opening.finish(replay, tail, options, &sequences)?;
    log.promises = slot.sequence;
    log.unmet_promise = Some(slot.promise).filter(|promise| !promise.is_kept_by(log.held()));
    Ok(log)
}

/// The end of the log, as found.
struct Tail {
    /// Sequence number of the last segment.
    last: u64,
    /// Offset of the end in the last segment.
    end: u64,
    /// File and offset of a torn record, if any.
    torn: Option<(PathBuf, u64)>,
}

impl Opening {
    /// A segment, whose header is checked.
    fn segment(&mut self, sequence: u64) -> Result<&mut Segment, OpenError> {
        if !self.segments.contains_key(&sequence) {
            let segment = self.opened(sequence)?;
            self.segments.insert(sequence, segment);
        }
        Ok(self.segments.get_mut(&sequence).expect("it was just put there"))
    }

    fn opened(&self, sequence: u64) -> Result<Segment, OpenError> {
        let path = room::path_of(&self.folder, sequence);
        let mut file = self.disk.open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => OpenError::SegmentMissing(path.clone()),
            _ => failed(&path, source),
        })?;
        let mut bytes = vec![0; header::BYTES];
        let count = file.read_at(0, &mut bytes).map_err(|source| failed(&path, source))?;
        let (header, salt) = match Header::decode(&bytes[..count]) {
            Ok(found) => found,
            Err(HeaderError::Format(found)) => {
                return Err(OpenError::UnknownFormat { path, found });
            }
            Err(HeaderError::Damaged) => return Err(OpenError::BadSegment(path)),
        };
        let Header { cell, replica, .. } = header;
        if (LogOwner { cell, replica }) != self.owner {
            let wanted = (self.owner.cell, self.owner.replica);
            return Err(OpenError::OtherReplica { path, found: (cell, replica), wanted });
        }
        let length = file.length().map_err(|source| failed(&path, source))?;
        if header.sequence != sequence || header.length != length || length > u64::from(u32::MAX) {
            return Err(OpenError::BadSegment(path));
        }
        Ok(Segment { file, path, header, salt })
    }

    /// All bytes of a segment. Memory is reserved by the length of the file, not by a length in its content.
    fn bytes(&mut self, sequence: u64) -> Result<Vec<u8>, OpenError> {
        let segment = self.segment(sequence)?;
        let mut bytes = vec![0; segment.header.length as usize];
        let count = segment.file.read_at(0, &mut bytes);
        let count = count.map_err(|source| failed(&segment.path, source))?;
        if count < bytes.len() {
            return Err(OpenError::BadSegment(segment.path.clone()));
        }
        Ok(bytes)
    }

    /// The last segment whose first record is intact. Later segments are spares, or damaged.
    fn last_used(&mut self, sequences: &[u64], highest: u64) -> Result<u64, OpenError> {
        for (expected, sequence) in (0..=highest).rev().zip(sequences.iter().rev()) {
            if expected != *sequence {
                return Err(self.missing(expected)?);
            }
            let salt = self.segment(*sequence)?.salt;
            let mut first = vec![0; header::BYTES + 256];
            let segment = self.segment(*sequence)?;
            let read = segment.file.read_at(0, &mut first);
            read.map_err(|source| failed(&segment.path, source))?;
            if let Ok(record) = record::read(&first, header::BYTES, salt)
                && matches!(record.content, Content::Checkpoint(_))
            {
                return Ok(*sequence);
            }
        }
        // The segment is reported as damaged, because the first segment of a log has an intact record before it gets
        // its name.
        Err(OpenError::BadSegment(room::path_of(&self.folder, highest)))
    }

    /// Returns the error for a segment that is expected but missing. If the next segment was used and its first record
    /// is damaged, returns the error for that record instead.
    fn missing(&mut self, sequence: u64) -> Result<OpenError, OpenError> {
        let bytes = self.bytes(sequence + 1)?;
        let salt = self.segment(sequence + 1)?.salt;
        let damage = record::read(&bytes, header::BYTES, salt).err();
        // An intact record in the next segment proves that the segment was used, so its first record was intact once.
        Ok(match behind(&bytes, header::BYTES, salt, 1) {
            Behind::Proof => self.corrupt(sequence + 1, &Replay::default(), header::BYTES, damage),
            Behind::Debris(_) => OpenError::SegmentMissing(room::path_of(&self.folder, sequence)),
        })
    }

    /// Reads only the last used segment, without the segments before it.
    fn tail(&mut self, last: u64) -> Result<(Replay, End, Vec<u8>), OpenError> {
        let bytes = self.bytes(last)?;
        let salt = self.segment(last)?.salt;
        let mut replay = Replay::default();
        let end = walk(&mut replay, &bytes, salt, last);
        Ok((replay, end, bytes))
    }

    /// Searches the last segment and the spares for proof that more records were synced than were found.
    fn check_behind(
        &mut self,
        tail: &Replay,
        end: &End,
        last: u64,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        let salt = self.segment(last)?.salt;
        let misplaced =
            matches!(end.damage, Some(Damage::Number(_) | Damage::Order | Damage::Kind));
        let proof = matches!(behind(bytes, end.offset, salt, tail.number), Behind::Proof);
        if !tail.sealed && (misplaced || proof) && !omega_cellstate::injected!(CorruptMiddleCut) {
            return Err(self.corrupt(last, tail, end.offset, end.damage));
        }
        let spares: Vec<u64> = self.segments.keys().copied().filter(|s| *s > last).collect();
        if tail.sealed && spares.is_empty() {
            return Err(OpenError::SegmentMissing(room::path_of(&self.folder, last + 1)));
        }
        for spare in spares {
            let bytes = self.bytes(spare)?;
            let salt = self.segment(spare)?.salt;
            match behind(&bytes, header::BYTES, salt, tail.number) {
                Behind::Proof => {
                    let damage = record::read(&bytes, header::BYTES, salt).err();
                    return Err(self.corrupt(spare, tail, header::BYTES, damage));
                }
                Behind::Debris(to) => self.zero(spare, header::BYTES, to)?,
            }
        }
        Ok(())
    }

    /// Reads a segment before the last one. All of it must have been synced.
    fn whole(&mut self, sequence: u64, replay: &mut Replay) -> Result<(), OpenError> {
        let bytes = self.bytes(sequence)?;
        let salt = self.segment(sequence)?.salt;
        let end = walk(replay, &bytes, salt, sequence);
        // If not even the first record could be read, `sealed` still describes the segment before.
        if replay.sealed && end.offset > header::BYTES {
            return Ok(());
        }
        Err(self.corrupt(sequence, replay, end.offset, end.damage))
    }

    fn corrupt(
        &self,
        sequence: u64,
        replay: &Replay,
        offset: usize,
        damage: Option<Damage>,
    ) -> OpenError {
        OpenError::Corrupt {
            path: room::path_of(&self.folder, sequence),
            offset: offset as u64,
            record: replay.number,
            index: replay.index.last().index.next(),
            damage: damage.unwrap_or(Damage::Order),
        }
    }

    /// Syncs all records that were found, and overwrites the rest. Returns the file and offset of a torn tail.
    fn clean(
        &mut self,
        replay: &Replay,
        end: &End,
        last: u64,
        bytes: &mut [u8],
    ) -> Result<Option<(PathBuf, u64)>, OpenError> {
        let salt = self.segment(last)?.salt;
        let head = Head::at(bytes, end.offset).filter(|_| end.damage.is_some());
        let torn = head.is_some_and(|head| head.number == replay.number);
        if !replay.sealed
            && !omega_cellstate::injected!(TornTailKept)
            && let Behind::Debris(to) = behind(bytes, end.offset, salt, replay.number)
        {
            bytes[end.offset..to].fill(0);
            self.zero(last, end.offset, to)?;
        }
        let (from, to) = (end.unsafe_from, end.offset);
        let segment = self.segment(last)?;
        if from < to && !omega_cellstate::injected!(CacheTrusted) {
            let written = segment.file.write_at(from as u64, &bytes[from..to]);
            written.map_err(|source| failed(&segment.path, source))?;
        }
        segment.file.sync().map_err(|source| failed(&segment.path, source))?;
        let torn = torn.then(|| (segment.path.clone(), end.offset as u64));
        self.disk.sync_folder(&self.folder).map_err(|source| failed(&self.folder, source))?;
        Ok(torn)
    }

    /// The newest copy of the promise among all segments.
    fn newest_promise(&mut self) -> Result<PromiseSlot, OpenError> {
        let mut newest = PromiseSlot::default();
        for segment in self.segments.values_mut() {
            let mut block = vec![0; header::BYTES];
            let read = segment.file.read_at(0, &mut block);
            read.map_err(|source| failed(&segment.path, source))?;
            let slot = PromiseSlot::newest(&block, segment.salt);
            newest = slot.filter(|slot| slot.sequence > newest.sequence).unwrap_or(newest);
        }
        Ok(newest)
    }

    /// Overwrites a part of a segment with zeros, durably.
    fn zero(&mut self, sequence: u64, from: usize, to: usize) -> Result<(), OpenError> {
        if from == to {
            return Ok(());
        }
        let segment = self.segment(sequence)?;
        let done = segment.file.write_at(from as u64, &vec![0; to - from]);
        let done = done.and_then(|()| segment.file.sync());
        done.map_err(|source| failed(&segment.path, source))
    }

    fn finish(
        mut self,
        replay: Replay,
        Tail { last, mut end, torn }: Tail,
        options: SegmentOptions,
        sequences: &[u64],
    ) -> Result<SegmentLog, OpenError> {
        self.segments.retain(|sequence, _| *sequence >= replay.first_segment);
        for sequence in sequences.iter().filter(|sequence| **sequence < replay.first_segment) {
            // If the file cannot be deleted, it is ignored, and the next opening tries again.
            drop(self.disk.remove(&room::path_of(&self.folder, *sequence)));
        }
        let mut spares: VecDeque<Segment> =
            self.segments.split_off(&(last + 1)).into_values().collect();
        let mut segments: VecDeque<Segment> = self.segments.into_values().collect();
        if replay.sealed {
            segments.extend(spares.pop_front());
            end = header::BYTES as u64;
        }
        let mut log = SegmentLog {
            disk: self.disk,
            folder: self.folder,
            owner: self.owner,
            options,
            segments,
            spares,
            free: Vec::new(),
            unfinished: None,
            prepare_from: None,
            end,
            next: replay.number,
            synced: replay.number - 1,
            first_segment: replay.first_segment,
            index: replay.index,
            hard_state: replay.hard_state,
            trust: Trust::Sound,
            torn,
            unmet_promise: None,
            promises: 0,
            written: 0,
            buffer: Vec::new(),
        };
        if end > header::BYTES as u64 {
            log.mark().map_err(|error| match error {
                WriteError::Unknown { path, source } => OpenError::Io { path, source },
                _ => OpenError::Missing(log.folder.clone()),
            })?;
        }
        Ok(log)
    }
}

/// Applies the records of a segment in order, up to the first that is missing.
fn walk(replay: &mut Replay, segment: &[u8], salt: u32, sequence: u64) -> End {
    let mut offset = header::BYTES;
    let mut begins = Vec::new();
    let mut first = true;
    let damage = loop {
        if !first && replay.sealed {
            break None;
        }
        let record = match record::read(segment, offset, salt) {
            Ok(record) => record,
            Err(damage) => break Some(damage),
        };
        if first != matches!(record.content, Content::Checkpoint(_)) {
            break Some(Damage::Order);
        }
        if let Err(damage) = replay.apply(&record, sequence) {
            break Some(damage);
        }
        if record.content == Content::Marker {
            replay.synced = replay.synced.max(record.synced);
            break None;
        }
        begins.push((record.number, offset));
        (offset, first) = (record.end, false);
    };
    let unsafe_from = begins.iter().find(|(number, _)| *number > replay.synced);
    End { offset, damage, unsafe_from: unsafe_from.map_or(offset, |(_, at)| *at) }
}

/// Examines the bytes from `from` on, where the record with the number `missing` should be.
fn behind(segment: &[u8], from: usize, salt: u32, missing: u64) -> Behind {
    let mut debris = from;
    let mut offset = from;
    while offset + record::HEAD <= segment.len() {
        // Most bytes behind the end are zeros, and no record has the number 0.
        let Some(head) = Head::at(segment, offset) else { break };
        let sensible = head.number > head.synced;
        if sensible && let Ok(record) = record::read(segment, offset, salt) {
            let marker = record.content == Content::Marker;
            let own = marker && offset == from && record.number == missing;
            if !own && (record.number <= missing || record.synced >= missing) {
                return Behind::Proof;
            }
            if !own {
                debris = record.end;
            }
        }
        offset += 8;
    }
    Behind::Debris(debris.min(segment.len()))
}

fn failed(path: &Path, source: io::Error) -> OpenError {
    match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked(path.to_owned()),
        _ => OpenError::Io { path: path.to_owned(), source },
    }
}
