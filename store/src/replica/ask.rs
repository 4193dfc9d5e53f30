//! Requests to a replica and their answers; and all messages between replicas.

use crate::log::{Position, ReplicaId, Term};
use crate::membership::{ChangeError, Membership, MembershipChange};
use crate::node::Message;
use crate::snapshot::{Offer, Piece};
use omega_core::{Command, Outcome, Rejection, Version};
use serde::{Deserialize, Serialize};

/// Id of a request, unique among all replicas and their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskId {
    /// Number of the start.
    pub incarnation: u64,
    /// Counts its requests.
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
    /// The one before all others.
    pub const FIRST: AskId = AskId { incarnation: 0, number: 0 };
}

/// A request to a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ask {
    /// To apply a command.
    Command(Command),
    /// Applies a command that was sent before with an unknown outcome. It may still arrive, so it
    /// is never rejected by the pre-check: the log decides.
    Retry(Command),
    /// Waits until this replica has applied everything acknowledged anywhere before. Sent to the
    /// replica that is read, not to the leader.
    Read,
    /// Change the membership.
    Change(MembershipChange),
    /// Transfer leadership. Answered once the transfer has begun, whether or not it succeeds.
    Transfer(ReplicaId),
}

impl Ask {
    /// Whether it adds commands of clients to the log. Leadership and membership can change even
    /// when the log is full.
    pub(super) fn adds_commands(&self) -> bool {
        matches!(self, Ask::Command(_) | Ask::Retry(_))
    }
}

/// Answer to a request.
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
    /// Nothing was or will be done: retry.
    Again(Again),
    /// It may have been done, or may still be. Retry with the same transaction id.
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
    /// The leader's disk is full: make room.
    #[error("the leader's disk is full; make room there")]
    Full,
    /// Another leader's entry took the place of the request's.
    #[error("another leader took over before the request was replicated")]
    Overwritten,
    /// This replica has stopped.
    #[error("the replica has stopped")]
    Stopped,
    /// This replica was removed from the cell, so its state is outdated: ask another one.
    #[error("this replica was removed from the cell: ask another one, and end this one")]
    Removed,
    /// The leader's log has the maximum length until a snapshot is saved. It retries by itself; if
    /// this lasts, its own log has the reason, most often a full disk: free space.
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
    /// About the agreement.
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
    /// Request for the description of a snapshot, or for a piece of it
    SnapshotAsk {
        /// Position of the snapshot.
        position: Position,
        /// Number of the piece, if the snapshot's size is known.
        piece: Option<u64>,
    },
    /// Description of a snapshot.
    SnapshotIs {
        /// Its size and hash.
        offer: Offer,
    },
    /// A piece of a snapshot.
    SnapshotPiece {
        /// Position of the snapshot.
        position: Position,
        /// The piece.
        piece: Piece,
    },
    /// There is no such snapshot.
    SnapshotGone {
        /// Position of the snapshot.
        position: Position,
    },
    /// The answer to it.
    Answer {
        /// Id of the request.
        id: AskId,
        /// The answer.
        answer: Answer,
    },
    /// The receiver is no replica of the cell any more, and never will be again.
    Removed,
    /// The sender has heard from no leader for a while. It is answered by `Removed` where that is why, and else not at all.
    Probe,
}
