//! Times of the messages of peers.

use omega_store::log::ReplicaId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time of each peer's last message. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PeerContacts(Arc<Mutex<BTreeMap<ReplicaId, Instant>>>);

impl PeerContacts {
    pub(super) fn record(&self, peer: ReplicaId) {
        self.0.lock().insert(peer, Instant::now());
    }

    /// Time since a peer's last message; `None` if there was none since this process started.
    #[must_use]
    pub fn since_contact(&self, peer: ReplicaId) -> Option<Duration> {
        self.0.lock().get(&peer).map(Instant::elapsed)
    }
}
