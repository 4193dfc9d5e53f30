//! A disk of its own for a replica, which can hang: a file system in a file, mounted and frozen.
//!
//! A frozen file system takes no write and answers none, like a disk that hangs; whoever writes waits and cannot
//! even be killed. So it must be thawed whatever becomes of the process that froze it: `watchdog.rs`.
//!
//! It takes the rights of root and loop devices. Where they are missing, [`Disk::make`] says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The size of a disk: some segments of the log and snapshots of a small cell.
const MIB: u64 = 256;

/// A file system of its own, mounted as long as this lives.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Makes and mounts a disk, in a new folder.
    ///
    /// # Errors
    /// If this system does not allow it: which tool failed, and what it said.
    pub fn make(at: &Path) -> Result<Disk, String> {
        Disk::with_room(at, MIB)
    }

    /// Error of making a disk on this system, if any.
    ///
    /// # Errors
    /// Which tool failed, and what it said.
    pub fn probe(place: &Path) -> Result<(), String> {
        let dir = tempfile::tempdir_in(place).map_err(|error| error.to_string())?;
        Disk::with_room(&dir.path().join("probe"), 8).map(drop)
    }

    /// Makes a disk of a number of mebibytes, with a file system.
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

    /// Its mount point.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Lets it hang.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn freeze(&self) -> Result<(), String> {
        run(Command::new("fsfreeze").arg("--freeze").arg(&self.at))
    }

    /// Lets it go on. One that does not hang goes on as before.
    pub fn thaw(&self) {
        // It fails where nothing hangs.
        let _ = run(Command::new("fsfreeze").arg("--unfreeze").arg(&self.at));
    }

    /// Definition of a shell is to do with it if this process is gone before the disk.
    #[must_use]
    pub fn last_will(&self) -> (String, String) {
        let at = self.at.display();
        (format!("fsfreeze --unfreeze '{at}'"), format!("umount --lazy '{at}'"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.thaw();
        // Lazily, because a process that uses it may be about to end.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.at));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let why = || format!("{name}: {}", String::from_utf8_lossy(&said.stderr).trim());
    if said.status.success() { Ok(()) } else { Err(why()) }
}
