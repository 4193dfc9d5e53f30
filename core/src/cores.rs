//! Exclusive cores: a machine's cores by NUMA node, and requests for cores.
//!
//! A core is 1,000 thousandths of the kind `cpu`; on most machines this is a hardware thread. Exclusive cores are also
//! claimed as `cpu`, so that other tasks cannot claim them as shared ones.

use crate::amounts::{Amounts, Kinds};
use crate::limits::NUMA_NODES_MAX;
use serde::{Deserialize, Serialize};

/// Exclusive cores that one task requests, all on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CoreRequest {
    /// Number of cores.
    pub count: u16,
    /// Whether all cores must be on one NUMA node.
    pub place: CorePlace,
}

/// Location of a task's cores on the NUMA nodes of a machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum CorePlace {
    /// The cores may be on any NUMA nodes, one or several.
    #[default]
    AnyNodes,
    /// All cores must be on one NUMA node. (Kubernetes: topology policy `single-numa-node`.)
    OneNode,
}

impl CoreRequest {
    /// A request for `count` cores on any nodes.
    #[must_use]
    pub fn any(count: u16) -> CoreRequest {
        CoreRequest { count, place: CorePlace::AnyNodes }
    }

    /// A request for `count` cores on one node.
    #[must_use]
    pub fn on_one_node(count: u16) -> CoreRequest {
        CoreRequest { count, place: CorePlace::OneNode }
    }

    /// The amount of `cpu` that equals these cores.
    #[must_use]
    pub fn cpu_milli(self) -> u64 {
        cpu_milli(self.count.into())
    }

    /// Whether the amounts contain at least as much `cpu` as these cores need.
    #[must_use]
    pub fn fit_in(self, amounts: &Amounts, kinds: &Kinds) -> bool {
        kinds.cpu().is_some_and(|cpu| amounts.get(cpu) >= self.cpu_milli())
    }
}

/// Number of exclusive cores of each NUMA node.
///
/// Nodes behind the last one with a core are not distinguished from nodes that do not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
// With this alignment the array is copied in whole words.
#[repr(align(8))]
pub struct NodeCores([u16; NUMA_NODES_MAX]);

impl NodeCores {
    /// No cores on any node.
    pub const NONE: NodeCores = NodeCores([0; NUMA_NODES_MAX]);

    /// Returns the given numbers of cores, node by node; `None` if there are more than [`NUMA_NODES_MAX`] nodes.
    #[must_use]
    pub fn new(given: &[u16]) -> Option<NodeCores> {
        let mut cores = NodeCores::NONE;
        cores.0.get_mut(..given.len())?.copy_from_slice(given);
        Some(cores)
    }

    /// Number of cores of one node.
    #[must_use]
    pub fn of(&self, node: usize) -> u16 {
        self.0.get(node).copied().unwrap_or(0)
    }

    /// Returns these cores, with `count` cores on one node.
    ///
    /// # Panics
    /// If `node` is [`NUMA_NODES_MAX`] or more.
    #[must_use]
    pub fn with(mut self, node: usize, count: u16) -> NodeCores {
        self.0[node] = count;
        self
    }

    /// Number of cores of each NUMA node, up to the last node with a core.
    #[must_use]
    pub fn as_slice(&self) -> &[u16] {
        let last = self.0.iter().rposition(|count| *count > 0);
        &self.0[..last.map_or(0, |last| last + 1)]
    }

    /// Whether no node has a core.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == NodeCores::NONE
    }

    /// Number of cores of all nodes together.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.iter().map(|count| u32::from(*count)).sum()
    }

    /// The amount of `cpu` that equals these cores.
    #[must_use]
    pub fn cpu_milli(&self) -> u64 {
        cpu_milli(self.total())
    }

    /// Number of nodes, up to the last one with a core.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.0.iter().filter(|count| **count > 0).count()
    }

    /// Whether these cores are enough for the request.
    #[must_use]
    pub fn meet(&self, request: CoreRequest) -> bool {
        let together = request.place == CorePlace::AnyNodes || self.nodes() == 1;
        self.total() == u32::from(request.count) && together
    }
}

/// The amount of `cpu`, in thousandths, that equals a number of cores.
fn cpu_milli(cores: u32) -> u64 {
    u64::from(cores) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_behind_the_last_core_do_not_count() {
        let cores = NodeCores::new(&[0, 4, 0]).unwrap();
        assert_eq!(cores.as_slice(), [0, 4]);
        assert_eq!(Some(cores), NodeCores::new(&[0, 4]));
        assert_eq!((cores.total(), cores.nodes()), (4, 1));
        assert_eq!(NodeCores::NONE.as_slice(), [0; 0]);
        assert_eq!(NodeCores::new(&[1; NUMA_NODES_MAX + 1]), None);
    }

    #[test]
    fn cores_of_two_nodes_are_not_on_one() {
        let apart = NodeCores::new(&[2, 2]).unwrap();
        assert!(apart.meet(CoreRequest::any(4)));
        assert!(!apart.meet(CoreRequest::on_one_node(4)));
        assert!(NodeCores::NONE.with(1, 4).meet(CoreRequest::on_one_node(4)));
        assert!(!apart.meet(CoreRequest::any(3)));
    }
}
