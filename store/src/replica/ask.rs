//! Requests to a replica and their answers; and all messages between replicas.

use crate::log::{Position, ReplicaId, Term};
use crate::membership::{ChangeError, Membership, MembershipChange};
use crate::node::Message;
use crate::snapshot::{Offer, Piece};
use omega_core::{Command, Outcome, Rejection, Version};
use serde::{Deserialize, Serialize};

/// One request of one start of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskId {
    /// Of which start.
    pub incarnation: u64,
    /// Counts its requests.
    pub number: u64,
}

impl Again {
    /// Whether it is in vain to ask this replica again.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Again::Stopped | Again::Removed)
    }
}

impl AskId {
    /// The one before all others.
    pub const FIRST: AskId = AskId { incarnation: 0, number: 0 };
}

/// Request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ask {
    /// To apply a command.
    Command(Command),
    /// To apply a command that was asked for before, where nobody knows what became of it. It may be
    /// on its way still, so it is never refused early: the log decides.
    Retry(Command),
    /// To tell when this replica has applied all that was answered anywhere before. Is asked of the
    /// replica that is to be read, not of the leader.
    Read,
    /// To change who the replicas are.
    Change(MembershipChange),
    /// To let another voter lead. It is answered when it is begun; whether it succeeds, shows in who
    /// leads.
    Transfer(ReplicaId),
}

impl Ask {
    /// Whether the log becomes longer by what a client wants. Who leads, and who the replicas are, can
    /// be changed even if it must not.
    pub(super) fn adds_commands(&self) -> bool {
        matches!(self, Ask::Command(_) | Ask::Retry(_))
    }
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Answer {
    /// The command was applied, on this and on every replica; or it was refused, and changed nothing.
    Outcome(Result<Outcome, Rejection>),
    /// The replica has applied all that was answered before the question; the cell is at least at
    /// this version.
    Fresh(Version),
    /// Membership after the change.
    Changed(Result<Membership, ChangeError>),
    /// The change of leaders has begun.
    Begun,
    /// Nothing was done, and nothing will be: ask again.
    Again(Again),
    /// It may have been done, or may still be. Ask again with the same transaction id.
    Unknown,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Again {
    /// Nobody leads now, or somebody else than was thought.
    #[error("no leader is known now")]
    Leaderless,
    /// The leader takes no more now.
    #[error("the leader takes no more now")]
    Busy,
    /// The leader's disk is full: make room.
    #[error("the leader's disk is full; make room there")]
    Full,
    /// Another leader's entry took the place of the request's.
    #[error("another leader took over before the request was safe")]
    Overwritten,
    /// This replica has stopped.
    #[error("the replica has stopped")]
    Stopped,
    /// This replica was removed from the cell, and its state gets older and older: ask another one.
    #[error("this replica was removed from the cell: ask another one, and end this one")]
    Removed,
    /// The leader's log is as long as it may be before a snapshot is saved. It tries again by itself: if
    /// this lasts, its own log tells why none can be saved. Most often its disk is full: make room.
    #[error(
        "the leader's log is as long as it may be before a snapshot is saved; if this lasts, make room on \
         the leader's disk"
    )]
    NoSnapshot,
}

/// All that replicas say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PeerMessage {
    /// About the agreement.
    Agree(Message),
    /// A request, sent on to the leader of a term.
    Ask {
        /// Which one.
        id: AskId,
        /// Term of the leader: other replicas do not take it.
        term: Term,
        /// Request.
        ask: Ask,
    },
    /// Request for the description of a snapshot, or for a piece of it
    SnapshotAsk {
        /// Which snapshot.
        position: Position,
        /// Which piece, if it is known what the snapshot is like.
        piece: Option<u64>,
    },
    /// Description of a snapshot.
    SnapshotIs {
        /// Its size and hash.
        offer: Offer,
    },
    /// A piece of a snapshot.
    SnapshotPiece {
        /// Of which snapshot.
        position: Position,
        /// The piece.
        piece: Piece,
    },
    /// There is no such snapshot.
    SnapshotGone {
        /// Which one.
        position: Position,
    },
    /// The answer to it.
    Answer {
        /// To which one.
        id: AskId,
        /// The answer.
        answer: Answer,
    },
    /// The receiver is no replica of the cell any more, and never will be again.
    Removed,
}
