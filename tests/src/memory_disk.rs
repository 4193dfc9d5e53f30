//! A disk of one file in memory that fails, forgets and rots on demand.

use omega_store::{Disk, DiskFile};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A disk in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

/// What is on it, and how it is to fail.
#[derive(Debug, Default)]
pub struct State {
    /// What the file holds; `None` if there is none.
    pub bytes: Option<Vec<u8>>,
    /// What would be left of it after a loss of power, at the least.
    pub safe: Vec<u8>,
    /// Whether the file's entry in its folder is safe.
    pub entry_safe: bool,
    /// How many bytes the disk still takes before writes fail.
    pub room: Option<usize>,
    /// Whether the next sync fails. The one after it succeeds, as on a real system.
    pub sync_fails: bool,
}

impl MemoryDisk {
    /// A disk whose file holds these bytes.
    #[must_use]
    pub fn holding(bytes: Vec<u8>) -> MemoryDisk {
        let disk = MemoryDisk::default();
        disk.state().bytes = Some(bytes);
        disk
    }

    /// What is on it. The other methods wait while this is held.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what is safe.
    #[must_use]
    pub fn safe(&self) -> Vec<u8> {
        self.state().safe.clone()
    }

    /// A copy of what the file holds.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone().unwrap_or_default()
    }
}

impl Disk for MemoryDisk {
    fn create(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match &mut self.state().bytes {
            Some(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            none => *none = Some(Vec::new()),
        }
        Ok(Box::new(self.clone()))
    }

    fn open(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match self.state().bytes {
            Some(_) => Ok(Box::new(self.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn create_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _folder: &Path) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        self.state().bytes = None;
        Ok(())
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        self.state().entry_safe = true;
        Ok(())
    }
}

impl DiskFile for MemoryDisk {
    fn length(&mut self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state();
        let bytes = state.bytes.as_deref().unwrap_or_default();
        let bytes = bytes.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let taken = bytes.len().min(state.room.unwrap_or(usize::MAX));
        if let Some(room) = &mut state.room {
            *room -= taken;
        }
        let file = state.bytes.get_or_insert_default();
        let end = offset as usize + taken;
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(&bytes[..taken]);
        if taken < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let present = self.length()?;
        self.write_at(present, &vec![0; length.saturating_sub(present) as usize])
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.state().bytes.get_or_insert_default().truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.state();
        if std::mem::take(&mut state.sync_fails) {
            return Err(io::Error::other("injected"));
        }
        state.safe = state.bytes.clone().unwrap_or_default();
        Ok(())
    }
}
