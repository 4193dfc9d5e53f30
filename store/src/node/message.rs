//! Messages between replicas, in Omega's own types.
//!
//! The types of raft-rs come from generated code, whose parser has known faults. So no byte from outside reaches that
//! parser: messages have the types of this file, and are converted field by field.

use super::convert;
use crate::log::{Entry, LogIndex, Position, ReplicaId, Term};
use crate::membership::Membership;
use bytes::Bytes;
use raft::eraftpb::{self, MessageType};
use serde::{Deserialize, Serialize};

/// A Raft message. Its kind determines which fields are used; the other fields have their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Kind of the message.
    pub kind: MessageKind,
    /// The sender.
    pub from: ReplicaId,
    /// The receiver.
    pub to: ReplicaId,
    /// The sender's term.
    pub term: Term,
    /// A position, whose meaning depends on the kind of the message: the entry before the sent entries, the candidate's
    /// last entry, or the last synced entry.
    pub at: Position,
    /// Commit index of the sender. In a heartbeat, at most the index up to which the receiver has acknowledged entries.
    pub commit: Position,
    /// Entries to append, in order.
    pub entries: Vec<Entry>,
    /// Whether this is a reply that rejects the request.
    pub reject: bool,
    /// If entries were rejected, an index at which the logs may match.
    pub hint: LogIndex,
    /// Minimum index of the snapshot that the sender needs; 0 if it needs none.
    pub wants_snapshot: LogIndex,
    /// Bytes that the receiver returns with its reply.
    pub context: Bytes,
    /// The offered snapshot.
    pub snapshot: Option<SnapshotOffer>,
}

/// Offer of a snapshot that the sender has and the receiver needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotOffer {
    /// Position of the last included entry.
    pub position: Position,
    /// Membership at that position.
    pub membership: Membership,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MessageKind {
    /// The leader sends entries, or a new commit index.
    Append,
    /// A follower acknowledges synced entries, or rejects entries that do not follow its log.
    Appended,
    /// A candidate requests a vote.
    Vote,
    /// Reply to a vote request.
    Voted,
    /// A replica asks whether it would be elected, before it starts an election (pre-vote).
    PreVote,
    /// Reply to a pre-vote request.
    PreVoted,
    /// The leader's heartbeat.
    Heartbeat,
    /// Reply to a heartbeat.
    Heard,
    /// The leader offers a snapshot, because the follower is too far behind.
    Snapshot,
    /// The leader asks its successor to start an election at once (`MsgTimeoutNow`).
    StandNow,
    /// A follower asks the leader to transfer leadership.
    Transfer,
    /// A follower asks for the index that it must have applied before it may answer a read.
    ReadIndex,
    /// Reply to `ReadIndex` with that index.
    ReadIndexIs,
}

const KINDS: [(MessageKind, MessageType); 13] = [
    (MessageKind::Append, MessageType::MsgAppend),
    (MessageKind::Appended, MessageType::MsgAppendResponse),
    (MessageKind::Vote, MessageType::MsgRequestVote),
    (MessageKind::Voted, MessageType::MsgRequestVoteResponse),
    (MessageKind::PreVote, MessageType::MsgRequestPreVote),
    (MessageKind::PreVoted, MessageType::MsgRequestPreVoteResponse),
    (MessageKind::Heartbeat, MessageType::MsgHeartbeat),
    (MessageKind::Heard, MessageType::MsgHeartbeatResponse),
    (MessageKind::Snapshot, MessageType::MsgSnapshot),
    (MessageKind::StandNow, MessageType::MsgTimeoutNow),
    (MessageKind::Transfer, MessageType::MsgTransferLeader),
    (MessageKind::ReadIndex, MessageType::MsgReadIndex),
    (MessageKind::ReadIndexIs, MessageType::MsgReadIndexResp),
];

impl Message {
    /// An empty message.
    #[must_use]
    pub fn new(kind: MessageKind, from: ReplicaId, to: ReplicaId, term: Term) -> Message {
        Message {
            kind,
            from,
            to,
            term,
            at: Position::default(),
            commit: Position::default(),
            entries: Vec::new(),
            reject: false,
            hint: LogIndex(0),
            wants_snapshot: LogIndex(0),
            context: Bytes::new(),
            snapshot: None,
        }
    }

    /// Converts a message of raft-rs; `None` if it is not for another replica.
    pub(super) fn from_raft(
        message: eraftpb::Message,
        snapshot: Option<SnapshotOffer>,
    ) -> Option<Message> {
        let (kind, _) = KINDS.iter().find(|(_, raft)| *raft == message.msg_type)?;
        let position = |index, term| Position { index: LogIndex(index), term: Term(term) };
        Some(Message {
            kind: *kind,
            from: ReplicaId(message.from),
            to: ReplicaId(message.to),
            term: Term(message.term),
            at: position(message.index, message.log_term),
            commit: position(message.commit, message.commit_term),
            entries: message.entries.iter().map(convert::from_raft).collect(),
            reject: message.reject,
            hint: LogIndex(message.reject_hint),
            wants_snapshot: LogIndex(message.request_snapshot),
            context: message.context,
            snapshot: snapshot.filter(|_| *kind == MessageKind::Snapshot),
        })
    }

    /// Converts the message to the types of raft-rs; `None` if an entry is malformed.
    pub(super) fn to_raft(&self) -> Option<eraftpb::Message> {
        let (_, kind) = KINDS.iter().find(|(kind, _)| *kind == self.kind)?;
        let entries: Option<Vec<_>> = self.entries.iter().map(convert::to_raft).collect();
        let mut message = eraftpb::Message {
            msg_type: *kind,
            from: self.from.0,
            to: self.to.0,
            term: self.term.0,
            index: self.at.index.0,
            log_term: self.at.term.0,
            commit: self.commit.index.0,
            commit_term: self.commit.term.0,
            entries: entries?.into(),
            reject: self.reject,
            reject_hint: self.hint.0,
            request_snapshot: self.wants_snapshot.0,
            context: self.context.clone(),
            ..eraftpb::Message::default()
        };
        if let Some(offer) = &self.snapshot {
            message.set_snapshot(convert::snapshot_of(offer.position, &offer.membership));
        }
        Some(message)
    }
}
