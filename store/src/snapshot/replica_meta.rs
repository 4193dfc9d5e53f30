//! Metadata of a replica in its snapshots: replicated state apart from the cell.

use crate::membership::Membership;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Maximum bytes of the metadata, enough for more replicas than a cell may have.
pub const REPLICA_META_BYTES_MAX: usize = 64 << 10;

/// Replicated state in a snapshot, apart from the cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaMeta {
    /// Membership.
    pub membership: Membership,
    /// The fingerprint of the history.
    pub fingerprint: u64,
}

impl ReplicaMeta {
    pub(crate) fn to_bytes(&self) -> Bytes {
        crate::codec::encode_small(self).into()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<ReplicaMeta> {
        let meta: ReplicaMeta = crate::codec::decode_small(bytes).ok()?;
        meta.membership.is_sound().then_some(meta)
    }
}
