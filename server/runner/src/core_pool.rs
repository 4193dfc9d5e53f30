//! Exclusive cores of tasks on this machine. The cell decides how many cores of each NUMA node a task gets, and the
//! agent chooses the cores.

use std::collections::{BTreeMap, BTreeSet};

/// The cores of a machine by NUMA node, and the cores that tasks have.
#[derive(Clone, Debug, Default)]
pub(crate) struct CorePool {
    nodes: Vec<Vec<u32>>,
    taken: BTreeMap<String, Vec<u32>>,
}

impl CorePool {
    pub(crate) fn new(nodes: Vec<Vec<u32>>) -> CorePool {
        CorePool { nodes, taken: BTreeMap::new() }
    }

    /// Records the cores of a running task that an earlier agent started.
    pub(crate) fn restore(&mut self, task: &str, cores: Vec<u32>) {
        if !cores.is_empty() {
            self.taken.insert(task.to_owned(), cores);
        }
    }

    /// Whether this many cores of each node are free.
    pub(crate) fn has(&self, counts: &[u32]) -> bool {
        self.free(counts).is_some()
    }

    /// Assigns this many free cores of each node to a task; `None` if a node has too few.
    pub(crate) fn take(&mut self, task: &str, counts: &[u32]) -> Option<Vec<u32>> {
        let cores = self.free(counts)?;
        self.restore(task, cores.clone());
        Some(cores)
    }

    fn free(&self, counts: &[u32]) -> Option<Vec<u32>> {
        let others = self.taken();
        let mut cores = Vec::new();
        for (node, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let free = self.nodes.get(node)?.iter().filter(|core| !others.contains(core));
            let some: Vec<u32> = free.take(*count as usize).copied().collect();
            if some.len() < *count as usize {
                return None;
            }
            cores.extend(some);
        }
        Some(cores)
    }

    /// Tasks that have exclusive cores.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.taken.keys().map(String::as_str)
    }

    /// Frees the cores of a task. Returns whether it had any.
    pub(crate) fn release(&mut self, task: &str) -> bool {
        self.taken.remove(task).is_some()
    }

    /// All cores that tasks have.
    pub(crate) fn taken(&self) -> BTreeSet<u32> {
        self.taken.values().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_is_one_task_s() {
        let mut pool = CorePool::new(vec![vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(pool.take("a", &[2, 1]), Some(vec![0, 1, 3]));
        assert_eq!(pool.take("b", &[2]), None);
        assert!(!pool.has(&[2]) && pool.has(&[1, 1]) && pool.owners().eq(["a"]));
        assert_eq!(pool.take("b", &[1, 1]), Some(vec![2, 4]));
        assert_eq!(pool.take("c", &[]), Some(Vec::new()));
        assert_eq!(pool.taken(), BTreeSet::from([0, 1, 2, 3, 4]));
        assert!(pool.release("a") && !pool.release("a"));
        assert_eq!(pool.take("c", &[1, 0, 0]), Some(vec![0]));
        assert_eq!(pool.take("d", &[0, 0, 1]), None, "there is no such node");
        let mut again = CorePool::new(vec![vec![0, 1]]);
        again.restore("old", vec![0]);
        assert_eq!(again.take("new", &[1]), Some(vec![1]));
    }
}
