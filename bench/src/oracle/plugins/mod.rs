//! Comparison of single plugins.

pub(super) mod balanced_allocation;
pub(super) mod fit;
pub(super) mod image_locality;
pub(super) mod interpod_affinity;
pub(super) mod node_affinity;
pub(super) mod node_ports;
pub(super) mod plugin;
pub(super) mod taint_toleration;
pub(super) mod topology_spread;
