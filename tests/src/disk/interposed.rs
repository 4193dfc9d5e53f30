//! A folder on a real disk, which fails on demand and loses unsynced data for real processes. No root rights are
//! needed.
//!
//! ```text
//!   process ──write, sync, rename──▶ interposed.so ──▶ file system
//!                                        └──▶ journal: what was there before, what is safe now
//!   kill -9, then cut_power(): undoes the last unsynced changes of each file and each folder
//! ```
//!
//! Killing a process loses nothing, because the kernel still has its writes. So the library (`interposed.c`, compiled
//! by the test) records what each change replaces, and [`InterposedDisk::cut_power`] undoes changes, but only those
//! that POSIX allows to be lost: a sync of a file makes its content durable, and only a sync of its folder makes its
//! name durable. For each file the last unsynced writes are lost, and the first of these may be lost in part.

use crate::random::Dice;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Atomic unit of writing in bytes: a write may be torn between two sectors.
const SECTOR: u64 = 512;

/// Number of words of a record's head in the journal.
const WORDS: usize = 8;

/// Operations that fail from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No operation fails.
    Works,
    /// Every write fails with EIO.
    WritesFail,
    /// Every sync fails with EIO.
    SyncsFail,
    /// Every write that makes a file longer fails with ENOSPC. Existing bytes can be overwritten.
    Full,
}

/// Numbers of changes at a loss of power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Number of changes that were undone.
    pub undone: usize,
    /// Number of all changes that were not synced, whether they were undone or not.
    pub unsynced: usize,
}

/// The folder that is the disk, and the state of its library; see the head of the file.
#[derive(Debug)]
pub struct InterposedDisk {
    folder: PathBuf,
    state: PathBuf,
    library: PathBuf,
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Size,
    Sync,
    Create,
    Rename,
    Remove,
}

/// A record of the journal, as `interposed.c` writes it.
#[derive(Clone, Debug)]
struct Record {
    kind: Kind,
    /// Inode of the file that was changed, or of the folder in which a name was changed.
    inode: u64,
    offset: u64,
    length: u64,
    old_size: u64,
    /// The replaced file, which is kept under another name that consists of a process and a number; 0 for none.
    saved: u64,
    names: [PathBuf; 2],
    kept: Vec<u8>,
}

impl InterposedDisk {
    /// Creates a disk in the new folder `folder`, with its state and library in the new folder `state` on the same file
    /// system.
    ///
    /// # Errors
    /// If a folder cannot be created, or the C compiler (`cc`) fails.
    pub fn new(folder: &Path, state: &Path) -> io::Result<InterposedDisk> {
        fs::create_dir_all(folder)?;
        fs::create_dir_all(state)?;
        let library = compile(include_str!("interposed.c"), state, "interposed")?;
        Ok(InterposedDisk { folder: folder.canonicalize()?, state: state.canonicalize()?, library })
    }

    /// Makes a process use this disk; to be called before the process is started.
    pub fn put_below(&self, process: &mut Command) {
        process.env("LD_PRELOAD", &self.library);
        process.env("OMEGA_FAULTY_DIR", &self.folder).env("OMEGA_FAULTY_STATE", &self.state);
    }

    /// Sets which operations fail from now on.
    ///
    /// # Errors
    /// If the state of the library cannot be written.
    pub fn set(&self, mode: Mode) -> io::Result<()> {
        let word = match mode {
            Mode::Works => "",
            Mode::WritesFail => "write",
            Mode::SyncsFail => "sync",
            Mode::Full => "full",
        };
        // The file is renamed into place, because processes read it at any time.
        fs::write(self.state.join("mode.new"), word)?;
        fs::rename(self.state.join("mode.new"), self.state.join("mode"))
    }

    /// Cuts the power after the processes were killed: a random part of the unsynced changes is undone.
    ///
    /// # Errors
    /// If the journal cannot be read, or a file that it names is missing.
    pub fn cut_power(&self, dice: &mut Dice) -> io::Result<Lost> {
        let journal = self.state.join("journal");
        let records = match fs::read(&journal) {
            Ok(bytes) => read(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut contents: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut names = contents.clone();
        for (at, record) in records.iter().enumerate() {
            let unsynced = match record.kind {
                Kind::Sync => {
                    contents.remove(&record.inode);
                    names.remove(&record.inode);
                    continue;
                }
                Kind::Write | Kind::Size => &mut contents,
                Kind::Create | Kind::Rename | Kind::Remove => &mut names,
            };
            unsynced.entry(record.inode).or_default().push(at);
        }
        let mut lost = Lost::default();
        let files = self.files()?;
        for (inode, changes) in contents {
            lost.unsynced += changes.len();
            let Some(path) = files.get(&inode) else { continue };
            let first = dice.below(changes.len() + 1);
            lost.undone += changes.len() - first;
            let file = OpenOptions::new().write(true).open(path)?;
            for (place, at) in changes.iter().enumerate().skip(first).rev() {
                let torn = if place == first { dice.below(9) as u64 * SECTOR } else { 0 };
                undo_content(&file, &records[*at], torn)?;
            }
        }
        // Changes of all folders are undone in one order, because a file may be renamed from one folder to another.
        let mut undone: Vec<usize> = Vec::new();
        for changes in names.values() {
            lost.unsynced += changes.len();
            undone.extend(&changes[dice.below(changes.len() + 1)..]);
        }
        lost.undone += undone.len();
        undone.sort_unstable();
        undone.iter().rev().try_for_each(|at| self.undo_names(&records[*at]))?;
        if journal.exists() {
            fs::remove_file(journal)?;
        }
        Ok(lost)
    }

    /// Every file of the disk by its inode, including removed ones that the library keeps.
    fn files(&self) -> io::Result<BTreeMap<u64, PathBuf>> {
        let (mut files, mut folders) =
            (BTreeMap::new(), vec![self.state.clone(), self.folder.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else {
                    files.insert(entry.metadata()?.ino(), entry.path());
                }
            }
        }
        Ok(files)
    }

    fn undo_names(&self, record: &Record) -> io::Result<()> {
        let [from, to] = &record.names;
        match record.kind {
            Kind::Create if to.exists() => fs::remove_file(to)?,
            Kind::Rename if to.exists() && !from.exists() => fs::rename(to, from)?,
            _ => {}
        }
        if record.saved != 0 && !to.exists() {
            let (process, number) = (record.saved >> 32, record.saved & u64::from(u32::MAX));
            fs::hard_link(self.state.join(format!("saved-{process}-{number}")), to)?;
        }
        Ok(())
    }
}

/// Compiles a library for `LD_PRELOAD` under this name in a folder.
///
/// # Errors
/// If the C compiler (`cc`) fails.
pub(crate) fn compile(code: &str, folder: &Path, name: &str) -> io::Result<PathBuf> {
    let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&source, code)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    let said = compiler.output()?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr).into_owned();
        return Err(io::Error::other(format!("cc cannot compile {name}.c: {why}")));
    }
    library.canonicalize()
}

/// Restores what a change of a file replaced, except for the first `torn` bytes of the change.
fn undo_content(file: &File, record: &Record, torn: u64) -> io::Result<()> {
    if record.kind == Kind::Size {
        file.set_len(record.old_size)?;
        return file.write_all_at(&record.kept, record.offset);
    }
    let torn = torn.min(record.length);
    let kept = record.kept.get(torn as usize..).unwrap_or_default();
    file.write_all_at(kept, record.offset + torn)?;
    let end = record.offset + record.length;
    if end > record.old_size {
        file.set_len(record.old_size.max(if torn > 0 { record.offset + torn } else { 0 }))?;
    }
    Ok(())
}

/// The records of a journal. The last one may be incomplete because of the kill; its change was then never made.
fn read(mut bytes: &[u8]) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    while bytes.len() >= WORDS * 8 {
        let (head, rest) = bytes.split_at(WORDS * 8);
        let word = |at: usize| {
            u64::from_ne_bytes(head[8 * at..8 * at + 8].try_into().expect("it has eight bytes"))
        };
        let kind = match word(0) {
            1 => Kind::Write,
            2 => Kind::Size,
            3 => Kind::Sync,
            4 => Kind::Create,
            5 => Kind::Rename,
            6 => Kind::Remove,
            other => return Err(io::Error::other(format!("a record of kind {other}"))),
        };
        let (names, kept) = (word(6) as usize, word(7) as usize);
        if rest.len() < names + kept {
            break;
        }
        let mut paths = rest[..names]
            .split(|byte| *byte == 0)
            .map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path)));
        let names_of = [paths.next().unwrap_or_default(), paths.next().unwrap_or_default()];
        records.push(Record {
            kind,
            inode: word(1),
            offset: word(2),
            length: word(3),
            old_size: word(4),
            saved: word(5),
            names: names_of,
            kept: rest[names..names + kept].to_vec(),
        });
        bytes = &rest[names + kept..];
    }
    Ok(records)
}
