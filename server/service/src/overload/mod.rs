//! Limits on calls, connections, bytes and times.

pub(crate) mod bodies;
pub(crate) mod bucket;
pub(crate) mod call_slots;
pub(crate) mod frames;
pub(crate) mod in_flight;
pub(crate) mod limits;
pub(crate) mod memory_accounts;
pub(crate) mod slots;
pub(crate) mod slowdown;
pub(crate) mod task_changes;
pub(crate) mod tenant_limits;
pub(crate) mod weight;
