//! A cell that others reach over the network.

mod cell;
mod describe;
mod host;
mod jobs;
mod machines;
mod peers;
mod scheduling;
mod server;
mod service;
mod tasks;
mod tenants;

pub use cell::Cells;
pub use host::Host;
pub use jobs::Jobs;
pub use machines::Machines;
pub use peers::{FRAME_BYTES_MAX, PeerListener, Peers, Whoami};
pub use scheduling::Scheduling;
pub use server::{serve_clients, serve_peers};
pub use tasks::Tasks;
pub use tenants::Tenants;
