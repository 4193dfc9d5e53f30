//! Replicated cells, and cells behind a socket.
//!
//! - `wire.rs`, `messages.rs`: encoding of messages between replicas, and of the API.
//! - `elections.rs`: elections, and membership changes that a leader rejects.
//! - `offered_snapshots.rs`: delayed offers of snapshots.
//! - `diverged.rs`: replicas whose outcomes differ.
//! - `replicated.rs`, `remote.rs`: a replicated cell, and one behind a socket, as a scheduler sees them.
//! - `misled.rs`: clients of a replica that breaks streams, skips deltas or replies out of order.
//! - `watches.rs`: watches of jobs against the cell.
//! - `followers.rs`: calls that a follower answers while it is behind its leader.
//! - `forwarded.rs`: requests that a follower forwarded, when the leader changes.
//! - `attached.rs`: streams of agents that break a rule of the transport.
//! - `chaos.rs`, `linearizable.rs`, `corrupted_histories.rs`, `injected_bugs.rs`: whole cells of replicas under
//!   faults; checks of their histories; and injected bugs that must be found (with the feature `injected-bugs`).
//! - `wrong_clocks.rs`: the clocks of the test kit.

pub(crate) mod attached;
pub(crate) mod chaos;
pub(crate) mod corrupted_histories;
pub(crate) mod diverged;
pub(crate) mod elections;
pub(crate) mod followers;
pub(crate) mod forwarded;
pub(crate) mod injected_bugs;
pub(crate) mod linearizable;
pub(crate) mod messages;
pub(crate) mod misled;
pub(crate) mod offered_snapshots;
pub(crate) mod remote;
pub(crate) mod replicated;
pub(crate) mod watches;
pub(crate) mod wire;
pub(crate) mod wrong_clocks;
