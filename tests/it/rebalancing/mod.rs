//! Rebalancing and machine reassignment.
//!
//! - `reassign.rs`: machine reassignment against a checker of the contest.
//! - `rebalance.rs`, `rebalance_reference.rs`, `rebalance_annealed.rs`, `rebalance_retries.rs`,
//!   `rebalance_objectives.rs`: rebalancing, computed by hand and naively; plans by annealing, and on cells that lose
//!   replies.
//! - `rebalance_score.rs`: the score that places new tasks by the objectives of rebalancing.

pub(crate) mod reassign;
pub(crate) mod rebalance;
pub(crate) mod rebalance_annealed;
pub(crate) mod rebalance_objectives;
pub(crate) mod rebalance_reference;
pub(crate) mod rebalance_retries;
pub(crate) mod rebalance_score;
