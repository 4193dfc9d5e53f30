//! Membership changes: proposed by the leader, applied by every replica.
//!
//! A leader proposes no change that removes itself. But a replica may be elected while its log has an earlier leader's
//! change that removes it. When that change is committed, the replica leads a cell in which it has no vote, and its
//! heartbeats would keep the others from being elected. So it steps down when it applies the change.

use super::{Leadership, Message, Node};
use crate::log::{LogIndex, Position, ReplicaId, Term};
use crate::membership::{ChangeError, MemberStep, MembershipChange};
use raft::{INVALID_ID, StateRole};

/// Number of entries that a learner may lack when it is promoted: so few that they are replicated almost immediately.
const BEHIND_MAX: u64 = 64;

impl Node {
    /// Proposes a change of the membership.
    ///
    /// # Errors
    /// This replica is not the leader, or the change is not possible now.
    pub fn propose_change(&mut self, change: &MembershipChange) -> Result<Position, ChangeError> {
        let raft = &self.raw.raft;
        if raft.state != StateRole::Leader {
            return Err(ChangeError::NotLeader);
        }
        self.membership.check(change)?;
        self.membership.check_ids(change)?;
        self.check_quorum_after(change)?;
        if raft.has_pending_conf() {
            return Err(ChangeError::Pending);
        }
        self.raw
            .propose_conf_change(Vec::new(), change.to_raft())
            .map_err(|_| ChangeError::Pending)?;
        Ok(Position { index: self.last(), term: Term(self.raw.raft.term) })
    }

    /// Rejects changes after which too few voters for a quorum would be reachable.
    fn check_quorum_after(&self, change: &MembershipChange) -> Result<(), ChangeError> {
        for step in &change.steps {
            if let MemberStep::Promote(id) = *step {
                self.check_learner(id)?;
            }
        }
        let voters = self.membership.voters_after(change);
        let silent: Vec<_> = voters.iter().copied().filter(|id| !self.answers(*id)).collect();
        if voters.len() - silent.len() > voters.len() / 2 || change.steps.is_empty() {
            Ok(())
        } else {
            Err(ChangeError::NoQuorum { voters: voters.len(), silent })
        }
    }

    /// Checks that a learner replies, needs no snapshot, and lacks few entries. Otherwise the cell could wait for it
    /// once it has a vote.
    fn check_learner(&self, id: ReplicaId) -> Result<(), ChangeError> {
        if !self.answers(id) {
            let address = self.membership.addresses.get(&id).cloned();
            return Err(ChangeError::NoAnswer { id, address });
        }
        let raft = &self.raw.raft;
        let matched = raft.prs().get(id.0).map_or(0, |progress| progress.matched);
        let needed = raft.raft_log.committed.saturating_sub(BEHIND_MAX);
        if matched < needed || matched < self.raw.store().base().index.0 {
            return Err(ChangeError::Behind(id));
        }
        Ok(())
    }

    /// Whether a replica is this leader, or has replied to it within the shortest election timeout.
    fn answers(&self, id: ReplicaId) -> bool {
        let Leadership { term, .. } = self.leadership();
        id == self.id() || self.contacts.is_recent(id, term, self.settings.election_ticks)
    }

    /// Records a message that is a reply of a member to this replica as the leader.
    pub(super) fn record_contact(&mut self, message: &Message) {
        let Leadership { term, is_leader, .. } = self.leadership();
        if is_leader && self.membership.contains(message.from) {
            self.contacts.record(message, term);
        }
    }

    /// Applies a committed membership change. To be called for each such entry, in order. Returns whether the
    /// membership changed. It stays unchanged if earlier changes have made this change invalid.
    pub fn apply_change(&mut self, change: &MembershipChange) -> bool {
        if self.membership.check(change).is_err() {
            return false;
        }
        let Ok(state) = self.raw.apply_conf_change(&change.to_raft()) else { return false };
        self.membership.follow(&state, change);
        self.step_down_if_removed();
        self.settle();
        true
    }

    /// Transfers leadership to the most advanced voter if a majority without this replica has the entry with this
    /// index. Returns that voter.
    pub fn hand_over(&mut self, index: LogIndex) -> Option<ReplicaId> {
        let raft = &self.raw.raft;
        if raft.state != StateRole::Leader || self.membership.is_joint() {
            return None;
        }
        let voters = &self.membership.voters;
        let progress = raft.prs().iter().map(|(id, one)| (LogIndex(one.matched), ReplicaId(*id)));
        let having = progress
            .filter(|(matched, id)| *matched >= index && id.0 != raft.id && voters.contains(id));
        let having: Vec<(LogIndex, ReplicaId)> = having.collect();
        let (_, furthest) = *having.iter().max()?;
        if 2 * having.len() <= voters.len() {
            return None;
        }
        self.transfer(furthest);
        Some(furthest)
    }

    /// Steps down if this replica no longer has a vote.
    fn step_down_if_removed(&mut self) {
        let (id, membership) = (self.id(), &self.membership);
        let votes = membership.voters.contains(&id) || membership.voters_outgoing.contains(&id);
        let raft = &mut self.raw.raft;
        if raft.state == StateRole::Leader
            && !votes
            && !omega_cellstate::injected!(RemovedLeaderStays)
        {
            raft.become_follower(raft.term, INVALID_ID);
        }
    }
}
