//! Record of a run: requests, reads and violations of all its clients.

use super::calls::TasksSeen;
use crate::cluster::checker::{ClientCall, Fate, History, Read};
use omega_core::{Command, MachineId, Version};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A page of the tasks of a machine, with the times of its request and its reply.
#[derive(Clone, Debug)]
pub struct Look {
    /// Id of the machine.
    pub machine: MachineId,
    /// The tasks on the machine.
    pub seen: TasksSeen,
}

/// Record that all clients of a run share.
#[derive(Debug)]
pub struct Notes {
    began: Instant,
    written: Mutex<(History, Vec<Look>)>,
    answered: AtomicU64,
    ended: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes {
            began: Instant::now(),
            written: Mutex::default(),
            answered: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            trouble: Mutex::default(),
        }
    }
}

impl Notes {
    /// Nanoseconds since the start of the run.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn written(&self) -> MutexGuard<'_, (History, Vec<Look>)> {
        // If a client panics, the run fails in any case.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request, and its outcome so far.
    pub fn add_call(&self, command: Command, invoked: u64, fate: Fate) {
        if matches!(fate, Fate::Answered(Ok(_))) {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        let completed = self.now();
        self.written().0.calls.push(ClientCall { command, invoked, completed, fate });
    }

    /// Records a read.
    pub fn read(&self, invoked: u64, version: Version) {
        let completed = self.now();
        self.written().0.reads.push(Read { invoked, completed, version });
    }

    /// Records the tasks seen on a machine.
    pub fn looked(&self, invoked: u64, look: Look) {
        self.read(invoked, look.seen.version);
        self.written().1.push(look);
    }

    /// Number of answered commands so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Reports a violation. The first one is recorded, and all clients end.
    pub fn trouble(&self, what: String) {
        let mut first = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(what);
        self.end();
    }

    /// The first violation, if there was one.
    #[must_use]
    pub fn first_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells all clients to end.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether clients should end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Takes all records.
    #[must_use]
    pub fn take(&self) -> (History, Vec<Look>) {
        std::mem::take(&mut *self.written())
    }
}
