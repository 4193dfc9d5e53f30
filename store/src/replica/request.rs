//! Requests to a replica and their replies, and all messages between replicas.

use crate::log::{Position, ReplicaId, Term};
use crate::membership::{ChangeError, Membership, MembershipChange};
use crate::node::Message;
use crate::snapshot::{Offer, Piece};
use omega_core::{Command, Outcome, Rejection, Version};
use serde::{Deserialize, Serialize};

/// Id of a request, unique among all replicas and all their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// Number that identifies the start of the replica.
    pub incarnation: u64,
    /// Number of the request since that start.
    pub number: u64,
}

impl RetryReason {
    /// Whether sending the request to this replica again is useless.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, RetryReason::Stopped | RetryReason::Removed)
    }
}

impl RequestId {
    /// An id below all others.
    pub const FIRST: RequestId = RequestId { incarnation: 0, number: 0 };
}

/// A request to a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request {
    /// Applies a command.
    Command(Command),
    /// Applies a command that was sent before with an unknown outcome. The first copy may still arrive, so the
    /// pre-check never rejects a retry. Its outcome is determined when its log entry is applied.
    Retry(Command),
    /// Waits until this replica has applied everything that any replica had acknowledged before. The request is sent to
    /// the replica whose state is read, not to the leader.
    Read,
    /// Changes the membership.
    Change(MembershipChange),
    /// Transfers leadership. The reply is sent once the transfer has begun, whether or not it succeeds.
    Transfer(ReplicaId),
}

impl Request {
    /// Whether the request adds commands of clients to the log. Other requests change leadership and membership, and
    /// are accepted even if the log is full.
    pub(super) fn adds_commands(&self) -> bool {
        matches!(self, Request::Command(_) | Request::Retry(_))
    }
}

/// Reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reply {
    /// The command was committed with this result. If the result is a rejection, nothing changed.
    Outcome(Result<Outcome, Rejection>),
    /// The replica has applied everything that was acknowledged before the request. The cell has at least this version.
    Fresh(Version),
    /// Membership after the change.
    Changed(Result<Membership, ChangeError>),
    /// The leadership transfer has begun.
    Begun,
    /// Nothing was done or will be done, for this reason. The request may be sent again.
    Retry(RetryReason),
    /// The outcome is unknown: the request may have taken effect, or may take effect later. Send it again with an
    /// unchanged transaction id.
    Unknown,
}

/// Reason why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum RetryReason {
    /// No leader is known, or the leader has changed.
    #[error(
        "no leader is known now: try again later, and make sure that a majority of the replicas \
         runs"
    )]
    Leaderless,
    /// The leader has as many requests as it can queue.
    #[error("the leader is busy, try again later")]
    Busy,
    /// The leader's disk is full. Make space on it.
    #[error("the leader's disk is full: make room on it")]
    Full,
    /// The entry of the request was replaced by an entry of another leader.
    #[error("another leader took over before the request was replicated: try again")]
    Overwritten,
    /// This replica has stopped.
    #[error("the replica has stopped: call another one, or start it again")]
    Stopped,
    /// This replica was removed from the cell, so its state is outdated. Send the request to another replica.
    #[error("this replica was removed from the cell: call another one, and end this one")]
    Removed,
    /// The leader's log has its maximum length until a snapshot is saved. The leader keeps trying to save one. If the
    /// error lasts, the leader's log messages contain the cause, most often a full disk: make space on it.
    #[error(
        "the leader's log has reached its maximum length, and the next snapshot is not saved yet: \
         try again later; if this persists, make room on the leader's disk"
    )]
    NoSnapshot,
    /// No leader is known, and the disk of this replica is full, so that it cannot become the leader. Make space on it.
    #[error("no leader is known now, and the disk of this replica is full: make room on it")]
    LeaderlessAndFull,
}

/// Messages between replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PeerMessage {
    /// A message of Raft.
    Raft(Message),
    /// A request forwarded to the leader of a term.
    Request {
        /// Id of the request.
        id: RequestId,
        /// Term of the leader. A leader of another term rejects the request.
        term: Term,
        /// The request.
        request: Request,
    },
    /// A request for the description of a snapshot, or for a piece of it.
    SnapshotRequest {
        /// Position of the snapshot.
        position: Position,
        /// Number of the piece; `None` requests the description, which contains the size.
        piece: Option<u64>,
    },
    /// Description of a snapshot.
    SnapshotOffer {
        /// Position, size and hash of the snapshot.
        offer: Offer,
    },
    /// A piece of a snapshot.
    SnapshotPiece {
        /// Position of the snapshot.
        position: Position,
        /// The piece.
        piece: Piece,
    },
    /// Reply that there is no snapshot with this position.
    SnapshotGone {
        /// Position of the snapshot.
        position: Position,
    },
    /// Reply to a forwarded request.
    Reply {
        /// Id of the request.
        id: RequestId,
        /// The reply.
        reply: Reply,
    },
    /// Notice that the receiver was removed from the cell and will not be added again.
    Removed,
    /// Question of a replica whether it was removed, sent after it has received nothing from a leader for a while. If
    /// the receiver's membership shows the removal, the receiver replies with `Removed`; otherwise it does not reply.
    Probe,
}
