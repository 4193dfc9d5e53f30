//! Files, as the store needs them: one small trait, so that a test can put a disk that fails under
//! it, and a simulation one that is made of memory.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// A file system. Paths are used as given.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a new file and locks it; it is an error of kind `AlreadyExists` if there is one, and
    /// of kind `WouldBlock` if another process has locked it.
    ///
    /// # Errors
    /// Those of the disk.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file to read and write, and locks it; it is an error of kind `WouldBlock` if
    /// another process has.
    ///
    /// # Errors
    /// Those of the disk.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a folder; it is no error if there is one.
    ///
    /// # Errors
    /// Those of the disk.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names of the files in a folder, ascending.
    ///
    /// # Errors
    /// Those of the disk.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Gives a file another name in the same folder, in one step; a file of that name is replaced.
    ///
    /// # Errors
    /// Those of the disk.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Whoever has it open can still read and write it.
    ///
    /// # Errors
    /// Those of the disk.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Syncs a folder: the names of its files. Without it a crash may lose a new file that was
    /// synced, or restore a removed one.
    ///
    /// # Errors
    /// Those of the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// An open file. Its lock lasts as long as it does.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Number of bytes it has.
    ///
    /// # Errors
    /// Those of the disk.
    fn length(&mut self) -> io::Result<u64>;

    /// Fills `buffer` from an offset, as far as the file goes; the answer is how far.
    ///
    /// # Errors
    /// Those of the disk.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at an offset. After an error any part of them may be there.
    ///
    /// # Errors
    /// Those of the disk.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Extends the file to this length with zeros, and allocates the blocks: later writes up to
    /// there do not fail for lack of space.
    ///
    /// # Errors
    /// Those of the disk; of kind `StorageFull` if there is no room, and then the file is as it was.
    fn allocate(&mut self, length: u64) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    /// Those of the disk.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Makes all writes and truncations durable.
    ///
    /// # Errors
    /// Those of the disk. Data written since the last sync may then be lost, and a second sync that
    /// succeeds proves nothing.
    fn sync(&mut self) -> io::Result<()>;
}

/// Zeros that are written at once: a disk takes larger writes no faster.
const ZEROS: usize = 64 << 10;

/// The files of this computer.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        lock(OpenOptions::new().read(true).write(true).create_new(true).open(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        lock(OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()
    }
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Locks a file for as long as it is open.
pub(crate) fn lock(file: File) -> io::Result<Box<dyn DiskFile>> {
    match file.try_lock() {
        Ok(()) => Ok(Box::new(file)),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl DiskFile for File {
    fn length(&mut self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            match std::os::unix::fs::FileExt::read_at(self, &mut buffer[filled..], at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let present = self.metadata()?.len();
        let zeros = [0; ZEROS];
        let mut at = present;
        while at < length {
            let count = (length - at).min(ZEROS as u64) as usize;
            if let Err(error) = self.write_at(at, &zeros[..count]) {
                self.set_len(present)?;
                return Err(error);
            }
            at += count as u64;
        }
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
