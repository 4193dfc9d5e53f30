//! Reads: each waits for the leader's reply with an index, and then until this replica has applied the entry at that
//! index.

use super::{Replica, Reply, RequestId};
use crate::node::ReadId;

impl Replica {
    /// Answers the reads whose index has been applied.
    pub(super) fn reply_to_reads(&mut self) {
        let Some((&(first, _), _)) = self.reads.first_key_value() else { return };
        let state = self.applied.lock();
        let (reached, version) = (state.position.index, state.cell.version());
        drop(state);
        if first > reached {
            return;
        }
        let later = self.reads.split_off(&(reached.next(), RequestId::FIRST));
        for ((_, id), _) in std::mem::replace(&mut self.reads, later) {
            self.output.replies.push((id, Reply::Fresh(version)));
        }
    }

    pub(super) fn read_id(&self, id: RequestId) -> ReadId {
        let RequestId { incarnation, number } = id;
        ReadId { replica: self.node.id(), incarnation, number }
    }

    /// Repeats read requests without a reply, because messages may be lost.
    pub(super) fn retry_reads(&mut self) {
        if self.ticks.is_multiple_of(self.settings.node.heartbeat_ticks as u64) {
            let reads: Vec<ReadId> =
                self.read_requests.keys().map(|id| self.read_id(*id)).collect();
            reads.into_iter().for_each(|read| self.node.read(read));
        }
    }

    /// Removes and returns all waiting reads.
    pub(super) fn take_reads(&mut self) -> impl Iterator<Item = RequestId> + use<> {
        let read_requests = std::mem::take(&mut self.read_requests).into_keys();
        let reads = std::mem::take(&mut self.reads).into_keys();
        read_requests.chain(reads.map(|(_, id)| id))
    }
}
