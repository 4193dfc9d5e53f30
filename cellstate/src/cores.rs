//! Exclusive cores: how many of which NUMA node a task gets, and what is left of each.
//!
//! What a task gets is decided by one rule for every caller. Where all must be of one node, that is the node with the
//! fewest left that has enough; otherwise the nodes with the fewest left come first. Among equals it is the lowest
//! number. So whole nodes stay whole. Cores are never overcommitted, however much the machine's `cpu` is.

use crate::sparse::Sparse;
use omega_core::limits::NUMA_NODES_MAX;
use omega_core::{CorePlace, CoreRequest, NodeCores};

/// How many cores are left of each NUMA node of one machine.
///
/// In a cell that is never less than nothing. In a view it may be, as with [`Devices`](crate::Devices).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoresLeft([i16; NUMA_NODES_MAX]);

impl CoresLeft {
    /// All cores of a machine's nodes: no command may bring more of them than 16 bits count.
    #[must_use]
    pub fn all(numa: &NodeCores) -> CoresLeft {
        CoresLeft(std::array::from_fn(|node| numa.of(node) as i16))
    }

    /// So many, by node, as a delta tells it. The answer is `None` for more than [`NUMA_NODES_MAX`] nodes.
    #[must_use]
    pub fn from_left(given: &[i16]) -> Option<CoresLeft> {
        let mut left = CoresLeft::default();
        left.0.get_mut(..given.len())?.copy_from_slice(given);
        Some(left)
    }

    /// How many are left, by node; of those that the machine has not, none.
    #[must_use]
    pub fn left(&self) -> &[i16; NUMA_NODES_MAX] {
        &self.0
    }

    /// How many are left of the node that has most.
    #[must_use]
    pub fn most(&self) -> i16 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// How many are left of all nodes together.
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

    /// The cores that a request gets, or `None` if it does not fit.
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

    /// Whether so many are left of each node.
    pub(crate) fn have(&self, cores: &NodeCores) -> bool {
        (0..).zip(&self.0).all(|(node, left)| i32::from(*left) >= i32::from(cores.of(node)))
    }

    /// Takes these.
    pub(crate) fn take(&mut self, cores: &NodeCores) {
        (0..).zip(&mut self.0).for_each(|(node, left)| *left -= cores.of(node) as i16);
    }

    /// Gives these back.
    pub(crate) fn give_back(&mut self, cores: &NodeCores) {
        (0..).zip(&mut self.0).for_each(|(node, left)| *left += cores.of(node) as i16);
    }

    /// Whether some node has more left than before.
    pub(crate) fn is_more_than(&self, before: &CoresLeft) -> bool {
        self.0.iter().zip(&before.0).any(|(now, before)| now > before)
    }
}

/// The cores of all machines of a cell that tasks may have to themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts {
    /// How many there are.
    pub all: u64,
    /// How many of them tasks have.
    pub taken: u64,
}

/// By the number of the task, the cores that it has to itself: of those tasks of a job that have some.
///
/// Invariant: each of these tasks has a machine, and its group asks for as many.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskCores(Sparse<NodeCores>);

impl TaskCores {
    /// Each of them, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, NodeCores)> {
        self.0.iter().map(|(index, cores)| (index, *cores))
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&NodeCores> {
        self.0.get(index)
    }

    /// Notes which a task has, if it has any.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, cores: NodeCores) {
        if !cores.is_empty() {
            self.0.insert(index, cores);
        }
    }

    /// Forgets which a task has.
    #[inline]
    pub(crate) fn forget(&mut self, index: u32) {
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
