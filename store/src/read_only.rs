//! A read-only disk, which keeps writes in memory as an overlay.
//!
//! Opening a log repairs it: a torn tail is truncated, unsynced data is written again, and obsolete files are deleted.
//! With this disk, the code that runs a replica can also open a directory for inspection. This code then gets the state
//! that the replica would get, while the files stay unchanged. Files are opened read-only and locked, so that a running
//! replica is detected.

use crate::disk::{Disk, DiskFile, RealDisk, lock};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The read-only disk. See the module documentation.
#[derive(Debug, Default)]
pub struct ReadOnlyDisk {
    /// Changes since the disk was created. Locked only for single look-ups.
    changes: Mutex<Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    /// Overlays by file.
    over: BTreeMap<PathBuf, Arc<Mutex<Over>>>,
    /// Existing files that were removed or renamed on this disk.
    gone: BTreeSet<PathBuf>,
}

/// Overlay of one file.
#[derive(Debug, Default)]
struct Over {
    /// Written bytes by offset. Later writes override earlier ones.
    written: Vec<(u64, Vec<u8>)>,
    /// Length of the file, if it has changed.
    length: Option<u64>,
    /// Length of the part of the original file that is still visible.
    seen: u64,
}

#[derive(Debug)]
struct ReadOnlyFile {
    below: Option<Box<dyn DiskFile>>,
    over: Arc<Mutex<Over>>,
}

impl Disk for ReadOnlyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut changes = self.changes.lock();
        let there = path.exists() && !changes.gone.contains(path);
        if there || changes.over.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let over = Arc::new(Mutex::new(Over { length: Some(0), ..Over::default() }));
        changes.over.insert(path.to_owned(), over.clone());
        Ok(Box::new(ReadOnlyFile { below: None, over }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut changes = self.changes.lock();
        let gone = changes.gone.contains(path);
        match changes.over.get(path) {
            Some(over) if gone || !path.exists() => {
                Ok(Box::new(ReadOnlyFile { below: None, over: over.clone() }))
            }
            None if gone => Err(io::ErrorKind::NotFound.into()),
            _ => {
                if has_no_end(path) {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "it is not a regular file",
                    ));
                }
                let mut below = lock(File::open(path)?)?;
                let seen = below.length()?;
                let over = changes
                    .over
                    .entry(path.to_owned())
                    .or_insert_with(|| Arc::new(Mutex::new(Over { seen, ..Over::default() })));
                Ok(Box::new(ReadOnlyFile { below: Some(below), over: over.clone() }))
            }
        }
    }

    fn create_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let changes = self.changes.lock();
        let mut names = RealDisk.list(folder)?;
        names.retain(|name| !changes.gone.contains(&folder.join(name)));
        let over = changes.over.keys().filter(|path| path.parent() == Some(folder));
        names
            .extend(over.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Only files that were created on this disk can be renamed. That suffices, because opening a directory renames no
    /// existing file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut changes = self.changes.lock();
        if from.exists() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let over = changes.over.remove(from).ok_or(io::ErrorKind::NotFound)?;
        changes.over.insert(to.to_owned(), over);
        changes.gone.insert(to.to_owned());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut changes = self.changes.lock();
        let over = changes.over.remove(path).is_some();
        let below = path.exists() && changes.gone.insert(path.to_owned());
        if over || below { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for ReadOnlyFile {
    fn length(&mut self) -> io::Result<u64> {
        let over = self.over.lock();
        Ok(over.length.unwrap_or(over.seen))
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let over = self.over.lock();
        let length = over.length.unwrap_or(over.seen);
        let count = length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..count];
        buffer.fill(0);
        let below = over.seen.saturating_sub(offset).min(count as u64) as usize;
        if let Some(file) = self.below.as_mut().filter(|_| below > 0) {
            file.read_at(offset, &mut buffer[..below])?;
        }
        for (at, bytes) in &over.written {
            let (from, to) =
                (offset.max(*at), (offset + count as u64).min(at + bytes.len() as u64));
            if from < to {
                let part = &bytes[(from - at) as usize..(to - at) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
        }
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut over = self.over.lock();
        let length = over.length.unwrap_or(over.seen);
        over.length = Some(length.max(offset + bytes.len() as u64));
        over.written.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let mut over = self.over.lock();
        over.length = Some(over.length.unwrap_or(over.seen).max(length));
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let mut over = self.over.lock();
        over.length = Some(over.length.unwrap_or(over.seen).min(length));
        over.seen = over.seen.min(length);
        for (at, bytes) in &mut over.written {
            bytes.truncate(length.saturating_sub(*at) as usize);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the path names a pipe, a device or a socket, from which a read may block or never reach an end.
fn has_no_end(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    /// Changes a file at random, in the same way on both disks, and compares the files after each change.
    fn compare(seed: u64) {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let mut dice = Pcg64::seed_from_u64(seed);
        let content: Vec<u8> = (0..dice.random_range(0..200)).map(|_| dice.random()).collect();
        std::fs::write(&a, &content).unwrap();
        std::fs::write(&b, &content).unwrap();
        let disk = ReadOnlyDisk::default();
        let (mut real, mut over) = (RealDisk.open(&a).unwrap(), disk.open(&b).unwrap());
        for _ in 0..20 {
            let at = dice.random_range(0..250);
            match dice.random_range(0..4) {
                0 => {
                    let at = at.min(real.length().unwrap());
                    real.cut(at).unwrap();
                    over.cut(at).unwrap();
                }
                1 => {
                    real.allocate(at).unwrap();
                    over.allocate(at).unwrap();
                }
                2 => {
                    // After the file is opened again, earlier writes must still be visible.
                    drop(over);
                    over = disk.open(&b).unwrap();
                }
                _ => {
                    let bytes: Vec<u8> =
                        (0..dice.random_range(1..40)).map(|_| dice.random()).collect();
                    real.write_at(at, &bytes).unwrap();
                    over.write_at(at, &bytes).unwrap();
                }
            }
            let from = dice.random_range(0..100);
            let (mut of_real, mut of_over) = ([7; 300], [7; 300]);
            let counts = (real.read_at(from, &mut of_real), over.read_at(from, &mut of_over));
            assert_eq!(counts.0.unwrap(), counts.1.unwrap(), "seed {seed}");
            assert_eq!(of_real, of_over, "seed {seed}");
            assert_eq!(real.length().unwrap(), over.length().unwrap(), "seed {seed}");
        }
        assert_eq!(std::fs::read(&b).unwrap(), content, "seed {seed}: the file is as it was");
    }

    #[test]
    fn what_is_written_is_read_back_and_the_file_stays_as_it_was() {
        (0..300).for_each(compare);
    }

    #[test]
    fn files_come_and_go_in_memory_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("old"), "x").unwrap();
        let disk = ReadOnlyDisk::default();
        disk.create(&path("new.tmp")).unwrap().write_at(0, b"y").unwrap();
        disk.rename(&path("new.tmp"), &path("new")).unwrap();
        disk.remove(&path("old")).unwrap();
        assert_eq!(disk.list(folder.path()).unwrap(), ["new"]);
        assert!(disk.open(&path("old")).is_err() && disk.remove(&path("old")).is_err());
        assert_eq!(disk.open(&path("new")).unwrap().length().unwrap(), 1);
        assert_eq!(RealDisk.list(folder.path()).unwrap(), ["old"]);
    }

    #[test]
    fn what_a_replica_has_locked_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let held = RealDisk.create(&path).unwrap();
        let refused = ReadOnlyDisk::default().open(&path).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::WouldBlock));
        drop(held);
        ReadOnlyDisk::default().open(&path).unwrap();
    }
}
