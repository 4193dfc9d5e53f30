//! Stops of a replica: reasons, remedies, and removal from the cell.

use super::{PeerMessage, Replica, Reply, RetryReason};
use crate::codec::CodecError;
use crate::log::{LogIndex, ReplicaId};
use crate::node::MessageError;

/// Election timeouts without a message from a leader, after which a replica's state counts as outdated. An election
/// takes one or two.
const SILENCE_ELECTIONS: u64 = 5;

/// Reason why a replica has stopped. A stopped replica answers no requests and no messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// A message proved that a replica has lost entries that it had acknowledged.
    #[error(transparent)]
    Lost(#[from] MessageError),
    /// The replica's state differs from the leader's after the same entry, so one of the two is wrong. Find out which
    /// (`omega log replay` on each), remove that replica, and add a new one with another id.
    #[error(
        "after entry {at}, the state of this replica differs from the leader's: compare the \
         replicas with `omega log replay`, remove the wrong one, and add a new one with another id"
    )]
    Diverged {
        /// Index of the entry after which the states were compared.
        at: LogIndex,
    },
    /// This program cannot read a committed entry. Use the version that wrote it.
    #[error("entry {at} cannot be read: {source}")]
    Unreadable {
        /// Index of the entry.
        at: LogIndex,
        /// Underlying error.
        source: CodecError,
    },
    /// The log failed. Its content is unknown until the log is opened again.
    #[error(transparent)]
    Log(#[from] crate::log::WriteError),
}

/// The remedy for a replica that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A restart, once the disk works.
    StartAgain,
    /// An action of an operator, because after a restart the replica would stop again for the same reason.
    Operator,
}

/// Reason why a replica's state may be outdated for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Outdated {
    /// The replica was removed from the cell.
    #[error("this replica was removed from the cell: call another one, and end this one")]
    Removed,
    /// No leader has sent anything to the replica for several election timeouts.
    #[error("this replica has heard nothing from a leader for a while: call another one")]
    Silence,
    /// The disk of the replica's log is full, so that the replica cannot follow the leader.
    #[error("the disk of this replica is full, and the replica may be behind: call another one")]
    FullDisk,
}

impl Stop {
    /// The remedy for this reason.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Stop::Log(_) => Remedy::StartAgain,
            Stop::Lost(_) | Stop::Diverged { .. } | Stop::Unreadable { .. } => Remedy::Operator,
        }
    }
}

impl Replica {
    /// Handles another replica's report that this replica was removed.
    pub(super) fn handle_removal(&mut self, by: ReplicaId) {
        if by != self.node.id() {
            self.note_removed(by);
        }
    }

    /// Handles a removal that this replica has applied itself. Without a vote, the replica sends no vote requests. So
    /// no other replica would report the removal in reply.
    pub(super) fn check_removal(&mut self) {
        let id = self.node.id();
        if self.node.membership().has_removed(id) {
            self.note_removed(id);
        }
    }

    /// Reason why this replica's state may be outdated for long; `None` if there is none.
    pub fn outdated(&self) -> Option<Outdated> {
        let patience = SILENCE_ELECTIONS * self.settings.node.election_ticks as u64;
        let is_silent = self.ticks.saturating_sub(self.leader_tick) >= patience;
        match () {
            () if self.removed => Some(Outdated::Removed),
            () if is_silent => Some(Outdated::Silence),
            () if self.full && !self.leadership.is_leader => Some(Outdated::FullDisk),
            () => None,
        }
    }

    /// Checks at a tick whether a leader is known to live. While no leader sends anything, asks the voters at intervals
    /// whether this replica was removed. A learner requests no votes, so it sends no other message to which a voter
    /// could reply.
    pub(super) fn check_contact(&mut self) {
        if self.leadership.is_leader {
            self.leader_tick = self.ticks;
        }
        let patience = 2 * self.settings.node.election_ticks as u64;
        let silence = self.ticks.saturating_sub(self.leader_tick);
        let members = self.node.membership();
        let is_learner = members.learners.contains(&self.node.id());
        if self.removed || !is_learner || silence == 0 || !silence.is_multiple_of(patience) {
            return;
        }
        let probes = members.voters.iter().map(|voter| (*voter, PeerMessage::Probe));
        self.output.messages.extend(probes);
    }

    /// Accepts no further requests, because the state of a removed replica becomes ever staler.
    fn note_removed(&mut self, by: ReplicaId) {
        if self.removed {
            return;
        }
        tracing::warn!(id = %self.node.id(), %by, "this replica was removed from the cell: end it");
        self.removed = true;
        // The leader may have accepted forwarded requests before the change.
        let forwarded = self.requests.drop_forwarded().into_iter();
        self.output.replies.extend(forwarded.map(|id| (id, Reply::Unknown)));
        let reads = self.take_reads();
        self.output.replies.extend(reads.map(|id| (id, Reply::Retry(RetryReason::Removed))));
    }
}
