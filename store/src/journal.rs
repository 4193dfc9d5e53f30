//! The history of a cell in one file that only grows.
//!
//! ```text
//!            append            append  sync              crash
//! ┌────────┬──────────┬──────────┬───────┬ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┐
//! │ header │ record 1 │ record 2 │  ...  │ what was not synced │
//! └────────┴──────────┴──────────┴───────┴ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┘
//!  └────────────── safe ────────────────┘  whole, torn or absent: cut to whole records at open
//! ```
//!
//! What a caller may rely on: after `sync` has returned, every command that was appended before is
//! replayed after any crash, in order, or opening fails with the place of the damage. No record is
//! ever skipped. After a write or a sync that failed nobody knows what the file holds (an operating
//! system may forget the bytes and report success the second time), so the journal stops; opening
//! it again shows what is there.
//!
//! One thing looks like damage and is not: several records that were not synced yet may reach the
//! disk in another order, so that a power cut leaves a later one whole and an earlier one torn.
//! The journal then refuses to open rather than guess. Sync after each append, and it cannot be:
//! unless a batch of several commands is itself larger than what the disk writes at once.

use crate::codec;
use crate::disk::{Disk, DiskFile, RealDisk, folder_of};
use crate::error::{AppendError, Corruption, CreateError, OpenError, ReplayError, SyncError};
use crate::header::{self, CellId, Header, HeaderError, Origin};
use crate::record::{self, Damage, Found, Place, Window};
use omega_core::Command;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An open journal. While it is open no other process can open it.
///
/// Invariant: while `trust` is `Sound`, the file holds the header and the records `1..next` in the
/// bytes up to `end`.
#[derive(Debug)]
pub struct Journal {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    header: Header,
    next: u64,
    end: u64,
    bytes_cut: u64,
    trust: Trust,
    /// Kept between appends for its memory.
    buffer: Vec<u8>,
}

/// Whether it is known what the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Sound,
    Unknown,
}

impl Journal {
    /// Makes the journal of a new cell. When this returns, the file survives a loss of power.
    ///
    /// # Errors
    /// If there is a file, or the disk fails.
    pub fn create(path: &Path, origin: &Origin) -> Result<Journal, CreateError> {
        Journal::create_on(&RealDisk, path, origin)
    }

    /// The same on another disk.
    ///
    /// # Errors
    /// As [`Journal::create`].
    pub fn create_on(
        disk: &dyn Disk,
        path: &Path,
        origin: &Origin,
    ) -> Result<Journal, CreateError> {
        let mut bytes = Vec::new();
        let header = header::write(origin, &mut bytes).map_err(CreateError::Kinds)?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => CreateError::Exists(path.to_owned()),
            _ => CreateError::Io { path: path.to_owned(), source },
        };
        let mut file = disk.create(path).map_err(failed)?;
        file.write_at(0, &bytes).map_err(failed)?;
        file.sync().map_err(failed)?;
        disk.sync_folder(folder_of(path)).map_err(failed)?;
        Ok(Journal::whole(file, path, header))
    }

    /// Opens the journal of a cell: reads and checks all of it, and cuts a torn end, which
    /// [`Journal::bytes_cut`] then tells. When this returns, what it holds survives a loss of
    /// power.
    ///
    /// # Errors
    /// If it is not that cell's journal, is in use, or is damaged; or if the disk fails.
    pub fn open(path: &Path, cell: CellId) -> Result<Journal, OpenError> {
        Journal::open_on(&RealDisk, path, cell)
    }

    /// The same on another disk.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_on(disk: &dyn Disk, path: &Path, cell: CellId) -> Result<Journal, OpenError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => OpenError::Missing(path.to_owned()),
            io::ErrorKind::WouldBlock => OpenError::Locked(path.to_owned()),
            _ => OpenError::Io { path: path.to_owned(), source },
        };
        let mut file = disk.open(path).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let mut window = Window::new(&mut *file);
        let bytes = window.at(0, header::BYTES_MAX).map_err(failed)?;
        let header = header::read(bytes).map_err(|error| header_error(path, error))?;
        if header.origin.cell != cell {
            let (path, found) = (path.to_owned(), header.origin.cell);
            return Err(OpenError::OtherCell { path, found, wanted: cell });
        }
        let mut place = header.first(length);
        let bad = walk(&mut window, &mut place).map_err(failed)?;
        if let Some(damage) = bad {
            // A record in the wrong place is whole, so it is not the torn end.
            let misplaced = matches!(damage, Damage::Index(_));
            if misplaced || record::any_after(&mut window, place).map_err(failed)? {
                return Err(OpenError::Corrupt(corruption(path, place, damage)));
            }
        }
        let mut journal = Journal::whole(file, path, header);
        (journal.next, journal.end) = (place.index, place.offset);
        journal.bytes_cut = length - place.offset;
        if journal.bytes_cut > 0 {
            journal.file.cut(place.offset).map_err(failed)?;
        }
        // What the last process wrote and did not sync is here now, and may be gone after a crash:
        // nobody may act on it before it is safe.
        journal.file.sync().map_err(failed)?;
        disk.sync_folder(folder_of(path)).map_err(failed)?;
        Ok(journal)
    }

    /// A journal without records.
    fn whole(file: Box<dyn DiskFile>, path: &Path, header: Header) -> Journal {
        Journal {
            file,
            path: path.to_owned(),
            next: record::FIRST,
            end: header.length,
            header,
            bytes_cut: 0,
            trust: Trust::Sound,
            buffer: Vec::new(),
        }
    }

    /// Whose history it is, and what the cell was made with.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.header.origin
    }

    /// The index that the next command gets. The first has 1.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.next
    }

    /// How many bytes the file has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// How many bytes of a torn record were cut off when this journal was opened. They were never
    /// reported as safe, unless the disk lost what it had promised to keep.
    #[must_use]
    pub fn bytes_cut(&self) -> u64 {
        self.bytes_cut
    }

    /// Appends commands in one write; the answer is their indices. They are safe after the next
    /// [`Journal::sync`].
    ///
    /// # Errors
    /// If one is too large (then none is written), if the write fails, or if an earlier one did.
    pub fn append(&mut self, commands: &[Command]) -> Result<Range<u64>, AppendError> {
        if self.trust == Trust::Unknown {
            return Err(AppendError::Refused);
        }
        self.buffer.clear();
        let mut index = self.next;
        for (position, command) in commands.iter().enumerate() {
            let payload = |out: &mut Vec<u8>| codec::encode(command, out);
            record::write(&mut self.buffer, self.header.salt, index, payload)
                .map_err(|source| AppendError::TooLarge { position, source })?;
            index += 1;
        }
        if let Err(error) = self.file.write_at(self.end, &self.buffer) {
            self.trust = Trust::Unknown;
            return Err(AppendError::Unknown(error));
        }
        self.end += self.buffer.len() as u64;
        Ok(std::mem::replace(&mut self.next, index)..index)
    }

    /// Makes safe all that was appended; the answer is the index of the last command that is, 0 if
    /// there is none.
    ///
    /// # Errors
    /// If the disk fails, or an earlier write or sync did.
    pub fn sync(&mut self) -> Result<u64, SyncError> {
        if self.trust == Trust::Unknown {
            return Err(SyncError::Refused);
        }
        if let Err(error) = self.file.sync() {
            self.trust = Trust::Unknown;
            return Err(SyncError::Unknown(error));
        }
        Ok(self.next - 1)
    }

    /// Reads every command with its index, from the first to the last appended.
    ///
    /// # Errors
    /// If the file was damaged since it was opened, a command cannot be read, or the disk fails.
    /// What was read until then is only a part of the history.
    pub fn replay(&mut self, mut apply: impl FnMut(u64, Command)) -> Result<(), ReplayError> {
        if self.trust == Trust::Unknown {
            return Err(ReplayError::Refused);
        }
        let path = &self.path;
        let mut place = self.header.first(self.end);
        let mut window = Window::new(&mut *self.file);
        loop {
            let found = record::read(&mut window, place)
                .map_err(|source| ReplayError::Io { path: path.clone(), source })?;
            match found {
                Found::End => return Ok(()),
                Found::Bad(damage) => {
                    return Err(ReplayError::Corrupt(corruption(path, place, damage)));
                }
                Found::Record(payload, next) => {
                    let Place { offset, index, .. } = place;
                    let command = codec::decode(payload).map_err(|source| {
                        ReplayError::Unreadable { path: path.clone(), offset, index, source }
                    })?;
                    apply(index, command);
                    place = Place { offset: next, index: index + 1, ..place };
                }
            }
        }
    }
}

/// Moves `place` past every whole record. The answer is what is wrong with the one it then stands
/// at, or `None` where the records end.
fn walk(window: &mut Window<'_>, place: &mut Place) -> io::Result<Option<Damage>> {
    loop {
        match record::read(window, *place)? {
            Found::End => return Ok(None),
            Found::Bad(damage) => return Ok(Some(damage)),
            Found::Record(_, next) => (place.offset, place.index) = (next, place.index + 1),
        }
    }
}

fn corruption(path: &Path, place: Place, damage: Damage) -> Corruption {
    Corruption { path: path.to_owned(), offset: place.offset, index: place.index, damage }
}

fn header_error(path: &Path, error: HeaderError) -> OpenError {
    let path = path.to_owned();
    match error {
        HeaderError::Incomplete => OpenError::HeaderIncomplete(path),
        HeaderError::Magic => OpenError::NotAJournal(path),
        HeaderError::Format(found) => OpenError::UnknownFormat { path, found },
        HeaderError::Checksum => OpenError::HeaderCorrupt(path),
        HeaderError::Kinds(source) => OpenError::Kinds { path, source },
    }
}
