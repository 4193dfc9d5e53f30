//! Audit log: one line of JSON for each change and each denial.
//!
//! Each line contains the hash of the line before it, so [`verify`] detects changed, removed and inserted lines. A loss
//! of lines at the end of the newest file cannot be detected in this way, so ship the lines to another machine. A line
//! has the caller, the call, its object and its result, but no content, so it never contains a key.
//!
//! A full file is renamed to `FILE.1`, the former `FILE.1` to `FILE.2`, and so on; the oldest file is removed. The
//! chain of hashes continues from file to file. Of many failed calls of one caller, only some are written, and one line
//! counts the others (see `failed_calls.rs`).

use crate::access::failed_calls::FailedCalls;
use omega_client::ErrorCode;
use ring::digest::{SHA256, digest};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum bytes of one file, enough for some hundred thousand lines.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Number of rotated files.
const FILES_MAX: u32 = 9;

/// Maximum length in bytes of each caller-supplied text in a line. Longer texts are truncated.
const FIELD_BYTES_MAX: usize = 1024;

/// Hash in the very first line of a log, which has no line before it.
const BEGINNING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// An event to be logged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    /// The caller.
    pub(super) caller: &'a str,
    /// Name of the call.
    pub(super) call: &'a str,
    /// Object of the call, if any: a transaction, a job, a machine.
    pub(super) of: &'a str,
    /// Result of the call: `OK`, or the code of the error.
    pub(super) outcome: &'a str,
}

/// The files of an audit log.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file_bytes_max: u64,
    file: File,
    bytes: u64,
    /// Hash of the last line.
    hash: String,
    failed: FailedCalls,
}

/// Result of a call that succeeded.
pub(crate) const OK: &str = "OK";

/// Results of calls that may have changed something nevertheless.
const UNKNOWN: [&str; 3] =
    [ErrorCode::OutcomeUnknown.name(), ErrorCode::Late.name(), ErrorCode::Internal.name()];

impl AuditFile {
    /// Opens or creates a log. An incomplete last line, left by a crash, is removed.
    ///
    /// # Errors
    /// I/O errors of the file.
    pub(super) fn open(path: &Path) -> io::Result<AuditFile> {
        AuditFile::with_bound(path, FILE_BYTES_MAX)
    }

    /// Opens the log with a maximum size of its files.
    ///
    /// # Errors
    /// I/O errors of the file.
    fn with_bound(path: &Path, file_bytes_max: u64) -> io::Result<AuditFile> {
        let mut file = append(path)?;
        let bytes = file.metadata()?.len();
        let hash = match last_line(&mut file)? {
            Some(line) => hash_of(&line),
            None => match File::open(rotated(path, 1)) {
                // Rotated files always end with a complete line.
                Ok(mut before) => last_line(&mut before)?.map_or(BEGINNING.into(), |l| hash_of(&l)),
                Err(_) => BEGINNING.to_owned(),
            },
        };
        let bytes = bytes.min(file.metadata()?.len());
        let (path, failed) = (path.to_owned(), FailedCalls::default());
        Ok(AuditFile { path, file_bytes_max, file, bytes, hash, failed })
    }

    /// Adds an event, unless its caller has had too many failed calls.
    ///
    /// # Errors
    /// I/O errors of the file.
    pub(super) fn write(&mut self, at: SystemTime, event: Event<'_>) -> io::Result<()> {
        for left_out in self.failed.end_period(at) {
            let of = format!("{} failed calls that are not logged", left_out.calls);
            let event = Event { caller: &left_out.caller, call: "", of: &of, outcome: "LIMIT" };
            self.write_line(at, event)?;
        }
        let may_have_changed = event.outcome == OK || UNKNOWN.contains(&event.outcome);
        if may_have_changed || self.failed.count(event.caller) {
            self.write_line(at, event)?;
        }
        Ok(())
    }

    fn write_line(&mut self, at: SystemTime, event: Event<'_>) -> io::Result<()> {
        if self.bytes >= self.file_bytes_max {
            self.rotate()?;
        }
        let mut line = line(at, event, &self.hash);
        let hash = hash_of(line.as_bytes());
        line.push('\n');
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // A part of the line would look like a change of the log.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        self.hash = hash;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        // The new file is opened first, because each attempt would otherwise lose the oldest file.
        let mut next = self.path.as_os_str().to_owned();
        next.push(".new");
        let file = append(Path::new(&next))?;
        file.set_len(0)?;
        // Files beyond the first missing number stay, in case an earlier rotation failed halfway.
        let missing = (0..FILES_MAX).find(|number| !rotated(&self.path, *number).exists());
        for number in (0..missing.unwrap_or(FILES_MAX)).rev() {
            match std::fs::rename(rotated(&self.path, number), rotated(&self.path, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&next, &self.path)?;
        let full = Arc::new(std::mem::replace(&mut self.file, file));
        self.bytes = 0;
        let sync = |full: &File| {
            if let Err(error) = full.sync_all() {
                tracing::error!(%error, "a full file of the audit log may not be on the disk");
            }
        };
        // Calls wait for their lines, so another thread waits for the disk.
        let in_thread = full.clone();
        let builder = std::thread::Builder::new().name("audit-sync".to_owned());
        if builder.spawn(move || sync(&in_thread)).is_err() {
            sync(&full);
        }
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    // The last line of the log must be read. A pipe would block such a read.
    if !file.metadata()?.is_file() {
        let message = "it is not a regular file: an audit log is read again to continue it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

/// Returns the path of the log file with this number. Number 0 is the newest file.
fn rotated(path: &Path, number: u32) -> PathBuf {
    match number {
        0 => path.to_owned(),
        number => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            name.into()
        }
    }
}

/// The last complete line of a file. An incomplete line after it, left by a crash, is removed.
fn last_line(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let length = file.metadata()?.len();
    // 64 KiB is more than one complete line and an incomplete line after it.
    let tail = length.min(64 << 10);
    file.seek(SeekFrom::Start(length - tail))?;
    let mut bytes = Vec::new();
    file.take(tail).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        file.set_len(length - (bytes.len() - whole) as u64)?;
    }
    let lines = bytes[..whole].strip_suffix(b"\n");
    Ok(lines.and_then(|lines| lines.rsplit(|byte| *byte == b'\n').next()).map(<[u8]>::to_vec))
}

fn hash_of(line: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, line).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn line(at: SystemTime, event: Event<'_>, before: &str) -> String {
    let ms = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let Event { caller, call, of, outcome } = event;
    let [caller, call, of, outcome] = [caller, call, of, outcome].map(quoted);
    format!(
        "{{\"before\":\"{before}\",\"time_ms\":{ms},\"caller\":{caller},\"call\":{call},\"of\":{of},\
         \"outcome\":{outcome}}}"
    )
}

/// A string in JSON, in ASCII, without characters that a terminal or another reader would interpret.
fn quoted(word: &str) -> String {
    let mut end = word.len().min(FIELD_BYTES_MAX);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    let mut text = String::from("\"");
    for c in word[..end].chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            ' '..='~' => text.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
    text
}

/// Error in the verification of a log.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A file cannot be read.
    #[error("{}: {why}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// The chain of hashes is broken: this line or the previous one was changed, or a line between them is missing.
    #[error("{}:{line}: this line does not continue the line before it: a line was changed, \
         removed or inserted here", file.display())]
    Broken {
        /// Path of the file.
        file: PathBuf,
        /// Number of the line, from 1.
        line: u64,
    },
}

/// Verifies a log with all its older files. Returns the number of lines.
///
/// The first line of the oldest file is trusted, because the lines before it may have been rotated
/// away.
///
/// # Errors
/// If a file cannot be read, or a line does not continue the chain of the line before it.
pub fn verify(path: &Path) -> Result<u64, VerifyError> {
    let older = (1..=FILES_MAX).rev().map(|number| rotated(path, number));
    let there: Vec<PathBuf> = older.filter(|file| file.exists()).chain([path.to_owned()]).collect();
    verify_files(&there)
}

/// Verifies the files of a log, or copies of them, given in order from the oldest. An incomplete last line, left by a
/// crash, is ignored.
///
/// # Errors
/// As [`verify`].
pub fn verify_files(files: &[PathBuf]) -> Result<u64, VerifyError> {
    let mut before: Option<String> = None;
    let mut lines = 0;
    for file in files {
        let read = |why| VerifyError::Read { file: file.clone(), why };
        let mut reader = BufReader::new(File::open(file).map_err(read)?);
        for line in 1.. {
            let mut text = Vec::new();
            reader.read_until(b'\n', &mut text).map_err(read)?;
            // At the end, there may be the beginning of a line.
            if text.pop_if(|last| *last == b'\n').is_none() {
                break;
            }
            let broken = || VerifyError::Broken { file: file.clone(), line };
            let named = text.strip_prefix(b"{\"before\":\"").and_then(|rest| rest.get(..64));
            let named = named.ok_or_else(broken)?;
            if before.as_ref().is_some_and(|before| before.as_bytes() != named) {
                return Err(broken());
            }
            before = Some(hash_of(&text));
            lines += 1;
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const EVENT: Event<'static> =
        Event { caller: "omega://c/operator/ann", call: "KillJob", of: "j1", outcome: "OK" };

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn log_of(lines: u64, file_bytes_max: u64) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        for i in 0..lines {
            // The log is opened again for each line, which shows that the chain continues after a restart.
            let mut log = AuditFile::with_bound(&path, file_bytes_max).unwrap();
            log.write(at(i), Event { of: &format!("j{i}"), ..EVENT }).unwrap();
        }
        (dir, path)
    }

    #[test]
    fn a_line_says_who_did_what() {
        let (_dir, path) = log_of(2, FILE_BYTES_MAX);
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            format!(
                "{{\"before\":\"{BEGINNING}\",\"time_ms\":0,\"caller\":\"omega://c/operator/ann\",\
                 \"call\":\"KillJob\",\"of\":\"j0\",\"outcome\":\"OK\"}}"
            )
        );
        assert!(text.lines().nth(1).unwrap().contains(&hash_of(first.as_bytes())));
        assert_eq!(verify(&path).unwrap(), 2);
    }

    #[test]
    fn a_chain_goes_on_from_file_to_file() {
        let (_dir, path) = log_of(40, 1000);
        assert!(rotated(&path, 5).exists());
        assert_eq!(verify(&path).unwrap(), 40);
        let (_dir, path) = log_of(100, 1000);
        let kept = verify(&path).unwrap();
        assert!((40..100).contains(&kept), "the oldest went: {kept}");
        std::fs::remove_file(rotated(&path, 4)).unwrap();
        assert!(verify(&path).is_err(), "a file is missing");
    }

    #[test]
    fn failed_calls_of_one_caller_leave_room_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let mut log = AuditFile::open(&path).unwrap();
        let denied = Event { caller: "eve", outcome: "DENIED", ..EVENT };
        for _ in 0..1000 {
            log.write(at(1), denied).unwrap();
            log.write(at(1), EVENT).unwrap();
        }
        log.write(at(20), EVENT).unwrap();
        assert_eq!(verify(&path).unwrap(), 100 + 1000 + 2);
        let text = std::fs::read_to_string(&path).unwrap();
        let summary =
            "\"caller\":\"eve\",\"call\":\"\",\"of\":\"900 failed calls that are not logged\"";
        assert_eq!(text.lines().filter(|line| line.contains(summary)).count(), 1);
    }

    #[test]
    fn a_failed_rotation_keeps_all_files() {
        let (dir, path) = log_of(40, 1000);
        let mut log = AuditFile::with_bound(&path, 1).unwrap();
        std::fs::create_dir(dir.path().join("audit.log.new")).unwrap();
        for second in 0..20 {
            log.write(at(second), EVENT).expect_err("no file can be opened");
        }
        assert_eq!(verify(&path).unwrap(), 40);
        std::fs::remove_dir(dir.path().join("audit.log.new")).unwrap();
        log.write(at(20), EVENT).unwrap();
        assert_eq!(verify(&path).unwrap(), 41);
    }

    #[test]
    fn what_a_crash_has_cut_is_no_line() {
        let (_dir, path) = log_of(3, FILE_BYTES_MAX);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(verify(&path).unwrap(), lines, "{cut}");
            let mut log = AuditFile::open(&path).unwrap();
            log.write(at(9), EVENT).unwrap();
            assert_eq!(verify(&path).unwrap(), lines + 1, "{cut}");
        }
    }

    proptest! {
        /// Any caller name is written as one line of ASCII, and is read back unchanged up to the maximum length.
        #[test]
        fn no_word_leaves_its_line(word in any::<String>()) {
            let text = quoted(&word);
            prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", text);
            prop_assert!(text.len() <= 6 * FIELD_BYTES_MAX + 2);
            let read: String = serde_json::from_str(&text).unwrap();
            prop_assert!(word.starts_with(&read));
            prop_assert!(read == word || word.len() > FIELD_BYTES_MAX);
        }

        /// A changed byte or a removed line is detected, except in the last line.
        #[test]
        fn what_was_changed_is_noticed(at in 0..1_000_000_usize, to in any::<u8>(), line in 0..7_usize) {
            let (_dir, path) = log_of(8, FILE_BYTES_MAX);
            let whole = std::fs::read(&path).unwrap();
            let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap();
            let mut edited = whole.clone();
            let at = at % last;
            edited[at] = to;
            std::fs::write(&path, &edited).unwrap();
            prop_assert_eq!(verify(&path).is_ok(), edited == whole, "byte {}", at);
            let text = String::from_utf8(whole).unwrap();
            let lines = text.lines().enumerate().filter(|(i, _)| *i != line);
            let without: String = lines.map(|(_, text)| format!("{text}\n")).collect();
            std::fs::write(&path, without).unwrap();
            // The removal of the very first line cannot be detected.
            prop_assert_eq!(verify(&path).is_ok(), line == 0);
        }
    }
}
