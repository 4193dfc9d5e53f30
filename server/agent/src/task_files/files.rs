//! Safe access to files that the program of a task may have replaced.
//!
//! A program that runs as the agent's user can put a link, a named pipe or a folder in the place of each file of its
//! task. So a file is opened only if it is a regular file. No link is followed, neither that of the file nor that of
//! its folder. No open waits for another process, and each read has a bound.

use crate::removal;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Rights of files, which only the agent's user may read.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Bytes for which there is room from the start when a file is read. Most files are smaller.
const USUAL_BYTES: u64 = 4 << 10;

/// Flags of each open.
const SAFE: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a folder, but not through a link.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    Ok(rustix::fs::openat(CWD, path, flags | SAFE, Mode::empty())?)
}

/// A folder from [`make_folder`].
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) folder: OwnedFd,
    /// Whether the folder was created, so it is empty.
    pub(crate) is_new: bool,
}

/// Opens a folder. Creates it with at most these rights if it is missing, also in the place of a file or a link. Its
/// parent must exist.
pub(crate) fn make_folder(path: &Path, rights: Mode) -> io::Result<Made> {
    let (within, name) = place(path)?;
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | SAFE;
        rustix::fs::openat(&within, name, flags, Mode::empty())
    };
    // Most folders are missing.
    let is_new = match rustix::fs::mkdirat(&within, name, rights) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(why) => return Err(why.into()),
    };
    match open() {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            remove(path)?;
            rustix::fs::mkdirat(&within, name, rights)?;
            Ok(Made { folder: open()?, is_new: true })
        }
        folder => Ok(Made { folder: folder?, is_new }),
    }
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_as(path, OFlags::RDONLY)
}

/// Opens a file for appending, or creates it.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    open_as(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

/// Reads a file of at most `bytes_max` bytes.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let bytes = read_start(path, bytes_max.saturating_add(1))?;
    if bytes.len() as u64 <= bytes_max {
        return Ok(bytes);
    }
    let path = path.display();
    let why = format!("{path} has more than {bytes_max} bytes: remove it");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// Reads at most `bytes_max` bytes from the beginning of a file.
pub(crate) fn read_start(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(bytes_max.min(USUAL_BYTES) as usize);
    open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file that only the kernel can have written, such as one in `/proc`, usually by one call. These files have no
/// size, so that the standard library would read a few bytes at first.
pub(crate) fn read_kernel(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES as usize);
    // Links are followed, because `/proc/self` is one. A file alone would be asked for its size.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file, so that readers get either the old one or the new one. Returns the new file, open for appending.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let (within, to) = place(path)?;
    let from = unfinished.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
    let mut file = match open_within(&within, &unfinished, flags) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            remove(&unfinished)?;
            open_within(&within, &unfinished, flags)?
        }
        file => file?,
    };
    file.write_all(bytes)?;
    match rustix::fs::renameat(&within, from, &within, to) {
        Err(Errno::ISDIR) => {
            remove(path)?;
            rustix::fs::renameat(&within, from, &within, to)?;
        }
        renamed => renamed?,
    }
    Ok(file)
}

/// Removes a file, if it exists, or the link or folder in its place.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (within, name) = place(path)?;
    match rustix::fs::unlinkat(&within, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => removal::remove(path),
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// Returns the names in a folder, but at most `names_max`. Names that are no text are left out.
pub(crate) fn names(folder: &Path, names_max: usize) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(open_folder(folder)?)? {
        let entry = entry?;
        if names.len() == names_max {
            break;
        }
        names.extend(entry.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(names)
}

fn open_as(path: &Path, flags: OFlags) -> io::Result<File> {
    let (within, _) = place(path)?;
    open_within(&within, path, flags)
}

/// Opens a file whose folder is open.
fn open_within(within: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let file = rustix::fs::openat(within, name, flags | SAFE, PRIVATE)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile {
        return Ok(File::from(file));
    }
    let path = path.display();
    Err(io::Error::other(format!("{path} is no regular file: remove it")))
}

/// Opens the folder of a file. Returns it with the name of the file.
fn place(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok((rustix::fs::openat(CWD, folder, flags, Mode::empty())?, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    fn pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn neither_a_pipe_nor_a_link_nor_a_folder_is_taken_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("secret"), "secret").unwrap();
        pipe(&path("pipe"));
        symlink(path("secret"), path("link")).unwrap();
        symlink("/dev/zero", path("device")).unwrap();
        symlink(path("missing"), path("nowhere")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        for name in ["pipe", "link", "device", "nowhere", "folder"] {
            assert!(read(&path(name), 10).is_err(), "{name}");
            assert!(append(&path(name)).is_err(), "{name}");
            assert!(!path("missing").exists(), "a link to a missing file creates none");
            fs::create_dir_all(path(name).join("full")).ok();
            drop(replace(&path(name), b"new").unwrap());
            assert_eq!(read(&path(name), 3).unwrap(), b"new");
        }
        assert_eq!(fs::read(path("secret")).unwrap(), b"secret");
    }

    #[test]
    fn the_folder_of_a_file_is_no_link() {
        let [folder, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        fs::write(other.path().join("file"), "secret").unwrap();
        let link = folder.path().join("logs");
        symlink(other.path(), &link).unwrap();
        assert!(read(&link.join("file"), 10).is_err());
        assert!(names(&link, 10).is_err());
        assert!(replace(&link.join("file"), b"").is_err());
        assert!(remove(&link.join("file")).is_err());
        drop(make_folder(&link, Mode::RWXU).unwrap());
        assert_eq!(names(&link, 10).unwrap().len(), 2, "only . and ..");
        assert_eq!(fs::read(other.path().join("file")).unwrap(), b"secret");
    }

    #[test]
    fn a_large_file_is_not_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&path, 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_start(&path, 10).unwrap(), [0; 10]);
    }

    #[test]
    fn files_have_the_least_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let rights = || path.metadata().unwrap().permissions().mode() & 0o777;
        drop(append(&path).unwrap());
        assert_eq!(rights(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        drop(replace(&path, b"").unwrap());
        assert_eq!(rights(), 0o600);
    }
}
