//! The output of a task: two streams, each written to a file that is rotated when it is full. One older file is kept,
//! so a stream takes at most twice the maximum size of a file.
//!
//! Positions are counted from the first byte that the task ever wrote to the stream, so that a reader can continue
//! across rotations and restarts.

use crate::task_files::files;
use rustix::fs::Mode;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum number of names in a folder that are examined. A task may have created any number of files there.
const NAMES_MAX: usize = 1000;

/// Maximum position of the first byte of a file. Files with larger numbers are not of the supervisor.
const POSITION_MAX: u64 = 1 << 62;

/// A stream of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    /// Returns the name of the stream, which is the prefix of its file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        }
    }
}

/// Part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    /// Position of the first byte. It is later than the requested position if older bytes were deleted.
    pub from: u64,
    /// Bytes of the part.
    pub bytes: Vec<u8>,
    /// Position after the last byte of the log.
    pub end: u64,
}

/// The files of a stream, each with the position of its first byte, ascending. They are named `stdout.POSITION`.
fn files(folder: &Path, stream: LogStream) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    let names = match files::names(folder, NAMES_MAX) {
        Ok(names) => names,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(why) => return Err(why),
    };
    for name in names {
        let position = name.strip_prefix(stream.name()).and_then(|rest| rest.strip_prefix('.'));
        let position = position.and_then(|rest| rest.parse().ok());
        // Sums of positions and lengths must not overflow.
        let position = position.filter(|at: &u64| *at <= POSITION_MAX);
        found.extend(position.map(|at| (at, folder.join(&name))));
    }
    found.sort();
    Ok(found)
}

/// A writer that appends to a stream, and rotates its files. The first write creates the folder and the file.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    stream: LogStream,
    bytes_max: u64,
    present: Option<Present>,
}

/// The file to which a writer appends.
#[derive(Debug)]
struct Present {
    file: File,
    /// Number of bytes in the file.
    length: u64,
    /// Position of the first byte of the file.
    from: u64,
}

impl Writer {
    /// Creates a writer of a stream's files, which have at most this number of bytes each. There are two.
    #[must_use]
    pub fn new(folder: PathBuf, stream: LogStream, bytes_max: u64) -> Writer {
        Writer { folder, stream, bytes_max: bytes_max.max(1), present: None }
    }

    /// Appends bytes. If the disk is full, the bytes are lost, and the task continues.
    pub fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let bytes_max = self.bytes_max;
            let Ok(present) = self.present() else { return };
            let room = bytes_max.saturating_sub(present.length).min(bytes.len() as u64) as usize;
            let (now, later) = bytes.split_at(room);
            if present.file.write_all(now).is_err() {
                // If the disk is full, some of the bytes may have been written. The length is read from the file again.
                self.present = None;
                return;
            }
            present.length += room as u64;
            bytes = later;
        }
    }

    /// Returns the file to append to, which has room.
    fn present(&mut self) -> io::Result<&mut Present> {
        let present = match self.present.take() {
            None => self.newest()?,
            Some(present) => present,
        };
        let present =
            if present.length < self.bytes_max { present } else { self.rotate(&present)? };
        Ok(self.present.insert(present))
    }

    /// Opens the newest file of the stream, or creates the first file if there is none.
    fn newest(&self) -> io::Result<Present> {
        // The output may contain secrets.
        files::make_folder(&self.folder, Mode::RWXU)?;
        let newest = files(&self.folder, self.stream)?.pop();
        self.open(newest.map_or(0, |(from, _)| from))
    }

    /// Begins a new file, and removes all older files except the newest of them.
    fn rotate(&self, full: &Present) -> io::Result<Present> {
        for (at, old) in files(&self.folder, self.stream)? {
            if at < full.from {
                files::remove(&old)?;
            }
        }
        self.open(full.from + full.length)
    }

    /// Opens or creates the file whose first byte has the position `from`.
    fn open(&self, from: u64) -> io::Result<Present> {
        let path = self.folder.join(format!("{}.{from:020}", self.stream.name()));
        let file = files::append(&path)?;
        let length = file.metadata()?.len();
        Ok(Present { file, length, from })
    }
}

/// Reads at most `bytes_max` bytes of a stream, starting at the position `from`. [`tail`] reads the end.
///
/// # Errors
/// The files cannot be read.
pub fn read(folder: &Path, stream: LogStream, from: u64, bytes_max: usize) -> io::Result<LogPart> {
    let mut part = LogPart { from, ..LogPart::default() };
    for (at, path) in files(folder, stream)? {
        // If a rotation has just removed the file, its bytes are left out, as are those of a file that is no log.
        let Ok(mut file) = files::open(&path) else { continue };
        let length = file.metadata()?.len();
        part.end = at + length;
        if part.bytes.is_empty() && part.from < at {
            part.from = at;
        }
        let wanted = part.from + part.bytes.len() as u64;
        if wanted >= part.end || wanted < at {
            continue;
        }
        file.seek(SeekFrom::Start(wanted - at))?;
        let room = bytes_max - part.bytes.len();
        file.take(room as u64).read_to_end(&mut part.bytes)?;
    }
    if part.bytes.is_empty() {
        part.from = part.from.min(part.end);
    }
    part.end = part.end.max(part.from + part.bytes.len() as u64);
    Ok(part)
}

/// Reads the last `lines` lines of a stream, but at most `bytes_max` bytes.
///
/// # Errors
/// The files cannot be read.
pub fn tail(folder: &Path, stream: LogStream, lines: u32, bytes_max: usize) -> io::Result<LogPart> {
    let end = read(folder, stream, u64::MAX, 0)?.end;
    let mut part = read(folder, stream, end.saturating_sub(bytes_max as u64), bytes_max)?;
    let body = part.bytes.strip_suffix(b"\n").unwrap_or(&part.bytes);
    let breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let cut = match lines {
        0 => part.bytes.len(),
        lines => breaks.map(|(at, _)| at + 1).nth(lines as usize - 1).unwrap_or(0),
    };
    part.bytes.drain(..cut);
    part.from += cut as u64;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    const OUT: LogStream = LogStream::Stdout;

    #[test]
    fn a_log_has_a_bound_and_keeps_what_is_newest() {
        let folder = tempfile::tempdir().unwrap();
        let mut all: Vec<u8> = Vec::new();
        let mut writer = Writer::new(folder.path().into(), OUT, 100);
        for number in 0..200 {
            let line = format!("line {number}\n");
            writer.write(line.as_bytes());
            all.extend(line.as_bytes());
            if number == 77 {
                writer = Writer::new(folder.path().into(), OUT, 100);
            }
            let kept: u64 = files(folder.path(), OUT)
                .unwrap()
                .iter()
                .map(|(_, p)| p.metadata().unwrap().len())
                .sum();
            assert!(kept <= 200, "{kept}");
        }
        let part = read(folder.path(), OUT, 0, 10_000).unwrap();
        assert_eq!(part.end, all.len() as u64);
        assert!(part.bytes.len() > 100);
        assert_eq!(part.bytes, all[part.from as usize..]);
    }

    #[test]
    fn bytes_of_a_write_that_failed_in_part_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(folder.path().into(), OUT, 10);
        writer.write(b"abc");
        // Simulates a full disk, which takes some of the bytes.
        let (_, path) = files(folder.path(), OUT).unwrap().pop().unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"de").unwrap();
        writer.present.as_mut().unwrap().file = File::open(&path).unwrap();
        writer.write(b"defg");
        writer.write(b"hijklmnop");
        let part = read(folder.path(), OUT, 0, 100).unwrap();
        assert_eq!((part.from, &*part.bytes), (0, &b"abcdehijklmnop"[..]));
    }

    #[test]
    fn a_reader_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(folder.path().into(), OUT, 50);
        let (mut seen, mut at) = (Vec::new(), 0);
        for number in 0..100 {
            writer.write(format!("{number}\n").as_bytes());
            let part = read(folder.path(), OUT, at, 7).unwrap();
            at = part.from + part.bytes.len() as u64;
            seen.extend(part.bytes);
        }
        let expected: String = (0..100).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8(seen).unwrap(), expected);
        assert_eq!(read(folder.path(), OUT, at, 7).unwrap().bytes, b"");
    }

    #[test]
    fn the_last_lines_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(folder.path().into(), OUT, 1000);
        writer.write(b"a\nb\nc\n");
        let lines = |count, max| tail(folder.path(), OUT, count, max).unwrap().bytes;
        assert_eq!(lines(2, 100), b"b\nc\n");
        assert_eq!(lines(9, 100), b"a\nb\nc\n");
        assert_eq!(lines(0, 100), b"");
        assert_eq!(lines(9, 3), b"\nc\n");
        writer.write(b"d");
        assert_eq!(lines(1, 100), b"d");
        assert_eq!(tail(folder.path(), LogStream::Stderr, 5, 9).unwrap(), LogPart::default());
    }
}
