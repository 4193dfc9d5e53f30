//! A map for values that few tasks have.
//!
//! The map is one pointer, which is null for nearly all jobs, so a lookup usually costs one test. The code after that
//! test is not inlined, which keeps the code of callers short.
//!
//! Invariant: a map that is not null has an entry.

use std::collections::BTreeMap;

/// Values by task index.
#[derive(Clone, Debug)]
#[expect(clippy::box_collection, reason = "each job has two of these, and a tree is three words")]
pub struct Sparse<V>(Option<Box<BTreeMap<u32, V>>>);

impl<V> Default for Sparse<V> {
    fn default() -> Self {
        Sparse(None)
    }
}

impl<V> Sparse<V> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&V> {
        self.0.as_ref().and_then(|entries| found(entries, index))
    }

    pub fn insert(&mut self, index: u32, value: V) {
        self.0.get_or_insert_default().insert(index, value);
    }

    /// Removes and returns the value of a task.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<V> {
        if self.is_empty() { None } else { self.take_out(index) }
    }

    #[cold]
    #[inline(never)]
    fn take_out(&mut self, index: u32) -> Option<V> {
        let entries = self.0.as_mut()?;
        let removed = entries.remove(&index);
        if entries.is_empty() {
            self.0 = None;
        }
        removed
    }

    fn entries(&self) -> Option<&BTreeMap<u32, V>> {
        self.0.as_deref()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries().map_or(0, BTreeMap::len)
    }

    /// All entries, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &V)> {
        let entries = self.entries().map(BTreeMap::iter);
        entries.unwrap_or_default().map(|(index, value)| (*index, value))
    }
}

#[cold]
#[inline(never)]
fn found<V>(entries: &BTreeMap<u32, V>, index: u32) -> Option<&V> {
    entries.get(&index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_out_leaves_nothing() {
        let mut map = Sparse::default();
        assert!(map.is_empty() && map.get(1).is_none() && map.remove(1).is_none());
        map.insert(2, "b");
        map.insert(1, "a");
        assert_eq!(map.iter().collect::<Vec<_>>(), [(1, &"a"), (2, &"b")]);
        assert_eq!((map.get(2), map.get(3), map.len()), (Some(&"b"), None, 2));
        assert_eq!((map.remove(3), map.remove(1), map.is_empty()), (None, Some("a"), false));
        assert_eq!((map.remove(2), map.is_empty(), map.len()), (Some("b"), true, 0));
    }
}
