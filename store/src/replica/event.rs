//! Events for a replica's thread.

use super::pending_replies::ReplySender;
use super::request::{PeerMessage, Request};
use super::snapshot_worker::SnapshotResult;
use crate::log::{ReplicaId, WriteError};

/// An event for a replica's thread.
#[derive(Debug)]
pub(super) enum Event {
    Message(ReplicaId, PeerMessage),
    /// Requests that were sent together, in order.
    Request(Vec<(Request, ReplySender)>),
    LogResult(LogResult),
    File(SnapshotResult),
    End,
}

impl Event {
    /// Whether the event can wait while a leader's entries in flight are at their limit.
    pub(super) fn can_wait(&self) -> bool {
        let waits = |request: &Request| matches!(request, Request::Command(_) | Request::Retry(_));
        matches!(self, Event::Request(requests) if requests.iter().all(|(request, _)| waits(request)))
    }
}

/// Result of jobs of the log's thread.
#[derive(Debug)]
pub(super) struct LogResult {
    /// Number of the last write that became durable, if any.
    pub(super) safe: Result<Option<u64>, WriteError>,
    /// Whether the disk is full. Waiting writes are tried again periodically.
    pub(super) full: bool,
    /// Number of jobs that the log's thread has completed with this result.
    pub(super) taken: usize,
}
