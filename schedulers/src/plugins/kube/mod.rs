//! The plugins of kube-scheduler, with the same names and results.

pub(super) mod balanced_allocation;
pub(super) mod default_preemption;
pub(super) mod image_locality;
pub(super) mod inter_pod_affinity;
pub(super) mod node_affinity;
pub(super) mod node_label;
pub(super) mod node_name;
pub(super) mod node_ports;
pub(super) mod node_prefer_avoid;
pub(super) mod node_resources_fit;
pub(super) mod node_unschedulable;
pub(super) mod normalize;
pub(super) mod pod_topology_spread;
pub(super) mod selector_spread;
pub(super) mod service_affinity;
pub(super) mod taint_toleration;
