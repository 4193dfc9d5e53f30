//! Allocations that differ from the request of the task's group.
//!
//! There are two cases: tasks that got their optional resources, and resized tasks. The allocation ends when the task
//! leaves its machine. When the task is placed again, its group's request applies. Nearly all jobs have no such task,
//! and then a lookup costs one test of an empty list.

use crate::state::sparse::Sparse;
use omega_core::Amounts;
use smallvec::SmallVec;

/// An amount of every kind, in order.
pub type Values = SmallVec<[i64; 4]>;

/// Allocations that differ from the request, by task index.
///
/// Invariant: each listed task is placed, and its allocation differs from its group's request.
#[derive(Clone, Debug, Default)]
pub struct AllocationOverrides(Sparse<Values>);

impl AllocationOverrides {
    /// All entries, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Amounts)> {
        self.0.iter().map(|(index, values)| (index, amounts_of(values)))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&Values> {
        self.0.get(index)
    }

    /// Sets the entry of a task.
    pub fn put(&mut self, index: u32, values: Values) {
        self.0.insert(index, values);
    }

    /// All entries as values, in ascending order.
    pub fn values(&self) -> impl Iterator<Item = (u32, &Values)> {
        self.0.iter()
    }

    /// Removes and returns the entry of a task.
    #[inline]
    pub fn take(&mut self, index: u32) -> Option<Values> {
        self.0.remove(index)
    }
}

/// Converts amounts to one value per kind.
pub fn values_of(amounts: &Amounts, kinds: usize) -> Values {
    let mut values: Values = amounts.as_slice().iter().map(|amount| *amount as i64).collect();
    values.resize(kinds, 0);
    values
}

/// Converts values per kind to amounts.
pub fn amounts_of(values: &[i64]) -> Amounts {
    Amounts::new(values.iter().map(|value| *value as u64))
}
