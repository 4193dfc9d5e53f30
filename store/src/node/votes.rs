//! Votes of replicas that may have acknowledged more entries than they have.
//!
//! After a loss of power, the end of a log may be damaged in a way that does not show whether the end was ever synced
//! (`log/segment/promise.rs`). Such a replica *suspects a loss*: it may have acknowledged entries up to a position, and
//! lost them. A vote based on its log could elect a leader without these entries. So
//!
//! - its vote contains that position, and a candidate whose log ends before the position does not count the vote;
//! - a candidate that suspects a loss counts no votes, because its own vote is in question, too;
//! - as an exception, if every voter has voted for a candidate, all votes are counted. A committed entry is on the
//!   disks of a majority, and fewer disks than a majority are damaged. So at least one voter still has the entry, and
//!   would not have voted for a candidate without this entry. Thus a loss of power everywhere does not stop a cell.
//!
//! The suspicion ends once the log reaches the position: every leader has all committed entries, so a follower that has
//! caught up with a leader has them, too.

use super::{Message, MessageKind, Node};
use crate::log::{Position, ReplicaId, Term};
use raft::StateRole;
use std::collections::BTreeSet;

/// Votes for this replica in its present candidacy.
#[derive(Clone, Debug, Default)]
pub(super) struct Votes {
    term: Term,
    stage: StateRole,
    /// Voters that granted their vote.
    granted: BTreeSet<ReplicaId>,
    /// Votes that are counted only if all voters grant theirs.
    held: Vec<Message>,
}

impl Node {
    /// Position up to which this replica may have acknowledged entries that it lost.
    #[must_use]
    pub fn suspected_loss(&self) -> Option<Position> {
        self.suspected_loss
    }

    /// Adds the position of the suspected loss to a vote.
    pub(super) fn with_suspected_loss(&self, mut message: Message) -> Message {
        if is_vote(&message) {
            message.at = self.suspected_loss.unwrap_or_default();
        }
        message
    }

    /// Records a vote for this replica. Returns whether the vote must not be counted for now.
    pub(super) fn is_held_vote(&mut self, message: &Message) -> bool {
        let (term, stage) = (Term(self.raw.raft.term), self.raw.raft.state);
        if !is_vote(message) || message.term != term_of(message.kind, term) {
            // The message is not recorded. It is no vote, or it is a vote for an earlier candidacy, which raft-rs
            // drops.
            return false;
        }
        if (self.votes.term, self.votes.stage) != (term, stage) {
            self.votes = Votes { term, stage, ..Votes::default() };
        }
        self.votes.granted.insert(message.from);
        if self.have_all_voted() {
            for held in std::mem::take(&mut self.votes.held) {
                // The only possible error is that the voter was removed.
                let _ = held.to_raft().map(|held| self.raw.step(held));
            }
            return false;
        }
        let counts = self.suspected_loss.is_none() && self.end().covers(message.at);
        if !counts {
            self.votes.held.push(message.clone());
        }
        !counts
    }

    fn have_all_voted(&self) -> bool {
        let members = &self.membership;
        let mut others = members.voters.iter().chain(&members.voters_outgoing);
        others.all(|voter| *voter == self.id() || self.votes.granted.contains(voter))
    }

    /// Whether this replica could elect itself with its own vote, although it may have lost acknowledged entries.
    pub(super) fn cannot_lead_alone(&self) -> bool {
        self.suspected_loss.is_some() && self.is_alone()
    }

    /// Ends the suspicion if the log reaches the position.
    pub(super) fn settle_suspected_loss(&mut self) {
        let end = self.end();
        self.suspected_loss.take_if(|loss| end.covers(*loss));
    }

    /// Position of the log's end.
    fn end(&self) -> Position {
        let window = self.raw.store();
        let index = window.last();
        Position { index, term: window.term_of(index).unwrap_or_default() }
    }
}

/// The term of votes for a candidate. Pre-votes have the next term, which the candidate has not begun.
fn term_of(kind: MessageKind, candidate: Term) -> Term {
    if kind == MessageKind::PreVoted { Term(candidate.0 + 1) } else { candidate }
}

fn is_vote(message: &Message) -> bool {
    matches!(message.kind, MessageKind::Voted | MessageKind::PreVoted) && !message.reject
}

impl Node {
    /// Returns whether this replica is the only voter.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.membership.voters.iter().eq([&self.id()]) && !self.membership.is_joint()
    }
}
