//! Raft's rules for replicas. A violation is detected at once, before clients notice it.
//!
//! 1. In a term there is at most one leader, and each replica votes for at most one candidate.
//! 2. The term of a replica never decreases, even after a power failure.
//! 3. Entries that a replica acknowledged exist after a restart, unless a later leader replaced
//!    them.

use omega_store::log::{LogIndex, ReplicaId, Term};
use omega_store::node::{Leadership, Message, MessageKind, Node};
use std::collections::BTreeMap;

/// The last promise of a replica.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promise {
    /// Term of the promise.
    term: Term,
    /// Index up to which the replica has acknowledged its log.
    index: LogIndex,
}

/// Promises that a replica must have kept after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// All of its promises.
    Promised,
    /// Only promises from before the last sync: the end of the log is damaged, and only later records prove that
    /// earlier ones were written.
    Proven,
}

/// The promises; see the head of the file.
#[derive(Debug, Default)]
pub(super) struct Promises {
    leaders: BTreeMap<Term, ReplicaId>,
    votes: BTreeMap<(ReplicaId, Term), ReplicaId>,
    promised: BTreeMap<ReplicaId, Promise>,
    proven: BTreeMap<ReplicaId, Promise>,
}

impl Promises {
    /// Records that a replica is the leader of a term, and checks that no other replica is.
    pub(super) fn leads(&mut self, id: ReplicaId, now: Leadership) -> Result<(), String> {
        if !now.is_leader {
            return Ok(());
        }
        let leader = *self.leaders.entry(now.term).or_insert(id);
        if leader == id {
            Ok(())
        } else {
            Err(format!("{id} and {leader} lead in term {}", now.term))
        }
    }

    /// Checks a message that a replica sends.
    pub(super) fn says(&mut self, message: &Message) -> Result<(), String> {
        let (from, term) = (message.from, message.term);
        let promise = match message.kind {
            MessageKind::Voted if !message.reject => {
                let vote = *self.votes.entry((from, term)).or_insert(message.to);
                if vote != message.to {
                    return Err(format!("{from} votes for {vote} and {} in {term}", message.to));
                }
                Promise { term, index: LogIndex(0) }
            }
            MessageKind::Vote => {
                let vote = *self.votes.entry((from, term)).or_insert(from);
                if vote != from {
                    return Err(format!("{from} stands in {term}, and votes for {vote}"));
                }
                Promise { term, index: LogIndex(0) }
            }
            MessageKind::Appended if !message.reject => Promise { term, index: message.at.index },
            _ => return Ok(()),
        };
        let known = self.promised.entry(from).or_default();
        if promise.term > known.term {
            *known = promise;
        } else if promise.term == known.term {
            known.index = known.index.max(promise.index);
        }
        Ok(())
    }

    /// The last promise of a replica.
    pub(super) fn of(&self, id: ReplicaId) -> Promise {
        self.promised.get(&id).copied().unwrap_or_default()
    }

    /// Records that a sync followed a promise, so its loss is not excused by damage at the end of the log.
    pub(super) fn proves(&mut self, id: ReplicaId, promise: Promise) {
        self.proven.insert(id, promise);
    }

    /// Checks that a restarted replica has kept its promises.
    pub(super) fn remembers(&self, node: &Node, bound: Bound) -> Result<(), String> {
        let id = node.id();
        let promised = match bound {
            Bound::Promised => self.of(id),
            Bound::Proven => self.proven.get(&id).copied().unwrap_or_default(),
        };
        let term = node.leadership().term;
        // A replica in doubt has recorded up to which index it may lack entries.
        let last = node.suspected_loss().map_or(node.last(), |doubt| doubt.index.max(node.last()));
        if term < promised.term {
            return Err(format!("{id} was in term {} and starts in {term}", promised.term));
        }
        // In a later term, another leader may have replaced the entries.
        if term == promised.term && last < promised.index {
            return Err(format!(
                "{id} has acknowledged entries up to {} in term {term}, and starts with those up to {last}",
                promised.index
            ));
        }
        Ok(())
    }
}
