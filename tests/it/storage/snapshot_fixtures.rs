//! A folder of snapshots that a test can damage, an independent writer of snapshot files, and a disk that fails once.

use omega_cellstate::SnapshotState;
use omega_store::log::{LogIndex, Position, Term};
use omega_store::snapshot::{LoadError, Meta, SnapshotInfo, Snapshots};
use omega_store::{CellId, Disk, DiskFile, RealDisk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

/// The cell of all tests.
pub(crate) const CELL: CellId = CellId(0xCE11);

/// Number of bytes of a header before the membership; the next constant is the number of bytes of a chunk's body.
pub(crate) const FIXED: usize = 124;
pub(crate) const CHUNK: usize = 1 << 20;

pub(crate) fn at(index: u64) -> Position {
    Position { index: LogIndex(index), term: Term(3) }
}

pub(crate) fn meta(index: u64) -> Meta {
    Meta { cell: CELL, position: at(index), replica_meta: (&b"one two three"[..]).into() }
}

/// A temporary folder with snapshots.
pub(crate) struct Folder {
    pub(crate) folder: TempDir,
    pub(crate) snapshots: Arc<Snapshots>,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder::on(Arc::new(RealDisk))
    }

    pub(crate) fn on(disk: Arc<dyn Disk>) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::open(disk, folder.path(), CELL).unwrap();
        Folder { folder, snapshots }
    }

    /// Creates a folder with a snapshot of this state.
    pub(crate) fn with(state: &SnapshotState) -> Folder {
        let folder = Folder::new();
        folder.snapshots.save(&meta(7), state).unwrap();
        folder
    }

    pub(crate) fn bytes(&self, index: u64) -> Vec<u8> {
        std::fs::read(self.snapshots.path(at(index))).unwrap()
    }

    /// Replaces the snapshot by these bytes, and reads it in every way.
    pub(crate) fn load(&self, bytes: &[u8]) -> Result<SnapshotState, LoadError> {
        std::fs::write(self.snapshots.path(at(7)), bytes).unwrap();
        let loaded = self.snapshots.load(at(7));
        let restored = self.snapshots.restore(at(7));
        match &restored {
            Ok((_, cell)) => drop(cell.audit().unwrap()),
            // A snapshot that cannot be restored may still load without an error, if its state hash matches its
            // content.
            Err(LoadError::Corrupt { damage, .. }) if loaded.is_ok() => {
                assert!(damage.to_string().contains("the snapshot"), "{damage}");
            }
            Err(_) => assert!(loaded.is_err()),
        }
        loaded.map(|(_, state)| state)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        RealDisk.list(self.folder.path()).unwrap()
    }

    pub(crate) fn newest(&self) -> Option<Position> {
        self.snapshots.newest().unwrap().map(|found: SnapshotInfo| found.meta.position)
    }
}

/// The parts of a snapshot file.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// The header without its checksum and membership.
    pub(crate) head: Vec<u8>,
    pub(crate) membership: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Parts {
    pub(crate) fn of(file: &[u8]) -> Parts {
        let members = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
        let chunks = &file[FIXED + members..file.len() - 16];
        Parts {
            head: file[..FIXED - 4].to_vec(),
            membership: file[FIXED..FIXED + members].to_vec(),
            body: chunks.chunks(CHUNK + 8).flat_map(|chunk| &chunk[8..]).copied().collect(),
        }
    }

    /// Replaces a number in the header.
    pub(crate) fn with_word(mut self, offset: usize, word: u64) -> Parts {
        self.head[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
        self
    }

    /// Returns the file with valid checksums, as a forger would write it.
    pub(crate) fn sealed(&self) -> Vec<u8> {
        let salt = crc32fast::hash(&self.head[16..48]);
        let mut chunks = Vec::new();
        for (number, body) in (0u64..).zip(self.body.chunks(CHUNK)) {
            let length = (body.len() as u32).to_le_bytes();
            let sum = [&salt.to_le_bytes()[..], &number.to_le_bytes(), &length, body].concat();
            chunks.extend([&length[..], &crc32fast::hash(&sum).to_le_bytes(), body].concat());
        }
        let crc = crc32fast::hash(&[&self.head[..], &self.membership].concat()).to_le_bytes();
        let header = [&self.head[..], &crc, &self.membership].concat();
        let hash = xxh3_128(&[&chunks[..], &header].concat()).to_le_bytes();
        [header, chunks, hash.to_vec()].concat()
    }

    /// Returns the snapshot with its present length in the header.
    pub(crate) fn resized(self) -> Vec<u8> {
        let length = self.sealed().len() as u64;
        self.with_word(56, length).sealed()
    }
}

/// Kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Writes fail because there is no space.
    Full,
    /// Writes, syncs, renames and syncs of folders fail.
    Broken,
}

/// The computer's file system, which fails after a number of operations.
#[derive(Debug)]
pub(crate) struct FailingDisk {
    left: Arc<AtomicI64>,
    fault: Fault,
}

#[derive(Debug)]
struct FailingFile {
    file: Box<dyn DiskFile>,
    left: Arc<AtomicI64>,
    fault: Fault,
}

impl FailingDisk {
    pub(crate) fn new(operations: i64, fault: Fault) -> FailingDisk {
        FailingDisk { left: Arc::new(AtomicI64::new(operations)), fault }
    }

    fn wrap(&self, file: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        let FailingDisk { left, fault } = self;
        Ok(Box::new(FailingFile { file: file?, left: left.clone(), fault: *fault }))
    }
}

/// Counts an operation. Returns an error if this operation is the one that fails.
fn count(left: &AtomicI64, fault: Fault, writes: bool) -> io::Result<()> {
    match left.fetch_sub(1, Ordering::SeqCst) {
        1.. => Ok(()),
        _ if fault == Fault::Full && writes => Err(io::ErrorKind::StorageFull.into()),
        _ if fault == Fault::Full => Ok(()),
        _ => Err(io::Error::other("injected")),
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.wrap(RealDisk.create(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.wrap(RealDisk.open(path))
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.create_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        count(&self.left, self.fault, false)?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        count(&self.left, self.fault, false)?;
        RealDisk.sync_folder(folder)
    }
}

impl DiskFile for FailingFile {
    fn length(&mut self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = count(&self.left, self.fault, true) {
            // A failing write may have written a part of its bytes.
            self.file.write_at(offset, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.file.write_at(offset, bytes)
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        count(&self.left, self.fault, false)?;
        self.file.sync()
    }
}
