//! Removal of the folders of tasks.
//!
//! The program of a task may have mounted a file system in its working directory. The files in it are not the task's,
//! so it is unmounted first. If that fails, nothing is removed.

use rustix::mount::UnmountFlags;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file with the mounts that this process sees, each on a line.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Removes a folder and everything in it, but not the files of file systems that are mounted there.
///
/// # Errors
/// A mounted file system cannot be unmounted, or a file cannot be removed.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    // A program may have replaced the folder by a link to another one.
    if folder.symlink_metadata()?.is_symlink() {
        return fs::remove_file(folder);
    }
    // The table has paths without links.
    let resolved = folder.canonicalize()?;
    let mounts = || io::Result::Ok(mounts_below(&resolved, &fs::read(MOUNTS)?));
    // The last mount is unmounted first, because it may be below another one, with which it would vanish.
    for _ in 0..mounts()?.len() {
        let Some(last) = mounts()?.pop() else { break };
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        rustix::mount::unmount(&last, flags)
            .map_err(|why| io::Error::other(format!("{} is mounted: {why}", last.display())))?;
    }
    match mounts()?.first() {
        Some(mount) => Err(io::Error::other(format!("{} is mounted", mount.display()))),
        None => fs::remove_dir_all(folder),
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
