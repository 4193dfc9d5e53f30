//! A separate disk for a replica, which can hang: a file system in a file, which is mounted and can be frozen.
//!
//! As on a hanging disk, writes to a frozen file system block, and the processes that make them cannot even be killed.
//! So the file system must be thawed in any case, even if the process that froze it dies; see `watchdog.rs`.
//!
//! Root rights and loop devices are needed. Without them, [`Disk::make`] returns an error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Size of a disk in mebibytes. It has room for some segments of the log, and for snapshots of a small cell.
const MIB: u64 = 256;

/// A file system that is mounted while this value exists.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Creates a disk, and mounts it in a new folder.
    ///
    /// # Errors
    /// If the system does not allow it: the tool that failed, and its output.
    pub fn make(at: &Path) -> Result<Disk, String> {
        Disk::with_room(at, MIB)
    }

    /// Checks whether the system can create disks.
    ///
    /// # Errors
    /// The tool that failed, and its output.
    pub fn probe(place: &Path) -> Result<(), String> {
        let dir = tempfile::tempdir_in(place).map_err(|error| error.to_string())?;
        Disk::with_room(&dir.path().join("probe"), 8).map(drop)
    }

    /// Creates a disk of a number of mebibytes, with a file system.
    ///
    /// # Errors
    /// As [`Disk::make`].
    pub fn with_room(at: &Path, mib: u64) -> Result<Disk, String> {
        let text = |error: std::io::Error| error.to_string();
        let image = at.with_extension("img");
        let file = std::fs::File::create(&image).map_err(text)?;
        file.set_len(mib << 20).map_err(text)?;
        std::fs::create_dir(at).map_err(text)?;
        run(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(at))?;
        Ok(Disk { at: at.to_owned() })
    }

    /// The disk's mount point.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Makes the disk hang.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn freeze(&self) -> Result<(), String> {
        run(Command::new("fsfreeze").arg("--freeze").arg(&self.at))
    }

    /// Ends a hang of the disk. Has no effect if the disk does not hang.
    pub fn thaw(&self) {
        // The command fails if the disk does not hang.
        let _ = run(Command::new("fsfreeze").arg("--unfreeze").arg(&self.at));
    }

    /// Shell commands that clean up the disk if this process dies: one that thaws it, and one that unmounts it.
    #[must_use]
    pub fn last_will(&self) -> (String, String) {
        let at = self.at.display();
        (format!("fsfreeze --unfreeze '{at}'"), format!("umount --lazy '{at}'"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.thaw();
        // The disk is unmounted lazily, because a process that uses it may be about to end.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.at));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let why = || format!("{name}: {}", String::from_utf8_lossy(&said.stderr).trim());
    if said.status.success() { Ok(()) } else { Err(why()) }
}
