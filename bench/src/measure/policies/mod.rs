//! Measurements of policies.

pub(super) mod backfill;
pub(super) mod cluster_resources;
pub(super) mod cores;
pub(super) mod demand_profiles;
pub(super) mod gangs;
pub(super) mod peaks;
pub(super) mod preempt;
pub(super) mod rebalance;
pub(super) mod reservations;
pub(super) mod runtime_affinity;
pub(super) mod tenants;
pub(super) mod waits;
