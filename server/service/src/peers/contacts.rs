//! Times and contents of the last messages of peers.

use omega_client::proto;
use omega_store::log::ReplicaId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Last contact with each peer. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PeerContacts(Arc<Mutex<BTreeMap<ReplicaId, Contact>>>);

/// The last message of a peer.
#[derive(Clone, Copy, Debug)]
struct Contact {
    at: Instant,
    disk_full: bool,
}

impl PeerContacts {
    pub(super) fn record(&self, frame: &proto::PeerFrame) {
        let contact = Contact { at: Instant::now(), disk_full: frame.disk_full };
        self.0.lock().insert(ReplicaId(frame.from), contact);
    }

    /// Time since a peer's last message; `None` if there was none since this process started.
    #[must_use]
    pub fn since_contact(&self, peer: ReplicaId) -> Option<Duration> {
        self.0.lock().get(&peer).map(|contact| contact.at.elapsed())
    }

    /// Whether the disk of a peer's log was full at its last message.
    #[must_use]
    pub fn has_full_disk(&self, peer: ReplicaId) -> bool {
        self.0.lock().get(&peer).is_some_and(|contact| contact.disk_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_full_disk_until_it_reports_otherwise() {
        let (contacts, peer) = (PeerContacts::default(), ReplicaId(2));
        assert!(!contacts.has_full_disk(peer) && contacts.since_contact(peer).is_none());
        for disk_full in [true, false] {
            contacts.record(&proto::PeerFrame { from: peer.0, disk_full, ..Default::default() });
            assert_eq!(contacts.has_full_disk(peer), disk_full);
            assert!(contacts.since_contact(peer).is_some());
        }
    }
}
