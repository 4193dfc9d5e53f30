//! Limits on calls, connections, bytes and times.

pub(crate) mod bodies;
pub(crate) mod frames;
pub(crate) mod held;
pub(crate) mod limits;
pub(crate) mod slots;
pub(crate) mod slowdown;
pub(crate) mod tenant_tasks;
pub(crate) mod turns;
pub(crate) mod under_way;
pub(crate) mod weight;
