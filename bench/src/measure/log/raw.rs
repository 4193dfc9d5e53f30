//! Cost of the bare disk: the data of a batch with one write and one fdatasync.

use super::subject::Subject;
use omega_store::log::Batch;
use omega_store::{Disk, DiskFile, RealDisk};
use std::path::Path;

/// Size of the preallocated file in bytes, more than any run writes. After its end, writing continues at its beginning.
const BYTES: u64 = 96 << 20;

/// A file, preallocated or not.
pub(super) struct RawFile {
    file: Box<dyn DiskFile>,
    end: u64,
    wraps_at: u64,
    buffer: Vec<u8>,
}

impl RawFile {
    pub(super) fn preallocated(folder: &Path) -> RawFile {
        let mut raw = RawFile::appended(folder);
        raw.file.allocate(BYTES).expect("there is room");
        raw.file.sync().expect("the disk works");
        RawFile { wraps_at: BYTES, ..raw }
    }

    pub(super) fn appended(folder: &Path) -> RawFile {
        let file = RealDisk.create(&folder.join("raw")).expect("the folder is empty");
        RawFile { file, end: 0, wraps_at: u64::MAX, buffer: Vec::new() }
    }
}

impl Subject for RawFile {
    fn append(&mut self, batch: &Batch) {
        self.buffer.clear();
        batch.entries.iter().for_each(|entry| self.buffer.extend_from_slice(&entry.data));
        if self.end + self.buffer.len() as u64 > self.wraps_at {
            self.end = 0;
        }
        self.file.write_at(self.end, &self.buffer).expect("the disk works");
        self.file.sync().expect("the disk works");
        self.end += self.buffer.len() as u64;
    }

    fn read(&mut self) -> u64 {
        0
    }

    fn forget(&mut self, _count: u64) {}

    fn held(&self) -> u64 {
        0
    }

    fn next(&self) -> u64 {
        1
    }

    fn bytes_on_disk(&self) -> u64 {
        self.end
    }
}
