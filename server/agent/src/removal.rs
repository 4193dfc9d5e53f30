//! Removal of the folders of tasks.
//!
//! The program of a task may have mounted a file system in its working directory. The files in it are not the task's,
//! so it is unmounted first. If that fails, nothing is removed.
//!
//! A task may also leave millions of files, or folders nested so deeply that a recursive removal would need too large a
//! stack or too many open files. So a thread removes such folders, and moves inner folders up instead of descending.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The file with the mounts that this process sees, each on a line.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Bytes for which there is room from the start when the table of mounts is read.
const TABLE_BYTES: usize = 8 << 10;

/// A folder from which a thread removes everything that is moved there.
#[derive(Debug)]
pub(crate) struct Trash {
    folder: PathBuf,
    /// Number of the next entry.
    next: u128,
    full: mpsc::Sender<PathBuf>,
    /// Number of entries that are not removed yet.
    left: Arc<AtomicUsize>,
}

impl Trash {
    /// Opens or creates the folder, and begins to remove what is in it.
    ///
    /// # Errors
    /// The folder cannot be created or read, or the thread cannot be started.
    pub(crate) fn open(folder: PathBuf) -> io::Result<Trash> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let (full, entries) = mpsc::channel::<PathBuf>();
        let left = Arc::new(AtomicUsize::new(0));
        let counted = left.clone();
        std::thread::Builder::new().name("trash".to_owned()).spawn(move || {
            for entry in entries {
                if let Err(why) = remove_tree(&entry) {
                    tracing::warn!(%why, folder = %entry.display(), "a folder cannot be removed");
                }
                counted.fetch_sub(1, Ordering::Release);
            }
        })?;
        // Entries of earlier processes have smaller numbers.
        let next = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let trash = Trash { folder, next, full, left };
        for entry in fs::read_dir(&trash.folder)? {
            trash.removes(entry?.path());
        }
        Ok(trash)
    }

    /// Whether folders are being removed.
    pub(crate) fn is_busy(&self) -> bool {
        self.left.load(Ordering::Acquire) > 0
    }

    /// Moves a folder into the trash.
    ///
    /// # Errors
    /// A mounted file system cannot be unmounted, or the folder cannot be moved.
    pub(crate) fn put(&mut self, folder: &Path) -> io::Result<()> {
        // Most working directories are empty. No file system is mounted in or at a folder that can be removed like this.
        match rustix::fs::rmdir(folder) {
            Ok(()) => return Ok(()),
            // A program may have put a link or a file in the place of the folder.
            Err(Errno::NOTDIR) => return fs::remove_file(folder),
            Err(Errno::NOENT) => return Err(io::ErrorKind::NotFound.into()),
            Err(_) => unmount_below(folder)?,
        }
        let entry = self.folder.join(self.next.to_string());
        self.next += 1;
        match fs::rename(folder, &entry) {
            Ok(()) => {
                self.removes(entry);
                Ok(())
            }
            // For example, the folder has a disk quota of its own.
            Err(why) if why.kind() == io::ErrorKind::CrossesDevices => remove_tree(folder),
            Err(why) => Err(why),
        }
    }

    fn removes(&self, entry: PathBuf) {
        self.left.fetch_add(1, Ordering::Relaxed);
        // The thread ends only when this sender is dropped.
        let _ = self.full.send(entry);
    }
}

/// Removes a folder and everything in it, but not the files of file systems that are mounted there.
///
/// # Errors
/// A mounted file system cannot be unmounted, or a file cannot be removed.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    // A program may have replaced the folder by a link to another one.
    if folder.symlink_metadata()?.is_symlink() {
        return fs::remove_file(folder);
    }
    unmount_below(folder)?;
    remove_tree(folder)
}

/// Unmounts the file systems that are mounted in a folder.
fn unmount_below(folder: &Path) -> io::Result<()> {
    // The table has paths without links.
    let resolved = folder.canonicalize()?;
    let mounts = || io::Result::Ok(mounts_below(&resolved, &table()?));
    let count = mounts()?.len();
    if count == 0 {
        return Ok(());
    }
    // The last mount is unmounted first, because it may be below another one, with which it would vanish.
    for _ in 0..count {
        let Some(last) = mounts()?.pop() else { break };
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        rustix::mount::unmount(&last, flags)
            .map_err(|why| io::Error::other(format!("{} is mounted: {why}", last.display())))?;
    }
    match mounts()?.first() {
        Some(mount) => Err(io::Error::other(format!("{} is mounted", mount.display()))),
        None => Ok(()),
    }
}

/// Reads the table of mounts.
fn table() -> io::Result<Vec<u8>> {
    // The table has no size, so that the standard library would read a few bytes at first.
    let mut table = Vec::with_capacity(TABLE_BYTES);
    fs::File::open(MOUNTS)?.take(u64::MAX).read_to_end(&mut table)?;
    Ok(table)
}

/// Removes a folder that contains no mounts.
fn remove_tree(folder: &Path) -> io::Result<()> {
    if !folder.symlink_metadata()?.is_dir() {
        return fs::remove_file(folder);
    }
    let top = open(CWD, folder)?;
    // Folders in the top folder that are not empty yet.
    let mut inner: Vec<CString> = Vec::new();
    let mut moved = 0;
    loop {
        let found = clear(&top, |name| {
            inner.push(name.to_owned());
            Ok(())
        })?;
        while let Some(name) = inner.pop() {
            remove_inner(&top, &name, |within, below| {
                inner.push(move_up((within, below), &top, &mut moved)?);
                Ok(())
            })?;
        }
        match fs::remove_dir(folder) {
            Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty && found > 0 => {}
            done => return done,
        }
    }
}

/// Removes a folder in the top folder. Calls `rest` for each folder in it that is not empty, to move it away.
fn remove_inner(
    top: &OwnedFd,
    name: &CStr,
    mut rest: impl FnMut(&OwnedFd, &CStr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let within = match open(top, name) {
        Err(Errno::NOENT) => return Ok(()),
        within => within?,
    };
    loop {
        let found = clear(&within, |below| rest(&within, below))?;
        match rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) if found > 0 => {}
            done => return done,
        }
    }
}

/// Opens a folder, but not through a link.
fn open(within: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(within, path, flags, Mode::empty())
}

/// Removes the files and the empty folders in a folder. Calls `rest` for each other folder. Returns the number of
/// entries found. Some may be missing, because the folder changes meanwhile.
fn clear(
    folder: &OwnedFd,
    mut rest: impl FnMut(&CStr) -> Result<(), Errno>,
) -> Result<usize, Errno> {
    let mut found = 0;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        found += 1;
        let removed = match entry.file_type() {
            FileType::Directory => Err(Errno::ISDIR),
            _ => rustix::fs::unlinkat(folder, name, AtFlags::empty()),
        };
        let removed = match removed {
            Err(Errno::ISDIR) => rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR),
            other => other,
        };
        match removed {
            Err(Errno::NOTEMPTY | Errno::EXIST) => rest(name)?,
            Err(Errno::NOENT) | Ok(()) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(found)
}

/// Moves a folder into the top folder. Returns its new name.
fn move_up(
    (within, name): (&OwnedFd, &CStr),
    top: &OwnedFd,
    moved: &mut u64,
) -> Result<CString, Errno> {
    loop {
        *moved += 1;
        let new = CString::new(format!(".removed-{moved}")).map_err(|_| Errno::INVAL)?;
        match rustix::fs::renameat(within, name, top, &*new) {
            Ok(()) => return Ok(new),
            // The task has used this name.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(why) => return Err(why),
        }
    }
}

/// The mount points in a folder, according to a table of mounts, in the order of mounting.
fn mounts_below(folder: &Path, table: &[u8]) -> Vec<PathBuf> {
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let point = line.split(|byte| *byte == b' ').nth(4)?;
        Some(PathBuf::from(OsString::from_vec(unescaped(point))))
    });
    points.filter(|point| point.starts_with(folder)).collect()
}

/// Replaces the numbers of the table's special characters: `\040` is a space.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let number = after.get(..3).filter(|_| *first == b'\\');
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_in_the_table() {
        let table = b"22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
            40 22 8:1 /srv /agent/tasks/7-0/data/a\\040b\\134 rw - ext4 /dev/sda1 rw\n\
            41 22 8:1 /agent/tasks/7-0/data /mnt rw - ext4 /dev/sda1 rw\n\
            42 22 0:9 / /agent/tasks/7-01 rw - tmpfs none rw\n\
            43 40 0:9 / /agent/tasks/7-0/data rw - tmpfs none rw\n";
        let found = mounts_below(Path::new("/agent/tasks/7-0"), table);
        let expected = ["/agent/tasks/7-0/data/a b\\", "/agent/tasks/7-0/data"];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    /// Makes folders in each other, by relative paths, because the path of the deepest one would be too long.
    fn nest(folder: &Path, depth: usize) {
        let mut within = open(CWD, folder).expect("a folder");
        for level in 0..depth {
            rustix::fs::mkdirat(&within, "d", Mode::RWXU).expect("a folder");
            if level % 100 == 0 {
                let flags = OFlags::CREATE | OFlags::RDWR;
                rustix::fs::openat(&within, ".removed-7", flags, Mode::RWXU).expect("a file");
            }
            within = open(&within, "d").expect("a folder");
        }
    }

    #[test]
    fn deeply_nested_folders_are_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let task = dir.path().join("task");
        fs::create_dir_all(task.join(".removed-3/full")).expect("a folder");
        nest(&task, 20_000);
        // A small stack shows that the depth does not matter.
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        let path = task.clone();
        thread
            .spawn(move || remove(&path))
            .expect("a thread")
            .join()
            .expect("no panic")
            .expect("done");
        assert!(!task.exists());
    }

    #[test]
    fn trash_is_removed_even_after_a_restart() {
        let dir = tempfile::tempdir().expect("a folder");
        let [trash, task] = ["trash", "task"].map(|name| dir.path().join(name));
        fs::create_dir_all(trash.join("5/left")).expect("a folder");
        fs::create_dir_all(task.join("work")).expect("a folder");
        let mut open = Trash::open(trash.clone()).expect("it can be opened");
        open.put(&task).expect("it is moved");
        assert!(!task.exists());
        while open.is_busy() {
            std::thread::yield_now();
        }
        assert_eq!(fs::read_dir(trash).expect("a folder").count(), 0);
    }

    #[test]
    fn an_empty_folder_is_removed_at_once_unless_it_is_mounted_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let [trash, task, data] = ["trash", "task", "data"].map(|name| dir.path().join(name));
        let mut open = Trash::open(trash).expect("it can be opened");
        fs::create_dir(&task).expect("a folder");
        open.put(&task).expect("it is removed");
        assert!(!task.exists() && !open.is_busy());
        assert_eq!(open.put(&task).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&data).expect("a folder");
        std::os::unix::fs::symlink(&data, &task).expect("a link");
        open.put(&task).expect("the link is removed");
        assert!(task.symlink_metadata().is_err() && data.exists());
        fs::create_dir(&task).expect("a folder");
        fs::write(data.join("precious"), "").expect("a file");
        if rustix::mount::mount_bind(&data, &task).is_err() {
            eprintln!("skipped in part: nothing can be mounted here");
        }
        open.put(&task).expect("it is removed");
        assert!(!task.exists() && data.join("precious").exists());
    }

    #[test]
    fn files_of_a_mounted_file_system_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let (data, task) = (dir.path().join("data"), dir.path().join("task"));
        let point = task.join("work/mounted here");
        fs::create_dir_all(&point).expect("a folder");
        fs::create_dir(&data).expect("a folder");
        fs::write(data.join("precious"), "").expect("a file");
        fs::write(task.join("work/own"), "").expect("a file");
        // Mounts may be stacked.
        let mount = || rustix::mount::mount_bind(&data, &point).is_ok();
        if !(mount() && mount() && mount()) {
            eprintln!("skipped in part: nothing can be mounted here");
        }
        remove(&task).expect("it is removed");
        assert!(!task.exists());
        assert!(data.join("precious").exists());
        assert_eq!(remove(&task).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::os::unix::fs::symlink(&data, &task).expect("a link");
        remove(&task).expect("the link is removed");
        assert!(!task.exists() && data.join("precious").exists());
    }
}
