//! Nodes of recordings that are cordoned but not tainted.
//!
//! A controller of a real cluster taints a cordoned node, so the adapter converts a cordon to a taint. Recordings have
//! no controller, so a cordoned node rejects pods but has no taint. The missing taint makes a difference only for a
//! topology spread that honors taints. If the case's pod has such a spread, a cordon that the pod does not tolerate
//! becomes a draining machine, and a tolerated cordon is dropped.

use crate::oracle::case::{Node, Pod};
use crate::oracle::objects;
use omega_workload::kube::api::InclusionPolicy;
use omega_workload::kube::{node, rules};

/// Returns the nodes for the adapter, and the names of the cordoned ones among them.
pub(super) fn without_taints(nodes: &[Node], pod: &Pod) -> (Vec<Node>, Vec<String>) {
    let mut spreads = pod.topology_spread_constraints.iter();
    if !spreads.any(|spread| spread.node_taints_policy == Some(InclusionPolicy::Honor)) {
        return (nodes.to_vec(), Vec::new());
    }
    let tolerates = rules::tolerates(&objects::pod(pod).spec, &node::cordon());
    let cordoned = nodes.iter().filter(|node| node.unschedulable && !tolerates);
    let draining = cordoned.map(|node| node.name.clone()).collect();
    let open = nodes.iter().map(|node| Node { unschedulable: false, ..node.clone() });
    (open.collect(), draining)
}
