//! Opening of files that a user names. A file is opened only if reading it ends.
//!
//! Opening a named pipe (FIFO) without a writer waits for ever, and a device may return bytes without end. So only
//! regular files, `/dev/null`, standard input, and pipes that the process inherited from its parent are opened.
//! `/dev/stdin` and bash's `<(...)` are such pipes; opening them never waits.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Maximum bytes of a file that is read whole. Settings, keys and certificates have some kilobytes.
const BYTES_MAX: u64 = 64 << 20;

/// Opens a file for reading.
///
/// # Errors
/// As [`check`], or if the file cannot be opened.
pub fn open(file: &Path) -> io::Result<File> {
    check(file)?;
    File::open(file)
}

/// Checks that a file can be opened without waiting, and that its content ends.
///
/// # Errors
/// If there is no such file, or it is neither regular nor an open pipe.
pub fn check(file: &Path) -> io::Result<()> {
    let about = fs::metadata(file).map_err(|why| match file.to_str() {
        Some("-") => io::Error::new(why.kind(), format!("{why}: give /dev/stdin instead of -")),
        _ => why,
    })?;
    let kind = about.file_type();
    // A folder is accepted here, because reading it fails with a clear error.
    if kind.is_file() || kind.is_dir() || is_open_pipe(file, kind) || is_readable_device(&about) {
        return Ok(());
    }
    let name = name(kind);
    let say = format!("it is {name}, not a regular file: give a regular file, or /dev/stdin");
    Err(io::Error::new(ErrorKind::InvalidInput, say))
}

/// Reads a whole file of at most 64 MiB.
///
/// # Errors
/// As [`open`], or if the file is larger.
pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(file)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= BYTES_MAX { Ok(bytes) } else { Err(too_large()) }
}

/// Reads the text of a whole file of at most 64 MiB.
///
/// # Errors
/// As [`read`], or if the file is not UTF-8.
pub fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 <= BYTES_MAX { Ok(text) } else { Err(too_large()) }
}

fn too_large() -> io::Error {
    let say = format!("it is larger than {BYTES_MAX} bytes, the maximum");
    io::Error::new(ErrorKind::FileTooLarge, say)
}

/// Whether this is a pipe without a name. Its path is a link of `/proc` to a text that is no path.
fn is_open_pipe(file: &Path, kind: FileType) -> bool {
    kind.is_fifo() && fs::canonicalize(file).is_err()
}

/// Whether this is `/dev/null`, or the terminal at standard input.
fn is_readable_device(about: &Metadata) -> bool {
    let is_device = |path: &str| {
        fs::metadata(path).is_ok_and(|device| {
            device.rdev() == about.rdev() && device.file_type() == about.file_type()
        })
    };
    about.file_type().is_char_device() && (is_device("/dev/null") || is_device("/dev/stdin"))
}

fn name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
