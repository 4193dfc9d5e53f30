//! The network between replicas: a stream to each peer ([`Peers`]), and a service that takes theirs ([`PeerListener`]).
//!
//! Replicas say again what was lost, so nothing waits here: what a slow peer does not take is dropped,
//! oldest kept. The messages are in the replicas' own format; the frame around them says from whom and
//! for whom they are, and is checked before anything in it is read.

mod link;
mod listener;
mod routes;

pub use listener::{PeerListener, PeersHeard};
pub use routes::Peers;

use omega_store::CellId;
use omega_store::log::ReplicaId;
use omega_store::wire;
use std::sync::{Arc, OnceLock};
use tonic::transport::Endpoint;

/// Bytes of messages that one frame has, but for the last of them.
const FRAME_BYTES: usize = 1 << 20;

/// The most bytes of a frame.
pub const FRAME_BYTES_MAX: usize = FRAME_BYTES + wire::MESSAGE_BYTES_MAX + 4096;

/// The way in which a peer is reached: asked anew for each connection, because certificates change.
pub type Dial = Box<dyn Fn() -> Option<Endpoint> + Send + Sync>;

/// The way in which a peer at an address is reached; an error where it is no address.
pub type Dialer = Box<dyn Fn(&str) -> Result<Dial, tonic::transport::Error> + Send + Sync>;

/// Where a replica is reached. Clones share what is noted later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    /// By its peers.
    by_peers: String,
    /// By its clients, once it listens to them.
    by_clients: Arc<OnceLock<String>>,
}

/// Which replica of which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whoami {
    /// The cell.
    pub cell: CellId,
    /// The replica.
    pub replica: ReplicaId,
}
