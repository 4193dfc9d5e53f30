//! The queue of the audit log: one thread writes the lines in order, so that a disk that hangs stops no calls.
//!
//! A call waits until its line is written. If the disk is slow once, calls no longer wait until the thread has written
//! all waiting lines.

use super::audit::{AuditFile, Event};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Maximum number of waiting lines. Further lines are missing in the log, which is reported to operators.
const LINES_MAX: usize = 10_000;

/// Maximum time for which a call waits until its line is written: less than clients wait for a replica's answer.
const WRITE_MAX: Duration = Duration::from_millis(200);

/// Maximum time for which a dropped log waits until its lines are written.
const DROP_MAX: Duration = Duration::from_secs(2);

/// The audit log. Each line is written by a thread, which ends when this value is dropped.
#[derive(Debug)]
pub struct AuditLog {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notified when the queue has changed for the thread.
    added: Condvar,
    /// Notified when lines were written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Line>,
    /// Numbers of lines that were queued, and that were written, since the start.
    queued: u64,
    written: u64,
    /// Whether calls do not wait, because the disk is slow.
    is_late: bool,
    has_ended: bool,
}

/// A line to be written.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) at: SystemTime,
    pub(crate) caller: Arc<str>,
    pub(crate) call: String,
    pub(crate) of: String,
    pub(crate) outcome: &'static str,
}

impl AuditLog {
    /// Opens or creates a log. An incomplete last line, left by a crash, is removed.
    ///
    /// # Errors
    /// I/O errors of the file, or the system has no thread for it.
    pub fn open(path: &Path) -> io::Result<AuditLog> {
        let mut file = AuditFile::open(path)?;
        AuditLog::start(move |line| {
            let Line { at, caller, call, of, outcome } = line;
            file.write(*at, Event { caller, call, of, outcome })
        })
    }

    fn start(write: impl FnMut(&Line) -> io::Result<()> + Send + 'static) -> io::Result<AuditLog> {
        let shared = Arc::new(Shared::default());
        let writer = shared.clone();
        let builder = std::thread::Builder::new().name("audit".to_owned());
        builder.spawn(move || writer.write_all(write))?;
        Ok(AuditLog { shared })
    }

    /// Adds a line.
    pub(crate) fn add(&self, line: Line) {
        let mut queue = self.shared.queue.lock();
        if queue.lines.len() >= LINES_MAX {
            drop(queue);
            let call = line.call;
            tracing::error!(call, "the audit log's disk is slow, so a line is missing");
            return;
        }
        queue.lines.push_back(line);
        queue.queued += 1;
        drop(queue);
        self.shared.added.notify_one();
    }

    /// Waits until all lines are written, or the disk is slow.
    pub(crate) fn wait_written(&self) {
        let mut queue = self.shared.queue.lock();
        let last = queue.queued;
        while queue.written < last && !queue.is_late {
            if self.shared.written.wait_for(&mut queue, WRITE_MAX).timed_out()
                && queue.written < last
            {
                queue.is_late = true;
                tracing::error!("the audit log's disk is slow: calls do not wait for it now");
            }
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.has_ended = true;
        self.shared.added.notify_one();
        let is_behind = |queue: &mut Queue| queue.written < queue.queued;
        if self.shared.written.wait_while_for(&mut queue, is_behind, DROP_MAX).timed_out() {
            let missing = queue.queued - queue.written;
            tracing::error!(missing, "the audit log's disk is slow, so lines are missing");
        }
    }
}

impl Shared {
    /// Writes lines until the log is dropped.
    fn write_all(&self, mut write: impl FnMut(&Line) -> io::Result<()>) {
        let mut queue = self.queue.lock();
        loop {
            let lines = std::mem::take(&mut queue.lines);
            if lines.is_empty() {
                if queue.has_ended {
                    return;
                }
                queue.is_late = false;
                self.added.wait(&mut queue);
                continue;
            }
            drop(queue);
            for line in &lines {
                if let Err(error) = write(line) {
                    let call = &line.call;
                    tracing::error!(%error, call, "the audit log cannot be written, so a line is missing");
                }
            }
            queue = self.queue.lock();
            queue.written += lines.len() as u64;
            self.written.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn line(number: usize) -> Line {
        let (at, caller) = (SystemTime::UNIX_EPOCH, "ann".into());
        Line { at, caller, call: "KillJob".to_owned(), of: number.to_string(), outcome: "OK" }
    }

    #[test]
    fn calls_go_on_while_the_disk_hangs_and_lines_keep_their_order() {
        let (disk, hangs) = mpsc::channel::<()>();
        let (to, written) = mpsc::channel();
        let log = AuditLog::start(move |line: &Line| {
            // The disk hangs until the sender is dropped.
            let _ = hangs.recv();
            to.send(line.of.clone()).map_err(io::Error::other)
        });
        let log = log.unwrap();
        for number in 0..LINES_MAX {
            log.add(line(number));
            log.wait_written();
        }
        assert!(written.try_recv().is_err(), "the calls went on before their lines were written");
        drop(disk);
        drop(log);
        let expected = (0..LINES_MAX).map(|number| number.to_string());
        assert!(written.into_iter().eq(expected));
    }

    #[test]
    fn a_line_is_in_the_file_when_its_call_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = AuditLog::open(&path).unwrap();
        for number in 0..100 {
            log.add(line(number));
            log.wait_written();
            assert_eq!(super::super::audit::verify(&path).unwrap(), number as u64 + 1);
        }
    }
}
