//! Writes to the log. The replica's thread makes them itself at once, or leaves them to the log's thread.
//!
//! If the disk syncs within microseconds, the replica's thread makes writes itself and waits for them, because passing
//! them to another thread costs as much. But it must process its peers' messages in time, so after a slow write the
//! log's thread makes the writes of the next second. In a replica without peers, the replica's thread always makes the
//! writes itself. Requests and messages collect meanwhile, and the next sync covers all of them.
//!
//! Writes are made in order, because the replica's thread writes only when the log's thread has completed all of its
//! jobs.

use super::event::{Event, LogResult};
use super::mailbox::Mailbox;
use super::status::Status;
use super::{LogWriter, Stage, Stages};
use crate::log::Position;
use crate::node::Write;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job for the log: writes and compactions, in order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct LogJob {
    pub(super) writes: Vec<Write>,
    pub(super) compact: Option<Position>,
}

/// The log, with its pending work.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) writer: LogWriter,
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) stages: Arc<Stages>,
}

impl Log {
    /// Does the given jobs, and the writes that are still waiting.
    fn work(&mut self, jobs: impl IntoIterator<Item = LogJob>) -> LogResult {
        let mut taken = 0;
        for LogJob { writes, compact } in jobs {
            writes.into_iter().for_each(|write| self.writer.push(write));
            compact.into_iter().for_each(|base| self.writer.push_compaction(base));
            taken += 1;
        }
        let began = Instant::now();
        let safe = self.writer.work();
        let synced = matches!(safe, Ok(Some(_)));
        if synced {
            self.stages.note(Stage::Log, began.elapsed());
        }
        let mut status = self.status.lock();
        status.log_bytes = self.writer.engine().bytes_written();
        status.log_syncs += u64::from(synced);
        status.disk_full = self.writer.is_full();
        drop(status);
        LogResult { safe, full: self.writer.is_full(), taken }
    }

    /// Prepares the next write.
    fn prepare(&mut self) -> Option<LogResult> {
        let safe = self.writer.prepare().err().map(Err)?;
        Some(LogResult { safe, full: false, taken: 0 })
    }
}

/// The part that the replica's thread uses. See the module documentation.
#[derive(Debug)]
pub(super) struct LogHandle {
    /// Locked by the thread that writes.
    log: Arc<Mutex<Log>>,
    thread: Sender<LogJob>,
    /// Number of jobs that the log's thread has not completed yet.
    in_progress: usize,
    full: bool,
    /// Time until which the log's thread makes all writes.
    slow_until: Option<Instant>,
}

/// Choice of the writes for which the replica's thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// The thread waits for all writes.
    Always,
    /// The thread waits for a write if there was no slow one within the last second.
    WhileQuick,
}

/// Duration above which a write is slow: a twentieth of the heartbeat interval.
const SLOW: Duration = Duration::from_millis(5);

/// Time after a slow write during which the log's thread makes all writes. So the replica's thread makes at most one
/// slow write per second, which delays a heartbeat by less than peers tolerate.
const SLOW_FOR: Duration = Duration::from_secs(1);

impl LogHandle {
    pub(super) fn new(log: Arc<Mutex<Log>>, thread: Sender<LogJob>) -> LogHandle {
        LogHandle { log, thread, in_progress: 0, full: false, slow_until: None }
    }

    /// Writes, or passes the job to the log's thread. Returns the result if the write was made at once.
    pub(super) fn write(&mut self, job: LogJob, waits: Waits) -> Option<LogResult> {
        let began = Instant::now();
        let slow = self.slow_until.is_some_and(|until| began < until);
        if self.in_progress > 0 || self.full || slow && waits == Waits::WhileQuick {
            self.pass_on(job);
            return None;
        }
        let written = self.log.lock().work([job]);
        self.slow_until = (began.elapsed() > SLOW).then(|| began + SLOW_FOR);
        if written.full {
            // An empty job makes the log's thread retry the waiting writes by itself.
            self.pass_on(LogJob::default());
        }
        self.full = written.full;
        Some(LogResult { taken: 0, ..written })
    }

    fn pass_on(&mut self, job: LogJob) {
        self.in_progress += 1;
        // The only possible error is that the log has failed, which was reported.
        let _ = self.thread.send(job);
    }

    /// Prepares the next write, if this thread would make it. Returns the result if the log failed.
    pub(super) fn prepare(&mut self) -> Option<LogResult> {
        if self.in_progress > 0 || self.full { None } else { self.log.lock().prepare() }
    }

    /// Handles a result of the log's thread.
    pub(super) fn completed(&mut self, written: &LogResult) {
        self.in_progress -= written.taken;
        self.full = written.full;
    }
}

/// The log's thread.
pub(super) struct LogThread {
    pub(super) log: Arc<Mutex<Log>>,
    pub(super) inbox: Receiver<LogJob>,
    pub(super) mailbox: Arc<Mailbox>,
}

/// Interval of retries on a full disk.
const FULL_RETRY: Duration = Duration::from_millis(200);

impl LogThread {
    pub(super) fn run(self) {
        let mut full = false;
        loop {
            let first = if full {
                self.inbox.recv_timeout(FULL_RETRY)
            } else {
                self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            if first == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let mut log = self.log.lock();
            let written = log.work(first.into_iter().chain(self.inbox.try_iter()));
            let failed = written.safe.is_err();
            full = written.full;
            let sent = self.mailbox.send(Event::LogResult(written));
            if failed || sent.is_err() {
                return;
            }
            if let Some(failed) = log.prepare() {
                // The only possible error is that the replica has ended.
                let _ = self.mailbox.send(Event::LogResult(failed));
                return;
            }
        }
    }
}
