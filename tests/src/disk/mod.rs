//! A disk in memory that fails, loses unsynced data and rots on demand. Equal seeds give equal
//! faults.
//!
//! ```text
//!             write ──▶ ┌─────────┐ ── sync ────────▶ ┌──────┐
//!                       │ present │                   │ safe │ ── crash ──▶ what is there then
//!  create, rename ────▶ └─────────┘ ── sync_folder ─▶ └──────┘
//!                            └── changes between them: each kept, lost or torn by the dice
//! ```
//!
//! A crash leaves only what a real system may leave. Any of the unsynced writes may remain, wholly
//! or in part, and later ones without earlier ones. A name may be missing if its folder was not synced,
//! even if the file was. A rename is either done or not. All handles from before the crash fail.
//!
//! A write copies its bytes twice; a crash copies the disk.

mod content;
mod faults;
pub mod interposed;
mod names;

use crate::random::Dice;
use content::Content;
pub use faults::{Counts, Operation};
use faults::{Fate, Faults, injected};
use names::{FileNumber, Names, parent};
use omega_store::{Disk, DiskFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A disk in memory. Clones share it; [`SimulatedDisk::copy`] does not.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Clone, Debug)]
struct State {
    files: Vec<File>,
    names: Names,
    faults: Faults,
    dice: Dice,
    /// Maximum number of bytes of all files together.
    capacity: Option<u64>,
    /// A folder in which no more files can be created.
    full_folder: Option<PathBuf>,
    used: u64,
    /// Files without a name whose removal a crash may still undo.
    unnamed: Vec<FileNumber>,
    /// Number of power cuts. Handles from before the last one are invalid.
    crashes: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    content: Content,
    locked: bool,
    /// Whether the file has lost its name; its bytes are freed when the last handle is closed.
    removed: bool,
}

/// An open file of a [`SimulatedDisk`].
#[derive(Debug)]
struct Handle {
    disk: SimulatedDisk,
    file: FileNumber,
    crashes: u64,
}

impl SimulatedDisk {
    /// Creates an empty disk. The seed determines the results of failed writes and syncs.
    #[must_use]
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(State {
            files: Vec::new(),
            names: Names::default(),
            faults: Faults::default(),
            dice: Dice::new(seed),
            capacity: None,
            full_folder: None,
            used: 0,
            unnamed: Vec::new(),
            crashes: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a separate disk with equal content and without open files.
    #[must_use]
    pub fn copy(&self) -> SimulatedDisk {
        let mut state = self.state().clone();
        state.close_all();
        SimulatedDisk(Arc::new(Mutex::new(state)))
    }

    /// Cuts the power and restores it. `dice` determines what remains. Pending faults are cleared, and all open handles
    /// fail.
    pub fn crash(&self, dice: &mut Dice) {
        let state = &mut *self.state();
        state.names.crash(dice);
        let mut alive = vec![false; state.files.len()];
        state.names.files().for_each(|(_, file)| alive[file] = true);
        for (file, alive) in state.files.iter_mut().zip(alive) {
            if alive {
                file.content.crash(dice)
            } else {
                file.content = Content::default()
            }
            file.removed = !alive;
        }
        state.faults.clear();
        state.unnamed.clear();
        state.close_all();
        state.used = state.files.iter().map(|file| file.content.bytes().len() as u64).sum();
    }

    /// Makes an operation of this kind fail once, after `before` others of this kind.
    pub fn fail(&self, operation: Operation, before: u64) {
        self.state().faults.add(operation, before);
    }

    /// Whether the disk has power, because no injected power cut has happened.
    #[must_use]
    pub fn has_power(&self) -> bool {
        !self.state().faults.no_power
    }

    /// Clears all pending faults.
    pub fn mend(&self) {
        self.state().faults.clear();
    }

    /// Limits the total bytes of all files; `None` means no limit. The limit applies to later writes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Makes the creation of files in a folder fail, as if the folder was a separate full disk; `None` ends this.
    pub fn set_full_folder(&self, folder: Option<&Path>) {
        self.state().full_folder = folder.map(Path::to_owned);
    }

    /// Total number of bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used
    }

    /// Number of operations so far. A caller can multiply the numbers by the times that a slow disk takes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().faults.counts
    }

    /// Path of every file.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.state().names.files().map(|(path, _)| path.to_owned()).collect()
    }

    /// A copy of a file's present content; `None` if there is no such file.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|file| state.files[file].content.bytes().to_vec())
    }

    /// Changes the durable content of a file, as decay or a user would. Has no effect if there is no such file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let state = &mut *self.state();
        if let Some(file) = state.names.get(path) {
            let content = &mut state.files[file].content;
            let before = content.bytes().len() as u64;
            content.damage(change);
            state.used = state.used + content.bytes().len() as u64 - before;
        }
    }

    /// Damages a file that is not empty: a bit flips, 4 KiB become zero, two blocks are exchanged, or the end is cut
    /// off. Returns a description.
    pub fn rot(&self, dice: &mut Dice) -> String {
        let files = self.files();
        let full = |path: &&PathBuf| self.bytes(path).is_some_and(|bytes| !bytes.is_empty());
        let files: Vec<&PathBuf> = files.iter().filter(full).collect();
        if files.is_empty() {
            return "nothing to damage".into();
        }
        let path = *dice.pick(&files);
        let mut what = String::new();
        self.damage(path, |bytes| what = damage_bytes(bytes, dice));
        format!("{}: {what}", path.display())
    }
}

/// Size in bytes of the blocks that are zeroed or exchanged.
const BLOCK: usize = 4096;

fn damage_bytes(bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
    let length = bytes.len();
    let blocks = length.div_ceil(BLOCK);
    match dice.below(4) {
        0 => {
            let bit = dice.below(length * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            format!("bit {bit} flipped")
        }
        1 => {
            let from = dice.below(blocks) * BLOCK;
            bytes[from..length.min(from + BLOCK)].fill(0);
            format!("4 KiB at {from} zeroed")
        }
        2 if length / BLOCK >= 2 => {
            let (a, b) = (dice.below(length / BLOCK), dice.below(length / BLOCK));
            for i in 0..BLOCK {
                bytes.swap(a * BLOCK + i, b * BLOCK + i);
            }
            format!("blocks {a} and {b} exchanged")
        }
        _ => {
            let to = dice.below(length);
            bytes.truncate(to);
            format!("cut to {to} bytes")
        }
    }
}

impl State {
    fn close_all(&mut self) {
        self.crashes += 1;
        self.files.iter_mut().for_each(|file| file.locked = false);
    }

    /// Allocates up to this many bytes of free space. Returns the number of allocated bytes.
    fn take_room(&mut self, wanted: u64) -> u64 {
        let left = self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used));
        let taken = wanted.min(left);
        self.used += taken;
        taken
    }

    fn opened(&mut self, file: FileNumber) -> io::Result<u64> {
        let locked = &mut self.files[file].locked;
        if std::mem::replace(locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(self.crashes)
    }

    /// Counts a change of names. The returned fate shows whether the caller gets a result, or the power fails with the
    /// change made.
    fn name(&mut self, operation: Operation) -> io::Result<Fate> {
        match self.faults.next(operation)? {
            Fate::Fails => Err(injected()),
            fate => Ok(fate),
        }
    }

    /// Frees the space of a file without a name and without handles. As long as a crash may restore its name, its bytes
    /// are kept.
    fn release(&mut self, number: FileNumber) {
        let file = &mut self.files[number];
        if file.removed && !file.locked {
            self.used -= file.content.bytes().len() as u64;
            self.unnamed.push(number);
        }
    }

    /// Removes the name of a file.
    fn unname(&mut self, file: FileNumber) {
        self.files[file].removed = true;
        self.release(file);
    }
}

/// The result of a completed operation, which is an error if the power failed during it.
fn told(fate: Fate) -> io::Result<()> {
    if fate == Fate::PowerGoes { Err(injected()) } else { Ok(()) }
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let state = &mut *self.state();
        let fate = state.name(Operation::Name)?;
        if state.names.get(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.full_folder.as_deref() == Some(parent(path)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if !state.names.has_folder(parent(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = state.files.len();
        state.files.push(File::default());
        state.names.add(path, file);
        told(fate)?;
        let crashes = state.opened(file)?;
        Ok(Box::new(Handle { disk: self.clone(), file, crashes }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let state = &mut *self.state();
        if state.faults.next(Operation::Read)? == Fate::Fails {
            return Err(injected());
        }
        let file = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let crashes = state.opened(file)?;
        Ok(Box::new(Handle { disk: self.clone(), file, crashes }))
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        let fate = state.name(Operation::Name)?;
        state.names.add_folder(folder);
        told(fate)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = &mut *self.state();
        if state.faults.next(Operation::Read)? == Fate::Fails {
            return Err(injected());
        }
        if !state.names.has_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
        let files = state.names.files().filter(|(path, _)| parent(path) == folder);
        Ok(files.filter_map(|(path, _)| name(path)).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        let fate = state.name(Operation::Name)?;
        let file = state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        let replaced = state.names.get(to).filter(|replaced| *replaced != file);
        state.names.rename(to, file);
        if let Some(replaced) = replaced {
            state.unname(replaced);
        }
        told(fate)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        let fate = state.name(Operation::Name)?;
        let file = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        state.names.remove(path);
        state.unname(file);
        told(fate)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        let fate = state.name(Operation::FolderSync)?;
        if !state.names.has_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if fate == Fate::Fine {
            state.names.sync(folder);
            if state.names.all_safe() {
                for file in state.unnamed.drain(..) {
                    state.files[file].content = Content::default();
                }
            }
        }
        told(fate)
    }
}

impl Handle {
    /// Calls `work`, unless the handle is from before a crash.
    fn alive<T>(&self, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let state = &mut *self.disk.state();
        if state.crashes != self.crashes {
            return Err(injected());
        }
        work(state)
    }
}

impl DiskFile for Handle {
    fn length(&mut self) -> io::Result<u64> {
        let file = self.file;
        self.alive(|state| Ok(state.files[file].content.bytes().len() as u64))
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file;
        self.alive(|state| {
            if state.faults.next(Operation::Read)? == Fate::Fails {
                return Err(injected());
            }
            let bytes = state.files[file].content.bytes();
            let bytes = bytes.get(offset as usize..).unwrap_or_default();
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            Ok(count)
        })
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file;
        self.alive(|state| {
            let fate = state.faults.next(Operation::Write)?;
            state.faults.counts.bytes_written += bytes.len() as u64;
            let length = state.files[file].content.bytes().len() as u64;
            let more = (offset + bytes.len() as u64).saturating_sub(length);
            let refused = (more - state.take_room(more)) as usize;
            let mut done = bytes.len().saturating_sub(refused);
            if fate == Fate::Fails {
                done = state.dice.below(done + 1);
            }
            state.files[file].content.write(offset as usize, &bytes[..done]);
            let used = state.files[file].content.bytes().len() as u64;
            state.used = state.used + used - length - (more - refused as u64);
            match fate {
                Fate::Fine if refused == 0 => Ok(()),
                Fate::Fine => Err(io::ErrorKind::StorageFull.into()),
                _ => Err(injected()),
            }
        })
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let file = self.file;
        self.alive(|state| {
            let fate = state.faults.next(Operation::Write)?;
            let present = state.files[file].content.bytes().len() as u64;
            if fate == Fate::Fails {
                return Err(injected());
            }
            let more = length.saturating_sub(present);
            let taken = state.take_room(more);
            if taken < more {
                state.used -= taken;
                return Err(io::ErrorKind::StorageFull.into());
            }
            if more > 0 {
                state.faults.counts.bytes_written += more;
                state.files[file].content.set_length(length as usize);
            }
            told(fate)
        })
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let file = self.file;
        self.alive(|state| {
            let fate = state.faults.next(Operation::Write)?;
            if fate == Fate::Fails {
                return Err(injected());
            }
            let present = state.files[file].content.bytes().len() as u64;
            state.files[file].content.set_length(length as usize);
            state.used = state.used + length - present;
            told(fate)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let file = self.file;
        self.alive(|state| {
            match state.faults.next(Operation::Sync)? {
                Fate::Fine => {
                    state.files[file].content.sync();
                    return Ok(());
                }
                Fate::Fails => {
                    let State { files, dice, used, .. } = state;
                    let content = &mut files[file].content;
                    let before = content.bytes().len() as u64;
                    content.fail_sync(dice);
                    *used = *used + content.bytes().len() as u64 - before;
                }
                Fate::PowerGoes => {}
            }
            Err(injected())
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let file = self.file;
        // A handle from before a crash has no lock.
        let _ = self.alive(|state| {
            state.files[file].locked = false;
            state.release(file);
            Ok(())
        });
    }
}
