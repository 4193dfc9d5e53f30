//! Ids of reads. A read waits for an index from the leader. The leader's reply repeats the id of the read.

use crate::log::ReplicaId;

/// Id of a read, unique among all replicas and all their starts, because the leader answers several reads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId {
    /// The replica that reads.
    pub replica: ReplicaId,
    /// Number that identifies the start of the replica.
    pub incarnation: u64,
    /// Number of the read since that start.
    pub number: u64,
}

impl ReadId {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        [self.replica.0, self.incarnation, self.number].map(u64::to_le_bytes).concat()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<ReadId> {
        let (words, rest) = bytes.as_chunks::<8>();
        let [replica, incarnation, number] = *words else { return None };
        let read = |word| u64::from_le_bytes(word);
        let id = ReadId {
            replica: ReplicaId(read(replica)),
            incarnation: read(incarnation),
            number: read(number),
        };
        rest.is_empty().then_some(id)
    }
}
