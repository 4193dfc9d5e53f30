//! The next segments: prepared while the current one fills, and used when it has no room left.
//!
//! To prepare a segment does not touch the log. So if this fails, for example because the process has no file
//! descriptors left, the log is still known. The failure is logged, and the preparation is tried again later. When the
//! segment is needed and still cannot be made, this is treated as a full disk: nothing is written, and the caller tries
//! again.

use super::header::{self, Header};
use super::record::Written;
use super::room::{self, Segment, Unfinished};
use super::{LogOwner, SMALL, SegmentLog};
use crate::disk::is_full;
use crate::failpoint::failpoint;
use crate::log::WriteError;
use std::io;

/// Part of a segment that is filled between two attempts to prepare the next one.
const ATTEMPTS: u64 = 16;

impl SegmentLog {
    /// Begins a new segment if the current one has no room for `bytes` bytes before its last `reserve` bytes.
    pub(super) fn make_room(&mut self, bytes: u64, reserve: u64) -> Result<(), WriteError> {
        let wanted = bytes + SMALL + reserve;
        if self.end + wanted <= self.current().header.length {
            return Ok(());
        }
        failpoint!("log-segment", Err(WriteError::Refused));
        let length = (header::BYTES as u64 + wanted).max(self.options.segment_bytes);
        let fits = self.spares.front().is_some_and(|spare| spare.header.length >= length);
        let made = if fits { None } else { Some(self.needed_spare(length)?) };
        let first = self.spares.pop_front();
        let spare = made.or(first).expect("there is a spare that fits, or one was made");
        self.write(Written::Seal)?;
        if !omega_cellstate::injected!(SealNotSynced) {
            self.sync_current()?;
        }
        self.segments.push_back(spare);
        self.end = header::BYTES as u64;
        self.prepare_from = None;
        Ok(())
    }

    /// Creates a segment that will follow the current one, because there is no spare, or the first spare is too short.
    /// The new segment replaces that spare, and takes its file name.
    fn needed_spare(&mut self, length: u64) -> Result<Segment, WriteError> {
        let sequence = self.current().header.sequence + 1;
        let made = match self.take_free(length) {
            Some(old) => self.reuse(old, sequence),
            None => {
                let unfinished = self.unfinished.take();
                self.finish(unfinished, length, sequence)
            }
        };
        made.map_err(|error| {
            self.note_failure(&error);
            WriteError::Full { path: self.folder.clone() }
        })
    }

    /// Takes a free segment with at least this length.
    fn take_free(&mut self, length: u64) -> Option<Segment> {
        let at = self.free.iter().position(|free| free.header.length >= length)?;
        Some(self.free.remove(at))
    }

    fn reuse(&mut self, old: Segment, sequence: u64) -> io::Result<Segment> {
        self.unfinished = None;
        failpoint!("log-reuse");
        let path = old.path.clone();
        let reused = room::reuse((&*self.disk, &self.folder), old, sequence);
        if reused.is_err() {
            // Unless the file was renamed, it still has its old name. If it cannot be deleted, the next opening deletes
            // it.
            drop(self.disk.remove(&path));
        }
        self.written += header::BYTES as u64;
        self.check_spares(reused)
    }

    fn finish(
        &mut self,
        unfinished: Option<Unfinished>,
        length: u64,
        sequence: u64,
    ) -> io::Result<Segment> {
        let mut unfinished = match unfinished {
            Some(unfinished) => unfinished,
            None => Unfinished::begin(&*self.disk, &self.folder)?,
        };
        if let Err(error) = unfinished.grow(length) {
            self.keep_if_full(unfinished, &error);
            return Err(error);
        }
        self.written += header::BYTES as u64;
        let LogOwner { cell, replica } = self.owner;
        let header = Header { cell, replica, sequence, length };
        let made = unfinished.finish((&*self.disk, &self.folder), header, |_| Vec::new());
        self.check_spares(made)
    }

    /// Forgets the spares if a new segment may have got the name of the first one without being usable. The files of
    /// spares are empty, and are replaced later.
    fn check_spares(&mut self, made: io::Result<Segment>) -> io::Result<Segment> {
        if made.is_err() {
            self.spares.clear();
        }
        made
    }

    /// Keeps an unfinished segment if it could not grow only because the disk is full. After another error, or a failed
    /// sync, its content is unknown, and a later sync would prove nothing.
    fn keep_if_full(&mut self, unfinished: Unfinished, error: &io::Error) {
        self.unfinished = is_full(error).then_some(unfinished);
    }

    /// Extends the next segment by one step if it has fewer than `due` bytes.
    fn step(&mut self, due: u64) -> io::Result<()> {
        if !self.spares.is_empty() {
            return Ok(());
        }
        failpoint!("log-spare");
        let length = self.options.segment_bytes;
        let sequence = self.current().header.sequence + 1;
        if let Some(old) = self.take_free(length) {
            let spare = self.reuse(old, sequence)?;
            self.spares.push_back(spare);
            return Ok(());
        }
        let mut unfinished = match self.unfinished.take() {
            Some(unfinished) => unfinished,
            None => Unfinished::begin(&*self.disk, &self.folder)?,
        };
        if unfinished.length() < due.min(length) {
            if let Err(error) = unfinished.step(length) {
                self.keep_if_full(unfinished, &error);
                return Err(error);
            }
            unfinished.sync()?;
        }
        if unfinished.length() < length {
            self.unfinished = Some(unfinished);
            return Ok(());
        }
        let spare = self.finish(Some(unfinished), length, sequence)?;
        self.spares.push_back(spare);
        Ok(())
    }

    /// Extends the next segment if it has fewer than `due` bytes. A failure is logged, and otherwise ignored until the
    /// segment is needed.
    pub(super) fn prepare_next(&mut self, due: u64) {
        if self.prepare_from.is_some_and(|from| self.end < from) {
            return;
        }
        match self.step(due) {
            Ok(()) => self.prepare_from = None,
            Err(error) => self.note_failure(&error),
        }
    }

    /// Logs that the next segment could not be made, and sets the offset from which this is tried again.
    fn note_failure(&mut self, error: &io::Error) {
        // `LogWriter` logs that a disk is full, and only when this matters.
        if !is_full(error) && self.prepare_from.is_none() {
            let folder = self.folder.display();
            tracing::warn!(%folder, %error, "the next segment of the log cannot be made; once it \
                is needed, this has the effect of a full disk");
        }
        let pause = self.current().header.length / ATTEMPTS;
        self.prepare_from = Some(self.end + pause);
    }

    /// Extends the next segment if it lags behind the filling of the current one.
    pub(super) fn keep_pace(&mut self) {
        let (end, length) = (self.end, self.current().header.length);
        // The next segment grows a quarter faster than the current one fills, so that it is complete before the last
        // batch.
        self.prepare_next(self.options.segment_bytes * end / length * 5 / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::super::SegmentOptions;
    use super::*;
    use crate::disk::{Disk, DiskFile, RealDisk};
    use crate::log::{
        Batch, CreateError, Entry, EntryKind, LogEngine, LogIndex, Position, ReplicaId, Term,
    };
    use crate::origin::CellId;
    use parking_lot::Mutex;
    use std::ops::Range;
    use std::path::Path;
    use std::sync::Arc;

    const OWNER: LogOwner = LogOwner { cell: CellId(7), replica: ReplicaId(3) };
    const SMALL_SEGMENTS: SegmentOptions = SegmentOptions { segment_bytes: 8 << 10, reused_max: 2 };

    /// Numbers of the system's errors: too many open files, a full disk, a quota that is used up, and a failed disk.
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    const EIO: i32 = 5;

    /// The operations that fail, by their numbers, and the error.
    #[derive(Debug, Default)]
    struct Faults {
        failing: Range<u64>,
        error: i32,
        /// Number of operations so far.
        count: u64,
        /// Whether syncs of files fail.
        syncs: bool,
    }

    /// A disk whose operations on names and allocations fail on demand. A log needs them only for its next segment.
    #[derive(Clone, Debug, Default)]
    struct Unreliable(Arc<Mutex<Faults>>);

    impl Unreliable {
        fn fail(&self, failing: Range<u64>, error: i32) {
            *self.0.lock() = Faults { failing, error, ..Faults::default() };
        }

        fn fail_syncs(&self, error: i32) {
            *self.0.lock() = Faults { error, syncs: true, ..Faults::default() };
        }

        fn next(&self) -> io::Result<()> {
            let mut faults = self.0.lock();
            let number = faults.count;
            faults.count += 1;
            let fails = faults.failing.contains(&number);
            if fails { Err(io::Error::from_raw_os_error(faults.error)) } else { Ok(()) }
        }
    }

    impl Disk for Unreliable {
        fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            self.next()?;
            Ok(Box::new(UnreliableFile(RealDisk.create(path)?, self.clone())))
        }

        fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            Ok(Box::new(UnreliableFile(RealDisk.open(path)?, self.clone())))
        }

        fn create_folder(&self, folder: &Path) -> io::Result<()> {
            RealDisk.create_folder(folder)
        }

        fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
            RealDisk.list(folder)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.next()?;
            RealDisk.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.next()?;
            RealDisk.remove(path)
        }

        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            self.next()?;
            RealDisk.sync_folder(folder)
        }
    }

    #[derive(Debug)]
    struct UnreliableFile(Box<dyn DiskFile>, Unreliable);

    impl DiskFile for UnreliableFile {
        fn length(&mut self) -> io::Result<u64> {
            self.0.length()
        }

        fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read_at(offset, buffer)
        }

        fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_at(offset, bytes)
        }

        fn allocate(&mut self, length: u64) -> io::Result<()> {
            self.1.next()?;
            self.0.allocate(length)
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.0.cut(length)
        }

        fn sync(&mut self) -> io::Result<()> {
            let faults = self.1.0.lock();
            if faults.syncs {
                Err(io::Error::from_raw_os_error(faults.error))
            } else {
                self.0.sync()
            }
        }
    }

    fn position(index: u64) -> Position {
        Position { index: LogIndex(index), term: Term(1) }
    }

    /// Appends the entry with this index. Every tenth entry is larger than a segment.
    fn append(log: &mut SegmentLog, index: u64) -> Result<(), WriteError> {
        let length = if index.is_multiple_of(10) { 20_000 } else { 1500 };
        let data = vec![index as u8; length].into();
        let entry = Entry { position: position(index), kind: EntryKind::Commands, data };
        log.append(&Batch { entries: vec![entry], hard_state: None })?;
        log.sync()?;
        log.prepare()
    }

    /// Closes and opens a log, and checks that it has all entries up to `last`.
    fn reopen(log: SegmentLog, last: u64) -> SegmentLog {
        let (disk, folder) = (log.disk.clone(), log.folder.clone());
        let base = log.bounds().base.index.0;
        drop(log);
        let mut log = SegmentLog::open(disk, &folder, OWNER, SMALL_SEGMENTS).unwrap();
        let mut entries = Vec::new();
        log.read(LogIndex(base + 1), usize::MAX, &mut entries).unwrap();
        let found: Vec<u64> = entries.iter().map(|entry| entry.position.index.0).collect();
        assert_eq!(found, (base + 1..=last).collect::<Vec<_>>());
        assert!(entries.iter().all(|e| e.data.iter().all(|b| *b == e.position.index.0 as u8)));
        log
    }

    #[test]
    fn without_descriptors_entries_are_refused_until_there_are_some() {
        for error in [EMFILE, ENOSPC, EDQUOT, EIO] {
            let folder = tempfile::tempdir().unwrap();
            let disk = Unreliable::default();
            let path = folder.path();
            let options = SMALL_SEGMENTS;
            let created = SegmentLog::create(Arc::new(disk.clone()), path, OWNER, options);
            let mut log = created.unwrap();
            disk.fail(0..u64::MAX, error);
            let mut next = 1;
            let refused = loop {
                match append(&mut log, next) {
                    Ok(()) => next += 1,
                    Err(refused) => break refused,
                }
            };
            // A segment of this size has room for one entry, besides its header and reserve.
            assert!(next > 1, "the current segment is filled");
            for refused in [refused, append(&mut log, next).unwrap_err()] {
                assert!(matches!(refused, WriteError::Full { .. }), "{error}: {refused}");
            }
            disk.fail(0..0, error);
            while next < 25 {
                append(&mut log, next).unwrap();
                next += 1;
            }
            reopen(log, 24);
        }
    }

    #[test]
    fn each_step_of_a_new_segment_may_fail_once() {
        let mut refused = 0;
        for before in 0..60 {
            for error in [EMFILE, ENOSPC, EIO] {
                let folder = tempfile::tempdir().unwrap();
                let disk = Unreliable::default();
                let path = folder.path();
                let options = SMALL_SEGMENTS;
                let created = SegmentLog::create(Arc::new(disk.clone()), path, OWNER, options);
                let mut log = created.unwrap();
                disk.fail(before..before + 1, error);
                for index in 1..=34 {
                    if let Err(why) = append(&mut log, index) {
                        assert!(matches!(why, WriteError::Full { .. }), "{before}: {why}");
                        append(&mut log, index).unwrap();
                        refused += 1;
                    }
                    if index % 8 == 0 {
                        // The segments that this frees are reused.
                        log.compact(position(index - 2)).unwrap();
                        log.sync().unwrap();
                    }
                }
                let mut log = reopen(log, 34);
                append(&mut log, 35).unwrap();
                reopen(log, 35);
            }
        }
        assert!(refused > 10, "{refused} entries were refused");
    }

    #[test]
    fn an_unfinished_segment_is_dropped_if_its_sync_fails() {
        for error in [ENOSPC, EDQUOT, EIO] {
            let folder = tempfile::tempdir().unwrap();
            let disk = Unreliable::default();
            let path = folder.path();
            let options = SMALL_SEGMENTS;
            let created = SegmentLog::create(Arc::new(disk.clone()), path, OWNER, options);
            let mut log = created.unwrap();
            log.spares.clear();
            log.unfinished = None;
            disk.fail_syncs(error);
            log.step(u64::MAX).unwrap_err();
            assert!(log.unfinished.is_none() && log.spares.is_empty(), "{error}");
            disk.fail(0..0, error);
            (1..=3).for_each(|index| append(&mut log, index).unwrap());
            reopen(log, 3);
        }
    }

    #[test]
    fn a_quota_that_is_used_up_is_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        for error in [ENOSPC, EDQUOT] {
            let disk = Unreliable::default();
            disk.fail(0..u64::MAX, error);
            let path = folder.path();
            let created = SegmentLog::create(Arc::new(disk), path, OWNER, SMALL_SEGMENTS);
            assert!(matches!(created, Err(CreateError::Full(_))), "{error}: {created:?}");
        }
    }
}
