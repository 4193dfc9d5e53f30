//! State that a running replica publishes.

use super::{Outdated, Remedy};
use crate::log::{LogIndex, ReplicaId};
use crate::membership::Membership;
use crate::node::Leadership;

/// Published state of a running replica.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Role and leader.
    pub leadership: Leadership,
    /// Membership of the cell.
    pub membership: Membership,
    /// Reason why the replica's state may be outdated, if there is one; updated at every tick.
    pub outdated: Option<Outdated>,
    /// Reason why the replica has stopped, if it has.
    pub stopped: Option<String>,
    /// Remedy for that reason.
    pub remedy: Option<Remedy>,
    /// Bytes that were written to the log.
    pub log_bytes: u64,
    /// Number of times that the log was synced.
    pub log_syncs: u64,
    /// Whether the disk of the log is full, so that nothing can be written until there is room.
    pub disk_full: bool,
    /// Number of snapshots taken since the replica's start.
    pub snapshots: u64,
    /// Index of the log's end, updated at every tick.
    pub log_end: LogIndex,
    /// Index of the last applied entry, updated at every tick.
    pub applied: LogIndex,
    /// If the replica is the leader, the index up to which each replica's log matches and is synced; otherwise empty.
    pub progress: Vec<(ReplicaId, LogIndex)>,
}
