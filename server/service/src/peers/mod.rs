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
use tonic::transport::Endpoint;

/// Bytes of messages that one frame has, but for the last of them.
const FRAME_BYTES: usize = 1 << 20;

/// The most bytes of a frame.
pub const FRAME_BYTES_MAX: usize = FRAME_BYTES + wire::MESSAGE_BYTES_MAX + 4096;

/// Connector to peers. Called for each connection, because certificates change.
pub type Dial = Box<dyn Fn() -> Option<Endpoint> + Send + Sync>;

/// Endpoint of the peer at an address, or an error if the address is invalid.
pub type Dialer = Box<dyn Fn(&str) -> Result<Dial, tonic::transport::Error> + Send + Sync>;

/// Identity of a replica: its cell and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whoami {
    /// The cell.
    pub cell: CellId,
    /// The replica.
    pub replica: ReplicaId,
}
