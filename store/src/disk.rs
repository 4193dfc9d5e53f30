//! Files, as the journal needs them: one small trait, so that a test can put a disk that fails
//! under it.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Where files are. Called when a journal is made or opened.
pub trait Disk {
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

    /// Makes the entry of a new file in its folder safe. Without it a crash may lose the whole
    /// file, however often the file itself was synced.
    ///
    /// # Errors
    /// Those of the disk.
    fn sync_folder_of(&self, path: &Path) -> io::Result<()>;
}

/// An open file. Its lock lasts as long as it does.
pub trait DiskFile: fmt::Debug + Send {
    /// How many bytes it has.
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

    /// Cuts the file.
    ///
    /// # Errors
    /// Those of the disk.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Returns when all that was written and cut would survive a loss of power.
    ///
    /// # Errors
    /// Those of the disk. What was written since the last sync may or may not be there then, and
    /// a second sync that succeeds proves nothing.
    fn sync(&mut self) -> io::Result<()>;
}

/// The files of this computer.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        locked(OpenOptions::new().read(true).write(true).create_new(true).open(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        locked(OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn locked(file: File) -> io::Result<Box<dyn DiskFile>> {
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
        self.seek(SeekFrom::Start(offset))?;
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.seek(SeekFrom::Start(offset))?;
        self.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
