//! Conversion of a node to a machine.

use super::api::{Effect, Node, Resources};
use super::kinds::KindTable;
use super::notes::Remarks;
use super::quantity::Quantity;
use omega_core::{Image, Machine, Taint, TaintEffect, TopologyLevel};
use std::collections::BTreeSet;

/// Label with the name of a node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Key of the taint of cordoned nodes.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Allocatable resources of a node.
pub(super) fn capacity(node: &Node) -> &Resources {
    let status = &node.status;
    if status.allocatable.is_empty() { &status.capacity } else { &status.allocatable }
}

/// Converts a node to a machine.
pub(super) fn machine(node: &Node, kinds: &KindTable) -> (Machine, Remarks) {
    let resources = capacity(node);
    let (capacity, remark) = kinds.capacity(resources);
    let mut remarks: Remarks = remark.into_iter().collect();
    if resources.iter().all(|(_, amount)| *amount == Quantity::default()) {
        remarks.insert("no pod fits, because there are no allocatable resources");
    }
    let mut machine = Machine::new(node.metadata.name.as_str(), capacity);
    machine.labels = node.metadata.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    machine.taints = taints(node).into();
    let images = node.status.images.iter().flat_map(|image| {
        image.names.iter().map(|name| Image { name: name.as_str().into(), bytes: image.bytes })
    });
    machine.images = images.collect();
    (machine, remarks)
}

/// The taint of cordoned nodes.
pub fn cordon() -> Taint {
    Taint { key: UNSCHEDULABLE.into(), value: "".into(), effect: TaintEffect::NoSchedule }
}

/// The node's taints. A cordoned node always has the taint that Kubernetes adds for a cordon.
fn taints(node: &Node) -> Vec<Taint> {
    let own = node.spec.taints.iter().map(|taint| Taint {
        key: taint.key.as_str().into(),
        value: taint.value.as_str().into(),
        effect: match taint.effect {
            Effect::NoSchedule => TaintEffect::NoSchedule,
            Effect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
            Effect::NoExecute => TaintEffect::NoExecute,
        },
    });
    let mut taints: Vec<Taint> = own.collect();
    let cordoned =
        |taint: &Taint| &*taint.key == UNSCHEDULABLE && taint.effect == TaintEffect::NoSchedule;
    if node.spec.unschedulable && !taints.iter().any(cordoned) {
        taints.push(cordon());
    }
    taints
}

/// Meaning of topology keys in this cell.
pub(super) struct Topology {
    /// Whether the hostname label differs between all machines.
    hostname_is_machine: bool,
}

impl Topology {
    /// The topology of these machines.
    pub(super) fn of(machines: &[Machine]) -> Topology {
        let names: BTreeSet<_> = machines.iter().filter_map(|m| m.labels.get(HOSTNAME)).collect();
        Topology { hostname_is_machine: names.len() == machines.len() }
    }

    /// Returns a topology in which every key stands for a label.
    pub(super) fn of_labels() -> Topology {
        Topology { hostname_is_machine: false }
    }

    /// The level for which a topology key stands.
    pub(super) fn level(&self, key: &str) -> TopologyLevel {
        if key == HOSTNAME && self.hostname_is_machine {
            TopologyLevel::Machine
        } else {
            TopologyLevel::Label(key.into())
        }
    }
}
