//! The replicas' last acknowledgements to this replica as the leader.
//!
//! raft-rs keeps a flag for this, which is not enough for a change of the membership: the flag of a new replica is set
//! before the replica has ever replied, and all flags are cleared once per election timeout.

use super::message::{Message, MessageKind};
use crate::log::{ReplicaId, Term};
use std::collections::BTreeMap;

/// The tick of each replica's last acknowledgement in the present term.
#[derive(Clone, Debug, Default)]
pub(super) struct Contacts {
    ticks: u64,
    term: Term,
    last: BTreeMap<ReplicaId, u64>,
}

impl Contacts {
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Records a message that a member has sent to the leader of `term`, if it is a reply to that leader.
    pub(super) fn record(&mut self, message: &Message, term: Term) {
        let is_reply = matches!(message.kind, MessageKind::Appended | MessageKind::Heard);
        if !is_reply || message.term != term {
            return;
        }
        if self.term != term {
            self.term = term;
            self.last.clear();
        }
        self.last.insert(message.from, self.ticks);
    }

    /// Whether a replica has replied to the leader of `term` within the last ticks.
    pub(super) fn is_recent(&self, id: ReplicaId, term: Term, within: usize) -> bool {
        let last = self.last.get(&id).filter(|_| self.term == term);
        last.is_some_and(|last| self.ticks - last < within as u64)
    }
}
