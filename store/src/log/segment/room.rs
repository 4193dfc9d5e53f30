//! Creation of segments: filled with zeros ahead of time, or reused.
//!
//! A file with allocated blocks syncs fastest, because a write changes only data. Writing zeros costs as much as the
//! log itself, so it is done in steps while the present segment fills. It is not needed if a free segment can be
//! reused: the old records of that segment have another salt.
//!
//! A segment is created under a temporary name, synced and renamed, and then its folder is synced. So if a file with a
//! segment's name has an invalid header, it was damaged.

use super::header::{self, Header};
use crate::disk::{Disk, DiskFile};
use std::io;
use std::path::{Path, PathBuf};

/// Name of a segment while it is created.
pub(super) const UNFINISHED: &str = "next.tmp";

/// Bytes of zeros that are written and synced at once. This bounds the delay of an append.
const STEP: u64 = 512 << 10;

/// A file of the log.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) salt: u32,
}

/// A segment that is not yet filled with zeros.
#[derive(Debug)]
pub(super) struct Unfinished {
    file: Box<dyn DiskFile>,
    length: u64,
}

/// The path of a segment.
pub(super) fn path_of(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{sequence:020}.log"))
}

/// The sequence number in a segment's file name.
pub(super) fn sequence_of(name: &str) -> Option<u64> {
    name.strip_suffix(".log").filter(|digits| digits.len() == 20)?.parse().ok()
}

impl Unfinished {
    /// Begins a segment. The remains of an earlier attempt are removed.
    pub(super) fn begin(disk: &dyn Disk, folder: &Path) -> io::Result<Unfinished> {
        let path = folder.join(UNFINISHED);
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Unfinished { file: disk.create(&path)?, length: 0 })
    }

    /// Present length of the file in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Extends the file by one step, to at most `length` bytes.
    pub(super) fn step(&mut self, length: u64) -> io::Result<()> {
        self.grow(length.min(self.length + STEP))
    }

    /// Writes the file to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// Extends the file to this length.
    pub(super) fn grow(&mut self, length: u64) -> io::Result<()> {
        self.file.allocate(length)?;
        self.length = length;
        Ok(())
    }

    /// Writes the header and these records, and gives the file its name.
    pub(super) fn finish(
        self,
        (disk, folder): (&dyn Disk, &Path),
        header: Header,
        records: impl FnOnce(u32) -> Vec<u8>,
    ) -> io::Result<Segment> {
        name(disk, folder, self.file, header, records)
    }
}

/// Turns a free segment into a new one, which has the length of the old one.
pub(super) fn reuse(
    (disk, folder): (&dyn Disk, &Path),
    old: Segment,
    sequence: u64,
) -> io::Result<Segment> {
    disk.rename(&old.path, &folder.join(UNFINISHED))?;
    name(disk, folder, old.file, Header { sequence, ..old.header }, |_| Vec::new())
}

fn name(
    disk: &dyn Disk,
    folder: &Path,
    mut file: Box<dyn DiskFile>,
    header: Header,
    records: impl FnOnce(u32) -> Vec<u8>,
) -> io::Result<Segment> {
    let (bytes, salt) = header.encode();
    file.write_at(0, &bytes)?;
    let records = records(salt);
    if !records.is_empty() {
        file.write_at(header::BYTES as u64, &records)?;
    }
    file.sync()?;
    let path = path_of(folder, header.sequence);
    disk.rename(&folder.join(UNFINISHED), &path)?;
    if !omega_cellstate::injected!(SegmentFolderNotSynced) {
        disk.sync_folder(folder)?;
    }
    Ok(Segment { file, path, header, salt })
}
