//! The network between replicas: a stream to each peer ([`Peers`]), and a service that receives the peers' messages
//! ([`PeerListener`]).
//!
//! Raft retransmits lost messages, so nothing waits here: messages that a slow peer does not accept are dropped, the
//! newest first. Messages have the replicas' own encoding. The frame around them names sender and receiver, and is
//! checked before the messages are decoded.

mod contacts;
mod link;
mod listener;
mod routes;

pub use contacts::PeerContacts;
pub use listener::PeerListener;
pub use routes::Peers;

use omega_store::CellId;
use omega_store::log::ReplicaId;
use omega_store::wire;
use std::sync::{Arc, OnceLock};
use tonic::transport::Endpoint;

/// Maximum bytes of messages in one frame, not counting the last message.
const FRAME_BYTES: usize = 1 << 20;

/// Maximum bytes of a frame.
pub const FRAME_BYTES_MAX: usize = FRAME_BYTES + wire::MESSAGE_BYTES_MAX + 4096;

/// Source of the endpoint of a peer. Called for each connection, because certificates change.
pub type Dial = Box<dyn Fn() -> Option<Endpoint> + Send + Sync>;

/// Creates the [`Dial`] of a peer from its address. Fails if the address is invalid.
pub type Dialer = Box<dyn Fn(&str) -> Result<Dial, tonic::transport::Error> + Send + Sync>;

/// Addresses of a replica, and the state of its disk, which it sends to its peers. Clones share values that are set
/// later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    /// Address at which peers reach the replica.
    by_peers: String,
    /// Address at which clients reach the replica, set once the replica listens for clients.
    by_clients: Arc<OnceLock<String>>,
    /// The disk of the replica's log.
    disk: LogDisk,
}

/// The disk of a replica's log. Clones share its source, which is set once the replica runs.
#[derive(Clone, Default)]
pub(crate) struct LogDisk(Arc<OnceLock<IsFull>>);

type IsFull = Box<dyn Fn() -> bool + Send + Sync>;

impl LogDisk {
    /// Sets the function that tells whether the disk is full. Only the first call has an effect.
    fn watch(&self, is_full: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(is_full));
    }

    fn is_full(&self) -> bool {
        self.0.get().is_some_and(|is_full| is_full())
    }
}

impl std::fmt::Debug for LogDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogDisk").field("is_full", &self.is_full()).finish()
    }
}

/// Identity of a replica: its cell and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaIdentity {
    /// The cell.
    pub cell: CellId,
    /// The replica.
    pub replica: ReplicaId,
}
