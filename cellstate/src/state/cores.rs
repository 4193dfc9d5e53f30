//! Exclusive cores: the choice of NUMA nodes for a task, and the free cores of each node.
//!
//! All callers use one rule, which keeps whole nodes free for as long as possible. A request for a single node gets the
//! node with the fewest free cores that suffice; any other request takes cores from the nodes with the fewest free
//! cores first. Ties go to the lowest node number. Cores are never overcommitted, even if the machine's `cpu` is.

use crate::state::sparse::Sparse;
use omega_core::limits::NUMA_NODES_MAX;
use omega_core::{CorePlace, CoreRequest, NodeCores};

/// The free cores of each NUMA node of one machine.
///
/// The numbers are never negative in a cell. In a view they may be negative, for the reason given at
/// [`Devices`](crate::Devices).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoresLeft([i16; NUMA_NODES_MAX]);

impl CoresLeft {
    /// All exclusive cores of a machine, none of them allocated. Validation ensures that each node's number of cores
    /// fits in 16 bits.
    #[must_use]
    pub fn all(numa: &NodeCores) -> CoresLeft {
        CoresLeft(std::array::from_fn(|node| numa.of(node) as i16))
    }

    /// Builds the value from a delta's list, which has one number per node. `None` for more than [`NUMA_NODES_MAX`]
    /// nodes.
    #[must_use]
    pub fn from_left(given: &[i16]) -> Option<CoresLeft> {
        let mut left = CoresLeft::default();
        left.0.get_mut(..given.len())?.copy_from_slice(given);
        Some(left)
    }

    /// The free cores by node, which are zero for nodes that the machine does not have.
    #[must_use]
    pub fn left(&self) -> &[i16; NUMA_NODES_MAX] {
        &self.0
    }

    /// The free cores of the node with the most free cores.
    #[must_use]
    pub fn most(&self) -> i16 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The free cores of all nodes together.
    #[must_use]
    pub fn total(&self) -> i16 {
        self.0.iter().map(|left| (*left).max(0)).sum()
    }

    /// Whether a request fits.
    #[must_use]
    pub fn fits(&self, request: CoreRequest) -> bool {
        let enough = match request.place {
            CorePlace::OneNode => self.most(),
            CorePlace::AnyNodes => self.total(),
        };
        i32::from(enough) >= i32::from(request.count)
    }

    /// Chooses the cores for a request; `None` if it does not fit.
    #[must_use]
    #[inline(never)]
    pub fn choose(&self, request: CoreRequest) -> Option<NodeCores> {
        if !self.fits(request) {
            return None;
        }
        let mut nodes: [usize; NUMA_NODES_MAX] = std::array::from_fn(|node| node);
        nodes.sort_unstable_by_key(|node| (self.0[*node], *node));
        let least = match request.place {
            CorePlace::OneNode => request.count,
            CorePlace::AnyNodes => 1,
        };
        let mut chosen = NodeCores::NONE;
        let mut missing = request.count;
        for node in nodes {
            let left = self.0[node].max(0) as u16;
            if missing > 0 && left >= least {
                chosen = chosen.with(node, missing.min(left));
                missing -= missing.min(left);
            }
        }
        Some(chosen)
    }

    /// Whether each node has at least as many free cores as `cores` has there.
    pub(crate) fn have(&self, cores: &NodeCores) -> bool {
        (0..).zip(&self.0).all(|(node, left)| i32::from(*left) >= i32::from(cores.of(node)))
    }

    /// Subtracts cores.
    pub(crate) fn take(&mut self, cores: &NodeCores) {
        (0..).zip(&mut self.0).for_each(|(node, left)| *left -= cores.of(node) as i16);
    }

    /// Adds cores back.
    pub(crate) fn give_back(&mut self, cores: &NodeCores) {
        (0..).zip(&mut self.0).for_each(|(node, left)| *left += cores.of(node) as i16);
    }

    /// Whether some node has more free cores than before.
    pub(crate) fn is_more_than(&self, before: &CoresLeft) -> bool {
        self.0.iter().zip(&before.0).any(|(now, before)| now > before)
    }
}

/// Numbers of exclusive cores over all machines of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts {
    /// Number of exclusive cores.
    pub all: u64,
    /// Number of allocated exclusive cores.
    pub taken: u64,
}

/// The exclusive cores of a job's tasks, by task index.
///
/// Invariant: each listed task is placed, and has as many cores as its group requests.
#[derive(Clone, Debug, Default)]
pub struct TaskCores(Sparse<NodeCores>);

impl TaskCores {
    /// All entries, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, NodeCores)> {
        self.0.iter().map(|(index, cores)| (index, *cores))
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&NodeCores> {
        self.0.get(index)
    }

    /// Records the cores of a task, if it has any.
    #[inline]
    pub fn put(&mut self, index: u32, cores: NodeCores) {
        if !cores.is_empty() {
            self.0.insert(index, cores);
        }
    }

    /// Removes the entry of a task.
    #[inline]
    pub fn forget(&mut self, index: u32) {
        self.0.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(by_node: &[i16]) -> CoresLeft {
        CoresLeft::from_left(by_node).unwrap()
    }

    fn choose(by_node: &[i16], request: CoreRequest) -> Option<Vec<u16>> {
        Some(left(by_node).choose(request)?.as_slice().to_vec())
    }

    #[test]
    fn aligned_cores_are_of_the_fullest_node_that_has_enough() {
        assert_eq!(choose(&[8, 4, 4], CoreRequest::on_one_node(3)), Some(vec![0, 3]));
        assert_eq!(choose(&[8, 4, 4], CoreRequest::on_one_node(5)), Some(vec![5]));
        assert_eq!(choose(&[8, 4, 4], CoreRequest::on_one_node(9)), None);
        assert_eq!(choose(&[8, -4, 4], CoreRequest::on_one_node(4)), Some(vec![0, 0, 4]));
    }

    #[test]
    fn other_cores_are_of_the_fullest_nodes() {
        assert_eq!(choose(&[8, 1, 0, 2], CoreRequest::any(4)), Some(vec![1, 1, 0, 2]));
        assert_eq!(choose(&[8, 1, -3, 2], CoreRequest::any(11)), Some(vec![8, 1, 0, 2]));
        assert_eq!(choose(&[8, 1, 0, 2], CoreRequest::any(12)), None);
    }

    #[test]
    fn what_is_given_back_is_there_again() {
        let all = CoresLeft::all(&NodeCores::new(&[4, 4]).unwrap());
        let mut cores = all;
        let chosen = cores.choose(CoreRequest::any(6)).unwrap();
        cores.take(&chosen);
        assert_eq!((cores.most(), cores.total()), (2, 2));
        assert!(all.is_more_than(&cores) && !cores.have(&chosen));
        cores.give_back(&chosen);
        assert_eq!(cores, all);
    }

    #[test]
    fn a_task_without_cores_leaves_nothing() {
        let mut held = TaskCores::default();
        held.put(1, NodeCores::NONE);
        assert!(held.0.is_empty());
        held.put(1, NodeCores::NONE.with(0, 2));
        assert_eq!(held.iter().collect::<Vec<_>>(), [(1, NodeCores::NONE.with(0, 2))]);
        held.forget(1);
        assert!(held.0.is_empty() && held.get(1).is_none());
    }
}
