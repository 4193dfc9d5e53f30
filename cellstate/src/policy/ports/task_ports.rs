//! The ports that the cell chose for a job's tasks.

use crate::state::sparse::Sparse;

/// The ports of a job's tasks that the cell chose, by task index.
///
/// Invariant: each listed task is placed, and has as many ports as its group requests.
#[derive(Clone, Debug, Default)]
pub struct TaskPorts(Sparse<Vec<u16>>);

impl TaskPorts {
    /// All entries, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u16])> {
        self.0.iter().map(|(index, ports)| (index, &ports[..]))
    }

    /// The ports of a task, in the order of the group's names.
    #[inline]
    pub fn get(&self, index: u32) -> &[u16] {
        self.0.get(index).map_or(&[], |ports| ports)
    }

    /// Records the ports of a task, if it has any.
    #[inline]
    pub fn put(&mut self, index: u32, ports: Vec<u16>) {
        if !ports.is_empty() {
            self.0.insert(index, ports);
        }
    }

    /// Removes the entry of a task.
    #[inline]
    pub fn forget(&mut self, index: u32) {
        self.0.remove(index);
    }
}
