//! Snapshots that this replica offers to others, and accepts from them.

use super::{Node, SnapshotOffer};
use crate::log::{Position, ReplicaId};
use crate::membership::Membership;
use raft::{ProgressState, SnapshotStatus, StateRole};

impl Node {
    /// Offers a durable snapshot to replicas that are too far behind.
    pub fn snapshot_taken(&mut self, position: Position, membership: Membership) {
        self.raw.mut_store().offer(position, membership);
    }

    /// Whether, since the last call, another replica has needed a newer snapshot than the offered one.
    #[must_use]
    pub fn snapshot_wanted(&self) -> bool {
        self.raw.store().take_wanted()
    }

    /// Returns the replicas that need a snapshot if this replica is the leader; otherwise none.
    #[must_use]
    pub fn needs_snapshot(&self) -> Vec<ReplicaId> {
        let raft = &self.raw.raft;
        let needy = raft.prs().iter().filter(|(_, one)| one.state == ProgressState::Snapshot);
        let needy = needy.filter(|_| raft.state == StateRole::Leader);
        let mut needy: Vec<_> = needy.map(|(id, _)| ReplicaId(*id)).collect();
        needy.sort_unstable();
        needy
    }

    /// Reports that a replica has not received an offered snapshot, so it is offered again.
    pub fn snapshot_failed(&mut self, to: ReplicaId) {
        self.raw.report_snapshot(to.0, SnapshotStatus::Failure);
        self.settle();
    }

    /// Whether an offered snapshot was accepted, and is not installed yet.
    #[must_use]
    pub fn has_accepted_snapshot(&self) -> bool {
        self.accepted.is_some()
    }

    /// Whether raft-rs has accepted this offered snapshot, and not installed it yet. It rejects delayed offers.
    pub(super) fn is_accepted(&self, offer: &SnapshotOffer) -> bool {
        let pending = self.raw.raft.raft_log.unstable.snapshot.as_ref();
        pending.is_some_and(|snapshot| snapshot.get_metadata().index == offer.position.index.0)
    }
}
