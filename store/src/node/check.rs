//! Checks of messages before raft-rs processes them.
//!
//! raft-rs trusts its peers, and panics on impossible messages. So messages are first checked against this replica's
//! state. Most invalid messages are forged or come from unknown senders, and are dropped. Other invalid messages prove
//! that a replica has lost or changed entries that it had acknowledged. The replica must stop then.

use super::convert;
use super::message::{Message, MessageKind};
use super::window::Window;
use crate::log::{Entry, EntryKind, LogIndex, Position, ReplicaId, Term};
use crate::membership::MembershipChange;
use omega_core::limits::ENTRY_BYTES_MAX;
use raft::{RawNode, StateRole};

/// Upper bound of valid terms. At one election per millisecond, reaching it would take nine million years.
const TERM_MAX: u64 = 1 << 58;

/// Maximum number of entries in one message. Valid messages have fewer, because they are bounded in bytes, and only the
/// first entry of a leader is empty.
const ENTRIES_MAX: usize = 1 << 16;

/// Maximum bytes of the context that a reply returns. raft-rs uses one word, and the id of a read has three words.
const CONTEXT_BYTES_MAX: usize = 64;

/// Error of a rejected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The message is for another replica, or claims to be from this replica.
    #[error("the message claims to be from this replica, or is addressed to another one")]
    Misdirected,
    /// The message is inconsistent, because it was forged, or damaged on its way.
    #[error("the message is invalid: {0}")]
    Malformed(&'static str),
    /// The message refers to entries that this replica, which is the leader, does not have.
    #[error("the message refers to an entry after the end of this leader's log")]
    Beyond,
    /// By the leader's record, this replica has acknowledged entries that it does not have, so its log has lost its
    /// end. The replica must no longer vote or acknowledge entries.
    #[error(
        "this replica acknowledged entries up to {acknowledged} but has only those up to {last}, \
         so the end of its log is lost: remove it from the cell, and add a new replica with another id"
    )]
    LostTail {
        /// Last index that the replica had acknowledged.
        acknowledged: LogIndex,
        /// Index of the replica's last entry.
        last: LogIndex,
    },
    /// The leader's message contradicts a committed entry, so one of the two replicas has lost an entry that it had
    /// acknowledged.
    #[error(
        "entry {index} was committed in term {committed}, but the leader has it in term \
         {offered}, so one of the two lost entries that it had acknowledged: compare the replicas \
         with `omega log show`; if only this one differs, remove it and add a new one with another \
         id; otherwise restore the cell from a backup"
    )]
    Contradiction {
        /// Index of the entry.
        index: LogIndex,
        /// Term in which the entry was committed.
        committed: Term,
        /// Term in the message.
        offered: Term,
    },
    /// The leader has an entry of this index and term with other content, so one of the two logs is damaged, or belongs
    /// to another cell.
    #[error(
        "entry {index} of term {term} has other content than on the leader: compare the replicas \
         with `omega log show`, remove the wrong one, and add a new one with another id"
    )]
    Altered {
        /// Index of the entry.
        index: LogIndex,
        /// Term of the entry.
        term: Term,
    },
}

impl MessageError {
    /// Whether the replica must stop.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            MessageError::LostTail { .. }
                | MessageError::Contradiction { .. }
                | MessageError::Altered { .. }
        )
    }
}

/// Checks a message against a replica's state.
pub(super) fn check(message: &Message, raw: &RawNode<Window>) -> Result<(), MessageError> {
    let raft = &raw.raft;
    if message.to.0 != raft.id || message.from.0 == raft.id || message.from == ReplicaId(0) {
        return Err(MessageError::Misdirected);
    }
    check_form(message)?;
    if message.kind == MessageKind::Transfer && raft.state != StateRole::Leader {
        // raft-rs on a follower would forward the message, and would panic because the message has a term.
        return Err(MessageError::Malformed("this replica does not lead"));
    }
    if message.term.0 < raft.term && message.kind != MessageKind::ReadIndex {
        // raft-rs answers or drops messages of earlier terms without reading the rest.
        return Ok(());
    }
    let last = LogIndex(raft.raft_log.last_index());
    match message.kind {
        MessageKind::Heartbeat if omega_cellstate::injected!(LostTailIgnored) => Ok(()),
        MessageKind::Heartbeat if message.commit.index > last => {
            Err(MessageError::LostTail { acknowledged: message.commit.index, last })
        }
        MessageKind::Append => check_committed(message, raw),
        MessageKind::Snapshot => check_snapshot(message, raw),
        // Only the leader of the message's term makes this check, because only raft-rs on that leader reads these
        // messages.
        MessageKind::Appended | MessageKind::Heard
            if raft.state == StateRole::Leader && message.term.0 == raft.term =>
        {
            let beyond = !message.reject && message.at.index > last;
            if beyond || message.wants_snapshot > last { Err(MessageError::Beyond) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// Checks a message independently of its receiver.
fn check_form(message: &Message) -> Result<(), MessageError> {
    let malformed = |what| Err(MessageError::Malformed(what));
    // A follower's ReadIndex request must have no term, because raft-rs would panic on a term.
    let has_term = message.kind != MessageKind::ReadIndex;
    if message.term.0 > TERM_MAX || (message.term != Term(0)) != has_term {
        return malformed("its term is out of range");
    }
    let positions = [message.at, message.commit];
    let indices = [message.hint, message.wants_snapshot];
    if positions.iter().any(|at| at.term.0 > TERM_MAX || at.index.0 > TERM_MAX)
        || indices.iter().any(|index| index.0 > TERM_MAX)
    {
        return malformed("a position is out of range");
    }
    if message.context.len() > CONTEXT_BYTES_MAX {
        return malformed("its context is too long");
    }
    match message.kind {
        MessageKind::Append => check_entries(message.at, &message.entries, message.term)?,
        MessageKind::ReadIndex | MessageKind::ReadIndexIs => {
            let one = message.entries.len() == 1;
            if !one || message.entries.iter().any(|entry| entry.data.len() > CONTEXT_BYTES_MAX) {
                return malformed("it must have one short entry");
            }
        }
        _ if !message.entries.is_empty() => return malformed("it must not have entries"),
        _ => {}
    }
    match (message.kind, &message.snapshot) {
        (MessageKind::Snapshot, Some(offer)) => {
            let Position { index, term } = offer.position;
            let named = index > LogIndex(0) && term > Term(0) && term <= message.term;
            if !named || index.0 > TERM_MAX || !offer.membership.is_sound() {
                return malformed("its snapshot is impossible");
            }
        }
        (MessageKind::Snapshot, None) => return malformed("it has no snapshot"),
        (_, Some(_)) => return malformed("it must not have a snapshot"),
        (_, None) => {}
    }
    Ok(())
}

/// Checks that entries follow a position without a gap, and have terms up to `term`.
fn check_entries(before: Position, entries: &[Entry], term: Term) -> Result<(), MessageError> {
    let malformed = |what| Err(MessageError::Malformed(what));
    if entries.len() > ENTRIES_MAX {
        return malformed("it has too many entries");
    }
    if (before.index == LogIndex(0)) != (before.term == Term(0)) || before.term > term {
        return malformed("the position before its entries is impossible");
    }
    let mut last = before;
    for entry in entries {
        let Position { index, term: of } = entry.position;
        if index != last.index.next() || of < last.term || of > term {
            return malformed("its entries do not follow one another");
        }
        if entry.data.len() > ENTRY_BYTES_MAX {
            return malformed("an entry is too large");
        }
        let is_change = entry.kind == EntryKind::Membership;
        if is_change && MembershipChange::from_bytes(&entry.data).is_err() {
            return malformed("a change of the membership cannot be read");
        }
        last = entry.position;
    }
    Ok(())
}

/// Checks that the last entry of a snapshot does not contradict this log. Without this check, raft-rs would take a
/// snapshot that ends at the commit index for a newer one.
fn check_snapshot(message: &Message, raw: &RawNode<Window>) -> Result<(), MessageError> {
    let log = &raw.raft.raft_log;
    let Some(Position { index, term: offered }) = message.snapshot.as_ref().map(|one| one.position)
    else {
        return Ok(());
    };
    match log.term(index.0) {
        Ok(known) if index.0 <= log.committed && known != 0 && known != offered.0 => {
            Err(MessageError::Contradiction { index, committed: Term(known), offered })
        }
        _ => Ok(()),
    }
}

/// Checks that entries replace no committed entries, and that entries which this log has already are equal. raft-rs
/// ignores entries that begin before the commit index, and compares only terms otherwise.
fn check_committed(message: &Message, raw: &RawNode<Window>) -> Result<(), MessageError> {
    let log = &raw.raft.raft_log;
    let committed = LogIndex(log.committed);
    let offered = message.entries.iter().map(|entry| entry.position);
    for Position { index, term: offered } in [message.at].into_iter().chain(offered) {
        if index > committed {
            break;
        }
        let Ok(known) = log.term(index.0) else { continue };
        if known != 0 && known != offered.0 {
            return Err(MessageError::Contradiction { index, committed: Term(known), offered });
        }
    }
    for entry in &message.entries {
        let known = raw.store().entry(entry.position.index).map(convert::from_raft);
        if known.is_some_and(|known| known.position == entry.position && known != *entry) {
            let Position { index, term } = entry.position;
            return Err(MessageError::Altered { index, term });
        }
    }
    Ok(())
}
