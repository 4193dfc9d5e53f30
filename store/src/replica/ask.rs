//! Requests to a replica and their replies; and all messages between replicas.

use crate::log::{Position, ReplicaId, Term};
use crate::membership::{ChangeError, Membership, MembershipChange};
use crate::node::Message;
use crate::snapshot::{Offer, Piece};
use omega_core::{Command, Outcome, Rejection, Version};
use serde::{Deserialize, Serialize};

/// Id of a request, unique among all replicas and their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskId {
    /// Number of the replica's start.
    pub incarnation: u64,
    /// Number of the request since that start.
    pub number: u64,
}

impl Again {
    /// Whether a retry at this replica is useless.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Again::Stopped | Again::Removed)
    }
}

impl AskId {
    /// An id below all others.
    pub const FIRST: AskId = AskId { incarnation: 0, number: 0 };
}

/// A request to a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ask {
    /// Applies a command.
    Command(Command),
    /// Applies a command that was sent before with an unknown outcome. It may still arrive, so it
    /// is never rejected by the pre-check: the log decides.
    Retry(Command),
    /// Waits until this replica has applied everything acknowledged anywhere before. Sent to the
    /// replica that is read, not to the leader.
    Read,
    /// Changes the membership.
    Change(MembershipChange),
    /// Transfers leadership. The reply follows once the transfer has begun, whether or not it succeeds.
    Transfer(ReplicaId),
}

impl Ask {
    /// Whether it adds commands of clients to the log. Leadership and membership can be changed even if the log is
    /// full.
    pub(super) fn adds_commands(&self) -> bool {
        matches!(self, Ask::Command(_) | Ask::Retry(_))
    }
}

/// Reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Answer {
    /// The command was committed, with this result; a rejected one changed nothing.
    Outcome(Result<Outcome, Rejection>),
    /// The replica has applied everything acknowledged before the request; the cell is at least at
    /// this version.
    Fresh(Version),
    /// Membership after the change.
    Changed(Result<Membership, ChangeError>),
    /// The leadership transfer has begun.
    Begun,
    /// Nothing was or will be done; the reason. Retry.
    Again(Again),
    /// The outcome is unknown: the request may be done already, or later. Retry with the same transaction id.
    Unknown,
}

/// Reason why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Again {
    /// No leader is known, or the leader has changed.
    #[error("no leader is known now")]
    Leaderless,
    /// The leader is busy.
    #[error("the leader is busy, try again later")]
    Busy,
    /// The leader's disk is full: make room there.
    #[error("the leader's disk is full; make room there")]
    Full,
    /// Another leader's entry replaced that of the request.
    #[error("another leader took over before the request was replicated")]
    Overwritten,
    /// This replica has stopped.
    #[error("the replica has stopped")]
    Stopped,
    /// This replica was removed from the cell, so its state is outdated: ask another one.
    #[error("this replica was removed from the cell: ask another one, and end this one")]
    Removed,
    /// The leader's log has its maximum length until a snapshot is saved. The leader retries by itself. If
    /// this lasts, its messages have the reason, most often a full disk: make room there.
    #[error(
        "the leader's log is as long as it may be before a snapshot is saved; if this lasts, make room on \
         the leader's disk"
    )]
    NoSnapshot,
}

/// Messages between replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PeerMessage {
    /// Message of Raft.
    Agree(Message),
    /// A request forwarded to the leader of a term.
    Ask {
        /// Id of the request.
        id: AskId,
        /// Term of the leader; other leaders reject it.
        term: Term,
        /// The request.
        ask: Ask,
    },
    /// Request for the description of a snapshot, or for a piece of it.
    SnapshotAsk {
        /// Position of the snapshot.
        position: Position,
        /// Number of the piece, if the size of the snapshot is known.
        piece: Option<u64>,
    },
    /// Description of a snapshot.
    SnapshotIs {
        /// Size and hash of the snapshot.
        offer: Offer,
    },
    /// A piece of a snapshot.
    SnapshotPiece {
        /// Position of the snapshot.
        position: Position,
        /// The piece.
        piece: Piece,
    },
    /// Reply that there is no such snapshot.
    SnapshotGone {
        /// Position of the snapshot.
        position: Position,
    },
    /// Reply to a forwarded request.
    Answer {
        /// Id of the request.
        id: AskId,
        /// The reply.
        answer: Answer,
    },
    /// The receiver was removed from the cell, and will not be added again.
    Removed,
    /// The sender has heard from no leader for a while. If the receiver knows that the sender was removed, it replies
    /// with `Removed`; otherwise it does not reply.
    Probe,
}
