//! The journal of a task: a file in the task's folder to which its supervisor, and at the end the agent, append
//! entries.
//!
//! Each entry is a line of JSON, and replaces the earlier entries of its kind. A reader ignores an unfinished last
//! line. Appending a line is much faster than creating a file: on some file systems, creating a file takes milliseconds
//! after many files were deleted.

use crate::exit::Exit;
use crate::task_files::files;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the journal in the folder of its task.
pub(crate) const JOURNAL: &str = "journal.jsonl";

/// Size at which a supervisor rewrites its journal, in bytes. Otherwise, the restarts of a program would let the
/// journal grow without limit.
const REWRITE_BYTES: u64 = 64 << 10;

/// Maximum number of bytes that are read of a journal.
const READ_BYTES: u64 = 2 * REWRITE_BYTES;

/// Process of a task's supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SupervisorProcess {
    /// Pid of the supervisor.
    pub(crate) pid: i32,
    /// Start of the process, in clock ticks since the machine booted. Pid and start together identify a process.
    pub(crate) start_ticks: u64,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Number of restarts of the program on this machine so far.
    pub(crate) restarts: u32,
    /// Whether the program runs.
    pub(crate) running: bool,
    /// Whether the health check has succeeded in this run. Without a health check, this field equals `running`.
    pub(crate) ready: bool,
    /// Whether the program was ready in some run.
    #[serde(default)]
    pub(crate) was_ready: bool,
    /// Whether the program has started in some run.
    #[serde(default)]
    pub(crate) has_started: bool,
    /// Whether the task was stopped.
    pub(crate) ending: bool,
    /// The end of the previous run; `None` before the first restart.
    pub(crate) last: Option<Exit>,
}

/// A line of a journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The supervisor has started.
    Supervisor(SupervisorProcess),
    /// The progress of the task has changed.
    Status(Status),
    /// Processor time of the task and its supervisor, in microseconds. The supervisor measures it at the end.
    UsedCpu(u64),
    /// The task has ended.
    Ended(Exit),
    /// The cell has recorded the end, or need not know it.
    #[serde(alias = "reported")]
    Confirmed,
}

/// Content of a journal. A journal that does not exist or cannot be read counts as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) supervisor: Option<SupervisorProcess>,
    pub(crate) status: Status,
    pub(crate) used_cpu_us: Option<u64>,
    pub(crate) end: Option<Exit>,
    pub(crate) is_confirmed: bool,
}

impl Journal {
    /// Reads the journal of a task.
    pub(crate) fn read(folder: &Path) -> Journal {
        let bytes = files::read_start(&folder.join(JOURNAL), READ_BYTES).unwrap_or_default();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| line.strip_suffix(b"\n"));
        let mut journal = Journal::default();
        // The file may contain lines that a task has written. They are skipped.
        for entry in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            match entry {
                Entry::Supervisor(process) => journal.supervisor = Some(process),
                Entry::Status(status) => journal.status = status,
                Entry::UsedCpu(us) => journal.used_cpu_us = Some(us),
                Entry::Ended(exit) => journal.end = Some(exit),
                Entry::Confirmed => journal.is_confirmed = true,
            }
        }
        journal
    }
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// Appends an entry to the journal of a task, for callers without a [`Writer`].
pub(crate) fn append(folder: &Path, entry: &Entry) -> io::Result<()> {
    files::append(&folder.join(JOURNAL))?.write_all(&line(entry)?)
}

/// A supervisor's journal.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: PathBuf,
    file: File,
    /// Size of the file, in bytes.
    length: u64,
    /// The first line, which a rewritten journal begins with.
    first: Vec<u8>,
    /// The line with the last status, which a rewritten journal has too.
    status: Vec<u8>,
    /// Whether a write has failed, so the file may end within a line.
    is_torn: bool,
}

impl Writer {
    /// Creates the journal of a task.
    pub(crate) fn create(folder: &Path, process: SupervisorProcess) -> io::Result<Writer> {
        let (folder, file) = (folder.to_owned(), files::append(&folder.join(JOURNAL))?);
        let first = line(&Entry::Supervisor(process))?;
        let (first_line, status) = (first.clone(), Vec::new());
        let mut writer =
            Writer { folder, file, length: 0, first: first_line, status, is_torn: false };
        writer.write(&first)?;
        Ok(writer)
    }

    /// Appends entries by one write, so that the agent reads the journal once. If the journal is full, it is replaced by
    /// one that contains only the process of the supervisor, the last status, and these entries.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let before = self.status.clone();
        let mut added = Vec::new();
        for entry in entries {
            let line = line(entry)?;
            if let Entry::Status(_) = entry {
                self.status.clone_from(&line);
            }
            added.extend(line);
        }
        if self.length < REWRITE_BYTES {
            return self.write(&added);
        }
        // If this fails, the present journal stays in use.
        let lines = [&*self.first, &*before, &*added].concat();
        let file = files::replace(&self.folder.join(JOURNAL), &lines)?;
        (self.file, self.length, self.is_torn) = (file, lines.len() as u64, false);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if std::mem::replace(&mut self.is_torn, true) {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        self.is_torn = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PROCESS: SupervisorProcess = SupervisorProcess { pid: 7, start_ticks: 9 };

    #[test]
    fn the_last_entry_of_a_kind_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Journal::read(folder.path()), Journal::default());
        let mut writer = Writer::create(folder.path(), PROCESS).unwrap();
        let status = Status { running: true, ready: true, ..Status::default() };
        writer.append(&[Entry::Status(status.clone())]).unwrap();
        writer.append(&[Entry::Status(Status { ending: true, ..status.clone() })]).unwrap();
        writer.append(&[Entry::UsedCpu(7)]).unwrap();
        writer.append(&[Entry::Ended(Exit::Code(3))]).unwrap();
        append(folder.path(), &Entry::Confirmed).unwrap();
        let expected = Journal {
            supervisor: Some(PROCESS),
            status: Status { ending: true, ..status },
            used_cpu_us: Some(7),
            end: Some(Exit::Code(3)),
            is_confirmed: true,
        };
        assert_eq!(Journal::read(folder.path()), expected);
    }

    #[test]
    fn an_unfinished_line_and_a_wrong_one_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let text = "{\"ended\":{\"code\":1}}\n\nnothing\n{\"ended\":{\"code\":2}}";
        fs::write(folder.path().join(JOURNAL), text).unwrap();
        assert_eq!(Journal::read(folder.path()).end, Some(Exit::Code(1)));
    }

    #[test]
    fn an_entry_after_a_failed_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), PROCESS).unwrap();
        // Simulates a full disk, which takes only part of an entry.
        writer.write(b"{\"ended\":").unwrap();
        writer.file = File::open("/dev/null").unwrap();
        writer.append(&[Entry::Ended(Exit::Code(1))]).unwrap_err();
        writer.file = files::append(&folder.path().join(JOURNAL)).unwrap();
        writer.append(&[Entry::Ended(Exit::Code(2))]).unwrap();
        assert_eq!(Journal::read(folder.path()).end, Some(Exit::Code(2)));
    }

    #[test]
    fn a_journal_that_cannot_be_rewritten_stays_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), PROCESS).unwrap();
        // Simulates a disk on which no file can be created.
        let present = std::mem::replace(&mut writer.folder, folder.path().join("missing"));
        writer.length = REWRITE_BYTES;
        writer.append(&[Entry::Ended(Exit::Code(1))]).unwrap_err();
        (writer.folder, writer.length) = (present, 0);
        writer.append(&[Entry::Ended(Exit::Code(2))]).unwrap();
        assert_eq!(Journal::read(folder.path()).end, Some(Exit::Code(2)));
    }

    #[test]
    fn restarts_without_end_do_not_fill_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), PROCESS).unwrap();
        for restarts in 0..2000 {
            let status = Status { restarts, last: Some(Exit::Code(1)), ..Status::default() };
            writer.append(&[Entry::Status(status)]).unwrap();
            let length = folder.path().join(JOURNAL).metadata().unwrap().len();
            assert!(length < REWRITE_BYTES + 200, "{length}");
            let read = Journal::read(folder.path());
            assert_eq!((read.supervisor, read.status.restarts), (Some(PROCESS), restarts));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
