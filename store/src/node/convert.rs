//! Conversion of entries and snapshots between the types of the log and those of raft-rs.

use crate::log::{self, EntryKind, LogIndex, Position, Term};
use crate::membership::{Membership, MembershipChange};
use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb::{ConfChangeV2, Entry, EntryType, Snapshot};

/// A snapshot in the types of raft-rs, without content.
pub(super) fn snapshot_of(position: Position, membership: &Membership) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    metadata.index = position.index.0;
    metadata.term = position.term.0;
    metadata.set_conf_state(membership.to_raft());
    snapshot
}

/// Converts an entry of raft-rs to an entry of the log.
pub(super) fn from_raft(entry: &Entry) -> log::Entry {
    let position = Position { index: LogIndex(entry.index), term: Term(entry.term) };
    let (kind, data) = match entry.entry_type {
        EntryType::EntryNormal => (EntryKind::Commands, entry.data.clone()),
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
            (EntryKind::Membership, change_of(entry).to_bytes().into())
        }
    };
    log::Entry { position, kind, data }
}

/// The membership change in an entry that this replica's raft-rs has created.
fn change_of(entry: &Entry) -> MembershipChange {
    let mut change = ConfChangeV2::default();
    change.merge_from_bytes(&entry.data).expect("raft reads what it wrote");
    MembershipChange::from_raft(&change)
}

/// Converts an entry of the log to an entry of raft-rs; `None` if it is malformed.
pub(super) fn to_raft(entry: &log::Entry) -> Option<Entry> {
    let (kind, data) = match entry.kind {
        EntryKind::Commands => (EntryType::EntryNormal, entry.data.clone()),
        EntryKind::Membership => {
            let change = MembershipChange::from_bytes(&entry.data).ok()?;
            let bytes = change.to_raft().write_to_bytes().expect("a vector takes all bytes");
            (EntryType::EntryConfChangeV2, Bytes::from(bytes))
        }
    };
    Some(Entry {
        entry_type: kind,
        term: entry.position.term.0,
        index: entry.position.index.0,
        data,
        ..Entry::default()
    })
}
