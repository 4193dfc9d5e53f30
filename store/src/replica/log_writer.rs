//! Log writer of a replica: appends all writes that have collected, then syncs once.
//!
//! ```text
//!   write 7 ─┐
//!   write 8 ─┼─▶ append, append, append ─▶ sync ─▶ durable up to 9
//!   write 9 ─┘
//! ```
//!
//! This code runs on a thread in production, and on a simulated disk in simulations.

use crate::failpoint::failpoint;
use crate::log::{LogEngine, Position, WriteError};
use crate::node::Write;
use std::collections::VecDeque;

/// The log writer. See the module documentation.
#[derive(Debug)]
pub struct LogWriter {
    engine: Box<dyn LogEngine>,
    waiting: VecDeque<Job>,
    full: bool,
}

#[derive(Debug)]
enum Job {
    Write(Write),
    Compact(Position),
}

impl LogWriter {
    /// Creates the writer of a log.
    #[must_use]
    pub fn new(engine: Box<dyn LogEngine>) -> LogWriter {
        LogWriter { engine, waiting: VecDeque::new(), full: false }
    }

    /// The log that is written.
    #[must_use]
    pub fn engine(&self) -> &dyn LogEngine {
        &*self.engine
    }

    /// Adds a write. It is made after the writes that were added before.
    pub fn push(&mut self, write: Write) {
        self.waiting.push_back(Job::Write(write));
    }

    /// Compacts the log up to a position, after the waiting writes.
    pub fn push_compaction(&mut self, base: Position) {
        self.waiting.push_back(Job::Compact(base));
    }

    /// Whether the disk is full. Waiting writes are tried again with the next [`LogWriter::work`].
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Makes all waiting writes for which the disk has space. Returns the number of the last write that became durable,
    /// if any.
    ///
    /// # Errors
    /// The disk fails. Its content is unknown then, and the replica must stop.
    pub fn work(&mut self) -> Result<Option<u64>, WriteError> {
        let mut last = None;
        let was_full = std::mem::take(&mut self.full);
        while let Some(job) = self.waiting.front() {
            let done = match job {
                Job::Write(write) => write_one(&mut *self.engine, write),
                Job::Compact(base) => compact(&mut *self.engine, *base),
            };
            match done {
                Ok(()) => {}
                Err(WriteError::Full { path }) => {
                    if !was_full {
                        tracing::warn!(path = %path.display(), "the disk is full: make room");
                    }
                    self.full = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            if let Some(Job::Write(write)) = self.waiting.pop_front() {
                last = Some(write.number);
            }
        }
        if last.is_some() && !omega_cellstate::injected!(AckBeforeSync) {
            failpoint!("log-sync", Err(WriteError::Refused));
            self.engine.sync()?;
            failpoint!("log-synced");
        }
        Ok(last)
    }

    /// Prepares later writes. Called when waiting requests have been answered.
    ///
    /// # Errors
    /// The disk fails (see [`LogWriter::work`]).
    pub fn prepare(&mut self) -> Result<(), WriteError> {
        if self.full { Ok(()) } else { self.engine.prepare() }
    }
}

fn compact(engine: &mut dyn LogEngine, base: Position) -> Result<(), WriteError> {
    failpoint!("log-compact", Err(WriteError::Refused));
    engine.compact(base)?;
    failpoint!("log-compacted");
    Ok(())
}

fn write_one(engine: &mut dyn LogEngine, write: &Write) -> Result<(), WriteError> {
    failpoint!("log-append", Err(WriteError::Refused));
    if let Some(base) = write.restart {
        failpoint!("log-restart", Err(WriteError::Refused));
        let hard_state = write.batch.hard_state.unwrap_or(engine.hard_state());
        engine.restart(base, hard_state)?;
    }
    engine.append(&write.batch)?;
    failpoint!("log-appended");
    Ok(())
}
