//! Events for a replica's thread.

use super::ask::{Ask, PeerMessage};
use super::files::FileDone;
use super::reply::Reply;
use crate::log::{ReplicaId, WriteError};

/// An event for a replica's thread.
#[derive(Debug)]
pub(super) enum Event {
    Message(ReplicaId, PeerMessage),
    /// Requests that were sent together, in order.
    Ask(Vec<(Ask, Reply)>),
    Written(Written),
    File(FileDone),
    End,
}

impl Event {
    /// Whether the event can wait while a leader's entries in flight are at their limit.
    pub(super) fn can_wait(&self) -> bool {
        let waits = |ask: &Ask| matches!(ask, Ask::Command(_) | Ask::Retry(_));
        matches!(self, Event::Ask(asks) if asks.iter().all(|(ask, _)| waits(ask)))
    }
}

/// Result of jobs of the log's thread.
#[derive(Debug)]
pub(super) struct Written {
    /// Number of the last write that became durable, if any.
    pub(super) safe: Result<Option<u64>, WriteError>,
    /// Whether the disk is full. Waiting writes are tried again periodically.
    pub(super) full: bool,
    /// Number of jobs that the log's thread has completed with this result.
    pub(super) taken: usize,
}
