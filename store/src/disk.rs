//! Disk access of the store: a small trait. Tests implement it with a disk that fails, and simulations implement it in
//! memory.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// A file system. Paths are used as given, without normalization.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a file and locks it.
    ///
    /// # Errors
    /// `AlreadyExists` if the file exists, `WouldBlock` if another process has locked it, or an error of the disk.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing, and locks it.
    ///
    /// # Errors
    /// `WouldBlock` if another process has locked the file, or an error of the disk.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Creates a folder, unless it exists.
    ///
    /// # Errors
    /// The disk fails.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names of the files in a folder, in ascending order.
    ///
    /// # Errors
    /// The disk fails.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Renames a file within its folder, atomically. A file that has the new name is replaced.
    ///
    /// # Errors
    /// The disk fails.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Processes that have it open can still use it.
    ///
    /// # Errors
    /// The disk fails.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Syncs a folder's list of files. Without this, a crash may lose a new file even if the file was synced, or bring
    /// back a removed file.
    ///
    /// # Errors
    /// The disk fails.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// An open file, which is locked until it is dropped.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Length in bytes.
    ///
    /// # Errors
    /// The disk fails.
    fn length(&mut self) -> io::Result<u64>;

    /// Fills `buffer` with the bytes from an offset on, up to the end of the file. Returns the number of bytes read.
    ///
    /// # Errors
    /// The disk fails.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at an offset. After an error, any part of the bytes may have been written.
    ///
    /// # Errors
    /// The disk fails.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Extends the file to this length with zeros and allocates the blocks, so that later writes within the length do
    /// not fail for lack of space.
    ///
    /// # Errors
    /// The disk fails or is full. If it is full, the file is unchanged.
    fn allocate(&mut self, length: u64) -> io::Result<()>;

    /// Truncates the file to this length.
    ///
    /// # Errors
    /// The disk fails.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Makes all writes and truncations durable.
    ///
    /// # Errors
    /// The disk fails. Data written since the last sync may be lost then, and a second sync that succeeds proves
    /// nothing.
    fn sync(&mut self) -> io::Result<()>;
}

/// Number of zeros per write. Larger writes are not faster.
const ZEROS: usize = 64 << 10;

/// Permissions of new files, which only their owner may read and write.
const FILE_MODE: u32 = 0o600;

/// Permissions of new folders, which only their owner may use.
const FOLDER_MODE: u32 = 0o700;

/// The file system of this computer. Other users have no access to the files and folders that it creates.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        lock(options.read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        lock(OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if let Some(parent) = folder.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
            Err(error) if !folder.is_dir() => Err(error),
            _ => Ok(()),
        }
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

/// Whether an error means that the disk is full, or that a quota of its user is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The folder that contains a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Locks a file for as long as it is open.
pub(crate) fn lock(file: File) -> io::Result<Box<dyn DiskFile>> {
    match file.try_lock() {
        Ok(()) => {
            let had_name = has_name(&file)?;
            Ok(Box::new(RealFile { file, had_name }))
        }
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether a file still has a name in a folder. A file without one is deleted when it is closed.
fn has_name(file: &File) -> io::Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0)
}

/// A file of this computer.
#[derive(Debug)]
struct RealFile {
    file: File,
    /// Whether the file had a name when it was opened. Some file systems do not count links, so their files seem to
    /// have no name.
    had_name: bool,
}

impl DiskFile for RealFile {
    fn length(&mut self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            match std::os::unix::fs::FileExt::read_at(&self.file, &mut buffer[filled..], at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, offset)
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let present = self.file.metadata()?.len();
        let zeros = [0; ZEROS];
        let mut at = present;
        while at < length {
            let count = (length - at).min(ZEROS as u64) as usize;
            if let Err(error) = self.write_at(at, &zeros[..count]) {
                self.file.set_len(present)?;
                return Err(error);
            }
            at += count as u64;
        }
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    /// Fails if the file was removed, because nothing in it is durable then.
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.had_name && !has_name(&self.file)? {
            let why = "the file was removed while it was in use";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(())
    }
}
